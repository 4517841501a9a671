"""With a translation as the main condition, all test images are used, and they are measured with all their edges."""

import functools
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.fixtures import HELPERS
from helpers.pretraining_runs import (
    ALONE,
    TEST,
    inputs,
    numbers,
    small_data,
    small_networks,
    small_presets,
    small_settings,
)
from helpers.resumed_runs import computed_once, kill_and_repeat, times, uninterrupted
from helpers.translation_runs import EDGES, edges_experiment
from PIL import Image
from safetensors.torch import load_file
from torch import Tensor

from condvae import weights
from condvae.data import open_data
from condvae.experiments.pretraining import figures, tables
from condvae.experiments.pretraining.measure import PretrainingContext
from condvae.experiments.resumable_work import Shard
from condvae.metrics import conditional_nats, fid, kid
from condvae.observe import Edges
from condvae.observe.batch import Batch
from condvae.runtime.seeds import Seeds
from condvae.sampling.sampler import Sampler

NAMES = ["bits_per_dim", "fid", "kid", "lpips_gt", "diversity"]


@pytest.fixture(scope="session")
def computed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    run = functools.partial(uninterrupted, edges_experiment, figures)
    with small_presets():
        return computed_once(tmp_path_factory, "translation", run)


def run_folder(folder: Path, name: str) -> Path:
    (found,) = (folder / "runs").glob(f"{name}-{24 * '[0-9a-f]'}")
    return found


def snapshot(folder: Path, arm: str, step: int) -> Path:
    return run_folder(folder, f"{arm}-edges-gaps=3-seed-0") / f"training/snapshots/step-{step:09}.safetensors"


def results(folder: Path) -> dict[str, dict[str, Any]]:
    """The numbers of every snapshot."""
    return {
        str(path.relative_to(folder)): {name: values.tolist() for name, values in load_file(path).items()}
        for path in folder.glob("runs/*/step-*.safetensors")
    }


def test_numbers_are_those_of_single_images_with_all_their_edges(folder: Path) -> None:
    place = run_folder(folder, "ipa-edges-gaps=3-seed-0")
    (path,) = place.glob("step-000000004-*")
    found = load_file(path)
    model = weights.load_conditional(snapshot(folder, "ipa", 4))
    test, networks = open_data(inputs().data).test, small_networks()
    assert networks.inception is not None
    real, fake, nats, nearest, apart = [], [], [], [], []
    deep = (np.arange(6) * TEST // 6).tolist()
    for i in range(TEST):
        images = test.take(np.array([i]))
        batch = images.batch()
        observation = Edges().observe(batch, normalise=model.artifact.normalise, generator=torch.Generator())
        noise = [Seeds(0, "bounds")(i)]
        nats.append(float(conditional_nats(model, batch.x, observation, noise=noise).whole.native))
        made = Sampler(model)(observation, 4, seed=0, places=[i])[0]
        real.append(networks.inception.features(images.images))
        fake.append(networks.inception.features(made[:1]))
        if i in deep:
            levels = made.float() / 127.5 - 1
            nearest.append(float((levels - batch.x).square().sum(dim=(1, 2, 3)).min()))
            apart.append(float((levels[::2] - levels[1::2]).square().sum(dim=(1, 2, 3)).mean()))
    assert found["nats"].tolist() == pytest.approx(nats, rel=1e-5)
    assert found["lpips_gt"].tolist() == pytest.approx(nearest, rel=1e-4)
    assert found["diversity"].tolist() == pytest.approx(apart, rel=1e-4) and min(apart) > 0
    wanted = fid(torch.cat(real), torch.cat(fake), paired=True)
    assert found["fid"].tolist() == pytest.approx([wanted.mean, wanted.standard_error], rel=1e-3)
    assert found["kid"].tolist() == pytest.approx(list(kid(torch.cat(real), torch.cat(fake))), rel=1e-3)
    assert found.keys() == {"nats", "fid", "kid", "lpips_gt", "diversity"}


def test_the_report_has_the_metrics_of_translations(folder: Path, whole: dict[str, Any]) -> None:
    assert whole["settings"]["condition"] == "edges,gaps=3"
    assert (whole["settings"]["images"], whole["settings"]["bound_images"]) == (TEST, TEST)
    for name, arm in whole["arms"].items():
        (path,) = run_folder(folder, f"{name}-edges-gaps=3-seed-0").glob(f"step-{arm['points'][-1]['steps']:09}-*")
        stored, last = load_file(path), arm["points"][-1]
        assert [metric for metric in last if metric in NAMES] == NAMES and "p_ids" not in last
        assert last["kid"]["mean"] == pytest.approx(1000 * float(stored["kid"][0]))
        assert last["diversity"]["mean"] == pytest.approx(float(stored["diversity"].mean()))
        assert list(arm["held_out"]) == ["whole_nats"]
    text = tables.as_markdown(whole)
    head = "| -ELBO, bits/dim | FID | KID x 1,000 | LPIPS-GT | LPIPS diversity |"
    assert text.count(head) == 3 and "FID and KID use 17 test images" in text and "hidden pixels" not in text
    figure = figures.curves_figure(whole)
    assert len(figure.axes) == 2 * len(NAMES)
    with Image.open(folder / "sheet-edges-gaps=3.png") as sheet:
        assert (sheet.width - 4) % (2 + 3 * 4) == 0  # the photo, its edges, and four answers of each arm


def test_killed_and_repeated(tmp_path: Path, folder: Path, whole: dict[str, Any]) -> None:
    kill_and_repeat(HELPERS / "translation_runs.py", tmp_path / "out", parts=25)
    assert numbers(json.loads((tmp_path / "out" / "results.json").read_text())) == numbers(whole)
    assert results(tmp_path / "out") == results(folder)


def test_shards_are_joined(tmp_path: Path, folder: Path, whole: dict[str, Any]) -> None:
    for number in (2, 1):
        assert edges_experiment(tmp_path, shard=Shard(number, 2)) is None
    before = times(tmp_path)
    assert numbers(edges_experiment(tmp_path)) == numbers(whole)
    assert times(tmp_path) == before and results(tmp_path) == results(folder)


def test_the_pace_and_scratch_need_no_finished_artifacts(tmp_path: Path, folder: Path, whole: dict[str, Any]) -> None:
    brief = {"transfer": inputs().artifacts["transfer"]}
    said: list[str] = []
    assert edges_experiment(tmp_path, artifacts=brief, pace_only=True, say=said.append) is None
    assert [line.partition(", edges,gaps=3, pace: ")[0] for line in said[-2:]] == ["scratch", "artifact"]
    assert all(line.endswith(" ms per step") for line in said[-2:])
    missing = {"ipa": tmp_path / "ipa.safetensors", "transfer": tmp_path / "transfer.safetensors"}
    assert edges_experiment(tmp_path, artifacts=missing, only=("scratch",)) is None
    before = times(tmp_path)
    names = {path.name.rpartition("-")[0] for path in (tmp_path / "runs").iterdir()} - {"test"}
    assert names == {"scratch-edges-gaps=3-pace", "artifact-edges-gaps=3-pace", "scratch-edges-gaps=3-seed-0"}
    assert not (tmp_path / "results.json").exists()
    assert edges_experiment(tmp_path, only=("transfer",)) is None
    assert not list((tmp_path / "runs").glob("ipa-*"))
    assert numbers(edges_experiment(tmp_path)) == numbers(whole)
    assert before.items() <= times(tmp_path).items() and results(tmp_path) == results(folder)


def test_an_interrupted_pace_is_measured_again_with_any_artifact(tmp_path: Path) -> None:
    only = {"change": {"pace_steps": 6}, "pace_only": True}
    edges_experiment(tmp_path, **only)
    place = run_folder(tmp_path, "artifact-edges-gaps=3-pace")
    (place / "training.safetensors").unlink()  # as if killed before the end
    ours = shutil.copy(inputs().artifacts["transfer"], tmp_path.with_suffix(".safetensors"))
    edges_experiment(tmp_path, artifacts={"mine": ours}, **only)
    assert (place / "training.safetensors").is_file() and run_folder(tmp_path, place.name[:-25]) == place


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"only": ("ipa", "other")}, "--only contains other, expected some of scratch, ipa, transfer"),
        ({"change": {"condition": "boxes"}}, "--condition is boxes, expected completion or a translation, such as"),
        ({"change": {"condition": "paired"}}, "the images have no paired images"),
        ({"change": {"n": 1}}, "--n is 1, expected a whole number, at least 2"),
        ({"change": {"condition": "grey", "conditions": ("grey",)}}, "--condition is grey, --conditions is grey: give"),
        ({"change": {"deep_images": 18}}, "--deep-images is 18, but --images is only 17"),
    ],
)
def test_refusals(tmp_path: Path, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        edges_experiment(tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_edges_are_found_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, calls = inputs().data, list[int]()
    context = PretrainingContext(open_data(data), data, small_settings(**EDGES), small_networks(), ALONE.device)
    pictures_of = Edges.pictures_of

    def counted(process: Edges, batch: Batch) -> Tensor:
        calls.append(len(batch))
        return pictures_of(process, batch)

    monkeypatch.setattr(Edges, "pictures_of", counted)
    model = weights.load_conditional(snapshot(folder, "scratch", 3))
    for _ in range(2):
        for positions in (np.arange(5), np.array([16, 2])):
            context.observed(model, "edges,gaps=3", positions)
    assert sum(calls) == TEST


def test_unlabelled_data_can_be_translated(tmp_path: Path) -> None:
    data = small_data(tmp_path / "unlabelled", labelled=False)
    assert edges_experiment(tmp_path / "out", data=data, pace_only=True, only=("scratch",)) is None
