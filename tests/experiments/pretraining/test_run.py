"""Invalid input is refused before anything is written, and different inputs never share results."""

from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from helpers.pretraining_runs import (
    SMALL,
    artifact,
    inputs,
    small_data,
    small_experiment,
)
from helpers.resumed_runs import planned

from condvae.experiments.pretraining.measure import PretrainingContext
from condvae.experiments.resumable_work import ResultStore, Shard, WorkUnit
from condvae.runtime.ranks import World
from condvae.vdvae import presets


def refused(tmp_path: Path, words: str, **options: Any) -> None:
    with pytest.raises(ValueError, match=words) as error:
        small_experiment(tmp_path / "out", **options)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"artifacts": {}}, "no artifact was given, expected at least one"),
        ({"artifacts": {"scratch": "cifar10"}}, "an artifact cannot be called 'scratch'"),
        ({"artifacts": {"ipa": "nowhere.safetensors"}}, "nowhere.safetensors"),
        ({"world": World(0, 2, torch.device("cpu"))}, "cannot run under torchrun: run one process for each shard"),
        (
            {"change": {"validation": 21}},
            "has 3 training images beside the 21 for validation, but a batch has 4: ",
        ),
        ({"change": {"batch": 21}}, "has 20 training images beside the 4 for validation, but a batch has 21"),
        ({"change": {"validation": 24}}, "24 cannot be held out for validation: give --validation a number below 24"),
        ({"change": {"images": 18}}, "has 17 test images, but --images is 18: give more test images, or --images 17"),
        ({"change": {"conditions": ("grey", "grau")}}, "grau"),
        ({"change": {"conditions": ("edges",)}}, "--conditions contains edges, expected grey, low-resolution or label"),
        ({"change": {"preset": "demo"}}, "makes images of 8 x 8 x 3, but the network demo32 makes 32 x 32 x 3"),
    ],
)
def test_refusals(tmp_path: Path, options: dict[str, Any], words: str) -> None:
    refused(tmp_path, words, **options)


def test_data_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    data = small_data(tmp_path / "large", size=16)
    refused(tmp_path, "the data has images of 16 x 16 x 3, but the network tiny makes 8 x 8 x 3", data=data)
    data = small_data(tmp_path / "unlabelled", labelled=False)
    refused(tmp_path, "the data has no labels for the condition label,classes=10: leave it out", data=data)
    with pytest.raises(ValueError, match="is inside"):
        small_experiment(data / "out", data=data)
    assert not (data / "out").exists()


def test_a_likelihood_without_known_information_is_refused(tmp_path: Path) -> None:
    with mock.patch.dict(presets._OURS_BY_NAME):
        del presets._OURS_BY_NAME["tiny"]  # now the likelihood is a mixture of logistics
        given = {"ipa": artifact(tmp_path / "vae.safetensors")}
        refused(tmp_path, "the condition grey needs Gaussian pixels, but .* is logistic_mixture", artifacts=given)


def test_a_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    with pytest.raises(ValueError, match=r"contains notes.txt, which was not written by an experiment on pretraining"):
        small_experiment(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_results_with_different_inputs_are_never_mixed(tmp_path: Path) -> None:
    seen: set[str] = set()
    ipa, transfer = inputs().artifacts.values()

    def folders(**options: Any) -> set[str]:
        given = {"artifacts": {"ipa": ipa}, **options, "change": {"seeds": 1, **options.get("change", {})}}
        with planned("condvae.experiments.pretraining.run") as asked:
            small_experiment(tmp_path, **given)
        new = {name.rpartition("-")[0] for name in asked if name not in seen}
        seen.update(asked)
        return new

    names = ("grey", "label-classes=10")
    scratch, ours, paces = (
        {f"{arm}-{name}{end}" for name in ("", *(f"{name}-" for name in names)) for end in ends}
        for arm, ends in (("scratch", ("pace", "seed-0")), ("ipa", ("seed-0",)), ("artifact", ("pace",)))
    )
    information = {f"information-{name}" for name in names}
    assert folders() == scratch | ours | paces | information
    assert folders() == set()
    assert folders(change={"pace_steps": 9}) == set()
    assert folders(change={"seeds": 2}) == {"scratch-seed-1", "ipa-seed-1"}
    assert folders(change={"steps": (2, 5)}) == {"ipa-seed-0"}
    assert folders(change={"lr": 0.5}) == folders(change={"batch": 5}) == scratch | ours | paces
    assert folders(change={"seed": 1}) == information  # trained the same way, but measured with other noise
    assert folders(artifacts={"ipa": transfer}) == ours | information  # of other weights, but as fast
    assert folders(artifacts={"ipa": ipa, "transfer": transfer}) == {"transfer-seed-0"}
    other = small_data(tmp_path.parent / f"{tmp_path.name}-data", train=25)
    assert folders(data=other) == scratch | ours | paces


def planned_units(out: Path, shard: Shard) -> list[tuple[str, str]]:
    """The folder and the name of each result that a shard would compute, in order."""
    found: list[tuple[str, str]] = []

    def put(store: ResultStore, unit: object, *_: object, **__: object) -> None:
        found.append((store.folder.name, str(unit)))

    nothing: dict[str, Any] = {name: lambda *_: {} for name in ("train", "snapshot", "information")}
    with (
        mock.patch.object(WorkUnit, "done", False),
        mock.patch.object(ResultStore, "put", put),
        mock.patch.multiple(PretrainingContext, **nothing),
    ):
        small_experiment(out, shard=shard)
    return found


def test_one_process_gets_all_units_of_a_training(tmp_path: Path) -> None:
    done = [planned_units(tmp_path, Shard(number, 3)) for number in (1, 2, 3)]
    every = [unit for units in done for unit in units]
    assert len(every) == len(set(every)) == 16 + 18 + 2  # trainings, snapshots, and the information of two conditions
    groups = [
        {place for place, unit in planned_units(tmp_path, Shard(number, 16)) if unit != "information"}
        for number in range(1, 17)
    ]
    assert all(len(group) == 1 for group in groups) and len(set().union(*groups)) == 16  # a shard for each training
    for units in done:
        assert len(units) > 6
        for i, (place, unit) in enumerate(units):  # the training comes before its snapshots, in the same process
            assert unit in ("training", "information") or (place, "training") in units[:i]


def test_the_pace_is_measured_first(tmp_path: Path) -> None:
    said: list[str] = []
    change = {"conditions": (), "seeds": 1}
    assert small_experiment(tmp_path, change=change, pace_only=True, say=said.append) is None
    assert {path.name.rpartition("-")[0] for path in (tmp_path / "runs").iterdir()} == {"artifact-pace", "scratch-pace"}
    assert not list(tmp_path.rglob("snapshots")) and not (tmp_path / "results.json").exists()
    assert f"scratch, pace: training: {4 * SMALL['pace_steps']} images" in " ".join(said)  # in batches of 4
