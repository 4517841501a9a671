"""The comparison of 16 and 8 bits: its KL is that of the latents, and equal models have no differences."""

import copy
import json
from pathlib import Path

import pytest
import torch
from helpers.evaluation_runs import small_model
from helpers.fixtures import ROOT
from helpers.models import SMALLEST, images, randomise, small_conditional, some_known
from helpers.pretraining_runs import PixelDistance
from helpers.recipe_calls import run
from PIL import Image

from condvae import objectives, weights
from condvae.conditional import ConditionalVAE
from condvae.metrics import LPIPS
from condvae.observe import Observation
from condvae.weights.artifact_file import as_conditional, read_model
from condvae.weights.precision import SCALE, stored
from recipes.eight_bits import changes, has_8_bits, kl_between, levels_of, pair_of, unrounded
from recipes.pages import short


def log_density(model: ConditionalVAE, latents: list[torch.Tensor], y: Observation, seeds: list[int]) -> torch.Tensor:
    """log c(z|y) of each image, from the densities of all latent groups."""
    scores = model.artifact.descend(
        model.posterior(y),
        batch=len(seeds),
        noise=seeds,
        given=latents,
        score=lambda step: step.drawn_from.log_prob(step.z).flatten(1).sum(dim=1),
    ).scores
    return scores.sum(dim=1)


@torch.no_grad()
def test_the_kl_is_the_expected_difference_of_log_densities() -> None:
    """The sum over groups estimates KL(c_1(z|y) || c_2(z|y)): each model has its own decoder states."""
    first = small_conditional(SMALLEST)
    second = copy.deepcopy(first)
    generator = torch.Generator().manual_seed(1)
    for parameter in second.parameters():  # of the decoder as well, which changes the states that c sees
        parameter.add_(0.02 * torch.randn(parameter.shape, generator=generator))
    batch = 400
    y = first.observe(images(1).expand(batch, -1, -1, -1), some_known(1).expand(batch, -1, -1, -1))
    seeds = list(range(batch))
    found = kl_between(first, second, y, noise=seeds)
    assert tuple(found.shape) == (batch, 2, 2)
    latents = first.artifact.descend(first.posterior(y), batch=batch, noise=seeds).latents
    differences = log_density(first, latents, y, seeds) - log_density(second, latents, y, seeds)
    error = float((differences - found[..., 0].sum(dim=1)).std()) / batch**0.5
    assert float(differences.mean()) == pytest.approx(float(found[..., 0].sum(dim=1).mean()), abs=4 * error)
    assert float(found[..., 0].sum(dim=1).mean()) > 8 * error
    assert kl_between(first, first, y, noise=seeds)[..., 0].abs().max() < 1e-4
    bound = objectives.reverse(first, y, noise=seeds)
    torch.testing.assert_close(found[..., 1], bound.kl_nats)


def test_changes_are_counted_in_hidden_pixels() -> None:
    first = torch.full((2, 3, 1, 4, 4), 100, dtype=torch.uint8)
    second, known = first.clone(), torch.ones(2, 1, 4, 4, dtype=torch.bool)
    known[1, 0, 0, :2] = False
    second[1, :, 0, 0, 0] = torch.tensor([90, 100, 255], dtype=torch.uint8)
    second[0] = 0  # known pixels do not count
    found = levels_of(changes(first, second, known))
    assert found == {"mean": pytest.approx((10 + 155) / 6), "largest": 155, "share_above_8": pytest.approx(2 / 6)}
    assert levels_of(changes(first, second, torch.ones_like(known))) == {"mean": 0, "largest": 0, "share_above_8": 0}


def test_the_pair_is_the_same_model_in_two_forms() -> None:
    model = small_conditional()
    pair = pair_of(model, torch.device("cpu"))
    assert 0 < pair.sizes["8_bits"] < pair.sizes["16_bits"]
    for name, tensor in model.state_dict().items():
        assert torch.equal(pair.half.state_dict()[name], tensor.half().float())
    assert any(not torch.equal(a, b) for a, b in zip(pair.half.parameters(), pair.eight.parameters(), strict=True))


def test_a_model_with_8_bits_gets_random_weights_that_are_rounded_to_its_own(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    weights.save(small_conditional(), path, bits=8)
    model = as_conditional(read_model(path), path)
    assert has_8_bits(model) and not has_8_bits(small_conditional())
    other = unrounded(model, seed=0)
    before, after = (stored(one.state_dict(), bits=8) for one in (model, other))
    assert all(torch.equal(tensor, after[name]) for name, tensor in before.items())
    assert not has_8_bits(other)
    steps = torch.cat(
        [
            ((other.state_dict()[name] - model.state_dict()[name]) / before[f"{name}{SCALE}"].float()).flatten()
            for name, tensor in before.items()
            if tensor.dtype == torch.int8
        ]
    )
    moved = steps[steps != 0]
    assert len(moved) > 0.8 * len(steps) and len(moved) < len(steps)
    assert float(moved.abs().max()) < 0.51 and float(moved.std()) == pytest.approx(12**-0.5, rel=0.05)
    pair = pair_of(model, torch.device("cpu"))
    assert pair.unrounded and not pair_of(small_conditional(), torch.device("cpu")).unrounded
    assert all(torch.equal(a, b) for a, b in zip(pair.eight.parameters(), model.parameters(), strict=True))
    assert any(not torch.equal(a, b) for a, b in zip(pair.half.parameters(), model.parameters(), strict=True))


def test_the_recipe_writes_its_result_and_a_sheet(
    tmp_path: Path, noise32: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LPIPS, "load", lambda _: PixelDistance())
    model = small_model()
    randomise(model, 1)  # so that c(z|y) differs from the prior
    weights.save(model, tmp_path / "model.safetensors")
    words = ("--data", noise32, "--images", "4", "--n", "3", "--device", "cpu", "--out", tmp_path / "out")
    done = run("eight_bits.py", "--model", tmp_path / "model.safetensors", *words)
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    total = sum(one["nats"]["mean"] for one in result["kl"]["by_resolution"].values())
    assert 0 < result["kl"]["nats"]["mean"] == pytest.approx(total)
    assert result["kl"]["nats"]["mean"] < 0.1 * result["kl"]["to_prior"]["mean"]
    bits = result["bits_per_dim"]
    assert bits["8_bits"]["mean"] - bits["16_bits"]["mean"] == pytest.approx(bits["difference"]["mean"])
    assert result["grey_levels"]["mean"] < result["grey_levels_of_another_seed"]["mean"]
    assert result["lpips_gt"]["8_bits"]["mean"] == pytest.approx(result["lpips_gt"]["16_bits"]["mean"], rel=0.2)
    for word in ("KL of c", "LPIPS-GT", "bits per dim", "grey levels", "MiB"):
        assert word in done.stdout
    with Image.open(tmp_path / "out" / "sheet.png") as sheet:
        assert sheet.height > 4 * 96 and sheet.width > 8 * 96


def test_the_page_shows_the_published_result() -> None:
    folder = ROOT / "docs" / "results"
    result = json.loads((folder / "faces64" / "eight_bits.json").read_text())
    kl, lpips, bits = (result[name] for name in ("kl", "lpips_gt", "bits_per_dim"))
    assert result["images"] == 300 and result["n"] == 5 and result["unrounded"]

    def shown(estimate: dict[str, float], digits: int, factor: float = 1) -> str:
        return " ± ".join(short(factor * estimate[part], digits) for part in ("mean", "standard_error"))

    def mean(estimate: dict[str, float], digits: int) -> str:
        return short(estimate["mean"], digits)

    page = (folder / "faces64.md").read_text()
    for row in (
        f"{shown(lpips['16_bits'], 4)} | {shown(lpips['8_bits'], 4)} | {shown(lpips['relative_difference'], 2, 100)} %",
        " | ".join(mean(bits[name], 4) for name in ("16_bits", "8_bits", "difference")),
        f"| | | {shown(kl['nats'], 1)} |",
        f"| {shown(kl['to_prior'], 0)} | | |",
        f"| | | {mean(result['grey_levels'], 1)} |",
        f"| | | {mean(result['grey_levels_of_another_seed'], 1)} |",
        " MiB instead of ".join(short(result["bytes"][name] / 2**20, 1) for name in ("8_bits", "16_bits")),
    ):
        assert row in page, row


def test_bad_input_is_one_sentence(tmp_path: Path, noise32: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LPIPS, "load", lambda _: PixelDistance())
    for words, message in (
        (["--model", "faces46", "--data", noise32], "faces64"),
        (["--model", "faces64", "--data", noise32], "give data of this size"),
        (["--model", "shoes64", "--data", noise32, "--size", "64"], "was not trained to complete images with holes"),
        (["--model", "faces64", "--data", noise32, "--images", "1"], "number of images"),
    ):
        done = run("eight_bits.py", *words, "--out", tmp_path / "out")
        assert done.returncode == 2
        assert message in done.stderr and len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert not (tmp_path / "out").exists()
