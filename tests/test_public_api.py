"""The public API of `import condvae`."""

import pkgutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.evaluation_runs import FACES, small_model
from helpers.models import small_conditional
from helpers.pictures_to_complete import photo

import condvae
from condvae.data.splits import hold_out
from condvae.observe.hole_bins import HOLE_BINS, known_in_bin

ROOMS = [module.name for module in pkgutil.iter_modules(condvae.__path__) if module.name != "__main__"]


def test_every_package_is_imported_on_first_use() -> None:
    program = f"""
import sys, condvae
assert "torch" not in sys.modules
for name in {ROOMS}:
    assert getattr(condvae, name).__name__ == f"condvae.{{name}}"
assert condvae.experiments.evaluation.EvaluationSettings().n == 100
assert not hasattr(condvae, "nonsense")
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_no_package_has_the_name_of_a_function() -> None:
    assert not set(ROOMS) & set(condvae.__all__)
    assert set(dir(condvae)) == {*condvae.__all__, *ROOMS, "__version__"}


def test_load_and_from_pretrained_are_one_function(tmp_path: Path) -> None:
    assert condvae.load is condvae.from_pretrained
    condvae.save(small_conditional(), tmp_path / "run" / "model.safetensors")
    for name in (tmp_path / "run", str(tmp_path / "run" / "model.safetensors")):
        assert isinstance(condvae.load(name), condvae.ConditionalVAE)
    with pytest.raises(ValueError, match="is not a model on the hub"):
        condvae.load(tmp_path / "run", revision="main")


def test_options_of_training_are_keywords_or_an_object(tmp_path: Path) -> None:
    given: dict[str, Any] = {"data": str(FACES), "out": str(tmp_path / "vae"), "steps": 2, "batch": 4, "device": "cpu"}
    small: dict[str, Any] = {"evaluate_on": 4, "checkpoint_every": 2, "evaluate_every": 2}
    file = condvae.pretrain(**given, **small, network="demo32")
    assert file == tmp_path / "vae" / "model.safetensors"
    given |= {"out": tmp_path / "ipa"}
    model = condvae.load(condvae.train(**given, **small, artifact=file, observe="halves"))
    assert isinstance(model, condvae.ConditionalVAE) and model.process is not None and model.process.name == "halves"
    options = condvae.training.PretrainOptions(data="photos", out="run")  # type: ignore[arg-type]
    assert (options.data, options.out) == ((Path("photos"),), Path("run"))
    for words, message in (
        ({"data": "x"}, "missing key in options: out"),
        ({"data": "x", "out": "y", "minuets": 3}, "unknown key in options: minuets"),
        ({"data": "x", "out": "y", "preset": "huge"}, "unknown preset 'huge'"),
    ):
        with pytest.raises(ValueError, match=message):
            condvae.pretrain(**words)
    with pytest.raises(ValueError, match="as an object and as keywords"):
        condvae.pretrain(options, steps=3)


def test_evaluate_accepts_a_model_in_memory_and_settings_by_name(tmp_path: Path) -> None:
    def measured(out: str, **given: Any) -> dict[str, Any]:
        report = condvae.evaluate(
            small_model(), FACES, out=tmp_path / out, baselines=("mean",), device="cpu", say=lambda line: None, **given
        )
        assert report is not None and (tmp_path / out / "results.json").is_file()
        return report

    settings = condvae.experiments.evaluation.EvaluationSettings(images=4, deep_images=2, n=2, metrics=("pixels",))
    by_name = measured("names", images=4, deep_images=2, n=2, metrics=("pixels",), temperature=(1, 0.5))
    assert list(by_name["methods"]) == ["model, t 1", "model, t 0.5", "training mean"]
    assert measured("object", settings=settings)["settings"] == by_name["settings"]
    with pytest.raises(ValueError, match="unknown key in settings: pictures"):
        measured("bad", pictures=4)
    with pytest.raises(ValueError, match=r"as an object and by name \(n\)"):
        measured("bad", settings=settings, n=3)


def test_seeds_have_64_bits(tmp_path: Path) -> None:
    last = 2**64 - 1
    picture = photo(tmp_path / "x.png", 8, 8)
    drawn = [condvae.complete(picture, half="left", model=small_conditional(), n=1, seed=s).images for s in (0, last)]
    assert not np.array_equal(drawn[0], drawn[1])
    splits = [hold_out(100, 10, seed)[1].tolist() for seed in (0, 2**32, last)]
    assert len({tuple(split) for split in splits}) == 3
    assert known_in_bin(HOLE_BINS[2], 1, 16, seed=last).shape == (1, 1, 16, 16)
    for bad in (-1, 2**64, 0.5, True):
        with pytest.raises(ValueError, match=r"expected a whole number from 0 to 2\*\*64 - 1"):
            condvae.complete(picture, half="left", model=small_conditional(), seed=bad)  # type: ignore[call-overload]
