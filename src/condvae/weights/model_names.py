"""Models by name: a file, a run folder, a model that comes with the package, or one on the hub."""

import difflib
from pathlib import Path

from condvae.weights.hub import MODEL_FILE, fetch, hub_model

DEFAULT_MODEL = "faces64"
"""What every verb uses where no model is named."""
MODELS = Path(__file__).parent / "models"
"""NAME.safetensors of every embedded model, and NAME.ood.safetensors where it has a fit of `condvae ood`."""


def embedded_names() -> list[str]:
    """The models that come with the package."""
    return sorted(path.stem for path in MODELS.glob("*.safetensors") if not path.stem.endswith(".ood"))


def locate(name: str | Path) -> Path:
    """The file of a model: a path, a folder with model.safetensors, an embedded name, or "owner/name[@revision]" of
    the hub. What lies under a path comes first.
    """
    path, text = Path(name), str(name)
    if path.is_file():
        return path
    if (inside := path / MODEL_FILE).is_file():
        return inside
    if text in embedded_names():
        return MODELS / f"{text}.safetensors"
    if path.is_dir():
        raise ValueError(f"{path} is a folder: give a file, such as {inside}")
    if model := hub_model(text):
        if path.parent.is_dir() and not model.revision:  # a mistyped path, which the hub need not hear of
            raise ValueError(
                f"{path} does not exist: there is a folder {path.parent}, but not that in it; "
                f"if a model of the hub is meant, write {model.repository}@main"
            )
        return fetch(model)
    raise ValueError(_unknown(text))


def title_of(name: str, path: Path) -> str:
    """What reports call the model of a name that was located at a path."""
    title = Path(name).name.removesuffix(".safetensors")
    return path.resolve().parent.name if title in ("", "model") else title  # what every run folder calls its own


def _unknown(text: str) -> str:
    names = embedded_names()
    known = f"the embedded models are {', '.join(names)}" if names else "this installation has no embedded models"
    if "/" in text or "\\" in text or text.endswith(".safetensors"):
        return f"{text} does not exist: give the path of a condvae .safetensors file, or a name ({known})"
    near = difflib.get_close_matches(text.lower(), names, n=1)
    expected = f"a model is a file, a run folder, owner/name on the hub, or a name ({known})"
    return f"unknown model {text!r}: {f'did you mean {near[0]}? ' if near else ''}{expected}"
