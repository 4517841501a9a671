"""The work of an evaluation: who is measured in which way, what that depends on, and doing one's share of it."""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from tqdm import tqdm

from condvae.evaluation.measure import Measurement, Numbers
from condvae.evaluation.methods import Method, Subject, slug_of
from condvae.evaluation.parts import Shelf
from condvae.evaluation.plan import (
    DEEP,
    DIRECTIONS,
    IMPORTANCE_SAMPLES,
    PROJECTIONS,
    REVISION,
    Blocks,
    Kind,
    Unit,
    digest_of,
    fingerprint,
    mark_of,
    units,
)
from condvae.evaluation.problems import Problems
from condvae.metrics import HOLE_BINS
from condvae.registry import Say

_TRUTH = "test images"


class Shard(NamedTuple):
    """Number i, from 1, of n processes that share the work; they need not know of each other."""

    number: int
    of: int

    @classmethod
    def parse(cls, text: str) -> "Shard":
        number, slash, of = text.partition("/")
        if not (slash and number.isdecimal() and of.isdecimal() and 1 <= int(number) <= int(of)):
            raise ValueError(f"the shard {text!r} cannot be read, expected I/N with I from 1 to N, such as 2/8")
        return cls(int(number), int(of))


@dataclass(frozen=True, kw_only=True, eq=False)
class Job:
    """One subject, measured in one way."""

    name: str
    kind: Kind
    identity: str
    """Of the subject."""
    fingerprint: str
    """Of all that its numbers depend on."""
    common: str
    """Of all of that but for the subject: methods that share it can be compared."""
    about: dict[str, Any]
    units: tuple[Unit, ...]
    shelf: Shelf
    measure: Callable[[Unit], Numbers]

    @property
    def slug(self) -> str:
        return slug_of(self.name)


class Work:
    """All jobs of an evaluation into one folder."""

    def __init__(self, measurement: Measurement, out: Path, blocks: Blocks) -> None:
        self.measurement, self.out, self.blocks = measurement, out, blocks
        self.commons = commons(measurement)

    def jobs(self, methods: Sequence[Method], models: Sequence[Subject]) -> Iterator[Job]:
        """The bounds of models first, then every method."""
        to, problems, chosen = self.measurement, self.measurement.problems, self.measurement.settings.metrics
        for subject in models if "bounds" in chosen else ():
            yield self._job(subject, "elbo", len(problems.bits), partial(to.elbo, subject))
            yield self._job(subject, "bounds", len(problems.deep), partial(to.bounds, subject))
        for method in methods:
            if set(chosen) & set(DEEP):
                yield self._job(method, "deep", len(problems.deep), partial(to.deep, method))
            if "inception" in chosen:
                yield self._job(method, "wide", len(problems), partial(to.wide, method))

    def truth(self) -> Job:
        """Features of the test images themselves."""
        return Job(
            name=_TRUTH,
            kind="truth",
            identity="",
            fingerprint=self.commons["truth"],
            common=self.commons["truth"],
            about={},
            units=tuple(units("truth", len(self.measurement.problems), self.blocks)),
            shelf=Shelf(self.out, slug=slug_of(_TRUTH), kind="truth", fingerprint=self.commons["truth"]),
            measure=self.measurement.truth,
        )

    def _job(self, subject: Method | Subject, kind: Kind, images: int, measure: Callable[[Unit], Numbers]) -> Job:
        mark = mark_of(self.commons[kind], subject.identity)
        about: dict[str, Any] = {"name": subject.name, **subject.notes}
        if isinstance(subject, Method):
            about["varies"] = subject.varies
        return Job(
            name=subject.name,
            kind=kind,
            identity=subject.identity,
            fingerprint=mark,
            common=self.commons[kind],
            about=about,
            units=tuple(units(kind, images, self.blocks)),
            shelf=Shelf(self.out, slug=slug_of(subject.name), kind=kind, fingerprint=mark),
            measure=measure,
        )


def commons(measurement: Measurement) -> dict[Kind, str]:
    """Fingerprints of all that a kind of measurement depends on, but for its subject and the machine's rounding."""
    problems, settings, networks = measurement.problems, measurement.settings, measurement.networks
    base = {"revision": REVISION, "seed": settings.seed}
    holes = {**base, "images": problems.identity}
    wide = {
        **holes,
        "inception": None if networks.inception is None else digest_of(networks.inception),
        "precision": getattr(networks.inception, "precision", None),
    }
    deep = {
        **holes,
        "deep": problems.deep_identity,
        "k": settings.k,
        "metrics": sorted(set(settings.metrics) & set(DEEP)),
        "lpips": None if networks.lpips is None or not settings.needs_lpips else digest_of(networks.lpips),
        "projections": [PROJECTIONS, *DIRECTIONS],
    }
    values: dict[Kind, dict[str, Any]] = {
        "truth": wide,
        "wide": wide,
        "deep": deep,
        "elbo": {**base, "bits": problems.bits_identity},
        "bounds": {**holes, "deep": problems.deep_identity, "samples": IMPORTANCE_SAMPLES},
    }
    return {kind: fingerprint({"kind": kind, **found}) for kind, found in values.items()}


def work(jobs: Sequence[Job], problems: Problems, place: Shard, say: Say, *, shows: bool) -> None:
    """Measure every n-th unit, if it is not there yet; a line for every bin of a method."""
    share = [(job, unit) for job in jobs for unit in job.units][place.number - 1 :: place.of]
    mine = [(job, unit) for job, unit in share if not job.shelf.has(unit)]
    if len(mine) < len(share):
        say(f"{len(share) - len(mine)} of {len(share)} units of work are done already")
    spent, images = 0.0, 0
    # disable=None: no bar where there is no terminal.
    with tqdm(total=len(mine), unit="unit", leave=False, disable=None if shows else True) as bar:
        for i, (job, unit) in enumerate(mine):
            what = job.name if job.kind == "truth" else f"{job.name}, {job.kind}"
            what += "" if unit.hole is None else f", hole {HOLE_BINS[unit.hole]}"
            bar.set_description(what)
            if not job.shelf.has(unit):  # another process may have been told the same
                if unit.hole is not None:
                    with _aside(bar):  # here, so that it is not counted as the method's time
                        problems.holes(unit.hole, say)
                begin = time.perf_counter()
                numbers = {name: tensor.cpu() for name, tensor in job.measure(unit).items()}  # waits for the device
                seconds = time.perf_counter() - begin
                job.shelf.put(unit, numbers, seconds=seconds)
                spent, images = spent + seconds, images + unit.stop - unit.first
            bar.update()
            following = mine[i + 1] if i + 1 < len(mine) else None
            last = following is None or following[0] is not job or following[1].hole != unit.hole
            if last and images:
                with _aside(bar):
                    say(f"{what}: {images:,} images in {spent:.1f} s, {images / max(spent, 1e-9):,.1f} images/s")
                spent, images = 0.0, 0


@contextlib.contextmanager
def _aside(bar: "tqdm[Any]") -> Iterator[None]:
    """A line may be printed while the bar steps aside."""
    if not bar.disable:
        bar.clear()
    yield
    if not bar.disable:
        bar.refresh()
