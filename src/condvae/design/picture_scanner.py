"""The class that scans pictures with one model, one classifier and one grid of locations."""

import copy
from pathlib import Path

import numpy as np
import torch

from condvae.completers.model_completer import ModelCompleter
from condvae.design.avp_cnn.classifier_file import load_classifier, locate_classifier
from condvae.design.candidates import Candidates
from condvae.design.choose_location import Location, next_location
from condvae.design.policies import Greedy
from condvae.design.prediction_task import PredictionTask
from condvae.design.scan_figure import format_nats
from condvae.design.scan_settings import ScanSettings
from condvae.design.scanning import full_image
from condvae.design.single_image import Scan, planned_scan, scan_image
from condvae.design.sources import Completions, check_completes, check_pair
from condvae.images.holes import Box, Hole
from condvae.images.model_levels import as_tensor
from condvae.images.model_view import ModelView, make_view
from condvae.images.reading import Picture
from condvae.images.squares import whole_box
from condvae.runtime.devices import resolve_device
from condvae.runtime.fingerprints import file_sha256
from condvae.runtime.messages import Say, printable
from condvae.sampling.sampler import Sampler
from condvae.weights.cached_models import open_conditional


class PictureScanner:
    """Scans any number of pictures with one model, one classifier and one grid of locations."""

    def __init__(self, model: str | Path, classifier: str | Path, settings: ScanSettings, *, device: str) -> None:
        self.device = resolve_device(device)
        self.identity, self.model = open_conditional(model, device)
        self.classifier = load_classifier(classifier).to(self.device)
        self.made_by = {
            "model": {"name": self.identity.name, "sha256": self.identity.file.sha256},
            "classifier": {"name": str(classifier), "sha256": file_sha256(locate_classifier(classifier))},
        }
        check_completes(self.model, printable(model))
        takes = self.classifier.config
        check_pair(self.model, printable(model), (takes.size, takes.channels), printable(classifier))
        self.sampler = Sampler(self.model)
        self._set(settings)

    def with_settings(self, settings: ScanSettings) -> "PictureScanner":
        """Return a scanner with the same model and classifier, which stay in memory once, but other settings."""
        other = copy.copy(self)
        other._set(settings)
        return other

    def _set(self, settings: ScanSettings) -> None:
        """Check the settings and use them from now on."""
        self.settings = settings
        self.task = self._task()
        size = self.model.image_size
        side = max(1, round(settings.side * size))
        self.candidates = Candidates.grid(size, side=side, points=settings.points).to(self.device)
        self.completer = ModelCompleter.of(
            self.sampler, name=self.identity.name, temperature=settings.temperature, pixels=settings.pixels
        )
        self.policy = Greedy(
            name=settings.estimator,
            classifier=self.classifier,
            candidates=self.candidates,
            variable=self.task.variable,
            source=Completions(completer=self.completer),
            n=settings.n,
            estimator=settings.estimator,
        )

    def _task(self) -> PredictionTask:
        names = self.classifier.names
        if self.settings.task is None and len(names) > 1:
            raise ValueError(f"no task was given: set --task to one of {', '.join(names)}")
        task = 0 if self.settings.task is None else self.settings.task
        return PredictionTask.of(self.classifier, task, outcomes=self.classifier.config.outcome_names)

    def view(self, picture: Picture, hole: Hole) -> ModelView:
        """Crop and resize a picture for the model; raise a ValueError if no window has a hidden pixel."""
        if not hole.ways:  # no pixel is known before the first scan
            hole = Hole(known=np.zeros(picture.size[::-1], dtype=bool))
        seen = make_view(self.model, picture, hole, seed=0, keep_size=False)
        if seen.known.all():
            raise ValueError(f"nothing is left to scan of {picture.name}: the whole image is known")
        if not self.candidates.new(torch.from_numpy(seen.known)[None, None].to(self.device)).any():
            raise ValueError(
                f"nothing is left to scan of {picture.name}, because all windows are known: give more --points"
            )
        return seen

    def simulate(self, seen: ModelView, say: Say) -> list[Scan]:
        """Simulate scans of a picture whose pixels are all available."""

        def tell(scan: Scan) -> None:
            assert scan.after is not None
            count = f"scan {len(told) + 1}"
            told.append(count)
            x, y, width, height = self.box(seen, scan.index)
            before, after = (self.task.describe(p) for p in (scan.before, scan.after))
            gain = format_nats(scan.nats)
            say(f"{count} at {x},{y},{width},{height}: expected gain {gain}; {before}, then {after}")

        told: list[str] = []
        settings = self.settings
        image = as_tensor(seen.levels).to(self.device)
        scans = scan_image(
            image,
            self.policy,
            self.classifier,
            self.candidates,
            self.task,
            steps=settings.steps,
            estimator=settings.estimator,
            seed=settings.seed,
            on_scan=tell,
        )
        if len(scans) < settings.steps:
            say(f"nothing is left to scan after scan {len(scans)}: all windows are known")
        say(f"the whole image: {self.task.describe(self.whole(seen))}")
        return scans

    def next_location(self, seen: ModelView) -> Location:
        """Choose the next location to scan in a picture, of which only some pixels are known."""
        return next_location(
            seen.observation.to(self.device),
            self.completer,
            self.classifier,
            self.candidates,
            variable=self.task.variable,
            n=self.settings.n,
            estimator=self.settings.estimator,
            seed=self.settings.seed,
        )

    def plan_next(self, seen: ModelView, say: Say) -> list[Scan]:
        """Choose the next scan of a picture, of which only some pixels are known, and say where it is."""
        found, observation = self.next_location(seen), seen.observation.to(self.device)
        scan = planned_scan(observation, found, self.task, estimator=self.settings.estimator)
        x, y, width, height = self.box(seen, scan.index)
        prediction = self.task.describe(scan.before)
        say(f"next scan at {x},{y},{width},{height}: expected gain {format_nats(scan.nats)}; {prediction} now")
        return [scan]

    def whole(self, seen: ModelView) -> torch.Tensor:
        """Return the classifier's probabilities of the K outcomes for the whole image, [K]."""
        image = as_tensor(seen.levels)[None].to(self.device)
        return full_image(image, self.classifier)[0, self.task.variable].exp().cpu()

    def box(self, seen: ModelView, index: int) -> Box:
        """Return the window of a location as x, y, width and height, in pixels of the original picture."""
        corners = self.candidates.corners
        assert corners is not None and self.candidates.side is not None
        square = whole_box(seen.placement, seen.size)
        assert square is not None  # the middle square
        side = square.right - square.left
        scale = side / self.candidates.size
        row, column = corners[index].tolist()
        spans = []
        for edge, place in ((square.left, column), (square.top, row)):
            first = min(round(edge + place * scale), edge + side - 1)  # at least one pixel, even in tiny pictures
            spans.append((first, max(1, round(edge + (place + self.candidates.side) * scale) - first)))
        (x, width), (y, height) = spans
        return x, y, width, height
