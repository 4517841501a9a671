"""Find models by name: a file, a run folder, an embedded model, or a model on the hub."""

import difflib
from pathlib import Path

from condvae.weights.hub import MODEL_FILE, fetch, hub_model

DEFAULT_MODEL = "faces64"
"""The model that a command uses if the user names none."""
MODELS = Path(__file__).parent / "models"
"""The folder of the embedded models. NAME.safetensors is a model, NAME.ood.safetensors its fit for `condvae ood`."""


def embedded_names() -> list[str]:
    """Return the names of the models that are installed with the package."""
    return sorted(path.stem for path in MODELS.glob("*.safetensors") if not path.stem.endswith(".ood"))


def locate(name: str | Path) -> Path:
    """Return the path of a model's file. A model on the hub is downloaded.

    name: a path, a folder with model.safetensors, the name of an embedded model, or "owner/name[@revision]" on the hub.
    An existing file, or a folder with a model, takes precedence over an embedded model and the hub.
    """
    path, text = Path(name), str(name)
    if path.is_file():
        return path
    if (inside := path / MODEL_FILE).is_file():
        return inside
    if text in embedded_names():
        return MODELS / f"{text}.safetensors"
    if path.is_dir():
        raise ValueError(f"{path} is a folder without {MODEL_FILE}: give a model file, or the folder of a finished run")
    if model := hub_model(text):
        if path.parent.is_dir() and not model.revision:  # probably a mistyped path: do not ask the hub
            raise ValueError(
                f"{path} does not exist, although its folder {path.parent} does: check the path, "
                f"or write {model.repository}@main for the model on the hub"
            )
        return fetch(model)
    raise ValueError(_unknown(text))


def title_of(name: str, path: Path) -> str:
    """Return the title of a model in reports.

    name: the name or path that the user gave.
    path: the file that `locate` found for it.
    """
    title = Path(name).name.removesuffix(".safetensors")
    # In run folders every model is called model.safetensors, so the name of the folder tells more.
    return path.resolve().parent.name if title in ("", "model") else title


def _unknown(text: str) -> str:
    names = embedded_names()
    known = f"the embedded models are {', '.join(names)}" if names else "this installation has no embedded models"
    if "/" in text or "\\" in text or text.endswith(".safetensors"):
        return f"{text} does not exist: give the path of a condvae .safetensors file, or a name ({known})"
    near = difflib.get_close_matches(text.lower(), names, n=1)
    expected = f"a model is a file, a run folder, owner/name on the hub, or a name ({known})"
    return f"unknown model {text!r}: {f'did you mean {near[0]}? ' if near else ''}{expected}"
