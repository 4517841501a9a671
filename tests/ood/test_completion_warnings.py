"""Completing warns of strange pictures, in Python and on the command line, and errors in judging never stop it."""

import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers.fitted_models import fitted_model, put_fits
from helpers.fixtures import FIXTURES
from helpers.framed_faces import face_at, finding, write_card
from helpers.models import small_vae
from helpers.pictures_to_complete import levels, photo
from PIL import Image

from condvae import StrangeImage, complete, save
from condvae.cli import main
from condvae.completion.inspection import strangeness_inspector
from condvae.conditional import ConditionalVAE, PartialConfig
from condvae.images.holes import Hole
from condvae.images.model_view import make_view
from condvae.images.reading import read_picture
from condvae.observe import Edges
from condvae.ood import fit_path, load_fits, save_fits, strangeness
from condvae.sampling import draw_samples
from condvae.weights import load_conditional as load
from condvae.weights.cached_models import open_conditional

WARNING = "is in the strangest 1 % for"


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fitted_model(tmp_path_factory.mktemp("fitted"), strange=True)


@pytest.fixture
def model(fitted: Path, tmp_path: Path) -> Path:
    """A copy of a model and its fit that a test may change."""
    for path in (fitted, fit_path(fitted)):
        shutil.copy(path, tmp_path)
    return tmp_path / fitted.name


def completed(capsys: pytest.CaptureFixture[str], out: Path, *words: str | Path) -> tuple[list[str], dict[str, bytes]]:
    """Run `condvae complete`; return the printed lines and the written files."""
    capsys.readouterr()
    main(["complete", *map(str, words), "-o", str(out)])
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out.splitlines(), {path.name: path.read_bytes() for path in out.iterdir()}


def test_a_strange_image_has_a_warning_and_the_same_completions(
    tmp_path: Path, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = photo(tmp_path / "x.png", 8, 8)
    words: list[str | Path] = [path, "--half", "left", "-n", "2", "--model", model]
    lines, files = completed(capsys, tmp_path / "out", *words)
    assert lines == [
        f"warning: {path} {WARNING} {model} (percentile 0.8 among held-out training images), so the results may be "
        "poor: crop it tightly to what the model was trained on, and check that it is upright, not inverted and not "
        "too dark",
        f"wrote {tmp_path / 'out' / 'sheet.png'}",
    ]
    # Repeating a record prints the warning too.
    again, repeated = completed(capsys, tmp_path / "again", "--repeat", tmp_path / "out")
    assert again[0].startswith(f"warning: {path} {WARNING} ") and len(again) == 2
    fit_path(model).unlink()
    silent, without = completed(capsys, tmp_path / "silent", *words)
    assert len(silent) == 1
    pictures = [name for name in files if name.endswith(".png")]
    assert [files[name] for name in pictures] == [without[name] for name in pictures]
    assert [files[name] for name in pictures] == [repeated[name] for name in pictures]


def test_the_warning_agrees_with_ood_score(tmp_path: Path, model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = photo(tmp_path / "x.png", 8, 8)
    image, network = levels(8, 8), load(model)
    found = strangeness(image, model=model, random=True, seed=4)
    fits = load_fits(fit_path(model), network)
    for shift, warned in ((-1e-9, False), (1e-9, True)):  # held-out images slightly stranger, or less strange
        held = np.full(120, found.score + shift)
        save_fits(fit_path(model), [replace(fit, held_scores=held) for fit in fits.values()])
        words: list[str | Path] = [path, "--random", "--seed", "4", "-n", "1", "--model", model]
        lines, _ = completed(capsys, tmp_path / "out", *words)
        assert (WARNING in lines[0]) == warned


def test_ordinary_images_get_no_warning(tmp_path: Path, model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put_fits(load(model), fit_path(model), strange=False)
    words: list[str | Path] = [photo(tmp_path / "x.png", 8, 8), "--half", "left", "-n", "1", "--model", model]
    assert len(completed(capsys, tmp_path / "out", *words)[0]) == 1


def test_many_warnings_are_counted(tmp_path: Path, model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [photo(tmp_path / f"{i}.png", 8, 8, seed=i) for i in range(7)]
    lines, _ = completed(capsys, tmp_path / "out", *paths, "--half", "left", "-n", "1", "--model", model)
    assert sum(WARNING in line for line in lines) == 5
    assert "the same warning applies to 2 more images" in lines


def test_a_bad_fit_is_reported_and_does_not_stop_completing(
    tmp_path: Path, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words: list[str | Path] = [photo(tmp_path / "x.png", 8, 8), "--half", "left", "-n", "1", "--model", model]
    fit = fit_path(model)
    good = fit.read_bytes()
    partial, whole = load_fits(fit, load(model)).values()
    vae = small_vae(seed=7)

    def damaged() -> None:
        fit.write_bytes(good[: len(good) // 2])

    def foreign() -> None:
        put_fits(vae, fit)

    def half() -> None:
        save_fits(fit, [whole])

    def renamed() -> None:
        save_fits(fit, [replace(partial, score="nonsense")])

    for spoil, reason in (
        (damaged, "is not a complete .safetensors file"),
        (foreign, "was fitted to another model"),
        (half, "has no fit for partly hidden images"),
        (renamed, "unknown score 'nonsense'"),
    ):
        spoil()
        lines, files = completed(capsys, tmp_path / "out", *words)
        assert lines[0].startswith("strange images cannot be detected: ") and reason in lines[0], spoil
        assert lines[-1].startswith("wrote ") and "sheet.png" in files


def test_an_edge_model_warns_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edges = ConditionalVAE(small_vae(), PartialConfig(channels=3), process=Edges())
    path = tmp_path / "edges.safetensors"
    save(edges, path)
    put_fits(edges, fit_path(path), strange=True)
    lines, _ = completed(capsys, tmp_path / "out", photo(tmp_path / "x.png", 8, 8), "-n", "1", "--model", path)
    assert "is taken for a photo" in lines[0] and WARNING in lines[1]


def test_pictures_that_cannot_be_judged_are_completed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edges = ConditionalVAE(small_vae(), PartialConfig(channels=3), process=Edges())
    path = tmp_path / "edges.safetensors"
    save(edges, path)
    put_fits(edges, fit_path(path))
    # The fit is valid, but its score does not work on edges: the error appears with the first picture.
    fits = load_fits(fit_path(path), edges)
    save_fits(fit_path(path), [replace(fits["partial"], score="likelihood", density=None)])
    picture = photo(tmp_path / "x.png", 8, 8)
    words = (picture, "-n", "1", "--model", path, "--image-is", "photo")
    lines, files = completed(capsys, tmp_path / "out", *words)
    assert len(lines) == 2 and "sheet.png" in files
    assert lines[0].startswith(f"cannot tell whether {picture} is strange to {path}: ") and "no pixels" in lines[0]


def test_lack_of_memory_for_judging_is_reported_twice_at_most_and_is_no_warning(
    tmp_path: Path, model: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*given: object, **named: object) -> None:
        raise RuntimeError("CUDA out of memory\nTried to allocate")

    monkeypatch.setattr("condvae.ood.picture_scorer.measure_observation", fail)
    paths = [photo(tmp_path / f"{i}.png", 8, 8, seed=i) for i in range(7)]
    lines, files = completed(capsys, tmp_path / "out", *paths, "--half", "left", "-n", "1", "--model", model)
    said = [line for line in lines if " of 7: " not in line]
    assert said[0] == f"cannot tell whether {paths[0]} is strange to {model}: CUDA out of memory Tried to allocate"
    assert said[1].startswith(f"{paths[1]} could not be judged either;")
    assert len(said) == 3 and "sheet.png" in files


def test_an_image_without_known_pixels_gets_no_warning(
    tmp_path: Path, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, unknown = photo(tmp_path / "x.png", 8, 8), tmp_path / "unknown.png"
    Image.new("L", (8, 8), 0).save(unknown)
    lines, _ = completed(capsys, tmp_path / "out", path, "--known", unknown, "-n", "1", "--model", model)
    assert not any(WARNING in line for line in lines)


def test_the_result_in_python_contains_the_warning(
    tmp_path: Path, model: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = photo(tmp_path / "x.png", 8, 8)
    lines, _ = completed(capsys, tmp_path / "out", path, "--half", "left", "-n", "1", "--model", model)
    with pytest.warns(StrangeImage, match=f"^{re.escape(str(path))} {WARNING}") as told:
        result = complete(path, half="left", n=1, model=model)
    assert [one.filename for one in told] == [__file__]  # the warning points at the line of the caller
    assert f"warning: {told[0].message}" == lines[0]
    assert list(result.warnings) == lines[:1] and WARNING in lines[0]
    assert result.strangeness == strangeness(path, half="left", model=model)
    (of_an_array,) = complete(levels(8, 8), half="left", n=1, model=model, judge=False).warnings
    assert of_an_array.startswith("warning: the image is in the strangest 1 % for ")
    nothing = complete(path, known=np.zeros((8, 8), dtype=bool), n=1, model=model)
    in_memory = complete(path, half="left", n=1, model=load(model))
    put_fits(load(model), fit_path(model), strange=False)
    ordinary = complete(path, half="left", n=1, model=model)
    assert ordinary.strangeness is not None and not ordinary.strangeness.strange
    assert nothing.strangeness is in_memory.strangeness is None
    assert nothing.warnings == in_memory.warnings == ordinary.warnings == ()


def test_judging_happens_on_demand_and_reports_failures(
    tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*given: object, **named: object) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr("condvae.ood.picture_scorer.measure_observation", fail)
    with pytest.warns(StrangeImage, match="^cannot tell whether the image is strange to .*: out of memory"):
        result = complete(levels(8, 8), half="left", n=1, model=model)
    assert result.images.any()
    assert result.warnings == (f"cannot tell whether the image is strange to {model}: out of memory",)
    fit_path(model).write_bytes(b"damaged")
    (line,) = complete(levels(8, 8), half="left", n=1, model=model, judge=False).warnings
    assert line.startswith("strange images cannot be detected: ")
    fit_path(model).unlink()
    assert complete(levels(8, 8), half="left", n=1, model=model).warnings == ()


def test_the_embedded_model_warns_of_inverted_x_rays_and_faces() -> None:
    identity, xray = open_conditional("xray")
    inspector = strangeness_inspector(xray, identity, 0, judged="whole")
    assert inspector is not None and inspector.failure is None
    (drawn,) = draw_samples(xray.artifact, 1, temperature=0.9)
    chest = drawn[0].numpy()
    nothing = Hole(known=np.zeros((64, 64), dtype=bool))
    for source, strange in ((chest, False), (255 - chest, True), (FIXTURES / "faces64" / "Eva_Amurri_0001.jpg", True)):
        view = make_view(xray, read_picture(source), nothing, seed=0, keep_size=False)
        found = inspector(view)
        assert (found.warning is not None) == strange and found.failure is None
        if found.warning is not None:
            assert "strangest 1 % for xray " in found.warning
            assert "crop it tightly to the chest in a frontal x-ray, and check that it is upright, " in found.warning


def test_the_warning_about_a_face_does_not_say_that_it_should_be_cropped(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_card(model)
    finding(monkeypatch, [face_at(20, 20, 16)])
    with pytest.warns(StrangeImage, match="the face in the image is in the strangest 1 % for .*: check that it is"):
        complete(levels(40, 40), face=True, half="left", model=model, n=1)
