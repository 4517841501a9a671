"""Freeform holes: their distribution matches its definition and published moments; rejection by hidden share."""

import json
import math
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from helpers.fixtures import FIXTURES
from helpers.models import generator
from helpers.plain_freeform import candidate, draw_stroke
from torch import Tensor

from condvae.kernels.freeform_process import _check_frequent
from condvae.observe import Freeform
from condvae.observe.freeform import draw_boxes, draw_strokes, under_boxes

PUBLISHED: dict[str, dict[str, Any]] = json.loads((FIXTURES / "freeform_mask_statistics.json").read_text())


class Moments(NamedTuple):
    """Statistics of the known pixels of each image. Every field is float64 [n]; see `moments`."""

    observed: Tensor
    centre: Tensor
    corner: Tensor
    edges: Tensor


def candidates_of(process: Freeform, n: int, size: int, generator: torch.Generator) -> Tensor:
    """[n, 1, size, size] bool: the known pixels of candidates, before any are rejected."""
    plan = process._plan(n, size, generator)
    return ~(plan.boxes | plan.under_strokes(0, plan.strokes.x.shape[1]))[:, None]


def moments(known: Tensor) -> Moments:
    """observed: the known share. centre, corner: the known share of the 4 x 4 pixels there. edges: the share of
    horizontal neighbours that differ. The publication does not define its regions; 4 x 4 pixels reproduce its values,
    which are multiples of 1/16 at every size.
    """
    m, middle = known[:, 0].double(), known.shape[-1] // 2
    return Moments(
        observed=m.mean(dim=(1, 2)),
        centre=m[:, middle - 2 : middle + 2, middle - 2 : middle + 2].mean(dim=(1, 2)),
        corner=m[:, :4, :4].mean(dim=(1, 2)),
        edges=(m[:, :, 1:] != m[:, :, :-1]).double().mean(dim=(1, 2)),
    )


def z_of_mean(ours: Tensor, theirs: float, n: int) -> float:
    return (float(ours.mean()) - theirs) / float(ours.std() * math.sqrt(1 / len(ours) + 1 / n))


def z_of_std(ours: Tensor, theirs: float, n: int) -> float:
    """Delta method: Var[s] = (m4 - s^4) / (4 s^2 n)."""
    std, centred = float(ours.std()), ours - ours.mean()
    error = math.sqrt(max(float((centred**4).mean()) - std**4, 0) / (4 * std**2) * (1 / len(ours) + 1 / n))
    return (std - theirs) / error


def z_of_share(ours: float, theirs: float, n_ours: int, n: int) -> float:
    pooled = (ours * n_ours + theirs * n + 1) / (n_ours + n + 2)
    return (ours - theirs) / math.sqrt(pooled * (1 - pooled) * (1 / n_ours + 1 / n))


def z_of_quantile(ours: Tensor, theirs: float, p: float, n: int) -> float:
    """Compare the share of our values below their quantile with p. Values are discrete, so a step may jump over p."""
    below, up_to = float((ours < theirs - 1e-9).double().mean()), float((ours <= theirs + 1e-9).double().mean())
    nearest = min(max(p, below), up_to)
    return (nearest - p) / math.sqrt(p * (1 - p) * (1 / len(ours) + 1 / n))


def z_scores(known: Tensor, published: dict[str, Any]) -> dict[str, float]:
    ours, n = moments(known), published["n"]
    z = {
        "mean": z_of_mean(ours.observed, published["observed_mean"], n),
        "std": z_of_std(ours.observed, published["observed_std"], n),
        "edges": z_of_mean(ours.edges, published["edge_density"], n),
    }
    if "quantiles" in published:
        for p, value in zip((0.05, 0.25, 0.5, 0.75, 0.95), published["quantiles"], strict=True):
            z[f"quantile {p}"] = z_of_quantile(ours.observed, value, p, n)
        for i, share in enumerate(published["per_bin"]):  # the five bins of the hidden share
            inside = ((1 - ours.observed) >= i / 5) & ((1 - ours.observed) < (i + 1) / 5)
            z[f"bin {i}"] = z_of_share(float(inside.double().mean()), share, len(known), n)
        z["centre"] = z_of_mean(ours.centre, published["centre_vs_corner"][0], n)
        z["corner"] = z_of_mean(ours.corner, published["centre_vs_corner"][1], n)
    return z


def of_key(key: str) -> tuple[int, Freeform]:
    size, which = key.split("/")
    low, high = (0.0, 1.0) if which == "any" else map(float, which.removeprefix("hole ").split("-"))
    return int(size), Freeform(low=low, high=high)


@pytest.mark.parametrize("key", PUBLISHED)
def test_moments_match_the_published_ones(key: str) -> None:
    size, process = of_key(key)
    n = {32: 2000, 64: 2000, 256: 500}[size] // (1 if key.endswith("any") else 4)
    z = z_scores(process.draw(n, size, generator(size)), PUBLISHED[key])
    assert all(abs(value) < 4 for value in z.values()), z
    assert np.mean(np.square(list(z.values()))) < 4, z


@pytest.mark.parametrize(("size", "low", "high"), [(32, 0.0, 1.0), (32, 0.0, 0.2), (64, 0.1, 0.4)])
def test_candidates_have_the_distribution_of_the_reference(size: int, low: float, high: float) -> None:
    rng = np.random.default_rng(size)
    plain = np.stack([candidate(rng, size, low=low, high=high) for _ in range(1500)])
    theirs = moments(torch.from_numpy(plain)[:, None])
    ours = moments(candidates_of(Freeform(low=low, high=high), 6000, size, generator(1)))
    for name, mine, other in zip(Moments._fields, ours, theirs, strict=True):
        assert abs(z_of_mean(mine, float(other.mean()), len(other))) < 4, name
        assert abs(z_of_std(mine, float(other.std()), len(other))) < 4, name
    for p in (0.1, 0.25, 0.5, 0.75, 0.9):
        assert abs(z_of_quantile(ours.observed, float(theirs.observed.quantile(p)), p, len(theirs.observed))) < 4
    for whole in (0.0, 1.0):
        a, b = (float((m.observed == whole).double().mean()) for m in (ours, theirs))
        assert abs(z_of_share(a, b, 6000, 1500)) < 4


@pytest.mark.parametrize("size", [32, 256])
def test_strokes_have_the_distribution_of_the_reference(size: int) -> None:
    rng = np.random.default_rng(0)
    plain = [draw_stroke(rng, size) for _ in range(3000)]
    strokes = draw_strokes(1000, size, 20, generator())
    count = (strokes.segments > 0).sum(dim=1)
    assert sorted(set(count.tolist())) == list(range(20))
    assert abs(float(count.double().mean()) - 9.5) < 4 * math.sqrt(399 / 12 / 1000)
    drawn = strokes.segments > 0
    assert sorted(set(strokes.segments[drawn].tolist())) == list(range(4, 18))
    assert sorted(set(strokes.width[drawn].tolist())) == list(range(12, 48))
    for ours, theirs in (
        (strokes.segments[drawn], [len(stroke.vertices) - 1 for stroke in plain]),
        (strokes.width[drawn], [stroke.width for stroke in plain]),
        (strokes.x[drawn][:, 0], [stroke.vertices[0][0] for stroke in plain]),
        (strokes.y[drawn][:, 0], [stroke.vertices[0][1] for stroke in plain]),
        (strokes.x[drawn][:, 1], [stroke.vertices[1][0] for stroke in plain]),
        (strokes.y[drawn][:, 1], [stroke.vertices[1][1] for stroke in plain]),
        (strokes.x[drawn].diff(dim=1)[:, 1], [stroke.vertices[2][0] - stroke.vertices[1][0] for stroke in plain]),
        (strokes.y[drawn].diff(dim=1)[:, 1], [stroke.vertices[2][1] - stroke.vertices[1][1] for stroke in plain]),
        (strokes.x[drawn][:, 4], [stroke.vertices[4][0] for stroke in plain]),
        (strokes.y[drawn][:, 4], [stroke.vertices[4][1] for stroke in plain]),
    ):
        b = torch.tensor(theirs, dtype=torch.float64)
        assert abs(z_of_mean(ours.double(), float(b.mean()), len(b))) < 4
        assert abs(z_of_std(ours.double(), float(b.std()), len(b))) < 4


def test_boxes_have_the_right_distribution_of_sides_and_places() -> None:
    boxes = draw_boxes(20000, 32, 5, 16, generator())  # sides are randint(16) before clipping at the border
    assert boxes.shape == (20000, 4, 2, 32)
    seen = boxes.sum(dim=3)
    assert int(seen.max()) == 15
    some = (seen > 0).all(dim=2)
    # P[a box exists and both sides are not 0] = mean of (0..4) / 4 * (15 / 16)^2; no box is clipped completely
    assert abs(float(some.double().mean()) - 0.5 * (15 / 16) ** 2) < 0.01
    # Corners are from -(w // 2) to 31 - w + w // 2; w // 2 + 1 of them cover the first column, and w // 2 the last.
    columns = boxes[:, :, 0][some].double().mean(dim=0)
    for at, extra in ((0, 1), (31, 0)):
        expected = np.mean([(w // 2 + extra) / (32 - w + 2 * (w // 2)) for w in range(1, 16)])
        assert abs(float(columns[at]) - expected) < 0.007
    whole = under_boxes((boxes,))
    assert torch.equal(whole, (boxes[:, :, 1, :, None] & boxes[:, :, 0, None, :]).any(dim=1))


def test_the_same_seed_gives_the_same_holes_and_other_seeds_do_not() -> None:
    first = Freeform().draw(16, 32, generator(3))
    assert torch.equal(first, Freeform().draw(16, 32, generator(3)))
    assert not torch.equal(first, Freeform().draw(16, 32, generator(4)))
    assert len({tuple(known.flatten().tolist()) for known in first}) == 16
    going_on = generator(3)
    assert not torch.equal(Freeform().draw(16, 32, going_on), Freeform().draw(16, 32, going_on))


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (0.2, 0.4), (0.6, 0.8)])
@pytest.mark.parametrize("size", [32, 128])
def test_the_first_candidates_that_fit_are_accepted(size: int, low: float, high: float) -> None:
    process = Freeform(low=low, high=high)
    candidates = candidates_of(process, 100, size, generator(5))
    hidden = 1 - candidates.double().mean(dim=(1, 2, 3))
    expected = candidates[(hidden > low) & (hidden < high)]
    assert len(expected)
    assert torch.equal(process.draw(100, size, generator(5))[: len(expected)], expected)


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (0.0, 0.1), (0.25, 0.5), (0.5, 0.51), (0.9, 1.0)])
def test_hidden_shares_lie_strictly_inside(low: float, high: float) -> None:
    known = Freeform(low=low, high=high).draw(20, 32, generator())
    hidden = 1 - known.double().mean(dim=(1, 2, 3))
    assert known.shape == (20, 1, 32, 32)
    assert known.dtype == torch.bool
    assert bool(((hidden > low) & (hidden < high)).all())


def test_the_limits_are_exclusive() -> None:
    known = Freeform(low=29 / 256, high=31 / 256).draw(3, 16, generator())
    assert (~known).sum(dim=(1, 2, 3)).tolist() == [30] * 3


def test_small_images_and_empty_batches() -> None:
    assert Freeform().draw(3, 8, generator()).shape == (3, 1, 8, 8)
    assert Freeform().draw(0, 8, generator()).shape == (0, 1, 8, 8)


def test_ranges_that_cannot_be_met_are_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"cannot be between 0\.4999 and 0\.5 for 32 x 32 pixels"):
        Freeform(low=0.4999, high=0.5).draw(1, 32, generator())
    monkeypatch.setattr("condvae.observe.freeform._TRIES", 2000)
    monkeypatch.setattr("condvae.observe.freeform._RAREST", 0.01)
    with pytest.raises(ValueError, match=r"only \d+ of \d+ random freeform holes at 32 x 32 .* between 0.499 and 0.5"):
        Freeform(low=0.499, high=0.5).draw(100, 32, generator())
    # A kernel cannot raise errors, so this is checked before it runs.
    monkeypatch.setattr("condvae.observe.freeform._TRIES", 200)
    monkeypatch.setattr("condvae.observe.freeform._RAREST", 0.1)
    with pytest.raises(ValueError, match=r"only \d+ of \d+ random freeform holes at 32 x 32"):
        _check_frequent(Freeform(low=0.499, high=0.5), 32)
    _check_frequent(Freeform(), 32)


@pytest.mark.parametrize(
    ("low", "high", "message"),
    [
        (-0.1, 1.0, r"low is -0.1, expected a number in \[0, 1\]"),
        (0.0, 1.5, "high is 1.5"),
        (0.5, 0.5, "expected low < high"),
        (0.0, math.nan, "high is nan"),
        ("0", 1.0, "low is '0'"),
    ],
)
def test_wrong_ranges_are_errors(low: Any, high: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Freeform(low=low, high=high)
