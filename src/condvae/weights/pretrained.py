"""A folder that can be shared: a model's file and a card that says what it is; and the way back from it or the hub."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from condvae import observe
from condvae.conditional import ConditionalVAE
from condvae.runtime.atomic import write_text
from condvae.vdvae.model import VDVAE
from condvae.weights.artifact_file import Header, describe, read_model, save
from condvae.weights.hub import CARD_FILE, MODEL_FILE, HubModel, check_pushable, fetch, hub_model, push


def save_pretrained(
    model: VDVAE | ConditionalVAE | str | Path,
    folder: str | Path,
    *,
    name: str | None = None,
    record: Mapping[str, Any] | None = None,
    half: bool = False,
    push_to: str | None = None,
    private: bool = False,
    token: str | None = None,
    endpoint: str | None = None,
) -> Path:
    """Write model.safetensors and a model card, README.md, and upload both if `push_to` is an owner/name of the hub.

    model: itself, or the name or path of one, whose record is then kept unless another is given.
    name: the card's title. A card that is there already stays as it is.
    """
    folder = Path(folder)
    if push_to is not None:
        check_pushable(push_to)
    if isinstance(model, str | Path):
        record = describe(model).record if record is None else record
        model = read_model(model)
    save(model, folder / MODEL_FILE, half=half, record=record)
    if not (folder / CARD_FILE).exists():
        header = describe(folder / MODEL_FILE)
        text = card(header, name=name or push_to or folder.resolve().name, where=push_to or str(folder.name))
        write_text(folder / CARD_FILE, text)
    if push_to is not None:
        push(folder, push_to, private=private, token=token, endpoint=endpoint)
    return folder


def load(
    name: str | Path,
    *,
    revision: str | None = None,
    cache: str | Path | None = None,
    token: str | None = None,
    endpoint: str | None = None,
    train_artifact: bool = False,
) -> VDVAE | ConditionalVAE:
    """A model by its file, its run folder, its name in the package, or "owner/name[@revision]" on the hub.

    In float32 on the CPU. A conditional one has its artifact frozen, unless `train_artifact` is set to go on training
    all of it. cache: folder for downloads; by default huggingface_hub's own.
    """
    wanted = None if Path(name).exists() else hub_model(str(name))
    if wanted is None and revision is not None:
        raise ValueError(f"a revision was given, but {name} is no model of the hub: leave it out")
    if wanted is None or (revision, cache, token, endpoint) == (None,) * 4:
        return read_model(name, train_artifact=train_artifact)
    if revision is not None:
        if wanted.revision:
            raise ValueError(f"{name} names a revision, and {revision!r} was given too: leave one out")
        wanted = HubModel(wanted.repository, revision)
    return read_model(fetch(wanted, cache=cache, token=token, endpoint=endpoint), train_artifact=train_artifact)


from_pretrained = load
"""The name by which the hub's users know it."""


def card(header: Header, *, name: str, where: str) -> str:
    """The text of a model card. where: what `from_pretrained` is given to load the model."""
    config, conditional = header.config, header.partial is not None
    size = f"{config.image_size} x {config.image_size}"
    what = (
        "A conditional VAE: a frozen VD-VAE with a partial encoder that draws images fitting an observation."
        if conditional
        else "An unconditional hierarchical VAE (VD-VAE)."
    )
    facts = {
        "images": f"{config.channels} channels, {size} pixels",
        "latent groups": len(config.group_stages),
        "weights": f"{header.parameters:,}",
        "likelihood": f"`{config.likelihood}`",
        "observes": f"`{observe.describe(header.process)}`" if header.process else None,
        "trained on": header.record.get("data"),
        "bits per dimension": header.record.get("bits_per_dim"),
    }
    lines = [
        "---",
        "library_name: condvae",
        "tags:",
        "- condvae",
        "- vae",
        f"- {'image-completion' if conditional else 'image-generation'}",
        "---",
        f"# {name}",
        what,
        "",
        *(f"- {key}: {value}" for key, value in facts.items() if value is not None),
        "",
        "The file holds its network's shape and the record of its training; `condvae info` prints them.",
        "",
        "```python",
        "import condvae",
        "",
        f'model = condvae.from_pretrained("{where}")',
        "```",
    ]
    return "\n".join(lines) + "\n"
