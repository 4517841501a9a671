"""The kernel for freeform holes: pixels equal torch's, shapes have the right distribution, bad sizes are rejected."""

import math

import numpy as np
import pytest
import torch
from helpers.models import generator
from observe.test_freeform import PUBLISHED, of_key, z_scores
from torch import Tensor

from condvae import kernels
from condvae.kernels.freeform_process import kernel_law
from condvae.observe import Freeform, Halves, Mixture
from condvae.observe.freeform import _flipped, draw_strokes
from condvae.observe.strokes import Strokes, covered

if not kernels.installed():
    pytest.skip("Triton is not installed", allow_module_level=True)

from triton.runtime import interpreter

from condvae.kernels.freeform_holes import draw, draw_with_plan
from condvae.kernels.freeform_laws import Plan

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


@pytest.fixture(autouse=True)
def _reduce_whole_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make Triton's interpreter reduce whole slices with the given function, instead of one element after another."""

    def reduce(self: interpreter.ReduceOps, values: tuple[interpreter.TensorHandle, ...]) -> list[object]:
        (whole,) = values
        slices = [self.to_tensor(part, whole.dtype) for part in np.moveaxis(whole.handle.data, self.axis, 0)]
        joined = slices[0]
        for part in slices[1:]:
            joined = self.combine_fn.fn(joined, part)
        return [joined]

    monkeypatch.setattr(interpreter.ReduceOps, "generic_reduce", reduce)


def seeds(n: int, seed: int = 0) -> Tensor:
    return torch.randint(2**63 - 1, (n,), generator=generator(seed)).to(DEVICE)


def any_hole(size: int) -> tuple[int, int]:
    return 0, size**2


def redrawn(plan: Plan, size: int) -> Tensor:
    """Return the known pixels [n, 1, size, size] bool, computed from the plan by the functions of observe."""
    plan = Plan(*(part.cpu() for part in plan))
    at = torch.arange(size)
    corner, sides = plan.boxes[..., :2, None], plan.boxes[..., 2:, None]
    place = torch.arange(16)
    there = torch.where(place < 9, place < plan.counts[:, :1], place - 9 < plan.counts[:, 1:2])
    columns, rows = ((at >= corner) & (at < corner + sides) & there[:, :, None, None]).unbind(2)
    boxes = (rows[..., None] & columns[..., None, :]).any(dim=1)
    drawn = torch.arange(plan.strokes.shape[1]) < plan.counts[:, 2:]
    strokes = Strokes(
        x=plan.vertices[:, :, 0, :18].float(),
        y=plan.vertices[:, :, 1, :18].float(),
        segments=torch.where(drawn, plan.strokes[..., 0], 0),
        width=plan.strokes[..., 1].float(),
    )
    return ~(boxes | _flipped(covered(strokes, size), *plan.flips.bool().unbind(1)))[:, None]


@pytest.mark.parametrize(
    ("size", "n", "boxes", "strokes"),
    # From size 65 on there are several blocks of rows, the last not full. The first case draws the most shapes.
    [(32, 1, 10, 20), (8, 3, 1, 3), (32, 10, 2, 4), (40, 6, 2, 4), (100, 2, 4, 6), (200, 1, 1, 5)],
)
def test_pixels_are_those_of_torch(size: int, n: int, boxes: int, strokes: int) -> None:
    law = kernel_law(Freeform(), size)._replace(small_boxes=boxes, large_boxes=min(boxes, 5), strokes=strokes)
    drawn, plan = draw_with_plan(seeds(n, size), size, any_hole(size), law)
    assert drawn.tries.tolist() == [1] * n
    assert drawn.known.shape == (n, 1, size, size)
    assert drawn.known.dtype == torch.bool
    assert torch.equal(drawn.known.cpu(), redrawn(plan, size))


@pytest.mark.parametrize(("size", "low", "high", "n"), [(32, 0.0, 0.2, 2), (70, 0.2, 0.4, 1)])
def test_holes_have_sizes_in_the_range_and_are_whole(size: int, low: float, high: float, n: int) -> None:
    least, most = int(low * size**2) + 1, int(high * size**2)
    drawn, plan = draw_with_plan(seeds(n), size, (least, most), kernel_law(Freeform(low=low, high=high), size))
    hidden = (~drawn.known).sum(dim=(1, 2, 3))
    assert bool(((hidden >= least) & (hidden <= most)).all())
    assert bool((drawn.tries >= 1).all())
    assert int(drawn.tries.max()) > 1
    assert torch.equal(drawn.known.cpu(), redrawn(plan, size))


def test_seeds_decide_everything() -> None:
    law = kernel_law(Freeform(low=0.0, high=0.2), 32)
    one, two = seeds(3), seeds(3, 1)
    first = draw(one, 32, any_hole(32), law).known
    assert torch.equal(first[1:2], draw(one[1:2], 32, any_hole(32), law).known)
    every = torch.cat((first, draw(two, 32, any_hole(32), law).known))
    assert len({tuple(known.flatten().tolist()) for known in every}) == 6
    # All 64 bits count.
    other = draw(one ^ 2**40, 32, any_hole(32), law).known
    assert not torch.equal(first, other)


def test_an_image_without_a_fitting_candidate_reports_it() -> None:
    law = kernel_law(Freeform(low=0.0, high=0.1), 8)
    drawn = draw(seeds(2), 8, (65, 70), law, tries=3)
    assert drawn.tries.tolist() == [0, 0]
    assert draw(seeds(0), 8, (0, 64), law).known.shape == (0, 1, 8, 8)
    with pytest.raises(ValueError, match="more boxes or vertices than the kernel has room for"):
        draw(seeds(2), 8, (0, 64), law._replace(small_boxes=11))


def z_of_means(ours: Tensor, theirs: Tensor) -> float:
    a, b = ours.double().flatten(), theirs.double().flatten()
    return float((a.mean() - b.mean()) / (a.var() / len(a) + b.var() / len(b)).sqrt())


@pytest.mark.parametrize("size", [32, 256] if DEVICE.type == "cuda" else [32])
def test_strokes_have_the_right_distribution(size: int) -> None:
    """Moments of the drawn strokes are compared with those of torch's draws."""
    n = 2000 if DEVICE.type == "cuda" else 7
    _, plan = draw_with_plan(seeds(n, size), size, any_hole(size), kernel_law(Freeform(), size))
    counts, plan_strokes, vertices = plan.counts.cpu(), plan.strokes.cpu(), plan.vertices.cpu()
    drawn = torch.arange(plan_strokes.shape[1]) < counts[:, 2:]
    (segments, width), (x, y) = plan_strokes[drawn].T, vertices[drawn][:, :, :18].unbind(1)
    torchs = draw_strokes(2000, size, 20, generator())
    theirs = torchs.segments > 0
    assert set(segments.tolist()) <= set(range(4, 18))
    assert set(width.tolist()) <= set(range(12, 48))
    assert int(torch.stack((x, y)).min()) >= 0
    assert int(torch.stack((x, y)).max()) <= size
    assert int(torch.stack((x[:, 0], y[:, 0])).max()) < size
    pairs = [(segments, torchs.segments[theirs]), (width, torchs.width[theirs])]
    for mine, other in ((x, torchs.x[theirs]), (y, torchs.y[theirs])):
        pairs += [(mine[:, i], other[:, i]) for i in (0, 1, 4)]
        pairs += [(mine.diff(dim=1)[:, i::2], other.diff(dim=1)[:, i::2]) for i in (0, 1)]
    for mine, other in pairs:
        # Steps of one stroke are correlated, so its up to 17 steps count as one.
        steps = math.sqrt(mine.shape[1]) if mine.ndim == 2 else 1
        assert abs(z_of_means(mine, other)) < 4 * steps
        centred = (values.double() - other.double().mean() for values in (mine, other))
        assert abs(z_of_means(*((values**2).mean(dim=1) if steps > 1 else values**2 for values in centred))) < 4


def test_boxes_and_counts_have_the_right_distribution() -> None:
    """There are no strokes here, so that candidates are cheap."""
    size, n = 32, 20000 if DEVICE.type == "cuda" else 80
    _, plan = draw_with_plan(seeds(n), size, any_hole(size), kernel_law(Freeform(), size)._replace(strokes=0))
    counts, boxes = plan.counts.cpu(), plan.boxes.cpu()
    assert not counts[:, 2].any()
    for count, most in ((counts[:, 0], 10), (counts[:, 1], 5)):
        assert sorted(set(count.tolist())) == list(range(most))
        assert abs(float(count.double().mean()) - (most - 1) / 2) < 4 * math.sqrt((most**2 - 1) / 12 / n)
    for which, bound in ((boxes[:, :9], 16), (boxes[:, 9:13], 32)):
        corner, sides = which[..., :2], which[..., 2:]
        assert sorted(set(sides.flatten().tolist())) == list(range(bound))
        error = math.sqrt((bound**2 - 1) / 12 / sides.numel())
        assert abs(float(sides.double().mean()) - (bound - 1) / 2) < 4 * error
        assert bool((corner >= -(sides // 2)).all())
        assert bool((corner < size - sides + sides // 2).all())
        # The position is uniform between its bounds.
        room = size - sides + sides // 2 * 2
        place = (corner + sides // 2 + 0.5) / room
        assert abs(float(place.mean()) - 0.5) < 4 * math.sqrt(1 / 12 / place.numel())
        assert abs(float(place.var()) - 1 / 12) < 0.01
    flips = plan.flips.double()
    assert bool(((flips.mean(dim=0) - 0.5).abs() < 4 * 0.5 / math.sqrt(n)).all())
    assert abs(float(flips.prod(dim=1).mean()) - 0.25) < 4 * math.sqrt(3 / 16 / n)


def test_freeform_uses_the_kernel_where_it_can_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("condvae.kernels.available", lambda device: True)
    monkeypatch.setattr("torch.cuda.is_current_stream_capturing", lambda: False)
    process, checks = Freeform(low=0.0, high=0.2), []
    monkeypatch.setattr("condvae.kernels.freeform_process._check_frequent", lambda *args: checks.append(args))
    source = torch.Generator(DEVICE).manual_seed(3)
    known = process.draw(1, 32, source)
    assert known.shape == (1, 1, 32, 32)
    hidden = 1 - known.double().mean(dim=(1, 2, 3))
    assert bool(((hidden > 0) & (hidden < 0.2)).all())
    assert checks == [(process, 32)]
    assert not torch.equal(known, process.draw(1, 32, source))
    source.manual_seed(3)
    assert torch.equal(known, process.draw(1, 32, source))


@pytest.mark.skipif(DEVICE.type == "cpu", reason="needs a GPU")
@pytest.mark.parametrize("key", PUBLISHED)
def test_published_moments(key: str) -> None:
    size, process = of_key(key)
    known = process.draw(20000, size, torch.Generator(DEVICE).manual_seed(size)).cpu()
    z = z_scores(known, PUBLISHED[key])
    assert all(abs(value) < 4 for value in z.values()), z


@pytest.mark.skipif(DEVICE.type == "cpu", reason="needs a GPU")
def test_a_graph_draws_new_holes_each_time() -> None:
    process = Mixture(parts=((Freeform(low=0.0, high=0.2), 1), (Freeform(low=0.6, high=0.8), 1)))
    source = torch.Generator(DEVICE).manual_seed(0)
    process.draw(64, 32, source)
    graph = torch.cuda.CUDAGraph()
    graph.register_generator_state(source)
    with torch.cuda.graph(graph):
        known = process.draw(64, 32, source)
    graph.replay()
    first = known.clone()
    graph.replay()
    assert not torch.equal(first, known)
    hidden = 1 - torch.cat((first, known)).double().mean(dim=(1, 2, 3))
    assert bool((((hidden > 0) & (hidden < 0.2)) | ((hidden > 0.6) & (hidden < 0.8))).all())


def test_a_mixture_in_one_launch_has_the_same_holes_as_one_launch_for_each_part(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from condvae.kernels.freeform_process import draw_known, draw_mixture

    if DEVICE.type == "cpu":
        monkeypatch.setattr(Freeform, "most_parts", (10, 5, 1))  # no strokes, which the interpreter draws slowly
    parts = (Freeform(low=0.1, high=0.4), Halves(), Freeform(low=0.3, high=0.9), Freeform(low=0.4))
    n, size = 9, 16
    choice = (torch.arange(n) % len(parts)).to(DEVICE)
    known = draw_mixture(parts, choice, size, torch.Generator(DEVICE).manual_seed(3))
    source = torch.Generator(DEVICE).manual_seed(3)
    separate = torch.stack(
        [draw_known(p, n, size, source) if isinstance(p, Freeform) else p.draw(n, size, source) for p in parts]
    )
    assert torch.equal(known, separate[choice, torch.arange(n, device=DEVICE)])
    assert known[1].double().mean() == 0.5  # a half
    hidden = 1 - known.double().mean(dim=(1, 2, 3)).cpu()
    for k, part in enumerate(parts):
        if isinstance(part, Freeform):
            assert bool(((hidden[k :: len(parts)] > part.low) & (hidden[k :: len(parts)] < part.high)).all())
