"""Classifier files: `.safetensors` files with weights, and all else as metadata. Reading one executes no code."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from torch import Tensor

from condvae import observe
from condvae.design.avp_cnn import classifier_names
from condvae.design.avp_cnn.network import AVPCNN, ClassifierConfig, ClassifierPrecision
from condvae.observe import Process
from condvae.runtime.checks import check_choice
from condvae.runtime.devices import without_weights
from condvae.runtime.messages import reason_of
from condvae.weights import sealed_file
from condvae.weights.artifact_file import assign, check_enough
from condvae.weights.precision import stored

KIND = "condvae classifier"


@dataclass(frozen=True, kw_only=True)
class ClassifierHeader:
    """The description of a classifier that its file contains."""

    config: ClassifierConfig
    process: Process | None
    """The observation process that was used in training. None if the file does not state it."""
    record: dict[str, Any]
    """How the classifier was made: data, steps, seed, and its quality on held-out images."""
    parameters: int
    """Number of the classifier's weights."""


def save_classifier(
    model: AVPCNN,
    path: str | Path,
    *,
    process: Process | None = None,
    bits: Literal[32, 16] = 16,
    packed: bool = True,
    record: Mapping[str, Any] | None = None,
) -> None:
    """Write a classifier file. An older file of that name stays until the new one is complete.

    process: the observation process that was used in training.
    bits: how many bits each weight takes: 32, or 16 (float16) except for vectors.
    packed: compress the weights. Only condvae can read packed files; any safetensors reader can read the others.
    record: any JSON data that describes how the classifier was made.
    """
    plain = {
        "config": model.config.to_dict(),
        "process": process.to_dict() if process else None,
        "record": dict(record or {}),
    }
    # Vectors stay in float32: they are small, and variances may overflow half precision.
    check_choice(bits, "the number of bits per weight", (32, 16))
    vectors = {name: tensor for name, tensor in model.state_dict().items() if tensor.ndim <= 1}
    others = {name: tensor for name, tensor in model.state_dict().items() if tensor.ndim > 1}
    tensors = {**stored(vectors, bits=32), **stored(others, bits=bits)}
    sealed_file.write(Path(path), kind=KIND, description=plain, tensors=tensors, packed=packed)


def load_classifier(name: str | Path, *, precision: ClassifierPrecision = "auto") -> AVPCNN:
    """Load a classifier to the CPU, given the path of its file or the name of an embedded classifier."""
    path = locate_classifier(name)
    header, weights = _read(path)
    try:
        with without_weights():
            model = AVPCNN(header.config, precision=precision)
    except (OverflowError, RuntimeError) as error:
        raise ValueError(f"{path} describes a network that is too large to build: give another file") from error
    assign(model, weights, str(path))
    return model.eval()


def describe_classifier(name: str | Path) -> ClassifierHeader:
    """Read the description of a classifier, given a path or a name as in `load_classifier`."""
    return _read(locate_classifier(name))[0]


def locate_classifier(name: str | Path) -> Path:
    """Find the file of a classifier, given its path or an embedded classifier's name. An existing path is preferred."""
    path, text = Path(name), str(name)
    if path.is_file():
        return path
    names = classifier_names.embedded_classifiers()
    if text in names:
        return classifier_names.CLASSIFIERS / f"{text}.safetensors"
    if path.is_dir():
        raise ValueError(f"{path} is a folder: give a classifier file, such as {path / 'classifier.safetensors'}")
    known = f"the embedded classifiers are {', '.join(names)}" if names else "no classifiers are embedded here"
    if "/" in text or "\\" in text or text.endswith(".safetensors"):
        raise ValueError(f"{text} does not exist: give a file made by condvae design train, or a name ({known})")
    near = difflib.get_close_matches(text.lower(), names, n=1)
    meant = f"did you mean {near[0]}? " if near else ""
    raise ValueError(f"unknown classifier {text!r}: {meant}give a file or a name ({known})")


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
    except (AttributeError, KeyError, OverflowError, RecursionError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path} does not describe a classifier that this condvae can read: {reason_of(error)}"
        ) from error
    check_enough(header.config.trunk_blocks, weights, str(path), tensors_per_block=10)
    return header, weights
