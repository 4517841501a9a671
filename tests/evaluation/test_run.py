"""One evaluation in one sitting, killed and taken up again, shared out, cut otherwise: the same numbers."""

import json
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from evaluation_runs import BLOCKS, FACES, SMALL, numbers, small_methods, small_networks, small_subject
from torch import Tensor
from training import command, environment

from condvae.data import Dataset, open_data
from condvae.evaluation import (
    Blocks,
    Judged,
    Method,
    Networks,
    Problems,
    Settings,
    Shard,
    baselines,
    evaluate,
    settings_of,
)
from condvae.evaluation.plan import COLUMNS
from condvae.observe import Observation

SCRIPT = Path(__file__).parents[1] / "evaluation_runs.py"


@pytest.fixture(scope="module")
def data() -> Dataset:
    return open_data(FACES)


@pytest.fixture(scope="module")
def subject() -> Judged:
    return small_subject()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("evaluation") / "whole"


@pytest.fixture(scope="module")
def whole(folder: Path, data: Dataset, subject: Judged) -> dict[str, Any]:
    result = evaluate(
        small_methods(subject, data),
        data,
        folder,
        settings=SMALL,
        networks=small_networks(),
        models=[subject],
        blocks=BLOCKS,
        say=lambda text: None,
    )
    assert result is not None
    return result


class Truth:
    """Cheats: is told the answers."""

    name = "truth"
    varies = True

    def __init__(self, problems: Problems) -> None:
        self.problems = problems

    def complete(self, observation: Observation, k: int, seed: int, *, places: Sequence[int] = ()) -> Tensor:
        images = self.problems.test.take(self.problems.rows[list(places)]).images
        return images[:, None].expand(-1, k, -1, -1, -1)


def test_every_method_is_measured_in_every_bin(whole: dict[str, Any]) -> None:
    assert list(whole["methods"]) == [
        *("small, t 1", "small, t 8:0.5", "training mean", "random training image"),
        *("nearest training images", "harmonic fill"),
    ]
    for name, found in whole["methods"].items():
        varies = name not in ("training mean", "harmonic fill")
        assert found["k"] == (4 if varies else 1)
        assert {"fid", "kid", "p_ids", "u_ids", "lpips_gt", "fwv@0.2", "best_mse", "ssim_of_mean"} < set(
            found["metrics"]
        )
        for columns in found["metrics"].values():
            assert tuple(columns) == COLUMNS
        gt = {metric: [cell["mean"] for cell in found["metrics"][metric].values()] for metric in found["metrics"]}
        assert gt["lpips_gt"] == gt["lpips_gt@4"]
        for more, fewer in (("lpips_gt@4", "lpips_gt@2"), ("lpips_gt@2", "lpips_gt@1")):
            assert all(a <= b for a, b in zip(gt[more], gt[fewer], strict=True))
        assert (gt["lpips_gt"][5] < gt["lpips_gt@1"][5]) == varies
        assert gt["lpips_gt"][5] == pytest.approx(sum(gt["lpips_gt"][:5]) / 5)
        assert gt["lpips_gt"][0] < gt["lpips_gt"][4]
        assert all((cell > 0) == varies for cell in gt["lpips_diversity"])
        assert found["coverage"]["white"]["mixture"]["images"] == 4
    bounds = whole["models"]["small"]["metrics"]
    assert tuple(bounds["forward_kl_nats_per_dim"]) == tuple(bounds["unknown_bits_per_dim"]) == COLUMNS
    for column in COLUMNS:
        assert bounds["unknown_bits_per_dim@16"][column]["mean"] < bounds["unknown_bits_per_dim"][column]["mean"]
    assert list(bounds["bits_per_dim"]) == ["all"]
    assert whole["models"]["small"]["training_minutes"] == {"partial encoder": 3.5, "VAE": 10.0}


def test_a_method_that_gives_one_answer_is_overconfident(whole: dict[str, Any]) -> None:
    for name in ("training mean", "harmonic fill"):
        coverage = whole["methods"][name]["coverage"]["white"]["mixture"]
        assert coverage["verdict"] == "overconfident"
        assert coverage["coverage"][49] == 0.0  # four copies of one answer have no middle that holds half of them


def test_a_folder_holds_the_report_and_no_bulk(folder: Path, whole: dict[str, Any]) -> None:
    assert {path.name for path in folder.iterdir()} == {
        *("results.json", "results.csv", "results.md", "metrics.png", "coverage.png", "methods", "parts")
    }
    (kept,) = (folder / "parts").iterdir()  # features of the test images: who comes later needs them again
    assert kept.name.startswith("test-images-truth-")
    assert json.loads((folder / "results.json").read_text()) == whole


def test_killed_and_taken_up_again(tmp_path: Path, whole: dict[str, Any]) -> None:
    out = tmp_path / "killed"
    process = subprocess.Popen(
        command(out, script=SCRIPT), env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT
    )
    until = time.monotonic() + 120
    while len(list(out.rglob("*.safetensors"))) < 20:
        assert process.poll() is None and time.monotonic() < until
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (out / "results.json").exists()
    done = subprocess.run(
        command(out, script=SCRIPT), env=environment(), capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "units of work are done already" in done.stdout
    assert numbers(json.loads((out / "results.json").read_text())) == numbers(whole)
    assert len(list((out / "parts").iterdir())) == 1  # what the kill has left half-written is gone too


def test_two_ranks(tmp_path: Path, whole: dict[str, Any]) -> None:
    out = tmp_path / "ranks"
    done = subprocess.run(
        command(out, script=SCRIPT, ranks=2),
        env=environment(),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert numbers(json.loads((out / "results.json").read_text())) == numbers(whole)


def deep_only(data: Dataset, out: Path, **options: Any) -> dict[str, Any] | None:
    """The quickest of evaluations, that of the fillers."""
    settings = Settings(images=8, deep_images=4, k=4, metrics=("lpips", "coverage"))
    given: dict[str, Any] = {"settings": settings, "networks": small_networks(), "blocks": BLOCKS, **options}
    methods = given.pop("methods", None) or baselines(["mean", "random", "nearest"], data)
    return evaluate(methods, data, out, say=lambda text: None, **given)


def test_shards_that_know_nothing_of_each_other(tmp_path: Path, data: Dataset) -> None:
    for number in (3, 1, 2):
        assert deep_only(data, tmp_path / "shards", shard=Shard(number, 3)) is None
    assert not (tmp_path / "shards" / "results.json").exists()
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "shards").rglob("*.safetensors")}
    joined = deep_only(data, tmp_path / "shards", keep_parts=True)
    after = {path: path.stat().st_mtime_ns for path in (tmp_path / "shards").rglob("*.safetensors")}
    assert before == after  # nothing was measured twice, and --keep-parts keeps
    assert numbers(joined) == numbers(deep_only(data, tmp_path / "whole"))


def test_other_blocks(tmp_path: Path, data: Dataset, subject: Judged, whole: dict[str, Any]) -> None:
    ours = settings_of(subject, ["1"], ["mean"], k=SMALL.k)
    methods = [*ours, *baselines(["random"], data)]
    again = evaluate(
        methods, data, tmp_path, settings=SMALL, networks=small_networks(), blocks=Blocks(wide=8, deep=3), say=_silent
    )
    for method in methods:
        mine, theirs = numbers(again)["methods"][method.name], numbers(whole)["methods"][method.name]
        for metric, columns in mine["metrics"].items():
            for column, cell in columns.items():
                expected = theirs["metrics"][metric][column]
                assert cell["mean"] == pytest.approx(expected["mean"], rel=1e-3, abs=1e-6), (method.name, metric)


def test_a_method_added_later_is_all_that_is_measured(tmp_path: Path, data: Dataset) -> None:
    first = deep_only(data, tmp_path, methods=baselines(["random"], data))
    stored = (tmp_path / "methods" / "random-training-image.json").stat().st_mtime_ns
    both = deep_only(data, tmp_path, methods=baselines(["mean"], data))
    assert (tmp_path / "methods" / "random-training-image.json").stat().st_mtime_ns == stored
    found = numbers(both)["methods"]
    assert list(found) == ["training mean", "random training image"]
    assert found["random training image"] == numbers(first)["methods"]["random training image"]


@pytest.mark.parametrize("change", [{"k": 3}, {"seed": 1}, {"deep_images": 3}, {"images": 9}])
def test_a_changed_option_never_mixes_with_old_numbers(tmp_path: Path, data: Dataset, change: dict[str, int]) -> None:
    before = deep_only(data, tmp_path, methods=baselines(["random", "mean"], data), keep_parts=True)
    options: dict[str, Any] = {"images": 8, "deep_images": 4, "k": 4, "metrics": ("lpips", "coverage"), **change}
    settings = Settings(**options)
    after = deep_only(data, tmp_path, methods=baselines(["random"], data), settings=settings)
    assert list(numbers(after)["methods"]) == ["random training image"]  # the mean was measured otherwise
    fresh = deep_only(data, tmp_path / "fresh", methods=baselines(["random"], data), settings=settings)
    assert numbers(after) == numbers(fresh)
    assert numbers(after)["methods"] != numbers(before)["methods"]


def test_another_network_never_mixes_with_old_numbers(tmp_path: Path, data: Dataset) -> None:
    from lpips_networks import random_lpips

    before = deep_only(data, tmp_path)
    after = deep_only(data, tmp_path, networks=Networks(lpips=random_lpips(1)))
    assert numbers(after)["methods"].keys() == numbers(before)["methods"].keys()
    assert numbers(after) != numbers(before)


def test_the_truth_is_the_best_there_is(tmp_path: Path, data: Dataset) -> None:
    settings = Settings(images=8, deep_images=4, k=2, metrics=("inception", "lpips", "pixels"))
    cheat = Method.of(Truth(Problems.choose(data, settings)))
    result = evaluate([cheat], data, tmp_path, settings=settings, networks=small_networks(), say=_silent)
    metrics = numbers(result)["methods"]["truth"]["metrics"]
    for column in COLUMNS:
        assert metrics["lpips_gt"][column] == {"mean": 0.0, "standard_error": 0.0}
        assert metrics["best_mse"][column]["mean"] == 0
        assert metrics["psnr_of_mean"][column]["mean"] == 100
        assert metrics["fid"][column]["mean"] < 1e-6
        assert metrics["p_ids"][column]["mean"] == 0  # nothing looks more real than itself
        assert metrics["u_ids"][column]["mean"] == 0.5


def test_every_method_is_given_the_same_holes_and_the_set_of_the_mixture_has_each_image_once(
    tmp_path: Path, data: Dataset
) -> None:
    seen: dict[str, list[tuple[tuple[int, ...], int, Tensor]]] = {}

    class Grey:
        varies = False

        def __init__(self, name: str) -> None:
            self.name = name

        def complete(self, observation: Observation, k: int, seed: int, *, places: Sequence[int] = ()) -> Tensor:
            assert observation.known is not None and observation.pixels is not None
            seen.setdefault(self.name, []).append((tuple(places), k, observation.known))
            grey = torch.full_like(observation.pixels, 128).to(torch.uint8)
            levels = ((observation.pixels + 1) * 127.5).round().to(torch.uint8)
            return torch.where(observation.known, levels, grey)[:, None]

    settings = Settings(images=8, deep_images=4, k=3, metrics=("inception", "pixels"))
    methods = [Method.of(Grey("one")), Method.of(Grey("other"))]
    result = evaluate(methods, data, tmp_path, settings=settings, networks=small_networks(), say=_silent)
    assert numbers(result)["methods"]["one"] == numbers(result)["methods"]["other"]
    for (places, k, known), (other_places, other_k, other_known) in zip(seen["one"], seen["other"], strict=True):
        assert (places, k) == (other_places, other_k)
        assert torch.equal(known, other_known)
    hidden = [1 - known.float().mean(dim=(1, 2, 3)) for _, _, known in seen["one"]]
    for i in range(5):  # deep first, then wide: bin after bin
        for shares in (hidden[i], hidden[5 + i]):
            assert ((shares > 0.2 * i) & (shares < 0.2 * (i + 1))).all()
    # Images of the deep measurement have the holes that they have in the wide one.
    deep, wide = seen["one"][2], seen["one"][7]
    assert torch.equal(deep[2], wide[2][list(deep[0])])


def test_a_completer_that_knows_nothing_of_places_is_measured(tmp_path: Path, data: Dataset) -> None:
    class Simple:
        name = "simple"
        varies = True

        def complete(self, observation: Observation, k: int, seed: int) -> Tensor:
            assert observation.known is not None and observation.pixels is not None
            levels = ((observation.pixels + 1) * 127.5).round()[:, None]
            dice = torch.Generator().manual_seed(seed)
            noise = torch.randint(256, (len(observation), k, *levels.shape[2:]), generator=dice)
            return torch.where(observation.known[:, None], levels, noise).to(torch.uint8)

    settings = Settings(images=8, deep_images=4, k=3, metrics=("pixels",))
    result = evaluate([Method.of(Simple())], data, tmp_path, settings=settings, networks=Networks(), say=_silent)
    mse = numbers(result)["methods"]["simple"]["metrics"]["best_mse"]
    assert mse["0-0.2"]["mean"] < mse["0.8-1"]["mean"]


class _Forgetful:
    """Does not keep what is known."""

    name, varies = "forgetful", False

    def complete(self, observation: Observation, k: int, seed: int) -> Tensor:
        return torch.zeros(len(observation), k, 3, 32, 32, dtype=torch.uint8)


def test_a_method_that_changes_known_pixels_is_refused(tmp_path: Path, data: Dataset) -> None:
    settings = Settings(images=8, deep_images=4, k=3, metrics=("pixels",))
    with pytest.raises(ValueError, match="forgetful has changed known pixels of image 0"):
        evaluate([Method.of(_Forgetful())], data, tmp_path, settings=settings, networks=Networks(), say=_silent)
    assert not (tmp_path / "results.json").exists()


def test_what_cannot_be_measured_is_refused_before_anything_is(tmp_path: Path, data: Dataset, subject: Judged) -> None:
    fillers, networks = baselines(["mean"], data), small_networks()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("mine")
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "results.json").write_text("{}")
    (tmp_path / "file").write_text("")
    for methods, out, given, message in (
        (fillers, "other", networks, "thesis.tex, which is not from an evaluation"),
        (fillers, "results", networks, "results.json is not from an evaluation"),
        (fillers, "file", networks, "is a file"),
        (fillers, "new", Networks(lpips=networks.lpips), "condvae fetch metrics"),
        (fillers, "new", Networks(inception=networks.inception), "condvae fetch metrics"),
        (fillers * 2, "new", networks, "two methods are called"),
        ([], "new", networks, "nothing to measure"),
    ):
        with pytest.raises(ValueError, match=message):
            evaluate(methods, data, tmp_path / out, settings=SMALL, networks=given, say=_silent)
    small = open_data(FACES, size=16)
    with pytest.raises(ValueError, match="16 x 16 x 3, small makes 32 x 32 x 3: give data of its kind, or --size 32"):
        evaluate([], small, tmp_path / "new", settings=SMALL, networks=networks, models=[subject], say=_silent)
    with pytest.raises(ValueError, match="LPIPS needs 31"):
        evaluate(baselines(["mean"], small), small, tmp_path / "new", settings=SMALL, networks=networks, say=_silent)
    assert not (tmp_path / "new").exists()
    assert (tmp_path / "other" / "thesis.tex").read_text() == "mine"


def test_parts_that_are_missing_at_the_end_are_an_error(tmp_path: Path, data: Dataset) -> None:
    deep_only(data, tmp_path, shard=Shard(1, 2))
    damaged = next((tmp_path / "parts").rglob("*.safetensors"))
    damaged.write_bytes(damaged.read_bytes()[:-1])
    with pytest.raises(ValueError, match="remove it and run once more"):
        deep_only(data, tmp_path)
    damaged.unlink()
    assert numbers(deep_only(data, tmp_path)) == numbers(deep_only(data, tmp_path / "fresh"))


def _silent(text: str) -> None:
    pass
