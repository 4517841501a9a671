import numpy as np
import pytest

from condvae.faces.boxes import Floats, Overlap, distinct, moved, overlaps, squared


def random_boxes(n: int, seed: int) -> Floats:
    random = np.random.default_rng(seed)
    corner, size = random.uniform(0, 60, (n, 2)), random.uniform(1, 50, (n, 2))
    return np.concatenate([corner, corner + size], axis=1)


def overlap_by_definition(a: list[float], b: list[float], share_of: Overlap) -> float:
    width = max(0.0, min(a[2], b[2]) - max(a[0], b[0]))
    height = max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (a, b)]
    return width * height / (sum(areas) - width * height if share_of == "union" else min(areas))


def distinct_by_definition(boxes: list[list[float]], scores: list[float], most: float, share_of: Overlap) -> list[int]:
    """A box is kept unless a kept box with a higher score overlaps it too much."""
    kept: list[int] = []
    for i in sorted(range(len(boxes)), key=lambda i: (-scores[i], i)):
        if all(overlap_by_definition(boxes[i], boxes[j], share_of) <= most for j in kept):
            kept.append(i)
    return kept


@pytest.mark.parametrize("share_of", ["union", "smaller"])
@pytest.mark.parametrize("seed", range(4))
def test_non_maximum_suppression_follows_its_definition(seed: int, share_of: Overlap) -> None:
    boxes = random_boxes(60, seed)
    scores = np.random.default_rng(seed).integers(0, 12, 60) / 12  # with ties
    for most in (0.3, 0.7):
        expected = distinct_by_definition(boxes.tolist(), scores.tolist(), most, share_of)
        assert distinct(boxes, scores, most, share_of).tolist() == expected
        assert 1 < len(expected) < 60
    assert distinct(boxes[:0], scores[:0], 0.5).tolist() == []


def test_overlaps_in_closed_form() -> None:
    boxes = np.array([[0.0, 0, 4, 4], [2, 0, 6, 4], [1, 1, 3, 3], [4, 4, 5, 5], [2, 2, 2, 2]])
    assert overlaps(boxes[0], boxes).tolist() == [1, 8 / 24, 4 / 16, 0, 0]
    assert overlaps(boxes[0], boxes, "smaller").tolist() == [1, 8 / 16, 1, 0, 0]


def test_edges_move_by_shares_of_width_and_height() -> None:
    boxes = np.array([[10.0, 20, 30, 60]])
    assert moved(boxes, np.array([[0.1, 0.1, -0.5, 0.25]])).tolist() == [[12, 24, 20, 70]]
    assert squared(boxes).tolist() == [[0, 20, 40, 60]]
