"""The numbers of a comparison of policies: means over pictures with standard errors, paired differences, and times."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import Tensor

from condvae.design.sources import ImageSource
from condvae.observe import Observation
from condvae.runtime.devices import time_at

OURS, RANDOM = "eig-ipa", "random"
"""The policy that others are compared with, and the policy that needs no model."""


class Scanned(NamedTuple):
    """The predictions after the scans of a policy, and how long the scans took."""

    log_p: Tensor
    """[R, B, T, K] float32 on the CPU: log-probabilities of K classes, for R sequences of scans of each of B pictures,
    after T numbers of scans."""
    seconds: float
    drawn: int = 0
    """How many completions, or training images, were drawn. Those for the first scan do not count."""
    drawing_seconds: float = 0.0
    """The part of the seconds in which they were drawn."""


@dataclass(kw_only=True, eq=False)
class TimedSource:
    """Draws possible images with another source, and measures how many it draws and how long this takes."""

    source: ImageSource
    drawn: int = 0
    seconds: float = 0.0

    @property
    def name(self) -> str:
        return self.source.name

    def imagine(self, observation: Observation, n: int, seed: int, places: Sequence[int]) -> Tensor:
        start = time_at(observation.y.device)
        made = self.source.imagine(observation, n, seed, places)
        self.seconds += time_at(observation.y.device) - start
        self.drawn += made.shape[0] * made.shape[1]
        return made


def accuracy(log_p: Tensor, labels: Tensor) -> Tensor:
    """Return the accuracy in per cent: how often, among R sequences of scans, the most likely class is the true one.

    log_p: log-probabilities [R, B, T, K] of K classes after T numbers of scans. The result is [B, T].
    """
    return 100 * (log_p.argmax(dim=-1) == labels[:, None]).double().mean(dim=0)


def log_score(log_p: Tensor, labels: Tensor) -> Tensor:
    """Return the log-probability of the true class, averaged over R sequences of scans.

    log_p: log-probabilities [R, B, T, K] of K classes after T numbers of scans. The result is [B, T].
    """
    truth = labels[:, None, None].expand(*log_p.shape[:-1], 1)
    return log_p.gather(-1, truth)[..., 0].double().mean(dim=0)


MEASURES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"accuracy": accuracy, "log_score": log_score}
TITLES = {"accuracy": "accuracy, %", "log_score": "log g(true class), nats"}


def summarise(scanned: Mapping[str, Scanned], whole: Tensor, labels: Tensor) -> dict[str, Any]:
    """Return the means over pictures, with standard errors, after each number of scans and for whole pictures.

    Differences are paired: the difference for each picture is computed first.
    """
    each = {
        name: {key: measure(one.log_p, labels) for key, measure in MEASURES.items()} for name, one in scanned.items()
    }
    return {
        "scans": list(range(next(iter(scanned.values())).log_p.shape[2])),
        "policies": {
            name: {
                **{key: estimates(values) for key, values in each[name].items()},
                "sequences": len(one.log_p),
                "drawn": one.drawn,
                "seconds": round(one.seconds, 3),
                "drawing_seconds": round(one.drawing_seconds, 3),
            }
            for name, one in scanned.items()
        },
        "differences": {
            f"{OURS} - {name}": {key: estimates(each[OURS][key] - values) for key, values in found.items()}
            for name, found in each.items()
            if name != OURS
        },
        "whole": {key: estimates(measure(whole, labels)) for key, measure in MEASURES.items()},
    }


def estimates(values: Tensor) -> dict[str, list[float | None]]:
    """Return means over B pictures and their standard errors, which are None for a single picture. values: [B, T]."""
    several = len(values) > 1
    errors = (values.std(dim=0) / len(values) ** 0.5).tolist() if several else [None] * values.shape[1]
    return {"mean": values.mean(dim=0).tolist(), "standard_error": errors}


def show(result: Mapping[str, Any]) -> None:
    """Print accuracy and log-probability of the true class, after each number of scans and for whole pictures."""
    for key, title in TITLES.items():
        print(f"{title:28}{''.join(f'{t:8}' for t in result['scans'])}   whole picture")
        for name, found in result["policies"].items():
            print(f"{name:28}{numbers(found[key]['mean'])}{result['whole'][key]['mean'][0]:16.2f}")
            print(f"{'    standard error':28}{numbers(found[key]['standard_error'])}")
        for name, found in result["differences"].items():
            print(f"{name:28}{numbers(found[key]['mean'])}")
            print(f"{'    standard error':28}{numbers(found[key]['standard_error'])}")
    for name, found in result["policies"].items():
        drawn = (
            f", of which {found['drawing_seconds']:.1f} s to draw {found['drawn']:,} images" if found["drawn"] else ""
        )
        print(f"{name}: {found['seconds']:.1f} s{drawn}")


def numbers(values: list[float | None]) -> str:
    return "".join("       -" if value is None else f"{value:8.2f}" for value in values)
