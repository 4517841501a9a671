"""The methods that are measured: models at a temperature, baselines, folders of completions, and other completers."""

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
from condvae.completers.learned_completer import LearnedCompleter
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
"""How many pixels of completions a model computes together on a GPU."""
_TRAINING_IMAGES = "training images"
_LONGEST_NAME = 150
"""The name of a method has at most this many bytes, since it becomes part of file names."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Method:
    """A completer that is measured, and the digest by which its stored results are found."""

    completer: Completer
    identity: str
    """A digest of everything that determines the completions. Results of different identities are never mixed."""
    in_bin: Callable[[int], Completer] | None = None
    """For completions that are read from files: a function that returns the completer of a bin, given its index."""
    known_tolerance: int = 0
    """Known pixels that are wrong by up to this many grey levels are corrected; larger errors are rejected."""
    notes: Mapping[str, Any] = field(default_factory=dict)
    """Extra entries for the report. `made_of`, if present, is {name: digest} of the model or training images used."""

    @classmethod
    def of(cls, completer: Completer) -> "Method":
        """Wrap any completer as a method.

        The completer is identified by its `identity` attribute, or by its name if it has none. Change this value
        whenever the completions change, so that old results are not reused.
        """
        identity = str(getattr(completer, "identity", completer.name))
        return cls(completer=completer, identity=fingerprint({"completer": identity}))

    @property
    def name(self) -> str:
        return self.completer.name

    @property
    def varies(self) -> bool:
        return self.completer.varies

    def complete(self, observation: Observation, k: int, *, seed: int, hole: int, places: Indices) -> Tensor:
        """Return k completions of each observation.

        hole: the index of the bin that all holes belong to. places: the positions of the observations among all images.
        """
        completer = self.in_bin(hole) if self.in_bin else self.completer
        seed = Seeds(seed, "completions")(hole)
        return complete_at(completer, observation, k, seed=seed, places=places.tolist())


@dataclass(frozen=True, kw_only=True, eq=False)
class NamedCompleter:
    """A completer under another name."""

    name: str
    varies: bool
    complete: Callable[..., Tensor]


@dataclass(frozen=True, kw_only=True, eq=False)
class Subject:
    """A conditional model whose bounds are measured."""

    name: str
    model: ConditionalVAE
    identity: str
    notes: Mapping[str, Any] = field(default_factory=dict)


def subject_of(model: ConditionalVAE, name: str, *, record: Mapping[str, Any] | None = None) -> Subject:
    """Wrap a model for measuring its bounds. record: the training record from its file."""
    if model.partial_config.channels != model.artifact.config.channels + 1:
        raise ValueError(f"{name} was not trained to complete images with holes: give a model that was")
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


def check_fit(model: ConditionalVAE | LearnedCompleter, name: str, problems: Problems) -> None:
    """Raise a ValueError unless the model has the image size and channels of the data."""
    test, size, channels = problems.test, model.image_size, model.channels
    if (size, channels) != (test.size, test.channels):
        raise ValueError(
            f"the data has images of {test.size} x {test.size} x {test.channels}, but {name} makes "
            f"{size} x {size} x {channels}: give data of this size"
            + (f", or --size {size}" if channels == test.channels else "")
        )


def learned_method(model: LearnedCompleter, name: str, *, record: Mapping[str, Any] | None = None) -> Method:
    """Wrap a learned baseline as a method. record: the training record from its file."""
    identity, record = model.identity, dict(record or {})
    notes = {
        "made_of": {name: identity},
        "model": name,
        "method": model.title,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "training_minutes": {"all": float(record["minutes"])} if "minutes" in record else {},
        "record": record,
    }
    completer = NamedCompleter(name=name, varies=model.varies, complete=model.complete)
    return Method(completer=completer, identity=fingerprint({"baseline": identity}), notes=notes)


def methods_of(
    subject: Subject,
    temperatures: Sequence[str],
    pixels: Sequence[PixelChoice],
    *,
    k: int,
    say: Say | None = None,
) -> list[Method]:
    """Return one method of a model for each combination of a temperature and a pixel choice (mean or sample).

    Several spellings of a temperature, such as 1 and 1.0, give one method.
    """
    config, device = subject.model.artifact.config, subject.model.device
    most = images_at_once(config.image_size, device, on_cuda=_PIXELS_AT_ONCE)
    at_one = ModelCompleter.of(subject.model, name=subject.name, chunk=even_chunk(k, most), say=say)
    methods = []
    spellings: dict[tuple[float, ...], str] = {}
    for text in temperatures:
        heat = parse(text, config)
        short = f"{heat[0]:g}"
        spellings.setdefault(tuple(heat), short if heat == parse(short, config) else text)
    for (group_heat, text), kind in itertools.product(spellings.items(), dict.fromkeys(pixels)):
        heat = list(group_heat)
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
    """Return how many images of size x size pixels to compute together: `on_cuda` pixels on a GPU, fewer on a CPU."""
    return max(1, (on_cuda if device.type == "cuda" else 2**15) // size**2)


def even_chunk(k: int, most: int) -> int:
    """Return how many samples to compute together, at most `most`.

    A chunk holds all k samples of one or several images, or else the k samples of an image are split evenly.
    """
    size = -(-k // -(-k // most))
    return size * max(1, most // size)


def baselines(names: Sequence[str], data: Dataset) -> list[Method]:
    """Return the named baselines as methods; they use the training images of the data."""
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
    """Raise a ValueError for a name that cannot be used in tables and file names, or that is used twice."""
    seen: dict[str, str] = {}
    digests: dict[str, str] = {}
    for subject in subjects:
        if not subject.name.strip() or not subject.name.isprintable() or len(subject.name.encode()) > _LONGEST_NAME:
            raise ValueError(
                f"the method name {subject.name[:50]!r} is invalid: give one printable line of at most "
                f"{_LONGEST_NAME} bytes"
            )
        slug = slug_of(subject.name).lower()
        if slug in seen:
            raise ValueError(
                f"the method names {seen[slug]!r} and {subject.name!r} are too similar: give names that differ in "
                "letters or digits"
            )
        seen[slug] = subject.name
        for name, digest in subject.notes.get("made_of", {}).items():
            if digests.setdefault(name, digest) != digest:
                raise ValueError(f"two different models or image sets are both named {name!r}: rename one of them")


def _minutes(record: Mapping[str, Any]) -> dict[str, float]:
    """Read the training minutes of the partial encoder and of its artifact from a training record."""
    own = record.get("minutes")
    found = {} if not isinstance(own, int | float) else {"partial encoder": float(own)}
    artifact = record.get("artifact")
    if isinstance(artifact, Mapping) and isinstance(artifact.get("minutes"), int | float):
        found["VAE"] = float(artifact["minutes"])
    return found
