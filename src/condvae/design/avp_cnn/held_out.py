"""What a classifier is worth on images that it has not seen: by how many patches of them it is shown."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from condvae.data import ImageSet
from condvae.design.avp_cnn.calibration import expected_calibration_error, platt_scaling, temperature_scaling
from condvae.design.avp_cnn.network import AVPCNN
from condvae.design.avp_cnn.targets import Targets
from condvae.metrics import auroc as ranking
from condvae.observe.process import KnownPixels
from condvae.observe.regions import Mixture, Patches
from condvae.runtime.pixels import from_uint8
from condvae.runtime.seeds import Seeds

_CHUNK = 256
"""Images seen together. A constant: each chunk has its own seed, so results do not depend on memory."""
_STRENGTH = 300.0
"""In images: how much the belief weighs that logits are right as they are. Images of a patient are not independent: of
357 held-out x-rays 28 showed an edema, of 3 patients, and a weaker belief fitted those three."""
WHOLE = "whole"


class HeldOut:
    """Held-out images, each shown in the same few ways whenever it is asked for.

    Of patches, as in training: 0 of them, 1, ... up to as many as there may be, wholly inside the image, as scans are;
    of anything else: as it draws them. And whole.
    """

    def __init__(self, images: ImageSet, targets: Targets, process: KnownPixels, *, seed: int, draws: int = 1) -> None:
        self.images, self.targets, self.process = images, targets, process
        self.seed, self.draws = seed, draws
        self.patches = _patches_in(process)
        counts = () if self.patches is None else tuple(map(str, range(self.patches.most + 1)))
        self.views = (*(counts or ("drawn",)), WHOLE)
        self.truth = torch.cat([targets.of(labels) for _, labels in self._batches()])

    def logits(self, model: AVPCNN) -> dict[str, Tensor]:
        """For each view [draws, N, logits], on the CPU; everything drawn on the CPU too, whatever the device."""
        return {view: torch.stack([self._seen(model, view, draw) for draw in range(self.draws)]) for view in self.views}

    def nll(self, logits: dict[str, Tensor]) -> float:
        """The mean over views of minus the log-probability, in nats, of what is true of an image, per variable."""
        return float(np.mean([float(self._nll(found)) for found in logits.values()]))

    def calibrate(self, model: AVPCNN) -> dict[str, Tensor]:
        """Scale the model's logits to fit these images, all views together; returns what `logits` now gives."""
        model.gain.fill_(1)
        model.offset.zero_()
        raw = self.logits(model)
        found = torch.cat([part for seen in raw.values() for part in seen])
        times = len(self.views) * self.draws
        strength = _STRENGTH * times  # an image that is shown several times is still one
        if self.targets.binary:
            gain, offset = platt_scaling(found, self.truth.repeat(times, 1), strength=strength)
            model.gain.copy_(gain)
            model.offset.copy_(offset)
        else:
            model.gain.copy_(temperature_scaling(found, self.truth.repeat(times), strength=strength))
        gain, offset = model.gain.cpu(), model.offset.cpu()
        return {view: seen * gain + offset for view, seen in raw.items()}

    def report(self, logits: dict[str, Tensor]) -> dict[str, Any]:
        """For each view: NLL, calibration error (bins of equal mass) and AUROC per variable, or accuracy."""
        return {view: self._report(found) for view, found in logits.items()}

    def _report(self, found: Tensor) -> dict[str, Any]:
        # The same said of two images may differ in the last digits, by where they stand in a batch: that ranks nobody.
        found = found.round(decimals=4)
        about: dict[str, Any] = {"nll": _rounded(float(self._nll(found)))}
        if not self.targets.binary:
            p, truth = found.softmax(dim=2), self.truth.expand(found.shape[:2])
            about["accuracy"] = _rounded(float((p.argmax(dim=2) == truth).double().mean()))
            about["ece"] = _rounded(expected_calibration_error(p.flatten(0, 1), truth.flatten(), equal_mass=True))
            return about
        p, truth = found.sigmoid(), self.truth.expand(found.shape)
        errors, ranks = {}, {}
        for i, name in enumerate(self.targets.names):
            pair = p[..., i].flatten(), truth[..., i].flatten()
            errors[name] = _rounded(expected_calibration_error(*pair, equal_mass=True))
            # Each draw by itself: it is images that are ranked, not images with what is shown of them.
            each = [ranking.auroc(scores.numpy(), self.truth[:, i].numpy() > 0) for scores in found[..., i]]
            ranks[name] = _rounded(float(np.mean(each)))
        known = [value for value in ranks.values() if value is not None]
        about["ece"] = _rounded(float(np.mean(list(errors.values()))))
        about["auroc"] = _rounded(float(np.mean(known))) if known else None
        return {**about, "ece of": errors, "auroc of": ranks}

    def _nll(self, found: Tensor) -> Tensor:
        z = found.double()
        if self.targets.binary:
            return F.binary_cross_entropy_with_logits(z, self.truth.double().expand(z.shape))
        return F.cross_entropy(z.flatten(0, 1), self.truth.repeat(len(z)))

    def _seen(self, model: AVPCNN, view: str, draw: int) -> Tensor:
        seeds = Seeds(self.seed, f"held-out view {view} draw {draw}")
        made, device = [], model.device
        for chunk, (levels, _) in enumerate(self._batches()):
            known = self._known(view, len(levels), seeds.generator(chunk)).to(device)
            made.append(model.logits(from_uint8(levels.to(device)), known).cpu())
        return torch.cat(made)

    def _known(self, view: str, n: int, generator: torch.Generator) -> Tensor:
        size = self.images.size
        if view == WHOLE:
            return torch.ones(n, 1, size, size, dtype=torch.bool)
        if self.patches is None:
            return self.process.draw(n, size, generator)
        return patches_inside(n, size, side=self.patches.side, count=int(view), generator=generator)

    def _batches(self) -> Iterator[tuple[Tensor, Tensor]]:
        for start in range(0, len(self.images), _CHUNK):
            levels = self.images.take(np.arange(start, min(start + _CHUNK, len(self.images))))
            assert levels.labels is not None
            yield levels.images, levels.labels


def patches_inside(n: int, size: int, *, side: float, count: int, generator: torch.Generator) -> Tensor:
    """[n, 1, size, size] bool: exactly `count` squares known, wholly inside the image; they may overlap."""
    width = max(1, round(side * size))
    corner = torch.randint(size - width + 1, (n, count, 2, 1), generator=generator)
    place = torch.arange(size)
    rows, columns = ((place >= corner) & (place < corner + width)).unbind(2)
    return (rows[..., :, None] & columns[..., None, :]).any(dim=1, keepdim=True)


def _patches_in(process: KnownPixels) -> Patches | None:
    parts = [part for part, _ in process.parts] if isinstance(process, Mixture) else [process]
    return next((part for part in parts if isinstance(part, Patches)), None)


def _rounded(value: float) -> float | None:
    return None if np.isnan(value) else round(value, 4)
