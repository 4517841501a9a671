"""`condvae.complete`: completions of one picture in Python."""

import inspect
import io
import json
import typing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.models import small_conditional, small_vae
from helpers.pictures_to_complete import levels, model_file, photo
from PIL import Image

import condvae
from condvae.cli import main
from condvae.completion import Completion
from condvae.completion.complete_pictures import CompleteArguments


def test_complete_and_save(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_file(tmp_path)
    photo(tmp_path / "photo.png", 30, 24)
    white = np.zeros((30, 24), dtype=np.uint8)
    white[:, :12] = 255
    Image.fromarray(white).save(tmp_path / "known.png")
    monkeypatch.chdir(tmp_path)
    result = condvae.complete("photo.png", known="known.png", model=model, n=4)
    result.save("out/")
    assert result.images.shape == (4, 8, 8, 3) and result.images.dtype == np.uint8
    names = {path.name for path in Path("out").iterdir()}
    assert names == {"sheet.png", "record.json", *(f"001-photo-{k}.png" for k in (1, 2, 3, 4))}
    for k in range(4):
        with Image.open(f"out/001-photo-{k + 1}.png") as image:
            assert np.array_equal(np.asarray(image), result.images[k])
    record = json.loads(Path("out/record.json").read_text())
    assert record["model"]["path"] == "../model.safetensors" and record["images"][0]["image"]["path"] == "../photo.png"


def result_of(**options: object) -> Completion:
    arguments: dict[str, object] = {"model": small_conditional(), "half": "left", "n": 5, **options}
    result = condvae.complete(levels(8, 8), **arguments)  # type: ignore[call-overload]
    assert isinstance(result, Completion)
    return result


def test_known_pixels_and_statistics() -> None:
    result = result_of()
    assert len(result) == 5
    assert (result.images[:, result.known] == levels(8, 8)[result.known]).all()
    assert np.array_equal(result.original, levels(8, 8))
    assert np.array_equal(result.observed[result.known], levels(8, 8)[result.known])
    assert len(np.unique(result.observed[~result.known])) == 1
    np.testing.assert_allclose(result.mean, result.images.mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(result.std, result.images.std(axis=0), rtol=1e-5, atol=1e-4)
    assert (result.std[result.known] == 0).all() and (result.std[~result.known] > 0).any()


def test_completions_depend_on_the_seed_but_not_on_n_or_the_chunk() -> None:
    many = result_of(n=12).images
    for options in ({"n": 1}, {"n": 8, "chunk": 3}, {"n": 5}):
        made = result_of(**options).images
        assert np.array_equal(made, many[: len(made)])
    assert not np.array_equal(result_of(n=12, seed=1).images, many)
    assert np.array_equal(result_of(n=3, share=1).images[0], many[0])
    still = result_of(n=3, temperature=0, seed=7).images
    assert (still == still[0]).all() and np.array_equal(still, result_of(n=3, temperature={1: 0, 4: 0, 8: 0}).images)


def test_everything_known_is_refused_and_nothing_known_works() -> None:
    every = np.ones((8, 8), dtype=bool)
    with pytest.raises(ValueError, match="nothing is hidden in the image: the picture of the known pixels is True"):
        result_of(half=None, known=every)
    assert not (result_of(half=None, hole=every).images == levels(8, 8)).all()


def test_a_list_of_images_gives_a_list_of_results(tmp_path: Path) -> None:
    model = model_file(tmp_path)
    path, array = photo(tmp_path / "a.png", 8, 8, seed=1), levels(8, 8)
    tensor, stream = torch.from_numpy(levels(8, 8, seed=2)).permute(2, 0, 1), io.BytesIO(path.read_bytes())
    results = condvae.complete([path, array, tensor, stream, Image.fromarray(array)], half="left", model=model, n=2)
    alone = [condvae.complete(one, half="left", model=model, n=2) for one in (path, array, tensor)]
    assert isinstance(results, list) and len(results) == 5 and isinstance(alone[0], Completion)
    for result, expected in zip(results, [*alone, alone[0], alone[1]], strict=True):
        assert np.array_equal(result.images, expected.images)
    with pytest.raises(ValueError, match="the list of images is empty: give at least one image"):
        condvae.complete((), half="left", model=model)
    assert len(condvae.complete((array,), half="left", model=model, n=1)) == 1


def test_a_list_of_images_with_one_mask_or_one_for_each(tmp_path: Path) -> None:
    images, model = [levels(8, 8), levels(8, 8, seed=1)], small_conditional()
    left, top = np.indices((8, 8))[1] < 4, np.indices((8, 8))[0] < 4
    for hidden in (left, [left, top], (left, top)):
        results = condvae.complete(images, hole=hidden, model=model, n=1)
        expected = hidden if isinstance(hidden, list | tuple) else [hidden, hidden]
        assert [np.array_equal(~r.known, flags) for r, flags in zip(results, expected, strict=True)] == [True, True]
    (tmp_path / "masks").mkdir()
    paths = [photo(tmp_path / f"{k}.png", 8, 8) for k in range(2)]
    for k, flags in enumerate((left, top)):
        Image.fromarray(flags).save(tmp_path / "masks" / f"{k}.png")
    results = condvae.complete(paths, mask=tmp_path / "masks", mask_is="known", model=model, n=1)
    assert np.array_equal(results[0].known, left) and np.array_equal(results[1].known, top)
    wrong: tuple[tuple[Any, Any, str], ...] = (
        (images, {"hole": [left]}, "hole is a list of 1, but 2 images were given: give one for each image"),
        (images[0], {"hole": [left]}, "the picture of the hidden pixels is a list, expected a path"),
        ([images[0], images[1] / 1.0], {"hole": left}, "image 2 of the list contains numbers from 1 to 255"),
        ([images], {"hole": left}, "image 1 of the list is a list"),
        (iter(images), {"hole": left}, "the image is a list_iterator, expected a path"),
        (np.stack(images), {"hole": left}, r"shape \(2, 8, 8, 3\), expected"),
    )
    for bad, options, message in wrong:
        with pytest.raises(ValueError, match=message):
            condvae.complete(bad, model=model, **options)


def test_masked_arrays_and_masks() -> None:
    left = np.indices((8, 8))[1] < 4
    array, model = levels(8, 8), small_conditional()
    expected = condvae.complete(array, half="left", model=model, n=2)
    for result in (
        condvae.complete(np.ma.array(array, mask=np.dstack([left] * 3)), model=model, n=2),
        condvae.complete(array, mask=left, mask_is="hole", model=model, n=2),
        condvae.complete(array, mask=torch.from_numpy(~left), mask_is="known", model=model, n=2),
        condvae.complete(array, hole=left[:, ::2], fit_mask=True, model=model, n=2),
    ):
        assert np.array_equal(result.images, expected.images)


def test_arguments_have_the_same_names_and_types_in_the_overloads() -> None:
    # The overloads differ by the type of `face`, which decides what is returned.
    arguments = [name for name in list(inspect.signature(condvae.complete).parameters)[1:] if name != "face"]
    implementation = typing.get_type_hints(condvae.complete)
    assert {name: implementation[name] for name in arguments} == typing.get_type_hints(CompleteArguments)


def test_pictures_at_their_own_size() -> None:
    array = levels(30, 24)
    result = condvae.complete(array, box=(3, 10, 6, 6), model=small_conditional(), n=2, keep_size=True)
    changed = (np.asarray(result.picture(1)) != array).any(axis=2)
    assert changed[10:16, 3:9].any()
    changed[10:16, 3:9] = False
    assert not changed.any()
    assert result.images.shape == (2, 8, 8, 3)
    assert condvae.complete(array, box=(3, 10, 6, 6), model=small_conditional(), n=1).picture(0).size == (8, 8)


def test_boxes_refer_to_the_upright_picture(tmp_path: Path) -> None:
    array, exif = levels(20, 26), Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(np.rot90(array).copy()).save(tmp_path / "side.png", exif=exif)
    upright = condvae.complete(array, box=(20, 2, 5, 9), model=small_conditional(), n=2, keep_size=True)
    turned = condvae.complete(tmp_path / "side.png", box=(20, 2, 5, 9), model=small_conditional(), n=2, keep_size=True)
    assert np.array_equal(turned.images, upright.images) and turned.picture(1).tobytes() == upright.picture(1).tobytes()


def test_the_sheet_shows_at_most_eight_completions() -> None:
    few, many = result_of(n=2).sheet(), result_of(n=20).sheet()
    tile = 8 * 12 + 4
    assert few.width == (2 + 2 + 2) * tile + 4 and many.width == (2 + 8 + 2) * tile + 4


def test_models_by_path_and_unusable_models(tmp_path: Path) -> None:
    path = model_file(tmp_path)
    by_path = condvae.complete(levels(8, 8), half="left", model=str(path), n=1)
    assert by_path.provenance.model is not None and by_path.provenance.model.file.path == path
    condvae.save(small_vae(), path)  # replace the model in this file
    with pytest.raises(ValueError, match="unconditional VAE: train a partial encoder for it first"):
        condvae.complete(levels(8, 8), half="left", model=path)
    with pytest.raises(ValueError, match="unknown model 'nothing'"):
        condvae.complete(levels(8, 8), half="left", model="nothing")
    for model in (None, 5, dict):
        with pytest.raises(ValueError, match="expected the name or path of a model, a ConditionalVAE or a baseline"):
            condvae.complete(levels(8, 8), half="left", model=model)  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="unconditional VAE: train a partial encoder for it first"):
        condvae.complete(levels(8, 8), half="left", model=small_vae())  # type: ignore[call-overload]
    for somewhere in (small_conditional(), path):
        with pytest.raises(ValueError, match="device 'tpu' cannot be used"):
            condvae.complete(levels(8, 8), half="left", model=somewhere, device="tpu")


def test_wrong_settings_are_rejected() -> None:
    for options, message in (
        ({"n": 0}, "the number of completions is 0"),
        ({"n": 10_001}, "expected at most 10000"),
        ({"n": 2.0}, "expected a whole number"),
        ({"seed": -1}, "the seed is -1"),
        ({"temperature": float("nan")}, "temperature nan"),
        ({"temperature": -1}, "expected a number >= 0"),
        ({"temperature": [1, 2]}, "a list of 2 temperatures was given"),
        ({"temperature": {5: 1.0}}, "for resolution 5"),
        ({"share": 3}, "no latents at resolution 3, only at 1, 4, 8"),
        ({"share": True}, "expected a whole number"),
        ({"pixels": "median"}, "pixels is 'median'"),
        ({"keep_size": "yes"}, "keep_size is 'yes'"),
        ({"chunk": 0}, "the chunk is 0"),
        ({"box": (0, 0, 2, 2)}, "2 ways"),
    ):
        with pytest.raises(ValueError, match=message):
            result_of(**options)


def test_numpy_integers_are_accepted(tmp_path: Path) -> None:
    image = levels(8, 8)
    kinds: tuple[Any, Any] = (int, np.int64)
    ours, theirs = (
        condvae.complete(image, half="left", model=small_conditional(), n=kind(2), seed=kind(3), share=kind(4))
        for kind in kinds
    )
    assert np.array_equal(ours.images, theirs.images)
    theirs.save(tmp_path / "out")
    assert json.loads((tmp_path / "out" / "record.json").read_text())["seed"] == 3


def test_a_high_temperature_is_a_warning_or_an_error_and_never_certainty(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image, model = photo(tmp_path / "x.png", 8, 8), model_file(tmp_path)
    hot: dict[str, Any] = {"half": "left", "n": 16, "model": model, "temperature": 2.2}
    with pytest.warns(condvae.DegenerateSamples, match=r"of 16 completions of .*x\.png (is|are) saturated") as told:
        result = condvae.complete(image, **hot)
    assert [one.filename for one in told] == [__file__]
    assert result.warnings == (f"warning: {told[0].message}",) and result.std[~result.known].min() > 0
    words = ["complete", str(image), "--half", "left", "--model", str(model), "-n", "16"]
    main([*words, "--temperature", "2.2", "-o", str(tmp_path / "out")])
    assert capsys.readouterr().out.splitlines()[0] == result.warnings[0]
    for temperature in ("10", "1e30"):
        with pytest.raises(SystemExit):
            main([*words, "--temperature", temperature, "-o", str(tmp_path / "none")])
        error = capsys.readouterr().err
        assert f"16 of 16 completions of {image} " in error and error.count("\n") == 1
        assert f"lower the temperature, which is {float(temperature):g}" in error and not (tmp_path / "none").exists()
