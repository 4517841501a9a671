"""Files of an evaluation survive kills, edits and concurrent processes, and results of two subjects are never mixed."""

from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.evaluation_runs import FACES, deep_only, numbers, small_model, small_networks, units_in
from torch import Tensor

from condvae.data import Dataset, open_data
from condvae.experiments.evaluation import (
    EvaluationSettings,
    FeatureNetworks,
    Method,
    baselines,
    experiment,
    methods_of,
    subject_of,
    summary,
)
from condvae.experiments.evaluation.plan import Family
from condvae.experiments.resumable_work import ResultStore
from condvae.observe import Observation
from condvae.runtime.pixels import to_uint8

ALL: tuple[Family, ...] = ("inception", "pixels")


class Flat:
    """Fills holes with one grey level."""

    varies = False

    def __init__(self, name: str, level: int) -> None:
        self.name, self.level, self.identity = name, level, f"flat {level}"

    def complete(self, observation: Observation, k: int, seed: int) -> Tensor:
        assert observation.known is not None and observation.pixels is not None
        return torch.where(observation.known, to_uint8(observation.pixels), self.level)[:, None].to(torch.uint8)


@pytest.fixture(scope="module")
def data() -> Dataset:
    return open_data(FACES)


def measured(data: Dataset, out: Path, methods: list[Method], metrics: tuple[Family, ...] = ALL) -> dict[str, Any]:
    settings = EvaluationSettings(images=4, deep_images=2, n=2, metrics=metrics)
    networks = small_networks()
    found = experiment(methods, data, out, settings=settings, networks=networks, say=lambda text: None)
    return dict(numbers(found)["methods"])


def test_parts_that_a_killed_call_did_not_delete_are_deleted_by_the_next(tmp_path: Path, data: Dataset) -> None:
    deep_only(data, tmp_path, methods=baselines(["mean"], data), keep_parts=True)
    assert len(units_in(tmp_path)) == 5
    deep_only(data, tmp_path, methods=baselines(["mean"], data))
    assert units_in(tmp_path) == []


def test_results_of_two_subjects_of_one_name_are_never_mixed(tmp_path: Path, data: Dataset) -> None:
    black, white = Method.of(Flat("flat", 0)), Method.of(Flat("flat", 255))
    measured(data, tmp_path / "out", [black])
    measured(data, tmp_path / "out", [white], ("inception",))
    simple = baselines(["mean"], data)
    assert set(measured(data, tmp_path / "out", simple)["flat"]["metrics"]) == {
        *("fid", "cfid", "kid", "p_ids", "u_ids")
    }
    again = measured(data, tmp_path / "out", [white])
    assert again["flat"] == measured(data, tmp_path / "fresh", [white])["flat"]


def test_methods_of_an_older_model_of_the_same_name_are_left_out(tmp_path: Path, data: Dataset) -> None:
    model, said = small_model(), list[str]()

    def listed(methods: list[Method]) -> list[str]:
        said.clear()
        settings = EvaluationSettings(images=4, deep_images=2, n=2, metrics=("pixels",))
        found = experiment(methods, data, tmp_path, settings=settings, networks=FeatureNetworks(), say=said.append)
        return sorted(numbers(found)["methods"])

    def ours(temperature: str) -> list[Method]:
        return methods_of(subject_of(model, "small"), [temperature], ["mean"], k=2)

    simple = baselines(["mean"], data)
    old = ours("1")
    listed(old)
    assert listed(simple) == ["small, t 1", "training mean"] and not any("left out" in line for line in said)
    with torch.no_grad():
        next(model.partial.parameters())[0] += 1e-3
    told = "left out of the report: small, t 1, measured with another model or other images of the same name"
    assert listed(ours("0.5")) == ["small, t 0.5", "training mean"]
    assert said.count(told) == 1
    assert (
        listed(simple) == ["small, t 0.5", "training mean"] and said.count(told) == 1
    )  # also if only a baseline is requested
    assert listed(old) == ["small, t 1", "training mean"]  # the old results are still stored
    fewer = open_data(FACES, validation=30)
    assert listed(baselines(["harmonic"], fewer)) == ["harmonic fill", "small, t 0.5"]


def test_names_that_differ_only_in_punctuation_are_kept_apart(tmp_path: Path, data: Dataset) -> None:
    one = measured(data, tmp_path, [Method.of(Flat("a b", 0))])
    other = measured(data, tmp_path, [Method.of(Flat("a-b", 255))])
    assert list(other) == ["a-b", "a b"] and other["a b"] == one["a b"] != other["a-b"]
    assert list(measured(data, tmp_path, [Method.of(Flat("a-b", 0))])) == [
        "a-b"
    ]  # the same completer under another name


def test_damaged_final_numbers_are_measured_again(tmp_path: Path, data: Dataset) -> None:
    both = baselines(["mean", "harmonic"], data)
    whole = measured(data, tmp_path, both)
    (path,) = (tmp_path / "parts").glob("training-mean-wide-*/final.safetensors")
    (other,) = (tmp_path / "parts").glob("harmonic-fill-wide-*/final.safetensors")
    stored = path.read_bytes()
    for broken in (stored[:300], b"", stored.replace(b"fid", b"fix"), other.read_bytes()):
        path.write_bytes(broken)
        found = measured(data, tmp_path, both[1:])
        assert found["harmonic fill"] == whole["harmonic fill"]
        assert measured(data, tmp_path, both) == whole
        assert [file.name for file in path.parent.iterdir()] == ["final.safetensors"]


def test_a_folder_of_an_older_version_is_rejected(tmp_path: Path, data: Dataset) -> None:
    (tmp_path / "methods").mkdir()
    with pytest.raises(
        ValueError, match="was written by an older condvae that averaged bits differently: choose another --out"
    ):
        measured(data, tmp_path, baselines(["mean"], data))


@pytest.mark.parametrize("at", [(ResultStore, "put"), (summary, "of_features")], ids=["work", "final numbers"])
def test_two_processes_with_the_same_work(
    tmp_path: Path, data: Dataset, monkeypatch: pytest.MonkeyPatch, at: tuple[Any, str]
) -> None:
    """The other process does everything, and deletes parts, while this one is at its first unit or final numbers."""
    simple, out, other = baselines(["mean", "random"], data), tmp_path / "out", list[Any]()
    own = getattr(*at)

    def meanwhile(*given: Any, **options: Any) -> Any:
        if not other:
            other.append(None)
            other[0] = measured(data, out, simple)
        return own(*given, **options)

    monkeypatch.setattr(*at, meanwhile)
    assert measured(data, out, simple) == other[0] == measured(data, tmp_path / "fresh", simple)
    assert {path.parent.name.rpartition("-")[0] for path in units_in(out)} == {
        *("test-images-truth", "test-images-observed")
    }


def test_a_full_disk_gives_a_short_error(tmp_path: Path, data: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, *rest: Any, **options: Any) -> None:
        raise OSError(28, "No space left on device")

    simple = baselines(["mean"], data)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", full)
        with pytest.raises(ValueError, match=r"csv cannot be written \(No space left on device\): check the folder"):
            measured(data, tmp_path, simple)
    assert not (tmp_path / "results.json").exists()
    assert measured(data, tmp_path, simple) == measured(data, tmp_path / "fresh", simple)
