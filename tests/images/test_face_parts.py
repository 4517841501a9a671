"""Parts of a face are where its landmarks are, also if the face is turned."""

import numpy as np
import pytest

from condvae.images.face_parts import FaceSquare, face_in, part_of_square
from condvae.images.placement import Placement
from condvae.images.squares import in_picture, in_square

LANDMARKS = [(0.3, 0.3), (0.7, 0.3), (0.5, 0.54), (0.34, 0.74), (0.66, 0.74)]
SIZE = 50


def usual(placement: Placement) -> FaceSquare:
    return face_in(placement, LANDMARKS)


@pytest.mark.parametrize("degrees", [0, -25, 140])
def test_each_part_contains_its_landmarks_and_no_others(degrees: float) -> None:
    face = usual(Placement(300, 200, 120, degrees))
    assert np.allclose(in_square(face.landmarks, face.placement), LANDMARKS)
    pixels = np.floor(in_square(face.landmarks, face.placement) * SIZE + 1e-9).astype(int)
    inside = {"eyes": {0, 1}, "nose": {2}, "mouth": {3, 4}, "left": {0, 3}, "right": {1, 2, 4}}
    for part, expected in inside.items():
        region = part_of_square(part, face, SIZE)  # type: ignore[arg-type]
        assert {i for i, (x, y) in enumerate(pixels) if region[y, x]} == expected
        assert 0.04 < region.mean() < 0.5
    left, right = part_of_square("left", face, SIZE), part_of_square("right", face, SIZE)
    assert not (left & right).any() and np.array_equal(left, right[:, ::-1])
    assert left[:, : SIZE // 2].sum() == left.sum()


def test_a_mouth_elsewhere_is_hidden_elsewhere() -> None:
    face = usual(Placement(300, 200, 120, 10))
    points = in_square(face.landmarks, face.placement)
    points[3:, 1] -= 0.1
    moved = face._replace(landmarks=tuple(map(tuple, in_picture(points, face.placement).tolist())))
    one, other = (part_of_square("mouth", each, SIZE) for each in (face, moved))
    assert np.array_equal(one[5:], other[:-5])
    assert np.array_equal(part_of_square("eyes", face, SIZE), part_of_square("eyes", moved, SIZE))
