"""One `.safetensors` file per classifier: its weights, and in the metadata all else. Reading executes no code."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from condvae import observe
from condvae.design.avp_cnn import classifier_names
from condvae.design.avp_cnn.network import AVPCNN, ClassifierConfig, ClassifierPrecision
from condvae.observe import Process
from condvae.weights import sealed_file
from condvae.weights.artifact_file import assign, stored

KIND = "condvae classifier"


@dataclass(frozen=True, kw_only=True)
class ClassifierHeader:
    """What a file says of its classifier."""

    config: ClassifierConfig
    process: Process | None
    """What it was shown of images in training, where its maker said so."""
    record: dict[str, Any]
    """How it came to be: data, steps, seed, how good it is on held-out images."""
    parameters: int
    """Number of weights."""


def save_classifier(
    model: AVPCNN,
    path: str | Path,
    *,
    process: Process | None = None,
    half: bool = True,
    packed: bool = True,
    record: Mapping[str, Any] | None = None,
) -> None:
    """Write the classifier and a free-form record; `half` stores convolutions as float16.

    packed: these in fewer bytes, for condvae alone to read; plain files are for whoever reads safetensors.

    Atomic: the file appears whole under its name or not at all, and an older one stays until then.
    """
    plain = {
        "config": model.config.to_dict(),
        "process": process.to_dict() if process else None,
        "record": dict(record or {}),
    }
    # Vectors are few, and variances may not fit into half precision.
    weights = {n: stored(n, tensor, half=half and tensor.ndim > 1) for n, tensor in model.state_dict().items()}
    sealed_file.write(Path(path), kind=KIND, description=plain, tensors=weights, packed=packed)


def load_classifier(name: str | Path, *, precision: ClassifierPrecision = "auto") -> AVPCNN:
    """The classifier in a file of `save_classifier`, on the CPU: by its path, or the name of an embedded one."""
    path = locate_classifier(name)
    header, weights = _read(path)
    try:
        with torch.device("meta"):
            model = AVPCNN(header.config, precision=precision)
    except RuntimeError as error:
        raise ValueError(f"{path} describes a network too large to exist") from error
    assign(model, weights, str(path))
    return model.eval()


def describe_classifier(name: str | Path) -> ClassifierHeader:
    """What a file says of its classifier; a name will do, as for `load_classifier`."""
    return _read(locate_classifier(name))[0]


def locate_classifier(name: str | Path) -> Path:
    """The file of a classifier: a path, or an embedded name. What lies under a path comes first."""
    path, text = Path(name), str(name)
    if path.is_file():
        return path
    names = classifier_names.embedded_classifiers()
    if text in names:
        return classifier_names.CLASSIFIERS / f"{text}.safetensors"
    if path.is_dir():
        raise ValueError(f"{path} is a folder: give a file, such as {path / 'classifier.safetensors'}")
    known = f"the embedded classifiers are {', '.join(names)}" if names else "this installation has none embedded"
    if "/" in text or "\\" in text or text.endswith(".safetensors"):
        raise ValueError(f"{text} does not exist: give the path of a file of condvae design train, or a name ({known})")
    near = difflib.get_close_matches(text.lower(), names, n=1)
    meant = f"did you mean {near[0]}? " if near else ""
    raise ValueError(f"unknown classifier {text!r}: {meant}a classifier is a file or a name ({known})")


def _read(path: Path) -> tuple[ClassifierHeader, dict[str, Tensor]]:
    plain, weights = sealed_file.read(path, kind=KIND)
    try:
        process = plain["process"]
        header = ClassifierHeader(
            config=ClassifierConfig.from_dict(plain["config"]),
            process=None if process is None else observe.from_dict(process),
            record=dict(plain["record"]),
            parameters=sum(tensor.numel() for tensor in weights.values()),
        )
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise ValueError(f"{path} does not describe a classifier that this condvae knows: {error}") from error
    return header, weights
