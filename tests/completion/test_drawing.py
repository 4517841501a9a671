"""`condvae complete` with learned baselines: known pixels, one answer or many, settings of VAEs, and repeated calls."""

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.baseline_models import CONFIGS, baseline_file, small_baseline
from helpers.commands import names, refused
from helpers.models import small_conditional
from helpers.pictures_to_complete import contents, levels, photo
from PIL import Image

import condvae
from condvae.cli import main
from condvae.completion.drawing import BaselineDrawer, ModelDrawer
from condvae.completion.settings import CompletionSettings
from condvae.sampling.plain import completion_seeds

ONE_ANSWER = ("ce", "rfr")


def pixels(path: Path) -> np.ndarray:
    with Image.open(path) as image:
        return np.asarray(image)


@pytest.mark.parametrize("kind", CONFIGS)
def test_the_command_completes_and_its_record_repeats_the_call(
    tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model, picture = baseline_file(Path(), kind), photo(Path("photo.png"), 16, 16)
    main(["complete", str(picture), "--model", str(model), "--half", "right", "-n", "3", "-o", "out", "--seed", "5"])
    said = capsys.readouterr().out
    assert names("out") == ["001-photo-1.png", "001-photo-2.png", "001-photo-3.png", "record.json", "sheet.png"]
    made = [pixels(Path(f"out/001-photo-{i}.png")) for i in (1, 2, 3)]
    for image in made:
        assert np.array_equal(image[:, :8], pixels(picture)[:, :8])
        assert (image[:, 8:] != pixels(picture)[:, 8:]).mean() > 0.8
    title = small_baseline(kind).title
    warning = (
        f"{title} has one answer to each image, so the 3 completions of {picture} are the same: this does not mean"
    )
    assert (warning in " ".join(said.split())) == (kind in ONE_ANSWER)
    assert len({image.tobytes() for image in made}) == (1 if kind in ONE_ANSWER else 3)
    Path("deep").mkdir()
    monkeypatch.chdir("deep")
    main(["complete", "--repeat", "../out", "-o", "again"])
    assert contents(Path("again")) == contents(Path("../out")) != {}
    record = json.loads(Path("../out/record.json").read_text())
    assert record["model"]["path"] == f"../{model.name}" and record["precision"] == "fp32"


@pytest.mark.parametrize("kind", CONFIGS)
def test_settings_of_latents_are_declined(tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    model, picture = baseline_file(tmp_path, kind), photo(tmp_path / "photo.png")
    words = [str(picture), "--model", str(model), "--half", "right"]
    title = small_baseline(kind).title
    for name, value in (("temperature", "0.8"), ("temperature", "8:0.9"), ("pixels", "sample"), ("share", "4")):
        expected = f"{title} has no {name} to choose: leave out --{name} ({name} in Python)"
        assert refused([*words, f"--{name}", value], tmp_path / "out", capsys) == f"condvae: {expected}"
    with pytest.raises(ValueError, match=f"{title} has no share to choose: leave out --share"):
        condvae.complete(levels(16, 16), half="left", model=small_baseline(kind), share=4)


def test_other_mistakes_are_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, picture = str(baseline_file(tmp_path, "anp")), str(photo(tmp_path / "photo.png"))
    for words, message in (
        ([picture], "has no transparent pixels, so specify which are hidden"),
        ([picture, "--half", "left", "--image-is", "drawing"], "but this model observes known pixels, and only models"),
        ([picture, "--half", "left", "-n", "0"], "the number of completions is 0"),
    ):
        assert message in refused([*words, "--model", model], tmp_path / "out", capsys)


def test_a_random_hole_is_drawn_by_the_process_of_the_training(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, picture = baseline_file(tmp_path, "anp"), photo(tmp_path / "photo.png", 16, 16)
    main(["complete", str(picture), "--random", "--model", str(model), "-n", "1", "-o", str(tmp_path / "out")])
    changed = (pixels(tmp_path / "out" / "001-photo-1.png") != pixels(picture)).any(axis=2)
    assert 0 < changed.sum() < 256
    condvae.save(small_baseline("anp"), model)  # without a process
    said = refused([str(picture), "--random", "--model", str(model)], tmp_path / "none", capsys)
    assert "this model does not record what it was trained to observe, so no random hole can be drawn" in said


@pytest.mark.parametrize("kind", CONFIGS)
def test_a_model_in_memory_completes_arrays(kind: str) -> None:
    model, array = small_baseline(kind), levels(16, 16)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        result = condvae.complete(array, half="left", model=model, n=5, seed=2)
        fewer, single = (condvae.complete(array, half="left", model=model, n=n, seed=2) for n in (2, 1))
        other = condvae.complete(array, half="left", model=model, n=5, seed=3)
    assert [one.category for one in told] == [condvae.DegenerateSamples] * (3 if kind in ONE_ANSWER else 0)
    assert (len(result.warnings), len(single.warnings)) == ((1, 0) if kind in ONE_ANSWER else (0, 0))
    assert result.images.shape == (5, 16, 16, 3)
    assert (result.images[:, result.known] == array[result.known]).all()
    assert np.array_equal(fewer.images, result.images[:2]) and np.array_equal(single.images, result.images[:1])
    assert np.array_equal(other.images, result.images) == (kind in ONE_ANSWER)
    assert bool(result.std[~result.known].any()) == (kind not in ONE_ANSWER)
    assert result.sheet().width > 0 and not model.training
    assert len(np.unique(result.observed[~result.known])) == 1


def test_pictures_at_their_own_size_and_many_at_once() -> None:
    array, model = levels(30, 24), small_baseline("pic")
    result = condvae.complete(array, box=(3, 10, 6, 6), model=model, n=2, keep_size=True)
    changed = (np.asarray(result.picture(1)) != array).any(axis=2)
    assert changed[10:16, 3:9].any()
    changed[10:16, 3:9] = False
    assert not changed.any()
    both = condvae.complete([array, levels(16, 16)], box=(3, 10, 6, 6), model=model, n=2, keep_size=True)
    assert np.array_equal(both[0].images, result.images)
    grey = condvae.complete(levels(16, 16)[:, :, 0], half="left", model=small_baseline("pic", channels=1), n=2)
    assert grey.images.shape == (2, 16, 16, 1)


def test_both_drawers_draw_the_completions_of_their_models() -> None:
    settings = CompletionSettings(n=3)
    baseline, vae = small_baseline("anp"), small_conditional()
    drawer, ours = BaselineDrawer(baseline, settings), ModelDrawer(vae, settings)
    for model, draw in ((baseline, drawer), (vae, ours)):
        x = torch.zeros(1, 3, model.image_size, model.image_size)
        observation = model.observe(x, x[:, :1] == 1)
        drawn = draw(observation, 4, " of it")
        assert drawn.images.shape == (3, 3, model.image_size, model.image_size)
        assert drawn.images.dtype == torch.uint8 and drawn.warnings == ()
        assert draw.settings.n == 3 and draw.precision == "fp32"
    x = torch.zeros(1, 3, 16, 16)
    observation = baseline.observe(x, x[:, :1] == 1)
    assert torch.equal(drawer(observation, 4, "").images, baseline.draw(observation, completion_seeds(4, 3))[0])
    assert torch.equal(drawer(observation, 4, "").images, baseline.complete(observation, 3, seed=4)[0])
