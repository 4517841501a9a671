"""What is measured: a model at a temperature, a baseline, a folder of completions, anything that completes."""

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from condvae.completers import baselines_of
from condvae.completers.by_place import complete_at
from condvae.completers.interface import Completer
from condvae.completers.model_completer import ModelCompleter
from condvae.conditional import ConditionalVAE
from condvae.data import Dataset
from condvae.data.digests import digest_of_set
from condvae.data.image_set import Indices
from condvae.experiments.evaluation.problems import Problems
from condvae.observe import Observation
from condvae.runtime.fingerprints import digest_of, fingerprint, slug_of
from condvae.runtime.messages import Say
from condvae.runtime.seeds import Seeds
from condvae.sampling.plain import PixelChoice
from condvae.vdvae.temperature import parse

_PIXELS_AT_ONCE = 2**18
"""Of the completions that a model computes together on a GPU."""
_TRAINING_IMAGES = "training images"
_LONGEST_NAME = 150
"""Bytes; it becomes part of names of files."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Method:
    """Something that completes, and how it is known on disk."""

    completer: Completer
    identity: str
    """A digest of all that decides its completions: numbers of another identity are never mixed with its own."""
    in_bin: Callable[[int], Completer] | None = None
    """Where completions lie ready: those for one bin of holes."""
    forgives: int = 0
    """Grey levels by which its known pixels may be off, to be put back."""
    notes: Mapping[str, Any] = field(default_factory=dict)
    """What the report says of it; `made_of`, if there, is {name: digest} of the model or the images that it uses."""

    @classmethod
    def of(cls, completer: Completer) -> "Method":
        """Anything that completes; one that has no `identity` goes by its name, so give it another when it changes."""
        identity = str(getattr(completer, "identity", completer.name))
        return cls(completer=completer, identity=fingerprint({"completer": identity}))

    @property
    def name(self) -> str:
        return self.completer.name

    @property
    def varies(self) -> bool:
        return self.completer.varies

    def complete(self, observation: Observation, k: int, *, seed: int, hole: int, places: Indices) -> Tensor:
        """k completions of these observations of a bin, which stand at these places among all of it."""
        completer = self.in_bin(hole) if self.in_bin else self.completer
        seed = Seeds(seed, "completions")(hole)
        return complete_at(completer, observation, k, seed=seed, places=places.tolist())


@dataclass(frozen=True, kw_only=True, eq=False)
class Subject:
    """A conditional model whose bounds are measured."""

    name: str
    model: ConditionalVAE
    identity: str
    notes: Mapping[str, Any] = field(default_factory=dict)


def subject_of(model: ConditionalVAE, name: str, *, record: Mapping[str, Any] | None = None) -> Subject:
    """A model with what its file tells of its making."""
    if model.partial_config.channels != model.artifact.config.channels + 1:
        raise ValueError(f"{name} was not trained to complete images, which is what is measured here")
    record = dict(record or {})
    config = {"vae": model.artifact.config.to_dict(), "partial": dataclasses.asdict(model.partial_config)}
    identity = digest_of(model, config)
    notes: dict[str, Any] = {
        "made_of": {name: identity},
        "parameters": sum(tensor.numel() for tensor in model.state_dict().values()),
        "likelihood": str(model.artifact.likelihood),
        "training_minutes": _minutes(record),
        "record": record,
    }
    return Subject(name=name, model=model, identity=identity, notes=notes)


def check_fit(subject: Subject, problems: Problems) -> None:
    """Raise a ValueError unless the model makes images of the data's size."""
    test, config = problems.test, subject.model.artifact.config
    if (config.image_size, config.channels) != (test.size, test.channels):
        raise ValueError(
            f"the data has images of {test.size} x {test.size} x {test.channels}, {subject.name} makes "
            f"{config.image_size} x {config.image_size} x {config.channels}: give data of its kind"
            + (f", or --size {config.image_size}" if config.channels == test.channels else "")
        )


def methods_of(
    subject: Subject,
    temperatures: Sequence[str],
    pixels: Sequence[PixelChoice],
    *,
    k: int,
    say: Say | None = None,
) -> list[Method]:
    """The model as a method at each temperature, with pixels of each kind."""
    config, device = subject.model.artifact.config, subject.model.device
    most = images_at_once(config.image_size, device, on_cuda=_PIXELS_AT_ONCE)
    at_one = ModelCompleter.of(subject.model, name=subject.name, chunk=even_chunk(k, most), say=say)
    methods = []
    for text, kind in itertools.product(dict.fromkeys(temperatures), dict.fromkeys(pixels)):
        heat = parse(text, config)
        name = f"{subject.name}, t {text}" + ("" if kind == "mean" else f", {kind} pixels")
        identity = fingerprint({"model": subject.identity, "temperature": heat, "pixels": kind})
        completer = dataclasses.replace(at_one, name=name, temperature=heat, pixels=kind)
        notes = {
            "made_of": {subject.name: subject.identity},
            "model": subject.name,
            "temperature": text,
            "pixels": kind,
            "precision": completer.sampler.precision,
        }
        methods.append(Method(completer=completer, identity=identity, notes=notes))
    return methods


def images_at_once(size: int, device: torch.device, *, on_cuda: int) -> int:
    """How many images of this size a model computes together: on a GPU so many pixels, on a CPU few."""
    return max(1, (on_cuda if device.type == "cuda" else 2**15) // size**2)


def even_chunk(k: int, most: int) -> int:
    """Samples computed together, such that all chunks of an image's k are about full."""
    size = -(-k // -(-k // most))
    return size * max(1, most // size)


def baselines(names: Sequence[str], data: Dataset) -> list[Method]:
    """Fillers that know the training images, or nothing."""
    completers = baselines_of(names, data.train)
    if not completers:
        return []
    images = digest_of_set(data.train)
    return [
        Method(
            completer=completer,
            identity=fingerprint({"baseline": name, "images": images}),
            notes={"made_of": {_TRAINING_IMAGES: images}},
        )
        for name, completer in completers.items()
    ]


def check_names(subjects: Sequence[Method | Subject]) -> None:
    """Raise a ValueError for a name that a table or a disk would not bear, and if two go by one name there."""
    seen: dict[str, str] = {}
    digests: dict[str, str] = {}
    for subject in subjects:
        if not subject.name.strip() or not subject.name.isprintable() or len(subject.name.encode()) > _LONGEST_NAME:
            raise ValueError(
                f"a method is called {subject.name[:50]!r}: give it a name of one line, at most {_LONGEST_NAME} bytes"
            )
        slug = slug_of(subject.name).lower()
        if slug in seen:
            raise ValueError(
                f"two methods are called {seen[slug]!r} and {subject.name!r}: give them names that differ in letters "
                "or digits"
            )
        seen[slug] = subject.name
        for name, digest in subject.notes.get("made_of", {}).items():
            if digests.setdefault(name, digest) != digest:
                raise ValueError(f"two different models or sets of images are called {name!r}: give one another name")


def _minutes(record: Mapping[str, Any]) -> dict[str, float]:
    """Training time that a record tells of: of the model itself, and of the artifact it was built on."""
    own = record.get("minutes")
    found = {} if not isinstance(own, int | float) else {"partial encoder": float(own)}
    artifact = record.get("artifact")
    if isinstance(artifact, Mapping) and isinstance(artifact.get("minutes"), int | float):
        found["VAE"] = float(artifact["minutes"])
    return found
