"""Open data for a trained model."""

from typing import TYPE_CHECKING

from condvae.training.options import TrainingOptions

if TYPE_CHECKING:
    from condvae.data import Dataset
    from condvae.weights import Header


def open_as_trained(
    path: str, header: "Header", *, validation: int | None = None, split_seed: int | None = None
) -> "Dataset":
    """Open data at the model's size, with the split of its training unless another one is given.

    The training record in the model file has that split; without it, the defaults of training are used.
    """
    from condvae.data import open_data

    trained = header.record.get("options", {})
    validation = trained.get("validation") if validation is None else validation
    seed = trained.get("split_seed") if split_seed is None else split_seed
    size, channels = header.config.image_size, header.config.channels
    seed = TrainingOptions.split_seed if seed is None else seed
    return open_data(path, size=size, channels=channels, validation=validation, seed=seed)
