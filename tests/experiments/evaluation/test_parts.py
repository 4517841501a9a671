"""What an evaluation has on disk survives kills, edits and company, and never mixes two subjects."""

import contextlib
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.evaluation_runs import FACES, deep_only, numbers, small_model, small_networks
from helpers.fixtures import HELPERS
from helpers.training import command, environment
from torch import Tensor

from condvae.data import Dataset, open_data
from condvae.experiments.evaluation import (
    EvaluationSettings,
    FeatureNetworks,
    Method,
    baselines,
    evaluate,
    methods_of,
    subject_of,
)
from condvae.experiments.evaluation.parts import FORMAT, Finals
from condvae.experiments.evaluation.plan import Family, mark_of
from condvae.experiments.resumable_work import Shard
from condvae.observe import Observation
from condvae.runtime.pixels import to_uint8

ALL: tuple[Family, ...] = ("inception", "pixels")


class Flat:
    """Paints holes in one grey level."""

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
    settings = EvaluationSettings(images=4, deep_images=2, k=2, metrics=metrics)
    networks = small_networks()
    found = evaluate(methods, data, out, settings=settings, networks=networks, say=lambda text: None)
    return dict(numbers(found)["methods"])


def test_numbers_of_two_subjects_of_one_name_are_never_mixed(tmp_path: Path, data: Dataset) -> None:
    black, white = Method.of(Flat("flat", 0)), Method.of(Flat("flat", 255))
    measured(data, tmp_path / "out", [black])
    measured(data, tmp_path / "out", [white], ("inception",))
    fillers = baselines(["mean"], data)
    assert set(measured(data, tmp_path / "out", fillers)["flat"]["metrics"]) == {"fid", "kid", "p_ids", "u_ids"}
    again = measured(data, tmp_path / "out", [white])
    assert again["flat"] == measured(data, tmp_path / "fresh", [white])["flat"]


def test_methods_of_an_older_model_of_the_same_name_are_left_out(tmp_path: Path, data: Dataset) -> None:
    model, said = small_model(), list[str]()

    def listed(methods: list[Method]) -> list[str]:
        said.clear()
        settings = EvaluationSettings(images=4, deep_images=2, k=2, metrics=("pixels",))
        found = evaluate(methods, data, tmp_path, settings=settings, networks=FeatureNetworks(), say=said.append)
        return sorted(numbers(found)["methods"])

    def ours(temperature: str) -> list[Method]:
        return methods_of(subject_of(model, "small"), [temperature], ["mean"], k=2)

    fillers = baselines(["mean"], data)
    old = ours("1")
    listed(old)
    assert listed(fillers) == ["small, t 1", "training mean"] and not any("left out" in line for line in said)
    with torch.no_grad():
        next(model.partial.parameters())[0] += 1e-3
    told = "left out: small, t 1, measured of another model or other images that went by the same name"
    assert listed(ours("0.5")) == ["small, t 0.5", "training mean"]
    assert said.count(told) == 1
    assert (
        listed(fillers) == ["small, t 0.5", "training mean"] and said.count(told) == 1
    )  # nor both when asked of others
    assert listed(old) == ["small, t 1", "training mean"]  # they are not lost
    fewer = open_data(FACES, validation=30)
    assert listed(baselines(["harmonic"], fewer)) == ["harmonic fill", "small, t 0.5"]


def test_a_part_that_is_another_ones_is_noticed(tmp_path: Path, data: Dataset) -> None:
    deep_only(data, tmp_path, shard=Shard(1, 1))
    one, other, *_ = sorted((tmp_path / "parts").rglob("*.safetensors"))
    shutil.copy(other, one)
    with pytest.raises(ValueError, match=f"{one.name} holds what was measured as .*/{other.stem}: remove it and run"):
        deep_only(data, tmp_path)
    one.unlink()
    assert numbers(deep_only(data, tmp_path)) == numbers(deep_only(data, tmp_path / "fresh"))


def test_a_name_that_an_older_one_has_taken_on_disk_is_refused(tmp_path: Path, data: Dataset) -> None:
    measured(data, tmp_path, [Method.of(Flat("a b", 0))])
    stored = {path.name: path.read_text() for path in (tmp_path / "methods").iterdir()}
    with pytest.raises(ValueError, match="has numbers of 'a b', too like 'a-b'"):
        measured(data, tmp_path, [Method.of(Flat("a-b", 0))])
    assert {path.name: path.read_text() for path in (tmp_path / "methods").iterdir()} == stored


def test_numbers_that_somebody_has_edited_are_measured_again(tmp_path: Path, data: Dataset) -> None:
    both, path = baselines(["mean", "harmonic"], data), tmp_path / "methods" / "training-mean.wide.json"
    whole = measured(data, tmp_path, both)
    text = path.read_text()
    stored = json.loads(text)
    for broken in (
        text[:300],
        "[" * 100_000,
        json.dumps({"format": FORMAT}),
        json.dumps({key: value for key, value in stored.items() if key != "name"}),
        json.dumps({**stored, "wide": None}),
        json.dumps({**stored, "made_of": 3}),
        json.dumps({**stored, "wide": {"common": stored["wide"]["common"]}}),
        json.dumps({**stored, "wide": {**stored["wide"], "metrics": {"fid": 3}}}),
    ):
        path.write_text(broken)
        other = measured(data, tmp_path, both[1:])
        assert other["harmonic fill"] == whole["harmonic fill"]
        assert measured(data, tmp_path, both) == whole


def test_kinds_do_not_overwrite_each_other(tmp_path: Path) -> None:
    """Two processes at once, one of which has read before the other wrote: nothing that is read is written again."""
    finals, identity = Finals(tmp_path), "subject"

    def section(kind: str) -> dict[str, Any]:
        return {"fingerprint": mark_of(kind, identity), "common": kind, "metrics": {}, "seconds": 0.0}

    class Slow(Finals):
        def read(self, slug: str) -> dict[str, Any]:
            found = super().read(slug)
            if "wide" not in found:  # the other process, in between
                finals.write(slug, {"name": "a"}, "wide", section("wide"), identity=identity)
            return found

    Slow(tmp_path).write("a", {"name": "a"}, "deep", section("deep"), identity=identity)
    assert finals.read("a") == {"format": FORMAT, "name": "a", "deep": section("deep"), "wide": section("wide")}
    finals.write("a", {"name": "a"}, "deep", {**section("deep"), "fingerprint": mark_of("deep", "b")}, identity="b")
    assert "wide" not in finals.read("a")  # of an older subject of that name
    assert finals.slugs() == ["a"]


def test_a_kill_while_the_report_is_written_is_made_good(tmp_path: Path, data: Dataset) -> None:
    fillers = baselines(["mean"], data)
    whole = measured(data, tmp_path, fillers)
    (tmp_path / "results.json").unlink()  # it is written after the other tables
    assert measured(data, tmp_path, fillers) == whole
    assert (tmp_path / "results.json").is_file()


def test_what_kills_have_left_goes_and_what_others_write_now_stays(tmp_path: Path, data: Dataset) -> None:
    measured(data, tmp_path, baselines(["mean"], data))
    (truth,) = (tmp_path / "parts").iterdir()
    places = (tmp_path, tmp_path / "methods", truth)
    for folder in places:
        for name in (".a.part", ".b.part"):
            (folder / name).write_text("half of a fi")
        os.utime(folder / ".a.part", 2 * (time.time() - 7200,))
    measured(data, tmp_path, baselines(["mean"], data))
    for folder in places:
        assert not (folder / ".a.part").exists() and (folder / ".b.part").exists()


def test_two_processes_that_were_told_the_same(tmp_path: Path) -> None:
    script = HELPERS / "evaluation_runs.py"
    out = tmp_path / "out"
    given: dict[str, Any] = {"env": environment(), "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with contextlib.ExitStack() as stack:
        both = [stack.enter_context(subprocess.Popen(command(out, script=script), **given)) for _ in range(2)]
        printed = [process.communicate(timeout=300)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], "\n".join(printed)
    assert [path.name.split("-truth-")[0] for path in (out / "parts").iterdir()] == ["test-images"]
    assert len(json.loads((out / "results.json").read_text())["methods"]) == 6


def test_a_full_disk_is_one_sentence(tmp_path: Path, data: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, *rest: Any, **options: Any) -> None:
        raise OSError(28, "No space left on device")

    fillers = baselines(["mean"], data)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", full)
        with pytest.raises(ValueError, match=r"json cannot be written \(No space left on device\): make room"):
            measured(data, tmp_path, fillers)
    assert not list((tmp_path / "methods").iterdir())
    assert measured(data, tmp_path, fillers) == measured(data, tmp_path / "fresh", fillers)
