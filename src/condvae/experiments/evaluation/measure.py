"""Compute the results of a unit of work: metrics of each image, and Inception features for metrics of whole sets."""

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from condvae.data.image_set import Indices
from condvae.experiments.evaluation.methods import Method, Subject, images_at_once
from condvae.experiments.evaluation.plan import (
    DEEP,
    DIRECTIONS,
    GREY,
    IMPORTANCE_SAMPLES,
    PROJECTIONS,
    REVISION,
    EvaluationSettings,
    MeasurementKind,
)
from condvae.experiments.evaluation.problems import Problems
from condvae.experiments.resumable_work import joined
from condvae.metrics import (
    HOLE_BINS,
    conditional_nats,
    elbo_bits_per_dim,
    pixel_crps,
    pixel_mean,
    projection_ranks,
    psnr,
    reference_ranks,
    sample_distances,
    sample_mse,
    ssim,
)
from condvae.metrics.feature_networks import FeatureNetworks
from condvae.observe.observation import observe_levels
from condvae.runtime.fingerprints import digest_of, fingerprint
from condvae.runtime.pixels import from_uint8
from condvae.runtime.seeds import Seeds

_BYTES_AT_ONCE = 2**26
"""At most this many bytes of completions are measured together."""
_PIXELS_AT_ONCE = 2**19
"""How many pixels, over all images, get their bounds together on a GPU. It is large, since kernel launches are slow."""

MeasuredNumbers = dict[str, Tensor]


class EvaluationUnit(NamedTuple):
    """A unit of work: a range of images, with holes of one bin or without holes. Its result is one file."""

    hole: int | None
    """Index of the bin; None for measurements without holes."""
    first: int
    stop: int

    def __str__(self) -> str:
        where = "" if self.hole is None else f"hole-{HOLE_BINS[self.hole]}-"
        return f"{where}{self.first:06}-{self.stop:06}"

    @property
    def positions(self) -> Indices:
        return np.arange(self.first, self.stop)


class _Completed(NamedTuple):
    made: Tensor
    """Completions, uint8 [B, k, C, H, W]."""
    truth: Tensor
    known: Tensor
    put_back: Tensor
    """[B]: number of completions in which known pixels had to be restored."""


@dataclass(frozen=True, kw_only=True, eq=False)
class EvaluationContext:
    """Everything that is needed to compute a unit of work."""

    problems: Problems
    settings: EvaluationSettings
    networks: FeatureNetworks
    device: torch.device

    @functools.cached_property
    def fingerprints(self) -> dict[MeasurementKind, str]:
        """A fingerprint for each kind of measurement, of everything that its results depend on.

        It does not cover the method or model that is measured, nor rounding.
        """
        problems, settings, networks = self.problems, self.settings, self.networks
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
            "k": settings.n,
            "metrics": sorted(set(settings.metrics) & set(DEEP)),
            "lpips": None if networks.lpips is None or not settings.needs_lpips else digest_of(networks.lpips),
            "projections": [PROJECTIONS, *DIRECTIONS],
        }
        values: dict[MeasurementKind, dict[str, Any]] = {
            "truth": wide,
            "observed": {**wide, "grey": GREY},
            "wide": {**wide, "grey": GREY},  # for CFID
            "deep": deep,
            "elbo": {**base, "bits": problems.bits_identity},
            "bounds": {**holes, "deep": problems.deep_identity, "samples": IMPORTANCE_SAMPLES},
        }
        return {kind: fingerprint({"kind": kind, **found}) for kind, found in values.items()}

    @torch.inference_mode()
    def truth(self, unit: EvaluationUnit) -> MeasuredNumbers:
        """Return Inception features of the unit's test images."""
        assert self.networks.inception is not None
        images = self.problems.truth(unit.positions, self.device)
        return {"features": self.networks.inception.features(images)}

    @torch.inference_mode()
    def observed(self, unit: EvaluationUnit) -> MeasuredNumbers:
        """Return Inception features of the unit's test images with grey hidden pixels, which represent observations."""
        assert self.networks.inception is not None and unit.hole is not None
        images = self.problems.truth(unit.positions, self.device)
        known = self.problems.known(unit.hole, unit.positions, self.device)
        return {"features": self.networks.inception.features(torch.where(known, images, GREY))}

    @torch.inference_mode()
    def wide(self, method: Method, unit: EvaluationUnit) -> MeasuredNumbers:
        """Return Inception features of one completion of each of the unit's images."""
        assert self.networks.inception is not None
        completed = (self._completed(method, unit, places, 1) for places in self._completion_chunks(unit.positions, 1))
        return {"features": torch.cat([self.networks.inception.features(one.made[:, 0]) for one in completed])}

    @torch.inference_mode()
    def deep(self, method: Method, unit: EvaluationUnit) -> MeasuredNumbers:
        """Measure k completions of each image, or one if the method always gives the same completion."""
        k = self.settings.n if method.varies else 1
        pieces = []
        for numbers in self._completion_chunks(unit.positions, k):
            completed = self._completed(method, unit, self.problems.deep[numbers], k)
            pieces.append({"put_back": completed.put_back, **self._of_samples(completed, numbers)})
        return joined(pieces)

    def _of_samples(self, completed: "_Completed", numbers: Indices) -> MeasuredNumbers:
        made, truth, known, _ = completed
        chosen, found = self.settings.metrics, MeasuredNumbers()
        seed, first = Seeds(self.settings.seed, "coverage")(0), int(numbers[0])
        if self.settings.needs_lpips:
            assert self.networks.lpips is not None
            references = None
            if "coverage" in chosen:  # keep the known pixels, which all images share and which carry no information
                others = self.problems.reference_images(numbers, self.device)
                references = torch.where(known[:, None], truth[:, None], others)
            distances = sample_distances(self.networks.lpips, truth, made, references, crps="lpips" in chosen)
            if distances.crps is not None:
                found.update(to_truth=distances.to_truth, between=distances.between, to_mean=distances.to_mean)
                found["crps_lpips"] = distances.crps
            if distances.reference_truth is not None and distances.reference_samples is not None:
                copies = distances.reference_samples.expand(-1, self.settings.n, -1)
                found["reference_ranks"] = reference_ranks(distances.reference_truth, copies, seed=seed, first=first)
        if "coverage" in chosen:
            # A method with one fixed completion is treated as k equal samples: it claims to be certain.
            copies = made.expand(-1, self.settings.n, -1, -1, -1)
            for kind in DIRECTIONS:
                found[f"{kind}_ranks"] = projection_ranks(
                    truth, copies, ~known, projections=PROJECTIONS, seed=seed, first=first, kind=kind
                )
        if "pixels" in chosen:
            mean = pixel_mean(made)
            found.update(mse=sample_mse(truth, made), psnr=psnr(mean, truth), ssim=ssim(mean, truth))
            found["crps_pixels"] = pixel_crps(truth, made, ~known)
        return found

    @torch.inference_mode()
    def elbo(self, subject: Subject, unit: EvaluationUnit) -> MeasuredNumbers:
        """Return bits per dimension of each image under the VAE alone. The unit's positions are indices into `bits`."""
        seeds, pieces = Seeds(self.settings.seed, "bits per dimension"), []
        for numbers in self._batches(unit.positions):
            x = from_uint8(self.problems.test.take(self.problems.bits[numbers]).images.to(self.device))
            bits = elbo_bits_per_dim(subject.model.artifact, x, noise=[seeds(int(i)) for i in numbers])
            pieces.append({"native": bits.native} | ({} if bits.of_8_bits is None else {"8_bits": bits.of_8_bits}))
        return _without_nan(joined(pieces), subject)

    @torch.inference_mode()
    def bounds(self, subject: Subject, unit: EvaluationUnit) -> MeasuredNumbers:
        """Return upper bounds on -log p of each image in nats, with the number of dimensions and the forward KL.

        The bounds are given y, for the hidden pixels and for the whole image, each with 1 and 16 importance samples.
        """
        assert unit.hole is not None
        seeds, pieces = Seeds(self.settings.seed, "bounds"), []
        for numbers in self._batches(unit.positions):
            places = self.problems.deep[numbers]
            x = from_uint8(self.problems.truth(places, self.device))
            observation = subject.model.observe(x, self.problems.known(unit.hole, places, self.device))
            noise = [seeds(int(i)) for i in numbers]
            one = conditional_nats(subject.model, x, observation, noise=noise)
            many = conditional_nats(subject.model, x, observation, noise=noise, samples=IMPORTANCE_SAMPLES)
            assert one.kl is not None
            piece = {"kl_nats": one.kl, "hidden_dims": one.hidden_dims, "whole_dims": one.whole_dims}
            for nats, by in ((one, ""), (many, f"@{IMPORTANCE_SAMPLES}")):
                for target, found in (("hidden", nats.hidden), ("whole", nats.whole)):
                    piece[f"{target}_nats_native{by}"] = found.native
                    if found.of_8_bits is not None:
                        piece[f"{target}_nats{by}"] = found.of_8_bits
            pieces.append(piece)
        return _without_nan(joined(pieces), subject)

    def _completed(self, method: Method, unit: EvaluationUnit, places: Indices, k: int) -> "_Completed":
        """Complete the images at these positions k times, and correct small errors in known pixels.

        Raise a ValueError if an error in a known pixel is larger than the method's tolerance.
        """
        assert unit.hole is not None
        truth = self.problems.truth(places, self.device)
        known = self.problems.known(unit.hole, places, self.device)
        # Give the completer copies, so that it cannot change what its completions are compared with.
        observation = observe_levels(truth, known.clone())
        made = method.complete(observation, k, seed=self.settings.seed, hole=unit.hole, places=places)
        made = made.to(self.device)
        altered = known[:, None] & (made != truth[:, None])
        if not bool(altered.any()):
            return _Completed(made, truth, known, torch.zeros(len(truth), device=self.device))
        off = torch.where(known[:, None], made.int() - truth[:, None].int(), 0).abs().flatten(1).amax(dim=1)
        if int(off.max()) > method.known_tolerance:
            worst = int(off.argmax())
            raise ValueError(
                f"{method.name} has changed known pixels of image {self.problems.names[places[worst]]} in the bin "
                f"{HOLE_BINS[unit.hole]} by {int(off.max())} grey levels: keep them as they are, and check that the "
                "completion is not of another image or another hole"
            )
        made = torch.where(known[:, None], truth[:, None], made)
        return _Completed(made, truth, known, altered.flatten(2).any(dim=2).float().sum(dim=1))

    def _completion_chunks(self, positions: Indices, k: int) -> Iterator[Indices]:
        """Split the positions of images into chunks, such that k completions of each image in a chunk fit in memory.

        The size of a chunk depends only on k and on the size of images, so that results do not depend on the device.
        """
        test = self.problems.test
        return _chunks(positions, max(1, _BYTES_AT_ONCE // (k * test.channels * test.size**2)))

    def _batches(self, positions: Indices) -> Iterator[Indices]:
        return _chunks(positions, images_at_once(self.problems.test.size, self.device, on_cuda=_PIXELS_AT_ONCE))


def _without_nan(found: MeasuredNumbers, subject: Subject) -> MeasuredNumbers:
    """Return the bounds of a model; raise ValueError if one is NaN, so that no mean is computed from the others."""
    if any(bool(torch.isnan(values).any()) for values in found.values()):
        raise ValueError(
            f"a bound of {subject.name} is NaN: use another model file, because the weights of this one are damaged or "
            "their training has diverged"
        )
    return found


def _chunks(positions: Indices, size: int) -> Iterator[Indices]:
    for first in range(0, len(positions), size):
        yield positions[first : first + size]
