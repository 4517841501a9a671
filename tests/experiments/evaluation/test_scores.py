"""CRPS and CFID in the harness equal direct computations, for any number of processes, calls and colour channels."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.evaluation_runs import SmallInception, numbers, small_networks, units_in
from helpers.fixtures import ROOT
from torch import Tensor

from condvae.data import Dataset
from condvae.experiments.evaluation import (
    EvaluationSettings,
    FeatureNetworks,
    Method,
    Problems,
    UnitSizes,
    baselines,
    experiment,
    figures,
    measure,
    tables,
)
from condvae.experiments.evaluation.shown_metrics import TABLES
from condvae.experiments.resumable_work import Shard
from condvae.metrics import HOLE_BINS, cfid, crps
from condvae.observe.observation import observe_levels
from condvae.runtime.messages import silent

SETTINGS = EvaluationSettings(images=24, deep_images=6, n=5, metrics=("inception", "lpips", "pixels"))
SIZES = UnitSizes(wide=10, deep=4)
CPU = torch.device("cpu")
NEW = ("cfid", "crps_lpips", "crps_pixels")


class FewFeatures(SmallInception):
    """Three features, so that CFID is not determined by the observations alone."""

    def features(self, images: Tensor) -> Tensor:
        return super().features(images)[:, :3]


def networks() -> FeatureNetworks:
    return replace(small_networks(), inception=FewFeatures())


def grey(data: Dataset) -> Dataset:
    parts = {
        name: replace(getattr(data, name), images=np.ascontiguousarray(getattr(data, name).images[..., :1]))
        for name in ("train", "validation", "test")
    }
    return replace(data, **parts)


def run(data: Dataset, out: Path, methods: Sequence[Method], **options: Any) -> dict[str, Any]:
    given: dict[str, Any] = {"settings": SETTINGS, "networks": networks(), "unit_sizes": SIZES, "say": silent}
    return dict(numbers(experiment(methods, data, out, **{**given, **options}))["methods"])


def completed(problems: Problems, method: Method, hole: int, places: Any, k: int) -> tuple[Tensor, Tensor, Tensor]:
    """The originals, the masks of known pixels, and k completions of each."""
    truth, known = problems.truth(places, CPU), problems.known(hole, places, CPU)
    return truth, known, method.complete(observe_levels(truth, known), k, seed=0, hole=hole, places=places)


@pytest.mark.parametrize("channels", [3, 1])
def test_the_report_equals_direct_computation(tmp_path: Path, data: Dataset, channels: int) -> None:
    data = data if channels == 3 else grey(data)
    methods = baselines(["random", "mean"], data)
    found, problems, used = run(data, tmp_path, methods), Problems.choose(data, SETTINGS), networks()
    assert used.inception is not None and used.lpips is not None
    for method in methods:
        metrics = found[method.name]["metrics"]
        features: list[tuple[Tensor, Tensor, Tensor]] = []
        pixels, perceived = [], []
        for number, hole in enumerate(HOLE_BINS):
            truth, known, made = completed(problems, method, number, np.arange(24), 1)
            assert truth.shape[1] == channels
            blanked = truth.clone()
            blanked[~known.expand_as(truth)] = 128
            features.append(tuple(used.inception.features(x) for x in (truth, made[:, 0], blanked)))  # type: ignore[arg-type]
            expected = cfid(*features[-1])
            assert metrics["cfid"][str(hole)] == pytest.approx(expected._asdict(), rel=1e-6)
            assert metrics["cfid"][str(hole)]["mean"] > metrics["fid"][str(hole)]["mean"] > 0
            truth, known, made = completed(problems, method, number, problems.deep, 5 if method.varies else 1)
            scores = crps(truth.double(), made.double()) / 255
            pixels.append(
                torch.stack([s[h.expand_as(s)].mean() for s, h in zip(scores, ~known, strict=True)])  # hidden pixels
            )
            seen = torch.stack([used.lpips.features(one) for one in made])
            weights = used.lpips.position_weights(32, 32)
            perceived.append((crps(used.lpips.features(truth), seen) * weights).sum(dim=1))
            for name, values in (("crps_pixels", pixels[-1]), ("crps_lpips", perceived[-1])):
                assert metrics[name][str(hole)]["mean"] == pytest.approx(float(values.mean()), rel=1e-4)
                error = float(values.std()) / 6**0.5
                assert metrics[name][str(hole)]["standard_error"] == pytest.approx(error, rel=1e-3)
            if not method.varies:  # the score of one completion is its absolute error
                total = float((truth.double() - made[:, 0].double()).abs()[~known.expand_as(truth)].sum())
                assert float((pixels[-1] * (~known).flatten(1).sum(1)).sum()) * 255 * channels == pytest.approx(total)
        mixture = [torch.stack([features[i % 5][part][i] for i in range(24)]) for part in range(3)]
        assert metrics["cfid"]["mixture"] == pytest.approx(cfid(*mixture)._asdict(), rel=1e-6)
        for name, parts in (("crps_pixels", pixels), ("crps_lpips", perceived)):
            assert metrics[name]["mixture"]["mean"] == pytest.approx(float(torch.stack(parts).mean()), rel=1e-4)


def test_scores_do_not_depend_on_shards_units_or_calls(tmp_path: Path, data: Dataset) -> None:
    random, mean = (baselines([name], data) for name in ("random", "mean"))
    whole = run(data, tmp_path / "whole", [*random, *mean])
    out = tmp_path / "out"
    given: dict[str, Any] = {"settings": SETTINGS, "networks": networks(), "unit_sizes": SIZES, "say": silent}
    for number in (2, 1):
        assert experiment(random, data, out, shard=Shard(number, 2), **given) is None
    kept = {path: path.stat().st_mtime_ns for path in units_in(out) if "-observed-" in path.parent.name}
    assert len(kept) == 15  # three units in each of five bins
    assert run(data, out, random) == {name: whole[name] for name in ("random training image",)}
    assert run(data, out, mean)["training mean"] == whole["training mean"]  # a method that is added later
    after = {path: path.stat().st_mtime_ns for path in units_in(out) if "-observed-" in path.parent.name}
    assert after == kept  # features of observations are computed once, and used by both calls
    other = run(data, tmp_path / "other", random, unit_sizes=UnitSizes(wide=24, deep=1))
    for name in NEW:
        for column, cell in other["random training image"]["metrics"][name].items():
            expected = whole["random training image"]["metrics"][name][column]
            assert cell == pytest.approx(expected, rel=1e-4), (name, column)


def test_parts_of_an_older_revision_are_measured_again(
    tmp_path: Path, data: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    methods = baselines(["mean"], data)
    settings = replace(SETTINGS, metrics=("inception", "pixels"))
    with monkeypatch.context() as patch:
        patch.setattr(measure, "REVISION", 2)
        given: dict[str, Any] = {"settings": settings, "networks": networks(), "unit_sizes": SIZES, "say": silent}
        experiment(methods, data, tmp_path / "out", shard=Shard(1, 2), **given)
    old = {path: path.read_bytes() for path in units_in(tmp_path / "out")}
    assert old
    again = run(data, tmp_path / "out", methods, settings=settings)
    assert again == run(data, tmp_path / "fresh", methods, settings=settings)
    assert old == {path: path.read_bytes() for path in old}  # other folders were used


def test_completions_of_other_images_have_a_low_fid_but_a_high_cfid(tmp_path: Path, data: Dataset) -> None:
    """The originals in another order have the FID of the originals, but do not fit the observations."""
    problems = Problems.choose(data, SETTINGS)

    class Other:
        varies = False

        def __init__(self, name: str, shift: int) -> None:
            self.name, self.shift = name, shift

        def complete(self, observation: Any, k: int, seed: int, *, places: Sequence[int] = ()) -> Tensor:
            return problems.truth((np.array(places) + self.shift) % 24, CPU)[:, None]

    own, other = (Method.of(Other(name, shift)) for name, shift in (("own", 0), ("other", 1)))
    other = replace(other, known_tolerance=255)  # known pixels are put back
    found = run(data, tmp_path, [own, other], settings=replace(SETTINGS, metrics=("inception",)))
    for column in map(str, HOLE_BINS):
        assert found["own"]["metrics"]["cfid"][column]["mean"] < 1e-9
        assert found["other"]["metrics"]["cfid"][column]["mean"] > found["other"]["metrics"]["fid"][column]["mean"]
    last = str(HOLE_BINS[-1])
    metrics = found["other"]["metrics"]
    assert metrics["cfid"][last]["mean"] > 3 * metrics["fid"][last]["mean"]


def test_reports_without_the_new_metrics_are_still_shown(whole: dict[str, Any]) -> None:
    old = json.loads(json.dumps(whole))
    for found in old["methods"].values():
        for name in NEW:
            del found["metrics"][name]
    text = tables.as_markdown(old)
    assert "CFID" not in text and "CRPS" not in text and "## FID" in text
    assert tables.too_few_for_cfid(old) == ""
    assert figures.metrics_figure(old) is not None
    for name in NEW:  # one method has the metric, the others are left out of its table
        mixed = json.loads(json.dumps(old))
        mixed["methods"]["training mean"]["metrics"][name] = whole["methods"]["training mean"]["metrics"][name]
        section = tables.as_markdown(mixed).partition(TABLES[name].title)[2].partition("## ")[0]
        assert "| training mean |" in section and "harmonic" not in section
    measured = {}
    for path in (ROOT / "docs" / "results" / "evaluation").glob("*64.json"):
        stored = json.loads(path.read_text())
        measured[path.stem] = all("cfid" in found["metrics"] for found in stored["methods"].values())
        assert ("CFID" in tables.as_markdown(stored)) == measured[path.stem] and tables.as_csv(stored)
    assert measured == {"tiny64": False, "faces64": True}


def test_too_few_images_for_cfid_are_reported(whole: dict[str, Any]) -> None:
    text = "strongly biased: 31 images are too few for 16 features"
    few, many = (json.loads(json.dumps(whole)) for _ in range(2))
    few["settings"]["images"], many["settings"]["images"] = 31, 32
    assert tables.too_few_for_cfid(few) == text and tables.too_few_for_cfid(many) == ""
    assert f"{TABLES['cfid'].title} ({text})" in tables.as_markdown(few)
    assert "strongly biased" not in tables.as_markdown(many)
