"""What a unit of work computes: a training, the numbers of a snapshot, or the information of y beyond the latents."""

import functools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from condvae import observe, weights
from condvae.conditional import ConditionalVAE
from condvae.data import Dataset
from condvae.data.digests import digest_of_set
from condvae.data.image_set import Indices
from condvae.data.order import spread
from condvae.experiments.pretraining.plan import COMPLETION, REVISION, PretrainingSettings, metrics_for
from condvae.experiments.pretraining.training_runs import Arm, TrainingRun
from condvae.experiments.resumable_work import ResultStore, ResultTensors
from condvae.metrics import (
    HOLE_BINS,
    Moments,
    conditional_nats,
    fid,
    ids,
    kid,
    label_entropy_nats,
    observed_information,
    sample_distances,
)
from condvae.metrics.feature_networks import FeatureNetworks
from condvae.observe import Label, Observation, PictureProcess
from condvae.observe.batch import Batch
from condvae.observe.hole_bins import HOLES_REVISION, known_in_bin
from condvae.runtime.fingerprints import digest_of, fingerprint
from condvae.runtime.seeds import Seeds
from condvae.sampling.sampler import Sampler

_IMAGES_AT_ONCE = {"cuda": 512, "cpu": 20}


class PretrainingContext:
    """The data, the networks of the metrics and the test images that all measurements share."""

    def __init__(
        self,
        data: Dataset,
        data_path: Path,
        settings: PretrainingSettings,
        networks: FeatureNetworks,
        device: torch.device,
    ) -> None:
        assert networks.inception is not None and networks.lpips is not None
        self.data, self.data_path, self.device = data, data_path, device
        self.settings = settings.for_test_set(len(data.test))
        self.inception, self.lpips = networks.inception, networks.lpips
        self.rows: Indices = spread(len(data.test), self.settings.images)
        self._real: tuple[Tensor, Moments] | None = None
        self._pictures: dict[str, Tensor] = {}

    @functools.cached_property
    def data_digest(self) -> str:
        return digest_of_set(self.data.train)

    @functools.cached_property
    def identity(self) -> str:
        """A digest of everything that the numbers of a snapshot depend on, except its weights and rounding."""
        settings, precision = self.settings, getattr(self.inception, "precision", None)
        return fingerprint(
            {
                "revision": [REVISION, HOLES_REVISION],
                "test": digest_of_set(self.data.test.subset(self.rows)),
                "condition": settings.condition,
                "counts": [settings.deep_images, settings.n, settings.bound_images, settings.seed],
                "networks": [digest_of(self.inception), precision, digest_of(self.lpips)],
            }
        )

    @functools.cached_property
    def known(self) -> Tensor:
        """The masks of known pixels of all test images, bool [N, 1, H, W]; image i has a hole of bin i mod 5."""
        count, size = len(self.rows), self.data.test.size
        masks = torch.empty(count, 1, size, size, dtype=torch.bool)
        for number, hole in enumerate(HOLE_BINS):
            mine = masks[number :: len(HOLE_BINS)]
            mine[:] = known_in_bin(hole, len(mine), size, seed=self.settings.seed)
        return masks

    def subset(self, count: int) -> Indices:
        """Return about `count` positions among the test images, spread evenly, with each bin of holes equally often."""
        if self.settings.condition != COMPLETION:
            return spread(len(self.rows), count)
        bins = len(HOLE_BINS)
        groups = spread(len(self.rows) // bins, max(1, count // bins))
        return (groups[:, None] * bins + np.arange(bins)).reshape(-1)

    def train(self, run: TrainingRun, folder: Path) -> ResultTensors:
        found = run.train(self.settings, self.data_path, folder, str(self.device))
        return {name: torch.tensor([value], dtype=torch.float64) for name, value in found.items()}

    def snapshot(self, run: TrainingRun, folder: Path, truth: ResultStore, step: int) -> ResultTensors:
        """Measure a snapshot of a training."""
        model = run.snapshot(self.settings, folder, step).to(self.device).eval()
        return self.measured(model, run.condition, truth)

    @torch.inference_mode()
    def measured(self, model: ConditionalVAE, condition: str, truth: ResultStore) -> ResultTensors:
        """Measure a model: its bound, and for the main condition the metrics of its answers, too.

        truth: where the Inception features of the test images are stored.
        """
        found = self.bound(model, condition)
        if condition == self.settings.condition:
            self._load_truth(truth)
            found |= self.answers(model)
        return found

    def _load_truth(self, store: ResultStore) -> None:
        """Read the Inception features of the test images, or compute and store them if this is the first use."""
        if self._real is None:
            if not store.has(self.identity):
                images = (self.images(some) for some in self._batches(np.arange(len(self.rows))))
                features = torch.cat([self.inception.features(levels) for levels in images])
                store.put(self.identity, {"features": features}, seconds=0.0)
            features = store.get([self.identity])[0]["features"].to(self.device)
            self._real = features, Moments.of(features)

    def bound(self, model: ConditionalVAE, condition: str) -> dict[str, Tensor]:
        """Return -ELBO of each image in nats, where the target is the whole image."""
        seeds, pieces = Seeds(self.settings.seed, "bounds"), []
        for some in self._batches(self.subset(self.settings.bound_images)):
            x, observation = self.observed(model, condition, some)
            nats = conditional_nats(model, x, observation, noise=[seeds(int(i)) for i in some])
            pieces.append(nats.whole.native)
        whole = torch.cat(pieces).cpu()
        if not bool(torch.isfinite(whole).all()):
            raise ValueError("the bound of a snapshot is NaN or infinite: its training has diverged, try a lower --lr")
        return {"nats": whole}

    def answers(self, model: ConditionalVAE) -> dict[str, Tensor]:
        """Measure completions or translations of the test images.

        Return FID, and KID or P-IDS, with their standard errors, [2] each; LPIPS-GT of each deep image, and for a
        translation also its diversity.
        """
        assert self._real is not None
        settings, sampler, (real, moments) = self.settings, Sampler(model), self._real
        wanted = metrics_for(settings.condition)
        features = []
        for some in self._batches(np.arange(len(self.rows))):
            _, observation = self.observed(model, settings.condition, some)
            made = sampler(observation, 1, seed=settings.seed, places=some.tolist())
            features.append(self.inception.features(made[:, 0]))
        fake = torch.cat(features)
        numbers = {"fid": fid(real, fake, paired=True, real_moments=moments)}
        if "p_ids" in wanted:
            numbers["p_ids"] = ids(real, fake).p_ids
        if "kid" in wanted:
            numbers["kid"] = kid(real, fake, seed=settings.seed)
        nearest, apart = [], []
        for some in self._batches(self.subset(settings.deep_images)):
            _, observation = self.observed(model, settings.condition, some)
            made = sampler(observation, settings.n, seed=settings.seed, places=some.tolist())
            distances = sample_distances(self.lpips, self.images(some), made)
            nearest.append(distances.closest())
            apart.append(distances.diversity())
        plain = {name: torch.tensor([found.mean, found.standard_error]) for name, found in numbers.items()}
        deep = {"lpips_gt": torch.cat(nearest).cpu(), "diversity": torch.cat(apart).cpu()}
        return plain | {name: values for name, values in deep.items() if name in wanted}

    @torch.inference_mode()
    def information(self, arm: Arm, condition: str) -> ResultTensors:
        """Return I*(x; y | z) of each image in nats, measured and for a calibrated model; for labels, a bound on it."""
        assert arm.artifact is not None
        process = observe.parse((condition,))
        if isinstance(process, Label):
            return {"most": torch.tensor([label_entropy_nats(self._labels())], dtype=torch.float64)}
        vae = weights.load_vae(arm.artifact).to(self.device).eval()
        seeds, pieces = Seeds(self.settings.seed, "bounds"), []
        for some in self._batches(self.subset(self.settings.bound_images)):
            x = self._batch(some).x
            found = observed_information(vae, x, process, noise=[seeds(int(i)) for i in some])
            pieces.append(torch.stack((found.cross_entropy_nats, found.calibrated_nats)))
        measured, calibrated = torch.cat(pieces, dim=1).cpu()
        return {"measured": measured, "calibrated": calibrated}

    def _labels(self) -> Tensor:
        labels = self.data.test.take(self.rows).labels
        assert labels is not None
        return labels

    def images(self, positions: Indices) -> Tensor:
        """Return test images by their positions among the N images, uint8 [B, C, H, W]."""
        return self.data.test.take(self.rows[positions]).images.to(self.device)

    def observed(self, model: ConditionalVAE, condition: str, positions: Indices) -> tuple[Tensor, Observation]:
        """Return test images in [-1, 1], and what the model observes of them under a condition."""
        batch, normalise = self._batch(positions), model.artifact.normalise
        if condition == COMPLETION:
            return batch.x, model.observe(batch.x, self.known[torch.from_numpy(positions)].to(self.device))
        process = observe.parse((condition,))
        if isinstance(process, PictureProcess):
            pictures = self._pictures_for(condition, process)[torch.from_numpy(positions).to(self.device)]
            return batch.x, process.show(pictures, normalise=normalise)
        generator = Seeds(self.settings.seed, condition).generator(0, self.device)
        return batch.x, process.observe(batch, normalise=normalise, generator=generator)

    def _pictures_for(self, condition: str, process: PictureProcess) -> Tensor:
        """Return the pictures of all test images for a translation, which are made once for all snapshots."""
        if condition not in self._pictures:
            batches = (self._batch(some) for some in self._batches(np.arange(len(self.rows))))
            self._pictures[condition] = torch.cat([process.pictures_of(batch) for batch in batches])
        return self._pictures[condition]

    def _batch(self, positions: Indices) -> Batch:
        return self.data.test.take(self.rows[positions]).to(self.device).batch()

    def _batches(self, positions: Indices) -> Iterator[Indices]:
        size = _IMAGES_AT_ONCE[self.device.type]
        return (positions[first : first + size] for first in range(0, len(positions), size))
