import math

import numpy as np
import pytest

from condvae.faces import Face, Framing
from condvae.faces.face import MEAN_FRAMING, MEAN_LANDMARKS
from condvae.images.placement import Placement
from recipes.face_composites import eyes_of, in_picture


def face_at(placement: Placement) -> Face:
    """The mean face, whose square is where the placement says."""
    return Face((0, 0, 1, 1), in_picture(MEAN_LANDMARKS, placement), 1.0)


@pytest.mark.parametrize("degrees", [-170, -30, 0, 45])
def test_the_square_of_a_mean_face_is_found_exactly(degrees: float) -> None:
    square = Placement(120.5, 80.25, 64.0, degrees)
    assert face_at(square).placement(MEAN_FRAMING) == pytest.approx(square)


def test_a_lower_right_eye_means_clockwise() -> None:
    face = face_at(Placement(100, 100, 80, 30))
    assert face.landmarks[1, 1] > face.landmarks[0, 1]
    assert face.placement(MEAN_FRAMING).degrees == pytest.approx(30)


def test_the_eyes_are_where_the_framing_says() -> None:
    square = Placement(50, 60, 100, 20)
    eyes = in_picture(eyes_of(MEAN_FRAMING), square)
    for framing in (Framing(0.2, 0.5, 0.5), Framing(0.3, 0.4, 0.7), Framing(0.5, 0.6, 0.1)):
        placed = face_at(square).placement(framing)
        assert placed.side == pytest.approx(100 * 0.4 / framing.eyes)
        assert placed.degrees == pytest.approx(20)
        np.testing.assert_allclose(in_picture(eyes_of(framing), placed), eyes, atol=1e-9)


def test_eyes_that_are_closer_together_make_the_square_only_a_little_smaller() -> None:
    """A person who looks aside: the eyes alone would say that the face is half as large."""
    points = MEAN_LANDMARKS.copy()
    points[:2, 0] = 0.5 + (points[:2, 0] - 0.5) / 2
    assert 0.7 < Face((0, 0, 1, 1), points, 1.0).placement(MEAN_FRAMING).side < 0.95


def test_the_mean_face_is_symmetric_and_close_to_its_framing() -> None:
    mirrored = (MEAN_LANDMARKS * (-1, 1) + (1, 0))[[1, 0, 2, 4, 3]]
    np.testing.assert_allclose(mirrored, MEAN_LANDMARKS)
    distance = math.dist(*MEAN_LANDMARKS[:2].tolist())
    assert distance == pytest.approx(MEAN_FRAMING.eyes, rel=0.06)
    assert MEAN_LANDMARKS[:2].mean(0) == pytest.approx(MEAN_FRAMING[1:], abs=0.015)
