import dataclasses
import io
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from condvae.design.candidates import Candidates
from condvae.design.scan_figure import FigureRow, draw_figure, draw_frames, format_nats, gif_options

SIZE = 16
GRID = Candidates.grid(SIZE, side=4, points=5)
RED, HIDDEN = (226, 26, 28), (222, 227, 233)


def flat(*colour: int) -> Tensor:
    return torch.tensor(colour, dtype=torch.uint8)[:, None, None].expand(3, SIZE, SIZE)


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randint(256, shape, generator=torch.Generator().manual_seed(seed), dtype=torch.uint8)


def some_step(*, chosen: int = 12, channels: int = 1, seed: int = 0) -> FigureRow:
    known = torch.zeros(1, SIZE, SIZE, dtype=torch.bool)
    known[:, :4, 8:12] = True
    gains = torch.rand(6, len(GRID), generator=torch.Generator().manual_seed(seed)) / 10
    return FigureRow(
        seen=noise(channels, SIZE, SIZE, seed=seed),
        known=known,
        images=noise(6, channels, SIZE, SIZE, seed=seed + 1),
        gains=gains,
        scores=gains.mean(dim=0),
        chosen=chosen,
        after=noise(channels, SIZE, SIZE, seed=seed),
        caption="P(effusion) 0.2",
        caption_after="P(effusion) 0.3",
    )


def colour_counts(picture: Image.Image) -> dict[object, int]:
    return {colour: count for count, colour in picture.getcolors(maxcolors=2**24) or []}


def middle_of(picture: Image.Image, colour: tuple[int, int, int]) -> np.ndarray:
    """Mean row and column of a colour's pixels."""
    return np.argwhere((np.asarray(picture) == colour).all(axis=-1)).mean(axis=0)  # type: ignore[no-any-return]


def test_five_completions_are_drawn_sharply_side_by_side() -> None:
    tints = [(10 * k, 255 - 10 * k, 7) for k in range(6)]
    step = dataclasses.replace(
        some_step(),
        images=torch.stack([flat(*tint) for tint in tints]),
        gains=torch.zeros(6, len(GRID)),
        known=torch.zeros(1, SIZE, SIZE, dtype=torch.bool),
    )
    picture = draw_figure([step], GRID, tile=48)
    counts = colour_counts(picture)
    assert [counts.get(tint, 0) for tint in tints] == [48 * 48] * 5 + [0]
    places = [middle_of(picture, tint) for tint in tints[:5]]
    assert len({place[0] for place in places}) == 1
    assert len(set(np.diff([place[1] for place in places]))) == 1


def test_each_completion_has_its_own_heat_map() -> None:
    tints = [(10 * k**2, 255 - 10 * k**2, 7) for k in range(5)]  # the mean of all differs from each of them
    nothing = torch.zeros(1, SIZE, SIZE, dtype=torch.bool)
    step = dataclasses.replace(some_step(), images=torch.stack([flat(*tint) for tint in tints]), known=nothing)
    for k in range(5):
        gains = torch.zeros(5, len(GRID))
        gains[k, 12] = 1.0
        counts = colour_counts(draw_figure([dataclasses.replace(step, gains=gains)], GRID, tile=48))
        covered = [counts[tint] < 48 * 48 for tint in tints]
        assert covered == [i == k for i in range(5)]


def test_pixels_are_enlarged_by_a_whole_number() -> None:
    known = torch.ones(1, SIZE, SIZE, dtype=torch.bool)
    step = dataclasses.replace(some_step(), seen=flat(1, 2, 3).clone(), known=known, after=None)
    step.seen[:, 5, 9] = torch.tensor([200, 0, 200])
    for tile, scale in ((16, 1), (50, 3), (64, 4)):
        assert colour_counts(draw_figure([step], GRID, tile=tile))[(200, 0, 200)] == scale**2


def test_hidden_pixels_are_not_drawn() -> None:
    step = some_step()
    assert step.after is not None
    window = GRID.windows[step.chosen]
    other = noise(1, SIZE, SIZE, seed=9)
    hidden = dataclasses.replace(
        step,
        seen=torch.where(step.known, step.seen, other),
        after=torch.where(step.known | window, step.after, other),
    )
    picture = draw_figure([step], GRID)
    assert picture.tobytes() == draw_figure([hidden], GRID).tobytes()
    told = dataclasses.replace(step, seen=torch.where(step.known, 255 - step.seen, step.seen))
    assert picture.tobytes() != draw_figure([told], GRID).tobytes()
    seen_before, seen_after = (~step.known).sum(), (~(step.known | window)).sum()
    assert colour_counts(picture)[HIDDEN] == 12**2 * (seen_before + seen_after)


def test_the_cross_marks_the_centre_of_the_chosen_window() -> None:
    def cross(chosen: int) -> np.ndarray:
        return middle_of(
            draw_figure([dataclasses.replace(some_step(), chosen=chosen, after=None)], GRID, tile=192), RED
        )

    first = cross(6)
    for chosen in (7, 11, 18):
        move = (GRID.centres[chosen] - GRID.centres[6]).numpy() * 192 / SIZE
        assert np.allclose(cross(chosen) - first, move, atol=0.3)


def test_each_row_has_its_own_scale() -> None:
    step = some_step()
    assert step.gains is not None
    more = dataclasses.replace(step, gains=step.gains * 10, scores=step.scores * 10)

    def tiles(row: FigureRow, *, at: int) -> np.ndarray:
        """The second of two rows, without the captions below its images."""
        picture = draw_figure([step, row], GRID, tile=48)
        pitch = picture.height - draw_figure([step], GRID, tile=48).height
        return np.asarray(picture)[-pitch:][:48, :at]

    assert (tiles(step, at=300) == tiles(more, at=300)).all()
    shifted = dataclasses.replace(step, gains=step.gains**2)
    assert (tiles(step, at=300) != tiles(shifted, at=300)).any()


def test_the_last_column_is_drawn_if_a_scan_was_taken() -> None:
    step = some_step()
    planned = dataclasses.replace(step, after=None)
    assert draw_figure([step], GRID).width - draw_figure([planned], GRID).width > 192
    assert draw_figure([planned], GRID).height == draw_figure([step], GRID).height


@pytest.mark.parametrize("channels", [1, 3])
def test_frames_make_an_animation_that_repeats_endlessly(channels: int, tmp_path: Path) -> None:
    steps = [some_step(channels=channels, seed=seed) for seed in range(3)]
    pictures = draw_frames(steps, GRID, title="a patient", tile=48)
    pictures[0].save(tmp_path / "a.gif", **gif_options(pictures))
    with Image.open(tmp_path / "a.gif") as gif:
        assert (gif.n_frames, gif.info["loop"]) == (3, 0)  # type: ignore[attr-defined]
        durations = []
        for i, picture in enumerate(pictures):
            gif.seek(i)
            durations.append(gif.info["duration"])
            assert (np.asarray(gif.convert("RGB")) == np.asarray(picture.convert("RGB"))).all()
    assert durations[0] == durations[1] < durations[2]
    exact = draw_figure([steps[0]], GRID, title="a patient", tile=48)
    assert np.abs(np.asarray(exact).astype(int) - np.asarray(pictures[0].convert("RGB"))).mean() < 8
    assert colour_counts(pictures[0].convert("RGB"))[HIDDEN] >= colour_counts(exact)[HIDDEN]


def test_texts_of_any_length_fit() -> None:
    step = dataclasses.replace(some_step(), caption="word " * 100, gains=None)
    picture = draw_figure([step] * 2, GRID, title="title " * 100, criterion="criterion " * 100, tile=48)
    assert picture.size == draw_figure([some_step()] * 2, GRID, title="t", tile=48).size
    picture.save(io.BytesIO(), "PNG")


def test_steps_that_cannot_be_drawn_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one row"):
        draw_figure([], GRID)
    with pytest.raises(ValueError, match="16 x 16 images, but a row shows 8 x 8 pixels"):
        draw_figure([dataclasses.replace(some_step(), seen=noise(1, 8, 8))], GRID)


def test_nats_have_two_or_three_digits() -> None:
    texts = [format_nats(value) for value in (0.0, 1e-9, 4.2e-6, 0.00088, 0.00234, 0.0234, 0.2345, 0.9996, 1.5, -0.05)]
    assert texts[:5] == ["0", "0", "0.0042 mnat", "0.88 mnat", "2.34 mnat"]
    assert texts[5:] == ["23.4 mnat", "234 mnat", "1000 mnat", "1.50 nat", "-50.0 mnat"]


def test_windows_of_any_shape_are_drawn_and_outlined() -> None:
    lines = torch.eye(SIZE, dtype=torch.bool)[:, None, :, None].expand(-1, 1, -1, SIZE)
    gains = torch.rand(6, SIZE, generator=torch.Generator().manual_seed(0))
    step = dataclasses.replace(some_step(), gains=gains, scores=gains.mean(dim=0), chosen=3)
    picture = draw_figure([step], Candidates(windows=lines), tile=64)
    scanned = np.argwhere((np.asarray(picture)[:, -90:] == RED).all(axis=-1))
    assert scanned[:, 0].max() - scanned[:, 0].min() == 64 // SIZE - 1  # one line of pixels
    assert scanned[:, 1].max() - scanned[:, 1].min() == 63
