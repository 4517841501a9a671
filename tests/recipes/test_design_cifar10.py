"""The example recipe for CIFAR-10, run on a few pictures of noise."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.baseline_models import baseline_file
from helpers.factor_worlds import linear_classifier
from helpers.models import small_translator
from helpers.recipe_calls import run
from PIL import Image
from torch import Tensor

from condvae import save
from condvae.completers.interface import Completer, paste_known
from condvae.data import Dataset, ImageSet, open_data
from condvae.design import Candidates, Random, scan
from condvae.design.avp_cnn.classifier_file import describe_classifier
from condvae.observe import Edges, Observation
from condvae.observe.observation import observe_levels
from condvae.runtime.pixels import from_uint8
from recipes import design_cifar10
from recipes.design_comparison import summarise

CPU = torch.device("cpu")
RECIPE = "design_cifar10.py"
QUICK = ("--steps", 2, "--batch", 4, "--images", 2, "--n", 2, "--points", 2, "--first-n", 3)


def pictures(folder: Path, *, labelled: bool = True) -> Path:
    folder.mkdir()
    rng = np.random.default_rng(0)
    for split, count in (("train", 30), ("test", 3)):
        arrays: dict[str, Any] = {"images": rng.integers(0, 256, (count, 32, 32, 3), dtype=np.uint8)}
        if labelled:
            arrays["labels"] = np.arange(count) % 10
        np.savez(folder / f"{split}.npz", **arrays)
    return folder


def test_it_trains_scans_and_draws(tmp_path: Path) -> None:
    data, out = pictures(tmp_path / "data"), tmp_path / "out"
    gan = baseline_file(tmp_path, "anp", size=32)
    others = ("--against", f"gan={gan}", "--training-images")
    done = run(RECIPE, "--data", data, "--out", out, "--scans", 2, "--drawn", 1, *others, *QUICK)
    assert done.returncode == 0, done.stderr
    files = ["classifier.safetensors", "panel.gif", "panel.png", "results.json"]
    assert sorted(path.name for path in out.iterdir()) == files
    config = describe_classifier(out / "classifier.safetensors").config
    assert (config.size, config.channels, config.names, config.outcomes) == (32, 3, ("class",), 10)
    with Image.open(out / "panel.gif") as gif:
        assert gif.n_frames == 2  # type: ignore[attr-defined]
    result = json.loads((out / "results.json").read_text())
    assert result["format"] == "condvae design cifar10" and result["options"]["against"] == [f"gan={gan}"]
    assert (result["images"], result["scans"], result["device"]) == (2, [0, 1, 2], "cpu")
    policies = result["policies"]
    names = ["eig-ipa", "eig-gan", "eig-training", "random"]
    assert list(policies) == names and list(result["differences"]) == [f"eig-ipa - {name}" for name in names[1:]]
    # Two possible images for each of two pictures, for the second scan; the first is the same for all pictures.
    assert [policies[name]["drawn"] for name in names] == [4, 4, 4, 0]
    assert all(policies[name]["seconds"] > policies[name]["drawing_seconds"] >= 0 for name in names)
    assert policies["eig-ipa"]["drawing_seconds"] > 0
    assert list(result["completers"]) == ["eig-ipa", "eig-gan"] and len(set(result["completers"].values())) == 2
    for key in ("accuracy", "log_score"):
        means = {name: policies[name][key]["mean"] for name in names}
        assert len({tuple(means[name][:2]) for name in names[:3]}) == 1  # the first scan is the same
        assert means["random"][0] == pytest.approx(means["eig-ipa"][0])  # nothing is known
    assert all(value < 0 for name in names for value in policies[name]["log_score"]["mean"])
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith(("eig-ipa  ", "random  "))]
    assert [row[0] for row in rows] == ["eig-ipa", "random"] * 2
    shown = [*policies["random"]["log_score"]["mean"], *result["whole"]["log_score"]["mean"]]
    assert rows[3][1:] == [f"{value:.2f}" for value in shown]
    file = out / "classifier.safetensors"
    again = run(RECIPE, "--data", data, "--out", out, "--classifier", file, "--scans", 1, *QUICK)
    assert "training" not in again.stdout
    later = json.loads((out / "results.json").read_text())["policies"]
    assert list(later) == ["eig-ipa", "random"]
    assert later["eig-ipa"]["log_score"]["mean"] == policies["eig-ipa"]["log_score"]["mean"][:2]  # seeded


def small_data(count: int = 3) -> Dataset:
    levels = np.random.default_rng(0).integers(0, 256, (count, 8, 8, 1), dtype=np.uint8)
    test = ImageSet(images=levels, labels=np.arange(count), rows=np.arange(count))
    return Dataset(kind="", train=test, validation=test, test=test, label_names=None, flips=False, skipped=())


def test_random_is_the_mean_of_twenty_tries() -> None:
    grid, g, data = Candidates.grid(8, side=2, points=4), linear_classifier(names=("class",)), small_data()
    options = design_cifar10.Options(scans=2, seed=5)
    same = {"eig-ipa": Random(candidates=grid)}
    scanned, whole, labels = design_cifar10.compare(options, data, g, grid, same, CPU)
    images, truth = data.test.take(np.arange(3)).images, torch.arange(3)[:, None, None].expand(3, 3, 1)
    tries = [scan(images, Random(candidates=grid), g, grid, steps=2, seed=seed).log_p for seed in range(5, 25)]
    scores = torch.stack([log_p[:, :, 0].gather(2, truth)[..., 0].mean(dim=0) for log_p in tries])
    assert scores.std(dim=0)[1:].min() > 0.1  # large enough for a smaller number of tries to fail this test
    policies = summarise(scanned, whole, labels)["policies"]
    assert policies["random"]["sequences"] == 20 and policies["eig-ipa"]["sequences"] == 1
    assert policies["random"]["log_score"]["mean"] == pytest.approx(scores.mean(dim=0).tolist())
    assert policies["eig-ipa"]["log_score"]["mean"] == pytest.approx(scores[0].tolist())


@dataclass(frozen=True, kw_only=True, eq=False)
class TrueOrNot:
    """Completes a picture with the true picture, then with its negative, and so on."""

    truth: Tensor
    name: str = "oracle"
    varies: bool = True

    def complete(self, observation: Observation, k: int, seed: int, *, places: Sequence[int] = ()) -> Tensor:
        both = torch.stack((self.truth[list(places)], 255 - self.truth[list(places)]), dim=1)
        return paste_known(observation, both[:, torch.arange(k) % 2])


def test_a_policy_uses_the_completions_of_its_own_model() -> None:
    """With two possible pictures, the best location has a closed form, which differs between the policies."""
    grid, g, data = Candidates.grid(8, side=2, points=4), linear_classifier(names=("class",)), small_data(6)
    truth = data.test.take(np.arange(6)).images
    worlds: dict[str, Completer] = {"ipa": TrueOrNot(truth=255 - truth.flip(0)), "gan": TrueOrNot(truth=truth)}
    options = design_cifar10.Options(n=2, first_n=4, training_images=True)
    policies = design_cifar10.policies_of(options, data, g, grid, worlds)
    assert list(policies) == ["eig-ipa", "eig-gan", "eig-training"]
    chosen = {name: scan(truth, policy, g, grid, steps=2).chosen for name, policy in policies.items()}
    for name, completer in worlds.items():
        for i in range(6):
            first = int(chosen[f"eig-{name}"][i, 0])
            assert first == int(chosen["eig-training"][0, 0])  # the same first scan for all pictures and policies
            known = grid.windows[first][None]
            seen = observe_levels(truth[i : i + 1], known)
            possible = from_uint8(completer.complete(seen, 2, 0, places=[i])[0])  # type: ignore[call-arg]
            gains = []
            for window in grid.windows:
                after = (known | window).expand(2, -1, -1, -1)
                p = g.log_posterior(torch.where(after, possible, 0.0), after)[:, 0].double().exp()
                gains.append(float(entropy(p.mean(dim=0)) - entropy(p).mean()))
            assert int(chosen[f"eig-{name}"][i, 1]) == int(np.argmax(gains))
    assert not torch.equal(chosen["eig-ipa"], chosen["eig-gan"])


def entropy(p: Tensor) -> Tensor:
    return -(p * p.log()).sum(dim=-1)


def test_a_model_with_one_answer_is_pointed_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = design_cifar10.Options(against=(f"ce={baseline_file(tmp_path, 'ce', size=32)}",))
    test = open_data(pictures(tmp_path / "data")).test
    found = design_cifar10.completers_of(options, test, CPU)
    assert list(found) == ["ipa", "ce"]
    (line,) = capsys.readouterr().out.splitlines()
    assert line == "eig-ce chooses at random: all completions of a picture by Context Encoder are equal"


def test_bad_input_is_one_sentence(tmp_path: Path) -> None:
    data, out = pictures(tmp_path / "data"), tmp_path / "out"
    unlabelled = pictures(tmp_path / "unlabelled", labelled=False)
    smaller, gan = baseline_file(tmp_path, "ce"), baseline_file(tmp_path, "anp", size=32)
    save(small_translator(Edges()), tmp_path / "edges.safetensors")
    for words, message in (
        (("--data", tmp_path / "none"), "does not exist"),
        (("--data", unlabelled), "no labels"),
        (("--data", data, "--scans", 0), "--scans is 0"),
        (("--data", data, "--drawn", 3), "expected a test picture from 0 to 2"),
        (("--data", data, "--model", "cifar01"), "cifar10"),
        (("--data", data, "--classifier", tmp_path / "none.safetensors"), "does not exist"),
        (("--data", data, "--points", 2, "--scans", 5), "--scans is 5, but 4 scans can cover all locations"),
        (("--data", data, "--model", "faces64"), "ipa makes images of 64 x 64 x 3, expected 32 x 32 x 3"),
        (("--data", data, "--against", "gan=nogan"), "unknown model 'nogan'"),
        (("--data", data, "--against", f"gan={smaller}"), "gan makes images of 16 x 16 x 3, expected 32 x 32 x 3"),
        (("--data", data, "--against", f"gan={gan}", f"gan={smaller}"), "two models are called gan"),
        (("--data", data, "--against", f"ipa={gan}"), "cannot be called ipa"),
        (("--data", data, "--against", tmp_path / "edges.safetensors"), "edges was not trained to complete images"),
        (("--data", data, "--device", "tpu"), "cannot be used"),
    ):
        done = run(RECIPE, "--out", out, "--scans", 2, *QUICK, *words)
        assert (done.returncode, len(done.stderr.strip().splitlines())) == (2, 1)
        assert message in done.stderr and "training" not in done.stdout
    assert not out.exists()
