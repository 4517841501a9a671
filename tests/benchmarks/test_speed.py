"""The benchmark measures condvae and the reference for every work, and reports failures as remarks."""

import json
import math

import pytest
import torch

from benchmarks import speed, works
from benchmarks.works import ON_CPU, ON_GPU, Target, Variant, Work
from condvae.conditional import ConditionalVAE

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"WARM_UP": 1, "REPEATS": 1, "TOGETHER": 0.0}.items():
        monkeypatch.setattr(speed, name, value)


@pytest.mark.parametrize("kind", ["elbo", "ipa", "ipa-r", "complete", "masks"])
def test_both_sides_of_every_work_are_measured(kind: works.Kind) -> None:
    work = Work(name=kind, kind=kind, batch=2, network="demo32", target=Target(unit="/s", must=0, reach=1e9))
    row = speed.compare(work, CPU, Variant(), 0.0, 1e12, reference=True)
    assert row.ours is not None and row.reference is not None, row.remarks
    assert row.ours.per_second == pytest.approx(2000 / row.ours.ms)
    assert row.ratio == pytest.approx(row.reference.ms / row.ours.ms)
    assert (row.tflops is None) == (kind == "masks")
    assert row.met == "must"
    assert not any("left out" in remark or "finite" in remark for remark in row.remarks)
    assert json.loads(speed.as_json({}, [row]))["rows"][0]["work"] == kind
    assert row.text().startswith(kind)


def test_a_failing_side_becomes_a_remark(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: object) -> works.Runner:
        raise RuntimeError("no such kernel\nand more")

    monkeypatch.setattr(speed, "ours", broken)
    row = speed.compare(Work(name="masks", kind="masks", batch=2), CPU, Variant(), 0.0, 1e12, reference=True)
    assert row.ours is None and row.reference is not None
    assert row.remarks == ["ours failed: RuntimeError: no such kernel"]


def test_targets_know_whether_lower_or_higher_is_better() -> None:
    rate, latency = Target(unit="/s", must=10, reach=20, memory_gb=5), Target(unit="ms", must=5, reach=3)
    assert [rate.judge(value, 5.0) for value in (9, 10, 20)] == ["no", "must", "reach"]
    assert rate.judge(30, 5.1) == "no"
    assert [latency.judge(value, None) for value in (6, 5, 3)] == ["no", "must", "reach"]
    assert rate.judge(None, 1.0) == "?"


def test_works_are_chosen_by_name() -> None:
    assert [work.batch for work in speed.chosen(ON_GPU, ["masks-32"])] == [4096, 128]
    assert {work.name for work in ON_CPU} == {work.name for work in ON_GPU}
    with pytest.raises(SystemExit, match="ipa-128"):
        speed.chosen(ON_GPU, ["nonsense"])


def test_random_weights_give_states_of_a_moderate_size() -> None:
    """The paper's network must not overflow in half precision, because such samples would be drawn twice."""
    model = works.make_model(next(iter(ON_GPU)).config, conditional=True)
    assert isinstance(model, ConditionalVAE)
    observation = works.one_observation(ON_GPU[0], CPU, model)
    with torch.no_grad():
        c = model.posterior(observation)
        state = model.artifact.descend(c, batch=1, noise=torch.Generator().manual_seed(0)).state
    assert 1e-3 < state.abs().mean().item() < 100
    assert math.isfinite(state.abs().max().item())
