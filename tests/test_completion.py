"""Completions keep what is known, vary in what is not, and image files become sheets."""

from pathlib import Path

import numpy as np
import pytest
import torch
from models import generator, images, small_conditional, small_vae, some_known
from PIL import Image

from condvae import save
from condvae.cli import main
from condvae.completion import complete_files, completions, hidden_region
from condvae.observe import Boxes, Edges, Freeform
from condvae.partial import ConditionalVAE, PartialConfig
from condvae.pictures import to_pil
from condvae.pixels import to_uint8
from condvae.sheets import conditional_sheet, unconditional_sheet, visible


def test_known_pixels_stay_and_completion_k_does_not_depend_on_how_many_there_are() -> None:
    model, x = small_conditional(), images(2)
    observation = model.observe(x, some_known(2))
    made = completions(model, observation, 4, seed=1)
    assert made.shape == (2, 4, 3, 8, 8)
    assert observation.known is not None
    known = observation.known.expand_as(x)
    for k in range(4):
        assert torch.equal(made[:, k][known], x[known])
    assert not torch.equal(made[:, 0], made[:, 1])
    torch.testing.assert_close(completions(model, observation, 2, seed=1), made[:, :2], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("half", "hidden"),
    [("left", (0, 0, 4, 8)), ("right", (4, 0, 4, 8)), ("top", (0, 0, 8, 4)), ("bottom", (0, 4, 8, 4))],
)
def test_a_half_is_a_box(half: str, hidden: tuple[int, int, int, int]) -> None:
    assert torch.equal(hidden_region(8, half=half), hidden_region(8, box=hidden))  # type: ignore[arg-type]
    x, y, width, height = hidden
    assert not hidden_region(8, box=hidden)[0, 0, y : y + height, x : x + width].any()
    assert int((~hidden_region(8, box=hidden)).sum()) == 32


def photos(folder: Path, n: int = 2) -> list[Path]:
    paths = [folder / f"photo {i}.png" for i in range(n)]
    for path, image in zip(paths, images(n, size=20), strict=True):
        to_pil(to_uint8(image)).save(path)
    return paths


def test_files_become_completions_and_a_sheet(tmp_path: Path) -> None:
    model = small_conditional()
    model.process = Boxes()
    save(model, tmp_path / "model.safetensors")
    words = [str(path) for path in photos(tmp_path)]
    main(["complete", *words, "--model", str(tmp_path / "model.safetensors"), "--out", str(tmp_path / "a"), "-n", "3"])
    names = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert names == [f"00{i + 1}-photo {i}-{k}.png" for i in range(2) for k in (1, 2, 3)] + ["sheet.png"]
    # The same seed, the same bytes.
    main(["complete", *words, "--model", str(tmp_path / "model.safetensors"), "--out", str(tmp_path / "b"), "-n", "3"])
    assert all((tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes() for name in names)


def test_a_box_hides_what_it_says(tmp_path: Path) -> None:
    model = small_conditional()
    path = photos(tmp_path, 1)[0]
    complete_files(model, [path], tmp_path / "out", n=1, seed=0, temperature=1.0, box=(2, 1, 3, 4))
    with Image.open(path) as original, Image.open(tmp_path / "out" / "001-photo 0-1.png") as completed:
        resized = original.resize((8, 8), Image.Resampling.LANCZOS)
        before, after = (torch.from_numpy(np.array(image)) for image in (resized, completed))
    same = (before == after).all(dim=2)
    inside = torch.zeros(8, 8, dtype=torch.bool)
    inside[1:5, 2:5] = True
    assert same[~inside].all()
    assert not same[inside].all()


def test_bad_input_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(small_conditional(), tmp_path / "bare.safetensors")
    save(small_vae(), tmp_path / "vae.safetensors")
    photo = str(photos(tmp_path, 1)[0])
    (tmp_path / "text.png").write_text("no picture")
    out = ["--out", str(tmp_path / "out")]
    bare, vae = ["--model", str(tmp_path / "bare.safetensors")], ["--model", str(tmp_path / "vae.safetensors")]
    for words, message in (
        ([photo, *bare], "does not say what it observes"),
        ([photo, *vae, "--half", "left"], "unconditional VAE"),
        ([photo, *bare, "--box", "1,2,3"], "four whole numbers"),
        ([photo, *bare, "--box", "1,2,3,9"], "does not lie in the model's 8 x 8 pixels"),
        ([photo, *bare, "--box", "1,2,3,4", "--half", "left"], "not both"),
        ([str(tmp_path / "text.png"), *bare, "--half", "left"], "text.png is no image"),
        ([str(tmp_path / "none.png"), *bare, "--half", "left"], "none.png"),
        ([photo, *bare, "--half", "left", "-n", "0"], "number of samples"),
    ):
        with pytest.raises(SystemExit) as stopped:
            main(["complete", *words, *out])
        assert stopped.value.code == 2
        error = capsys.readouterr().err
        assert message in error and len(error.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_sheets_show_images_and_observations() -> None:
    model, x = small_conditional(), images(2)
    from condvae.batch import Batch

    batch = Batch(x=x)
    observation = Freeform().observe(batch, normalise=model.artifact.normalise, generator=generator())
    sheet = conditional_sheet(model, batch, observation, completions(model, observation, 3))
    assert sheet.width > sheet.height
    assert unconditional_sheet(model.artifact, x).width > 700
    # An edge image is shown as it is seen: dark lines on white.
    edges = Edges().observe(batch, normalise=model.artifact.normalise, generator=generator())
    shown = visible(model.artifact, edges)
    assert set(shown.round(decimals=3).unique().tolist()) <= {-1.0, 1.0}


def test_an_edge_model_takes_no_box(tmp_path: Path) -> None:
    model = ConditionalVAE(small_vae(), PartialConfig(channels=3), process=Edges())
    path = photos(tmp_path, 1)
    with pytest.raises(ValueError, match="not trained to complete"):
        complete_files(model, path, tmp_path / "out", n=1, seed=0, temperature=1.0, half="left")
    assert complete_files(model, path, tmp_path / "out", n=1, seed=0, temperature=1.0).is_file()
