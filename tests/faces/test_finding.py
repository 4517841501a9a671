"""Faces in photos, in mirrored, shifted, turned and enlarged ones, and in none where there is no face."""

from collections.abc import Sequence

import numpy as np
import pytest
from helpers.fixtures import FACES64, FIXTURES
from PIL import Image
from sklearn.datasets import load_sample_image

from condvae.faces import Face, find_faces
from condvae.faces.finding import FACTOR, MOST_PIXELS, SMALLEST_FACE, _reduced, _sizes
from condvae.faces.mtcnn import ProposalNet
from condvae.images.placement import Placement
from recipes.face_composites import eye_error, in_picture, paste
from recipes.face_framing import face_of_crop

PHOTOS = FIXTURES / "photos"
SWAPPED = [1, 0, 2, 4, 3]  # left and right change places in a mirror


def photo(name: str) -> Image.Image:
    with Image.open(PHOTOS / name) as image:
        return image.convert("RGB")


@pytest.fixture(scope="module")
def astronaut() -> Image.Image:
    return photo("astronaut.jpg")


@pytest.fixture(scope="module")
def face(astronaut: Image.Image) -> Face:
    (found,) = find_faces(astronaut)
    return found


def assert_close(face: Face, landmarks: Sequence[Sequence[float]] | np.ndarray, share: float) -> None:
    """All landmarks are as expected, up to a share of the distance of the eyes."""
    expected = np.asarray(landmarks)
    errors = np.linalg.norm(face.landmarks - expected, axis=1) / np.linalg.norm(expected[1] - expected[0])
    assert errors.max() < share, errors


def test_portraits(face: Face) -> None:
    """The expected landmarks were read off the photos by eye."""
    assert_close(face, [(204, 101), (247, 103), (224, 127), (202, 140), (245, 142)], 0.1)
    (hopper,) = find_faces(photo("grace_hopper.jpg"))
    assert_close(hopper, [(221, 190), (308, 186), (269, 237), (231, 279), (308, 275)], 0.12)
    for one in (face, hopper):
        assert one.score > 0.99
        x, y, width, height = one.box
        assert ((one.landmarks > (x, y)) & (one.landmarks < (x + width, y + height))).all()


def test_the_result_is_deterministic(astronaut: Image.Image, face: Face) -> None:
    (again,) = find_faces(astronaut)
    assert again.box == face.box and again.score == face.score
    np.testing.assert_array_equal(again.landmarks, face.landmarks)


def test_a_mirrored_photo_has_mirrored_landmarks(astronaut: Image.Image, face: Face) -> None:
    (mirrored,) = find_faces(astronaut.transpose(Image.Transpose.FLIP_LEFT_RIGHT))
    assert_close(mirrored, (face.landmarks * (-1, 1) + (astronaut.width, 0))[SWAPPED], 0.02)


@pytest.mark.parametrize("by", [(1, 0), (7, 5), (64, 20)])
def test_a_shifted_photo_has_shifted_landmarks(astronaut: Image.Image, face: Face, by: tuple[int, int]) -> None:
    (shifted,) = find_faces(astronaut.crop((*by, *astronaut.size)))
    assert_close(shifted, face.landmarks - by, 0.02)


@pytest.mark.parametrize("degrees", [-25, 15, 30])
def test_a_turned_photo_has_turned_landmarks(astronaut: Image.Image, face: Face, degrees: float) -> None:
    turned = find_faces(astronaut.rotate(-degrees, Image.Resampling.BICUBIC))  # Pillow turns anticlockwise
    whole = Placement(256, 256, 512, degrees)
    assert_close(turned[0], in_picture(face.landmarks / 512, whole), 0.04)


@pytest.mark.parametrize("factor", [0.5, 3])
def test_an_enlarged_or_reduced_photo_has_the_same_face(astronaut: Image.Image, face: Face, factor: float) -> None:
    size = round(512 * factor)
    (scaled,) = find_faces(astronaut.resize((size, size), Image.Resampling.BICUBIC))
    assert_close(scaled, face.landmarks * factor, 0.05)
    assert scaled.box == pytest.approx([edge * factor for edge in face.box], abs=8 * factor)


def test_a_grey_photo(astronaut: Image.Image, face: Face) -> None:
    (grey,) = find_faces(astronaut.convert("L"))
    assert_close(grey, face.landmarks, 0.04)


def test_all_faces_are_returned_from_large_to_small(astronaut: Image.Image) -> None:
    page = Image.new("RGB", (900, 420), (90, 120, 90))
    for size, corner in ((200, (680, 100)), (400, (0, 0)), (280, (400, 20))):
        page.paste(astronaut.crop((60, 0, 360, 300)).resize((size, size), Image.Resampling.LANCZOS), corner)
    areas = [face.box[2] * face.box[3] for face in find_faces(page)]
    assert len(areas) == 3 and areas == sorted(areas, reverse=True)
    assert [face.landmarks[2, 0] // 1 > 400 for face in find_faces(page)] == [False, True, True]


def test_faces_of_20_pixels_in_a_small_picture(astronaut: Image.Image, face: Face) -> None:
    factor = 24 / face.box[3]
    size = round(512 * factor)
    found = find_faces(astronaut.resize((size, size), Image.Resampling.LANCZOS))
    assert_close(found[0], face.landmarks * size / 512, 0.15)


def scene(seed: int, size: int = 280) -> Image.Image:
    """A background without faces: blurred colours and a few stripes."""
    random = np.random.default_rng(seed)
    coarse = Image.fromarray(random.integers(40, 216, (6, 6, 3), dtype=np.uint8))
    levels = np.array(coarse.resize((size, size), Image.Resampling.BICUBIC)).astype(int)
    levels += random.integers(-8, 9, levels.shape)
    levels[:, :: random.integers(20, 40)] = random.integers(0, 256, 3)
    return Image.fromarray(levels.clip(0, 255).astype(np.uint8))


def test_faces_pasted_at_random_places_sizes_and_angles() -> None:
    random, found = np.random.default_rng(3), 0
    for i, path in enumerate(FACES64):
        with Image.open(path) as image:
            crop = image.convert("RGB")
        alone = face_of_crop(crop)
        assert alone is not None
        x, y = random.uniform(110, 170, 2).tolist()
        placement = Placement(x, y, random.uniform(70, 160), random.uniform(-20, 20))
        eyes = in_picture(alone.landmarks[:2], placement)
        faces = find_faces(paste(crop, scene(i), placement))
        assert len(faces) <= 1
        found += any(eye_error(face.landmarks[:2], eyes) < 0.08 for face in faces)
    assert found >= len(FACES64) - 1


@pytest.mark.parametrize("name", ["china.jpg", "flower.jpg"])
def test_photos_without_people(name: str) -> None:
    assert find_faces(Image.fromarray(load_sample_image(name))) == ()


@pytest.mark.parametrize("size", [(1, 1), (2, 3), (11, 11), (20, 20), (3000, 1), (1, 3000), (4000, 15), (40_000, 40)])
@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_pictures_that_are_tiny_or_very_long(size: tuple[int, int], mode: str) -> None:
    levels = np.random.default_rng(0).integers(0, 256, size[::-1], dtype=np.uint8)
    assert find_faces(Image.fromarray(levels).convert(mode)) == ()


@pytest.mark.parametrize("seed", range(3))
def test_noise_and_plain_pictures(seed: int) -> None:
    random = np.random.default_rng(seed)
    noise = Image.fromarray(random.integers(0, 256, (200, 300, 3), dtype=np.uint8))
    plain = Image.new("RGB", (200, 200), tuple(random.integers(0, 256, 3).tolist()))
    coarse = noise.crop((0, 0, 12, 8)).resize((300, 200), Image.Resampling.BICUBIC)
    for picture in (noise, plain, coarse, scene(seed)):
        assert find_faces(picture) == ()


def test_other_modes_are_refused() -> None:
    with pytest.raises(ValueError, match="mode RGBA, expected RGB or L"):
        find_faces(Image.new("RGBA", (50, 50)))


@pytest.mark.parametrize("size", [(20, 20), (64, 64), (480, 640), (1000, 30), (1154, 866)])
def test_the_sizes_that_are_searched_leave_no_gap(size: tuple[int, int]) -> None:
    """For every face from the smallest to one as large as the picture, some square is about as large."""
    height, width = size
    levels = list(_sizes(height, width))
    sides = np.array([ProposalNet.SIZE * height / rows for rows, _ in levels])
    assert len(levels) < 40
    for side in np.geomspace(SMALLEST_FACE, min(size), 50):
        assert np.abs(np.log(sides / side)).min() < -np.log(FACTOR) * 0.6
    for rows, columns in levels:  # no size is distorted by more than the rounding
        assert abs(rows / height * width - columns) <= 0.5 + 0.5 * width / height


def test_large_pictures_are_reduced() -> None:
    for size in ((4000, 3000), (1200, 900), (100_000, 30)):
        width, height = _reduced(Image.new("L", size)).size
        assert width * height <= MOST_PIXELS * 1.01
        assert width / height == pytest.approx(size[0] / size[1], rel=0.05)
    small = Image.new("L", (1000, 1000))
    assert _reduced(small) is small
