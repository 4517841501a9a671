"""Save a model and its model card in a folder, upload this folder to the hub, and load models."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from condvae import observe
from condvae.runtime.atomic import write_text
from condvae.vdvae import VDVAEConfig
from condvae.weights.artifact_file import AnyModel, Header, describe, read_model, save
from condvae.weights.hub import CARD_FILE, MODEL_FILE, HubModel, check_pushable, fetch, hub_model, push
from condvae.weights.precision import WeightBits


def save_pretrained(
    model: AnyModel | str | Path,
    folder: str | Path,
    *,
    name: str | None = None,
    record: Mapping[str, Any] | None = None,
    bits: WeightBits = 32,
    push_to: str | None = None,
    private: bool = False,
    token: str | None = None,
    endpoint: str | None = None,
) -> Path:
    """Write model.safetensors and a model card, README.md, to a folder; upload both to the hub if `push_to` is given.

    model: a model, or the name or path of a model. A model given by name or path keeps its record.
    name: title of the model card. An existing README.md is not changed.
    record: JSON values that describe how the model was made; replaces the record of a named model.
    bits: how many bits each weight takes: 32, 16 (half precision) or 8.
    push_to: "owner/name" of a repository on the hub; it is created if it does not exist.
    """
    folder = Path(folder)
    if push_to is not None:
        check_pushable(push_to)
    if isinstance(model, str | Path):
        record = describe(model).record if record is None else record
        model = read_model(model)
    save(model, folder / MODEL_FILE, bits=bits, record=record)
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
) -> AnyModel:
    """Load a model. It is in float32 on the CPU.

    name: a model file, a run folder, the name of an embedded model, or "owner/name[@revision]" on the hub.
    cache: folder for downloads from the hub; None for the cache of huggingface_hub.
    train_artifact: do not freeze the artifact of a conditional model, so that the whole model can be trained further.
    """
    wanted = None if Path(name).exists() else hub_model(str(name))
    if wanted is None and revision is not None:
        raise ValueError(f"a revision was given, but {name} is not a model on the hub: leave out the revision")
    if wanted is None or (revision, cache, token, endpoint) == (None,) * 4:
        return read_model(name, train_artifact=train_artifact)
    if revision is not None:
        if wanted.revision:
            raise ValueError(
                f"{name} names a revision, but the revision {revision!r} was given too: leave out one of them"
            )
        wanted = HubModel(wanted.repository, revision)
    return read_model(fetch(wanted, cache=cache, token=token, endpoint=endpoint), train_artifact=train_artifact)


from_pretrained = load
"""The same function as `load`. Other libraries that use the hub call it from_pretrained."""


def card(header: Header, *, name: str, where: str) -> str:
    """Return the text of a model card.

    where: the argument with which `from_pretrained` loads the model, for the example in the card.
    """
    config = header.config
    vae = config if isinstance(config, VDVAEConfig) else None
    completes = vae is None or header.partial is not None
    size = f"{config.image_size} x {config.image_size}"
    what = {
        "conditional VAE": "A conditional VAE: a frozen VD-VAE and a partial encoder. It draws images that fit an "
        "observation.",
        "unconditional VAE": "An unconditional hierarchical VAE (VD-VAE).",
    }.get(header.kind, f"A {header.kind}: it completes images, for comparisons.")
    facts = {
        "images": f"{config.channels} channels, {size} pixels",
        "latent groups": len(vae.group_stages) if vae else None,
        "weights": f"{header.parameters:,}",
        "likelihood": f"`{vae.likelihood}`" if vae else None,
        "observes": f"`{observe.describe(header.process)}`" if header.process else None,
        "trained on": header.record.get("data"),
        "bits per dimension": header.record.get("bits_per_dim"),
    }
    lines = [
        "---",
        "library_name: condvae",
        "tags:",
        "- condvae",
        *(["- vae"] if vae else []),
        f"- {'image-completion' if completes else 'image-generation'}",
        "---",
        f"# {name}",
        what,
        "",
        *(f"- {key}: {value}" for key, value in facts.items() if value is not None),
        "",
        "The model file contains the network's configuration and the training record; `condvae info` prints them.",
        "",
        "```python",
        "import condvae",
        "",
        f'model = condvae.from_pretrained("{where}")',
        "```",
    ]
    return "\n".join(lines) + "\n"
