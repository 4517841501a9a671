from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from condvae.data import Dataset, ImageSet, LevelBatch


def image_set(faces: NDArray[np.uint8]) -> ImageSet:
    labels = np.arange(len(faces), dtype=np.int64)
    return ImageSet(images=faces, labels=labels, paired=faces[:, :, :, :1], rows=np.arange(0, len(faces), 2))


def test_take_gives_rows_channels_first(faces: NDArray[np.uint8]) -> None:
    images = image_set(faces)
    assert (len(images), images.size, images.channels) == (256, 32, 3)
    levels = images.take(np.array([3, 0, 3]))
    assert levels.images.shape == (3, 3, 32, 32) and levels.images.dtype == torch.uint8
    assert levels.images.is_contiguous()
    assert np.array_equal(levels.images[0].numpy(), faces[6].transpose(2, 0, 1))
    assert levels.labels is not None and levels.labels.tolist() == [6, 0, 6]
    assert levels.paired is not None and np.array_equal(levels.paired[1, 0].numpy(), faces[0, :, :, 0])


def test_subsets_of_subsets_share_the_array(faces: NDArray[np.uint8]) -> None:
    images = image_set(faces).subset(np.array([5, 6, 7])).subset(np.array([2, 0]))
    assert images.rows.tolist() == [14, 10]
    assert images.images is faces


def test_subsets_keep_the_groups_of_their_images(faces: NDArray[np.uint8]) -> None:
    images = image_set(faces)
    assert images.members is None
    images = replace(images, groups=np.arange(len(faces)) // 3).subset(np.array([5, 6, 7]))
    assert images.members is not None and images.members.tolist() == [3, 4, 4]  # rows 10, 12, 14


def test_a_batch_has_values_from_minus_one_to_one(faces: NDArray[np.uint8]) -> None:
    levels = image_set(faces).take(np.array([1, 2])).to(torch.device("cpu"), non_blocking=True)
    batch = levels.batch()
    assert torch.equal(((batch.x + 1) * 127.5).round().to(torch.uint8), levels.images)
    assert batch.labels is levels.labels and batch.paired is not None and batch.paired.shape == (2, 1, 32, 32)
    assert LevelBatch(levels.images, None, None).batch().paired is None


def test_normalisation_uses_only_the_rows_of_the_set(faces: NDArray[np.uint8]) -> None:
    images = image_set(faces)
    mean, std = images.normalisation()
    assert mean == pytest.approx(faces[::2].mean(dtype=np.float64), abs=1e-9)
    assert std == pytest.approx(faces[::2].std(dtype=np.float64), abs=1e-9)


def test_normalisation_of_many_images_uses_a_repeatable_sample() -> None:
    random = np.random.RandomState(0)
    many = ImageSet(images=random.randint(0, 256, (30_000, 4, 4, 1), dtype=np.uint8), rows=np.arange(30_000))
    assert many.normalisation() == many.normalisation()
    assert many.normalisation()[0] == pytest.approx(127.5, abs=1)


def test_wrong_arrays_are_rejected(faces: NDArray[np.uint8]) -> None:
    rows = np.arange(2)
    with pytest.raises(ValueError, match=r"images are float64"):
        ImageSet(images=faces / 255, rows=rows)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="expected uint8"):
        ImageSet(images=faces[:, :20], rows=rows)
    with pytest.raises(ValueError, match="512 images but 5 labels"):
        ImageSet(images=faces, labels=np.zeros(5, dtype=np.int64), rows=rows)
    with pytest.raises(ValueError, match="512 images but 5 groups"):
        ImageSet(images=faces, groups=np.zeros(5, dtype=np.int64), rows=rows)
    with pytest.raises(ValueError, match="no mean grey level"):
        ImageSet(images=faces, rows=rows[:0]).normalisation()
    with pytest.raises(ValueError, match="all pixels of all images have grey level 3"):
        ImageSet(images=np.full_like(faces[:2], 3), rows=rows).normalisation()


def test_the_summary_is_one_line(faces: NDArray[np.uint8]) -> None:
    images = image_set(faces)
    data = Dataset(
        kind="pairs",
        train=images,
        validation=images.subset(np.arange(3)),
        test=images.subset(np.arange(0)),
        label_names=None,
        flips=True,
        skipped=("a.jpg: cut short",),
    )
    summary = data.summary()
    assert "\n" not in summary
    for part in (
        "256 training",
        "3 validation",
        "0 test",
        "32 x 32 x 3",
        "512 labels",
        "1 skipped",
        "a.jpg: cut short",
    ):
        assert part in summary


def test_people_in_both_test_and_training_images_are_counted(faces: NDArray[np.uint8]) -> None:
    images = replace(image_set(faces), groups=np.arange(len(faces)) // 4)  # two images of each person
    train, validation, test = (images.subset(np.arange(*part)) for part in ((0, 11), (11, 21), (20, 30)))
    nobody = images.subset(np.arange(0))
    data = Dataset(
        kind="images", train=train, validation=validation, test=test, label_names=None, flips=True, skipped=()
    )
    assert data.seen_before(test) == 1 and data.seen_before(test.subset(np.arange(2, 10))) == 0
    assert data.seen_before(images.subset(np.arange(8))) == 4
    assert replace(data, validation=nobody).seen_before(test) == 0
    assert replace(data, train=replace(train, groups=None)).seen_before(test) is None
    assert data.seen_before(replace(test, groups=None)) is None
