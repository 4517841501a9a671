"""How a unit of work is computed: some test images are scanned with one policy."""

import functools
import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from condvae.completers.by_place import identity_of
from condvae.completers.interface import Completer
from condvae.data import Dataset
from condvae.data.digests import digest_of_set, pixels_of
from condvae.data.order import spread
from condvae.design.candidates import Candidates
from condvae.design.classifier import Classifier
from condvae.design.policies import FirstScanCache, Greedy, NonGreedy, Policy, Random
from condvae.design.scanning import full_image, scan
from condvae.design.sources import Completions, TrainingImages
from condvae.experiments.design.plan import REVISION, DesignSettings, PolicySpec
from condvae.experiments.resumable_work import ImageRange, ResultTensors
from condvae.runtime.fingerprints import Weighted, digest_of, fingerprint
from condvae.runtime.seeds import Seeds


class DesignContext:
    """Everything that the scans of an experiment need: images, classifier, candidates and completers."""

    def __init__(
        self,
        classifier: Classifier,
        data: Dataset,
        settings: DesignSettings,
        completers: Mapping[str, Completer],
        device: torch.device,
    ) -> None:
        self.classifier, self.data, self.settings, self.completers = classifier, data, settings, completers
        self.device = device
        self.rows: NDArray[np.int64] = spread(len(data.test), settings.images or len(data.test))
        self.test = data.test.subset(self.rows)
        side = max(1, round(settings.side * data.test.size))
        self.candidates = Candidates.grid(data.test.size, side=side, points=settings.points).to(device)
        self._first_scans = FirstScanCache()
        self._policies: dict[tuple[str, int | None], Policy] = {}

    def scan(self, spec: PolicySpec, variable: int | None, block: ImageRange) -> ResultTensors:
        """Scan a block of images with a policy that chooses scans for this variable. `jobs` describes the result."""
        places = self.rows[block.first : block.stop]
        images = self.data.test.take(places).images.to(self.device)
        if spec.kind == "full":
            return {"log_p": full_image(images, self.classifier)[:, None, None]}
        policy, steps = self._policy(spec, variable), self.settings.steps
        tries = [
            scan(images, policy, self.classifier, self.candidates, steps=steps, seed=seed, places=places.tolist())
            for seed in self._seeds(spec)
        ]
        return {
            "chosen": torch.stack([one.chosen for one in tries], dim=1).to(torch.int32),
            "log_p": torch.stack([one.log_p for one in tries], dim=1),
        }

    def _policy(self, spec: PolicySpec, variable: int | None) -> Policy:
        """Return a policy. It is made only once, since policies cache results that are the same for all images."""
        key = (spec.name, variable)
        if key not in self._policies:
            self._policies[key] = self._made(spec, variable)
        return self._policies[key]

    def _made(self, spec: PolicySpec, variable: int | None) -> Policy:
        if spec.kind == "random":
            return Random(candidates=self.candidates)
        assert variable is not None
        given: Any = {"classifier": self.classifier, "candidates": self.candidates, "variable": variable}
        given |= {"n": spec.n, "name": spec.name}
        if spec.kind == "non-greedy":
            steps = self.settings.steps
            return NonGreedy(**given, source=self._training, sequences=len(self.candidates), steps=steps)
        if spec.kind == "uncond":
            return Greedy(**given, source=self._training, shared=True)
        assert spec.completer is not None
        return Greedy(
            **given,
            source=Completions(completer=self.completers[spec.completer]),
            estimator=spec.estimator,
            first=self._training,
            first_n=self.settings.first_n,
            first_scans=self._first_scans,
        )

    def _seeds(self, spec: PolicySpec) -> list[int]:
        """Return one seed for each try of a policy. Tries are repetitions with new random draws."""
        seed = self.settings.seed
        return [seed, *map(Seeds(seed, "tries"), range(1, self.settings.tries(spec)))]

    @functools.cached_property
    def _training(self) -> TrainingImages:
        return TrainingImages(images=self.data.train)

    @functools.cached_property
    def _training_digest(self) -> str:
        return digest_of_set(self.data.train)

    @functools.cached_property
    def identity(self) -> dict[str, str]:
        """Digests of the classifier, and of the scanned images with their positions in the test set."""
        pixels = hashlib.sha256(pixels_of(self.data.test, self.rows))
        pixels.update(self.rows.tobytes())
        return {"classifier": identity_of_classifier(self.classifier), "images": pixels.hexdigest()[:24]}

    @functools.cached_property
    def completer_identities(self) -> dict[str, str]:
        return {name: identity_of(completer) for name, completer in self.completers.items()}

    def made_of(self, spec: PolicySpec, variable: int | None) -> dict[str, Any]:
        """Return everything that determines the results of a policy, except the machine's rounding errors."""
        settings = self.settings
        base: dict[str, Any] = {"revision": REVISION, "kind": spec.kind, **self.identity}
        if spec.kind == "full":
            return base
        base |= {
            "steps": settings.steps,
            "candidates": [self.candidates.size, self.candidates.side, settings.points],
            "seeds": self._seeds(spec),
        }
        if spec.kind == "random":
            return base
        base |= {"variable": variable, "n": spec.n, "training images": self._training_digest}
        if spec.kind == "completions":
            assert spec.completer is not None
            base |= {
                "estimator": spec.estimator,
                "completer": self.completer_identities[spec.completer],
                "first_n": settings.first_n,
            }
        return base


def identity_of_classifier(classifier: Classifier) -> str:
    """Return a digest of everything that determines the classifier's predictions."""
    own = getattr(classifier, "identity", None)
    if own is not None:
        return fingerprint({"classifier": str(own), "names": list(classifier.names)})
    if not isinstance(classifier, Weighted):
        raise ValueError(
            "the classifier has neither weights nor an `identity`, so its results cannot be told apart from those of "
            "other classifiers: give it an `identity` string"
        )
    config = {
        "config": repr(getattr(classifier, "config", None)),
        "names": list(classifier.names),
        "precision": getattr(classifier, "precision", None),
    }
    return digest_of(classifier, config)
