import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from lpips_networks import random_lpips, real_lpips_file
from models import randomise, small_conditional

from condvae import VDVAE, ConditionalVAE, PartialConfig, preset, save
from condvae.data import open_data
from condvae.metrics import HOLE_BINS

ROOT = Path(__file__).parents[2]
RECIPE = ROOT / "recipes" / "faces64_report.py"
FACES = ROOT / "tests" / "data" / "faces32.zip"
FILLERS = ["training mean", "random training image", "harmonic fill"]


@pytest.fixture(scope="module")
def recipe() -> ModuleType:
    spec = importlib.util.spec_from_file_location("faces64_report", RECIPE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["faces64_report"] = module
    spec.loader.exec_module(module)
    return module


def untrained() -> ConditionalVAE:
    torch.manual_seed(0)
    model = ConditionalVAE(VDVAE(preset("demo32")), PartialConfig(channels=4))
    randomise(model, 0, scale=0.02)
    return model


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, RECIPE, *arguments]
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def measured(recipe: ModuleType) -> dict[str, Any]:
    options = recipe.Options(
        data=FACES, model="small", images=12, bits_images=15, k=4, temperature=("1", "8:0.5"), pixels=("mean", "sample")
    )
    result: dict[str, Any] = recipe.report(untrained(), open_data(FACES), random_lpips(), options)
    return result


def test_every_method_is_measured_in_every_bin(measured: dict[str, Any]) -> None:
    ours = [f"t {t}, pixels {pixels}" for t in ("1", "8:0.5") for pixels in ("mean", "sample")]
    assert list(measured["methods"]) == [*ours, *FILLERS]
    columns = [*map(str, HOLE_BINS), "mean"]
    for name, found in measured["methods"].items():
        varies = name not in ("training mean", "harmonic fill")
        assert found["k"] == (4 if varies else 1)
        gt = [found["lpips_gt"][column]["mean"] for column in columns]
        assert list(found["lpips_gt"]) == columns
        assert gt[0] < gt[2] < gt[4]  # more hidden, farther
        assert gt[5] == pytest.approx(sum(gt[:5]) / 5)
        assert found["lpips_gt"]["mean"]["standard_error"] > 0
        assert all((found["lpips_diversity"][column]["mean"] > 0) == varies for column in columns)
    for name in ours:
        for column in columns:
            best = min(measured["methods"][filler]["lpips_gt"][column]["mean"] for filler in FILLERS)
            expected = measured["methods"][name]["lpips_gt"][column]["mean"] / best
            assert measured["ratio_to_best_filler"][name][column] == pytest.approx(expected)
    assert measured["bits_per_dim"]["images"] == 15
    assert measured["bits_per_dim"]["of_8_bit_images"]["mean"] > measured["bits_per_dim"]["native"]["mean"]
    assert list(measured["forward_kl_nats_per_dim"]) == columns
    json.dumps(measured, allow_nan=False)


def test_the_fillers_do_not_depend_on_the_model(recipe: ModuleType, measured: dict[str, Any]) -> None:
    options = recipe.Options(data=FACES, model="none", images=12, k=4)
    alone = recipe.report(None, open_data(FACES), random_lpips(), options)
    for filler in FILLERS:
        assert alone["methods"][filler]["lpips_gt"] == measured["methods"][filler]["lpips_gt"]
    assert "forward_kl_nats_per_dim" not in alone
    assert "harmonic fill (K = 1)" in recipe.as_text(alone)


def test_the_table_shows_what_was_measured(recipe: ModuleType, measured: dict[str, Any]) -> None:
    text = recipe.as_text(measured)
    for name, found in measured["methods"].items():
        row = next(line for line in text.splitlines() if line.startswith(f"{name} (K = "))
        assert f"{found['lpips_gt']['0.2-0.4']['mean']:.4f}" in row
    assert "2 disjoint pairs" in text
    assert "bits/dim of 8-bit images" in text


@pytest.mark.parametrize("k", [1, 3, 50, 64, 65, 100, 200])
def test_chunks_are_full(recipe: ModuleType, k: int) -> None:
    chunk = recipe.even_chunk(k)
    assert chunk <= recipe.CHUNK
    assert chunk % k == 0 if k <= chunk else -(-k // chunk) * chunk - k < -(-k // chunk)


def test_the_command_writes_json(tmp_path: Path) -> None:
    lpips = real_lpips_file()
    save(untrained(), tmp_path / "model.safetensors")
    out = tmp_path / "deep" / "report.json"
    small = ("--images", "2", "--bits-images", "2", "--k", "2", "--device", "cpu")
    done = run("--data", FACES, "--model", tmp_path / "model.safetensors", "--lpips", lpips, *small, "--out", out)
    assert done.returncode == 0, done.stderr
    result = json.loads(out.read_text())
    assert result["images"] == 2
    assert [file.name for file in out.parent.iterdir()] == ["report.json"]


def test_bad_input_is_one_sentence_and_exit_code_2(tmp_path: Path) -> None:
    done = run("--data", FACES, "--model", "none", "--lpips", tmp_path / "none")
    assert (done.returncode, len(done.stderr.strip().splitlines())) == (2, 1), done.stderr
    assert "condvae fetch lpips" in done.stderr


def test_what_cannot_be_measured_is_refused(recipe: ModuleType, tmp_path: Path) -> None:
    save(VDVAE(preset("tiny")), tmp_path / "vae.safetensors")
    (tmp_path / "text.safetensors").write_text("text")
    for change, message in (
        ({"model": str(tmp_path / "vae.safetensors")}, "is an unconditional VAE"),
        ({"lpips": tmp_path / "text.safetensors"}, r"not a whole \.safetensors file"),
        ({"k": 0}, "--k is 0"),
        ({"out": tmp_path / "report.txt"}, r"should end in \.json"),
    ):
        with pytest.raises(ValueError, match=message):
            recipe.main(recipe.Options(**{"data": FACES, "model": "none", **change}))


def test_images_of_another_size_are_refused(recipe: ModuleType) -> None:
    options = recipe.Options(data=FACES, model="tiny")
    with pytest.raises(ValueError, match="32 x 32 x 3, tiny makes 8 x 8 x 3"):
        recipe.report(small_conditional(), open_data(FACES), random_lpips(), options)
