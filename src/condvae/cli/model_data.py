"""Data for a model that is there already."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from condvae.data import Dataset
    from condvae.weights import Header


def open_as_trained(
    path: str, header: "Header", *, validation: int | None = None, split_seed: int | None = None
) -> "Dataset":
    """Data at the model's size, split as its training did, where its record tells and nothing else is asked for."""
    from condvae.data import open_data

    trained = header.record.get("options", {})
    validation = trained.get("validation") if validation is None else validation
    seed = trained.get("split_seed") if split_seed is None else split_seed
    size, channels = header.config.image_size, header.config.channels
    return open_data(path, size=size, channels=channels, validation=validation, seed=5 if seed is None else seed)
