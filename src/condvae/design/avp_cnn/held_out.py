"""Calibration of a classifier on held-out images, and its evaluation for each number of known patches."""

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
from condvae.runtime.progress import track
from condvae.runtime.seeds import Seeds

_CHUNK = 256
"""Number of images per chunk. Each chunk has its own seed, so another number would change the results."""
_STRENGTH = 300.0
"""Strength of the prior that the logits need no calibration, as a number of images. It is large because images of one
patient are not independent: 28 of 357 held-out x-rays showed an edema, but they came from only 3 patients, and a weaker
prior overfitted to these patients."""
WHOLE = "whole"


class HeldOut:
    """Evaluates a classifier on held-out images, in several views: sets of known pixels, the same in every evaluation.

    If training used patches, there is one view for each number of known patches, from 0 to the largest number in
    training. These patches lie wholly inside the image, as scans do. For any other observation process there is one
    view, called "drawn", whose known pixels that process draws. The last view is the whole image.
    """

    def __init__(self, images: ImageSet, targets: Targets, process: KnownPixels, *, seed: int, draws: int = 1) -> None:
        self.images, self.targets, self.process = images, targets, process
        self.seed, self.draws = seed, draws
        self.patches = _patches_in(process)
        counts = () if self.patches is None else tuple(map(str, range(self.patches.most + 1)))
        self.views = (*(counts or ("drawn",)), WHOLE)
        self.truth = torch.cat([targets.of(labels) for _, labels in self._batches()])

    def logits(self, model: AVPCNN) -> dict[str, Tensor]:
        """Predict logits [draws, N, logits] for each view. The result is on the CPU, where known pixels are drawn."""
        found = {}
        with track("evaluating", total=len(self.views) * self.draws, unit="draw") as job:
            for view in self.views:
                drawn = []
                for draw in range(self.draws):
                    drawn.append(self._one_draw(model, view, draw))
                    job.update()
                found[view] = torch.stack(drawn)
        return found

    def nll(self, logits: dict[str, Tensor]) -> float:
        """Mean negative log-likelihood of the labels, in nats per image and variable, averaged over views."""
        return float(np.mean([float(self._nll(found)) for found in logits.values()]))

    def calibrate(self, model: AVPCNN) -> dict[str, Tensor]:
        """Fit the model's gain and offset to these images in all views; return the calibrated logits of each view."""
        model.gain.fill_(1)
        model.offset.zero_()
        raw = self.logits(model)
        found = torch.cat([part for seen in raw.values() for part in seen])
        times = len(self.views) * self.draws
        strength = _STRENGTH * times  # an image counts once, however many views show it
        if self.targets.binary:
            gain, offset = platt_scaling(found, self.truth.repeat(times, 1), strength=strength)
            model.gain.copy_(gain)
            model.offset.copy_(offset)
        else:
            model.gain.copy_(temperature_scaling(found, self.truth.repeat(times), strength=strength))
        gain, offset = model.gain.cpu(), model.offset.cpu()
        return {view: seen * gain + offset for view, seen in raw.items()}

    def report(self, logits: dict[str, Tensor]) -> dict[str, Any]:
        """Return for each view the NLL, the calibration error in bins of equal mass, and the accuracy or AUROCs."""
        return {view: self._report(found) for view, found in logits.items()}

    def _report(self, found: Tensor) -> dict[str, Any]:
        # Equal predictions can differ in the last digits by their position in a batch; rounding makes them ties again.
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
            # Rank the images within each draw, since other draws show other pixels of them.
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

    def _one_draw(self, model: AVPCNN, view: str, draw: int) -> Tensor:
        """Predict the logits [N, logits] of all images in a view, for one random draw of the known pixels."""
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
    """Draw masks of known pixels, [n, 1, size, size] bool. Each has `count` squares in the image, which may overlap."""
    width = max(1, round(side * size))
    corner = torch.randint(size - width + 1, (n, count, 2, 1), generator=generator)
    place = torch.arange(size)
    rows, columns = ((place >= corner) & (place < corner + width)).unbind(2)
    return (rows[..., :, None] & columns[..., None, :]).any(dim=1, keepdim=True)


def _patches_in(process: KnownPixels) -> Patches | None:
    """Return the process if it is `Patches`, or the first `Patches` in a mixture, or None."""
    parts = [part for part, _ in process.parts] if isinstance(process, Mixture) else [process]
    return next((part for part in parts if isinstance(part, Patches)), None)


def _rounded(value: float) -> float | None:
    return None if np.isnan(value) else round(value, 4)
