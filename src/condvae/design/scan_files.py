"""`condvae design scan`: simulate scans of image files, or choose the next scan; write figures and a record."""

import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from condvae.completers.model_completer import ModelCompleter
from condvae.completion.inspection import Inspected, strangeness_inspector
from condvae.design.avp_cnn.classifier_file import load_classifier, locate_classifier
from condvae.design.candidates import Candidates
from condvae.design.choose_location import next_location
from condvae.design.policies import Greedy
from condvae.design.prediction_task import PredictionTask
from condvae.design.scan_figure import draw_figure, draw_frames, format_nats, gif_options
from condvae.design.scan_settings import ScanSettings
from condvae.design.scanning import full_image
from condvae.design.single_image import Scan, planned_scan, scan_image
from condvae.design.sources import Completions, check_completes, check_pair
from condvae.images.atomic_folder import AtomicFolder, stem_of
from condvae.images.holes import Box, Hole
from condvae.images.model_levels import as_tensor
from condvae.images.model_view import ModelView, make_view
from condvae.images.reading import Picture
from condvae.images.recorded_files import SCANS
from condvae.images.selection import LimitedNotes, PictureQueue, select_pictures
from condvae.images.squares import whole_box
from condvae.runtime.devices import resolve_device
from condvae.runtime.fingerprints import FileId, file_sha256
from condvae.runtime.messages import Say, counted, printable, warn_with
from condvae.weights.cached_models import open_conditional

DEFAULT_OUT = Path("scans")
_CRITERIA = {"eig": "expected information gain", "epe": "expected reduction of entropy"}


class PictureScanner:
    """Scans any number of pictures with one model, one classifier and one grid of locations."""

    def __init__(self, model: str | Path, classifier: str | Path, settings: ScanSettings, *, device: str) -> None:
        self.settings, self.device = settings, resolve_device(device)
        self.identity, self.model = open_conditional(model, device)
        self.classifier = load_classifier(classifier).to(self.device)
        self.task = self._task()
        self.made_by = {
            "model": {"name": self.identity.name, "sha256": self.identity.file.sha256},
            "classifier": {"name": str(classifier), "sha256": file_sha256(locate_classifier(classifier))},
        }
        check_completes(self.model, printable(model))
        config, takes = self.model.artifact.config, self.classifier.config
        check_pair(self.model, printable(model), (takes.size, takes.channels), printable(classifier))
        side = max(1, round(settings.side * config.image_size))
        self.candidates = Candidates.grid(config.image_size, side=side, points=settings.points).to(self.device)
        self.completer = ModelCompleter.of(
            self.model, name=str(model), temperature=settings.temperature, pixels=settings.pixels
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
            x, y, width, height = self.box(seen, scan)
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

    def plan_next(self, seen: ModelView, say: Say) -> list[Scan]:
        """Choose the next location to scan in a picture, of which only some pixels are known."""
        settings, observation = self.settings, seen.observation.to(self.device)
        found = next_location(
            observation,
            self.completer,
            self.classifier,
            self.candidates,
            variable=self.task.variable,
            n=settings.n,
            estimator=settings.estimator,
            seed=settings.seed,
        )
        scan = planned_scan(observation, found, self.task, estimator=settings.estimator)
        x, y, width, height = self.box(seen, scan)
        prediction = self.task.describe(scan.before)
        say(f"next scan at {x},{y},{width},{height}: expected gain {format_nats(scan.nats)}; {prediction} now")
        return [scan]

    def whole(self, seen: ModelView) -> torch.Tensor:
        """Return the classifier's probabilities of the K outcomes for the whole image, [K]."""
        image = as_tensor(seen.levels)[None].to(self.device)
        return full_image(image, self.classifier)[0, self.task.variable].exp().cpu()

    def box(self, seen: ModelView, scan: Scan) -> Box:
        """Return the window of a scan as x, y, width and height, in pixels of the original picture."""
        corners = self.candidates.corners
        assert corners is not None and self.candidates.side is not None
        square = whole_box(seen.placement, seen.size)
        assert square is not None  # the middle square
        side = square.right - square.left
        scale = side / self.candidates.size
        row, column = corners[scan.index].tolist()
        spans = []
        for edge, place in ((square.left, column), (square.top, row)):
            first = min(round(edge + place * scale), edge + side - 1)  # at least one pixel, even in tiny pictures
            spans.append((first, max(1, round(edge + (place + self.candidates.side) * scale) - first)))
        (x, width), (y, height) = spans
        return x, y, width, height


def scan_files(
    paths: Sequence[Path],
    out: Path | None,
    *,
    model: str | Path,
    classifier: str | Path,
    settings: ScanSettings,
    known: Path | None = None,
    fit_mask: bool = False,
    device: str = "cpu",
    say: Say = print,
    result: Say | None = None,
) -> Path:
    """Simulate scans of image files, and of the images in folders. Return the path of the record.

    If `known` is given, only choose the next location to scan in each image; fit_mask=True resizes `known` to the
    image. Write NAME.png for each image, NAME.gif for an image with several scans, and the record. The files appear all
    together or not at all.
    out: the folder for the files. None: a new folder, scans, or scans-2 if it exists, and so on.
    say, result: functions that get notes and results, one line at a time; by default, `say` gets both.
    """
    tell, warn = result or say, warn_with(say)
    notes, warnings = LimitedNotes(), LimitedNotes()
    hole = Hole(known=known, fit_mask=fit_mask)
    selected = select_pictures(paths, hole, say, done="scanned", out=out, white=settings.white)
    entries: list[dict[str, Any]] = []
    names = _free_names([stem_of(one.path) for one in selected])
    with AtomicFolder(out or DEFAULT_OUT, kind=SCANS, new=out is None, say=say) as folder:
        # Check all output names before any computation, so that a conflict is reported at once.
        folder.check_free(*(f"{name}.{kind}" for name in names for kind in ("png", "gif")))
        scanner = PictureScanner(model, classifier, settings, device=device)
        pictures = PictureQueue(selected, scanner.view, done="scanned")
        if settings.n == 1 and settings.estimator == "eig":
            warn("with one completion every location has an expected gain of 0, so scans are random: give -n 2 or more")
        judged: Literal["known", "whole"] = "whole" if known is None else "known"
        inspector = strangeness_inspector(scanner.model, scanner.identity, settings.seed, judged=judged)
        if inspector is not None and inspector.failure is not None:
            warn(inspector.failure)
            inspector = None
        for one, name in zip(selected, names, strict=True):
            seen = pictures.take(one)
            if seen is None:
                continue
            notes.tell(seen.notes, say)
            found = Inspected() if inspector is None else inspector(seen)
            warnings.tell([line for line in (found.warning, found.failure) if line is not None], warn)
            tell(f"{printable(one.path)}:")
            scans = scanner.simulate(seen, tell) if known is None else scanner.plan_next(seen, tell)
            outputs = _put(folder, name, scanner, scans)
            entries.append(_entry(scanner, seen, scans, outputs, whole=known is None) | _judged(found, judged))
        pictures.skipped.check_not_all()
        if notes.untold:
            say(f"similar notes apply to {counted(notes.untold, 'more image')}")
        if warnings.untold:
            warn(f"similar warnings apply to {counted(warnings.untold, 'more image')}")
        pictures.skipped.tell(say)
        made = {
            **scanner.made_by,
            **asdict(settings),
            **({} if known is None else {"steps": 1, "fit_mask": fit_mask}),
            "passed_over": pictures.skipped.reasons,
            "task": scanner.task.name,
            "simulated": known is None,
            "device": str(scanner.device),
        }
        folder.write_record(made, entries)
    return folder.folder / SCANS.file


def _put(folder: AtomicFolder, name: str, scanner: PictureScanner, scans: Sequence[Scan]) -> list[str]:
    """Write the figure and the animation of one picture; return their file names."""
    steps = [scan.step for scan in scans]
    options: dict[str, Any] = {
        "title": f"{name}: {scanner.task.name}",
        "criterion": _CRITERIA[scanner.settings.estimator],
    }
    outputs = [f"{name}.png"]
    folder.put(outputs[0], draw_figure(steps, scanner.candidates, **options))
    if len(steps) > 1:
        outputs.append(f"{name}.gif")
        pictures = draw_frames(steps, scanner.candidates, **options)
        folder.put(outputs[1], pictures[0], **gif_options(pictures))
    return outputs


def _entry(
    scanner: PictureScanner, seen: ModelView, scans: Sequence[Scan], outputs: list[str], *, whole: bool
) -> dict[str, Any]:
    """Make the record's entry for a picture. Boxes are x, y, width and height in pixels of the original picture."""
    return {
        "image": _file(seen.file),
        "known": _file(seen.hole_file),
        "size": list(seen.size),
        "outputs": outputs,
        "before": scans[0].before.tolist(),
        "scans": [
            {
                "box": list(scanner.box(seen, scan)),
                "expected_gain_nats": scan.nats,
                "after": None if scan.after is None else scan.after.tolist(),
            }
            for scan in scans
        ],
        "whole_image": scanner.whole(seen).tolist() if whole else None,
    }


def _judged(found: Inspected, judged: str) -> dict[str, Any]:
    """Return how strange a picture is, for its entry in the record; None if it was not judged."""
    judgement = found.strangeness
    if judgement is None:
        return {"strangeness": None, "warning": None}
    score = judgement.score if math.isfinite(judgement.score) else None
    numbers = {"score": score, "percentile": judgement.percentile, "strange": judgement.strange}
    return {"strangeness": {"judged": judged, **numbers}, "warning": found.warning}


def _file(file: FileId | None) -> dict[str, str] | None:
    return None if file is None else {"name": file.path.name, "sha256": file.sha256}


def _free_names(stems: Sequence[str]) -> list[str]:
    """Make file stems unique, ignoring case, by adding a number where needed."""
    names: list[str] = []
    for stem in stems:
        taken = {name.lower() for name in names}
        tries = (stem, *(f"{stem}-{number}" for number in range(2, len(stems) + 1)))
        names.append(next(name for name in tries if name.lower() not in taken))
    return names
