"""Image files scanned as a patient would be, or asked where to scan next; pictures and a record of it in a folder."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from condvae.completers.model_completer import ModelCompleter
from condvae.design.avp_cnn.classifier_file import load_classifier, locate_classifier
from condvae.design.candidates import Candidates
from condvae.design.location import next_location
from condvae.design.panel import animation, frames, in_nats, panel
from condvae.design.patient import Scan, advised, follow
from condvae.design.policies import Greedy
from condvae.design.question import Question
from condvae.design.scan_settings import ScanSettings
from condvae.design.scanning import full_image
from condvae.design.sources import Completions, check_completes, check_pair
from condvae.images.atomic_folder import AtomicFolder, stem_of
from condvae.images.holes import Box, Hole
from condvae.images.model_view import ModelView, as_tensor, make_view
from condvae.images.reading import Picture, printable
from condvae.images.selection import PictureQueue, select_pictures
from condvae.runtime.devices import resolve_device
from condvae.runtime.fingerprints import FileId, file_sha256
from condvae.runtime.messages import Say
from condvae.runtime.versions import versions
from condvae.weights.cached_models import open_conditional

RECORD = "design.json"
_FORMAT, _VERSION = "condvae design", 1
_CRITERIA = {"eig": "expected information gain", "epe": "expected loss of entropy"}


class PictureScanner:
    """A model, a classifier and a grid of locations, for any number of pictures."""

    def __init__(self, model: str | Path, classifier: str | Path, settings: ScanSettings, *, device: str) -> None:
        self.settings, self.device = settings, resolve_device(device)
        identity, self.model = open_conditional(model, device)
        self.classifier = load_classifier(classifier).to(self.device)
        self.question = self._question()
        self.made_by = {
            "model": {"name": identity.name, "sha256": identity.file.sha256},
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
            variable=self.question.variable,
            source=Completions(completer=self.completer),
            n=settings.n,
            estimator=settings.estimator,
        )

    def _question(self) -> Question:
        names = self.classifier.names
        if self.settings.task is None and len(names) > 1:
            raise ValueError(f"say what is asked, by --task: {', '.join(names)}")
        task = 0 if self.settings.task is None else self.settings.task
        return Question.of(self.classifier, task, outcomes=self.classifier.config.outcome_names)

    def view(self, picture: Picture, hole: Hole) -> ModelView:
        """What the model sees of a picture; a ValueError if the two do not go together."""
        if not hole.ways:  # nothing is known before the first scan
            hole = Hole(known=np.zeros(picture.size[::-1], dtype=bool))
        seen = make_view(self.model, picture, hole, seed=0, keep_size=False)
        if seen.known.all():
            raise ValueError(f"{picture.name} is known as a whole: nothing is left to scan")
        if not self.candidates.new(torch.from_numpy(seen.known)[None, None].to(self.device)).any():
            raise ValueError(
                f"nothing is left to scan of {picture.name}: all locations show known pixels alone, give more --points"
            )
        return seen

    def simulate(self, seen: ModelView, say: Say) -> list[Scan]:
        """Scan a picture that is there as a whole, as if it were not."""

        def tell(scan: Scan) -> None:
            assert scan.after is not None
            count = f"scan {len(told) + 1}"
            told.append(count)
            x, y, width, height = self.box(seen, scan)
            before, after = (self.question.answer(p) for p in (scan.before, scan.after))
            gain = in_nats(scan.nats)
            say(f"{count} at {x},{y},{width},{height}: expected gain {gain}; {before}, then {after}")

        told: list[str] = []
        settings = self.settings
        image = as_tensor(seen.levels).to(self.device)
        scans = follow(
            image,
            self.policy,
            self.classifier,
            self.candidates,
            self.question,
            steps=settings.steps,
            estimator=settings.estimator,
            seed=settings.seed,
            on_scan=tell,
        )
        if len(scans) < settings.steps:
            say(f"nothing is left to scan after {len(scans)}: every location has been seen")
        say(f"the whole image: {self.question.answer(self.whole(seen))}")
        return scans

    def advise(self, seen: ModelView, say: Say) -> list[Scan]:
        """Where to scan next, of a picture of which some is known."""
        settings, observation = self.settings, seen.observation.to(self.device)
        found = next_location(
            observation,
            self.completer,
            self.classifier,
            self.candidates,
            variable=self.question.variable,
            n=settings.n,
            estimator=settings.estimator,
            seed=settings.seed,
        )
        scan = advised(observation, found, self.question, estimator=settings.estimator)
        x, y, width, height = self.box(seen, scan)
        answer = self.question.answer(scan.before)
        say(f"next scan at {x},{y},{width},{height}: expected gain {in_nats(scan.nats)}; {answer} now")
        return [scan]

    def whole(self, seen: ModelView) -> torch.Tensor:
        """[K]: what the classifier would say of the whole image."""
        image = as_tensor(seen.levels)[None].to(self.device)
        return full_image(image, self.classifier)[0, self.question.variable].exp().cpu()

    def box(self, seen: ModelView, scan: Scan) -> Box:
        """Where a scan lies in the picture itself, at its own size."""
        corners = self.candidates.corners
        assert corners is not None and self.candidates.side is not None
        scale = seen.side / self.candidates.size
        row, column = corners[scan.index].tolist()
        left, top = seen.corner
        spans = []
        for edge, place in ((left, column), (top, row)):
            first = min(round(edge + place * scale), edge + seen.side - 1)  # of tiny pictures, one pixel
            spans.append((first, max(1, round(edge + (place + self.candidates.side) * scale) - first)))
        (x, width), (y, height) = spans
        return x, y, width, height


def scan_files(
    paths: Sequence[Path],
    out: Path,
    *,
    model: str | Path,
    classifier: str | Path,
    settings: ScanSettings,
    known: Path | None = None,
    device: str = "cpu",
    say: Say = print,
) -> Path:
    """Scan image files and those in folders, or say where to scan next where a picture tells what is known.

    For each NAME.png and, of several scans, NAME.gif: all of them with the record, which is returned, or nothing.
    """
    hole = Hole(known=known)
    selected = select_pictures(paths, hole, say, done="scanned", out=out)
    earlier = _outputs_of(out / RECORD)
    entries: list[dict[str, Any]] = []
    names = _free_names([stem_of(one.path) for one in selected])
    with AtomicFolder(out, replaces=[RECORD, *earlier] if earlier else []) as folder:
        # What is wrong with one of them should be known before anything is computed.
        for name in (RECORD, *(f"{name}.{kind}" for name in names for kind in ("png", "gif"))):
            folder.check_free(name)
        scanner = PictureScanner(model, classifier, settings, device=device)
        pictures = PictureQueue(selected, scanner.view, done="scanned")
        if settings.n == 1 and settings.estimator == "eig":
            say("by one completion no location tells more than another, so they are drawn: give -n 2 or more")
        for one, name in zip(selected, names, strict=True):
            seen = pictures.take(one)
            if seen is None:
                continue
            for note in seen.notes:
                say(note)
            say(f"{printable(one.path)}:")
            scans = scanner.simulate(seen, say) if known is None else scanner.advise(seen, say)
            outputs = _put(folder, name, scanner, scans)
            entries.append(_entry(scanner, seen, scans, outputs, whole=known is None))
        pictures.skipped.check_not_all()
        pictures.skipped.tell(say)
        plain: dict[str, Any] = {
            "format": _FORMAT,
            "format_version": _VERSION,
            **scanner.made_by,
            **asdict(settings),
            "task": scanner.question.name,
            "simulated": known is None,
            "device": str(scanner.device),
            "versions": versions(),
            "images": entries,
        }
        folder.write(RECORD, json.dumps(plain, indent=1) + "\n")
    return out / RECORD


def _put(folder: AtomicFolder, name: str, scanner: PictureScanner, scans: Sequence[Scan]) -> list[str]:
    steps = [scan.step for scan in scans]
    options: dict[str, Any] = {
        "title": f"{name}: {scanner.question.name}",
        "criterion": _CRITERIA[scanner.settings.estimator],
    }
    outputs = [f"{name}.png"]
    folder.put(outputs[0], panel(steps, scanner.candidates, **options))
    if len(steps) > 1:
        outputs.append(f"{name}.gif")
        pictures = frames(steps, scanner.candidates, **options)
        folder.put(outputs[1], pictures[0], **animation(pictures))
    return outputs


def _entry(
    scanner: PictureScanner, seen: ModelView, scans: Sequence[Scan], outputs: list[str], *, whole: bool
) -> dict[str, Any]:
    """What the record tells of a picture; boxes are x, y, width, height in its own pixels."""
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


def _file(file: FileId | None) -> dict[str, str] | None:
    return None if file is None else {"name": file.path.name, "sha256": file.sha256}


def _free_names(stems: Sequence[str]) -> list[str]:
    """The stems, with a number where another picture has the same already, whatever its case."""
    names: list[str] = []
    for stem in stems:
        taken = {name.lower() for name in names}
        tries = (stem, *(f"{stem}-{number}" for number in range(2, len(stems) + 1)))
        names.append(next(name for name in tries if name.lower() not in taken))
    return names


def _outputs_of(record: Path) -> list[str]:
    """Names of the pictures that a record lists; none where there is no record that can be read."""
    if not record.is_file():
        return []
    try:
        plain = json.loads(record.read_text())
        names = [name for entry in plain["images"] for name in entry["outputs"]] if plain["format"] == _FORMAT else []
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return []
    kinds = (".png", ".gif")
    return [name for name in names if isinstance(name, str) and name == Path(name).name and name.endswith(kinds)]
