"""Open a data set with the image size and the split that a trained model used."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from condvae.training.options import TrainingOptions

if TYPE_CHECKING:
    from condvae.data import Dataset
    from condvae.weights import Header


def open_as_trained(
    path: Sequence[str], header: "Header", *, validation: int | None = None, split_seed: int | None = None
) -> "Dataset":
    """Open a data set at the model's image size, split as in the model's training.

    The split is in the training record of the model file; without a record, the defaults of training are used.
    validation and split_seed override it, unless they are None.
    """
    from condvae.data import open_data

    trained = header.record.get("options", {})
    validation = trained.get("validation") if validation is None else validation
    seed = trained.get("split_seed") if split_seed is None else split_seed
    size, channels = header.config.image_size, header.config.channels
    seed = TrainingOptions.split_seed if seed is None else seed
    return open_data(path, size=size, channels=channels, validation=validation, seed=seed)
