"""The result of `complete` as an object: its description, its picture in notebooks, and its pictures by number."""

import io
import pickle
from pathlib import Path

import numpy as np
import pytest
from helpers.models import small_conditional, small_vae
from helpers.pictures_to_complete import levels, model_file, photo
from PIL import Image

import condvae
from condvae.completion import save_completions
from condvae.completion.inspection import Inspected
from condvae.conditional import ConditionalVAE, PartialConfig
from condvae.observe import Edges


class Judged:
    """A judgement of a picture."""

    score, percentile, strange = -3.0, 0.25, True


def test_the_description_is_one_short_line_and_computes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = photo(tmp_path / "a\nb.png", 20, 26)
    result = condvae.complete(path, half="left", model=model_file(tmp_path), n=3, keep_size=True, judge=False)
    # The inspector and the statistics must not be used.
    monkeypatch.setattr(type(result), "strangeness", property(lambda self: pytest.fail("computed")))
    monkeypatch.setattr(type(result), "std", property(lambda self: pytest.fail("computed")))
    text = "3 completions of a?b.png, 8 x 8 pixels, pasted into 26 x 20, 50 % hidden, model model.safetensors"
    assert repr(result) == f"<Completion: {text}>" == str(result)
    assert "inspected" not in vars(result)
    vars(result)["inspected"] = Inspected(strangeness=Judged())
    assert repr(result) == f"<Completion: {text}, strange (percentile 0.25)>"
    in_memory = condvae.complete(levels(8, 8), box=(0, 0, 4, 4), model=small_conditional(), n=1)
    assert repr(in_memory) == "<Completion: 1 completion of an image, 8 x 8 pixels, 25 % hidden>"
    edges = ConditionalVAE(small_vae(), PartialConfig(channels=3), process=Edges())
    assert repr(condvae.complete(levels(8, 8), model=edges, n=2)) == (
        "<Completion: 2 completions of an image, 8 x 8 pixels>"
    )


def test_notebooks_show_the_sheet() -> None:
    result = condvae.complete(levels(8, 8), half="left", model=small_conditional(), n=2)
    with Image.open(io.BytesIO(result._repr_png_())) as shown:
        assert shown.format == "PNG" and shown.tobytes() == result.sheet().tobytes()


@pytest.mark.parametrize("keep_size", [False, True])
def test_pictures_by_number(keep_size: bool) -> None:
    result = condvae.complete(levels(20, 26), half="left", model=small_conditional(), n=3, keep_size=keep_size)
    pictures = list(result)
    assert len(pictures) == len(result) == 3 and len({picture.tobytes() for picture in pictures}) == 3
    assert pictures[0].size == ((26, 20) if keep_size else (8, 8))
    for k, picture in enumerate(pictures):
        for same in (result[k], result.picture(k), result[k - 3], result.picture(k - 3), result[np.int64(k)]):
            assert same.tobytes() == picture.tobytes()
    for k in (3, -4, 100):
        for call in (result.picture, result.__getitem__):
            with pytest.raises(IndexError, match=f"no completion {k}.* has 3 completions, so the last k is 2"):
                call(k)
    with pytest.raises(TypeError):
        result.picture(1.5)  # type: ignore[arg-type]


def test_results_of_several_images_are_saved_together_and_replace_nothing(tmp_path: Path) -> None:
    files = [photo(tmp_path / f"{name}.png", 8, 8) for name in "ab"]
    results = condvae.complete(files, half="left", model=model_file(tmp_path), n=2)
    out = tmp_path / "out"
    results[0].save(out)
    first = sorted(path.name for path in out.iterdir())
    with pytest.raises(ValueError, match=r"out contains the files of an earlier call: give another folder, or replace"):
        results[1].save(out)
    assert sorted(path.name for path in out.iterdir()) == first
    (sheet,) = save_completions(results, out, replace=True)
    assert sheet == out / "sheet.png"
    names = ["001-a-1.png", "001-a-2.png", "002-b-1.png", "002-b-2.png", "record.json", "sheet.png"]
    assert sorted(path.name for path in out.iterdir()) == names
    other = condvae.complete(files[0], half="left", model=model_file(tmp_path), n=1)
    for wrong, message in (
        (lambda: results[0].save(""), "the name of the folder is empty"),
        (lambda: save_completions([], out), "there are no results to save"),
        (lambda: save_completions([results[0], other], tmp_path / "new"), "different models or settings"),
    ):
        with pytest.raises(ValueError, match=message):
            wrong()


def test_a_result_can_be_pickled(tmp_path: Path) -> None:
    result = condvae.complete(photo(tmp_path / "a.png", 8, 8), half="left", model=model_file(tmp_path), n=2)
    again = pickle.loads(pickle.dumps(result))
    assert np.array_equal(again.images, result.images) and repr(again) == repr(result)
    assert again.warnings == result.warnings
    assert np.array_equal(again.save(tmp_path / "out").read_bytes(), result.save(tmp_path / "too").read_bytes())


def test_one_completion_has_no_spread() -> None:
    result = condvae.complete(levels(8, 8), half="left", model=small_conditional(), n=1)
    assert np.isnan(result.std[:, :4]).all() and (result.std[:, 4:] == 0).all()
    assert len(result.row()) == 3  # original, observed, completion
    assert result.sheet().width < condvae.complete(levels(8, 8), half="left", model=small_conditional()).sheet().width
