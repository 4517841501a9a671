"""The verb `condvae info`."""

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from condvae.cli import shared
from condvae.cli.export import mebibytes
from condvae.cli.help_text import explained
from condvae.cli.info_page import as_text, print_section
from condvae.observe.process_names import PROCESS_INPUTS, PROCESS_MEANINGS
from condvae.weights.hub import MODEL_FILE
from condvae.weights.model_cards import ModelCard, card_at
from condvae.weights.model_names import DEFAULT_MODEL

if TYPE_CHECKING:
    from condvae.weights.artifact_file import Header

_STORAGE = {
    32: "32 bits per weight (single precision)",
    16: "16 bits per weight (half precision)",
    8: "8 bits per weight (int8 with a scale for each output channel of a convolution)",
}
_LONG = 40
"""Options with longer values, in characters, get a line of their own."""


@explained()
@dataclass(frozen=True, kw_only=True)
class Info:
    """Describe a model, a run folder or the fits of a model: what it is for, its network, and how it was made."""

    model: shared.ModelArgument = DEFAULT_MODEL
    list_models: Annotated[bool, tyro.conf.arg(name="list")] = False
    """List the embedded models instead of describing one model."""
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False
    """Print all information as JSON."""
    quiet: shared.Quiet = False

    def run(self) -> None:
        from condvae.weights import embedded_names

        path = Path(self.model)
        # A folder with a model but without options.json is a shared model, not a run folder.
        is_shared = (path / MODEL_FILE).is_file() and not (path / "options.json").is_file()
        if self.list_models:
            self._print_embedded()
        elif path.is_dir() and not is_shared and self.model not in embedded_names():
            self._print_run(path)
        else:
            self._print_model()

    def _print_embedded(self) -> None:
        from condvae import weights

        files = {name: weights.locate(name) for name in weights.embedded_names()}
        cards = {name: card_at(file) for name, file in files.items()}
        headers = {name: weights.describe(file) for name, file in files.items()}
        if self.as_json:
            plain = {
                name: {"bytes": file.stat().st_size, "summary": card.summary if (card := cards[name]) else None}
                for name, file in files.items()
            }
            print(json.dumps(plain, indent=1))
            return
        for name, header in headers.items():
            kind = header.kind.removesuffix(" VAE")
            size = header.config.image_size
            default = ", the default" if name == DEFAULT_MODEL else ""
            card = cards[name]
            print_section("", {name: f"{mebibytes(files[name])}, {kind}, {size} x {size} pixels{default}"})
            print_section("", {"": card.summary if card else None})
        if not files:
            print("this installation has no embedded models")

    def _print_run(self, path: Path) -> None:
        from condvae.training import describe_run

        run = describe_run(path)
        if self.as_json:
            print(json.dumps(run, indent=1))
            return
        state = "finished" if run["finished"] else "not finished (repeat the command with --resume to continue)"
        state = "a process is training here now" if run["running"] else state
        options = dict(run["options"])
        print(f"{path}: step {run['step']:,} after {run['seconds'] / 60:.1f} minutes, {state}")
        print_section(
            "",
            {
                "verb": options.pop("verb", None),
                "data": options.pop("data_summary", None),
                "configuration": options.pop("configurations", None) or None,
                "best": None if run["best_step"] is None else f"step {as_text(run['best_step'])}",
                "roll-backs": run["rollbacks"] or None,
            },
        )
        print_section("Checkpoints", {f"step {step:,}": condition for step, condition in run["checkpoints"].items()})
        last = {
            event: {key: value for key, value in record.items() if key != "event"}
            for event, record in run["last"].items()
        }
        print_section("Last entries of the log", last)
        print_section("Options", _by_line(options))

    def _print_fits(self, file: Path) -> None:
        from condvae.ood.fit_file import describe_fits

        fits = describe_fits(file)
        if self.as_json:
            print(json.dumps({kind: {"score": fit.score, "record": dict(fit.record)} for kind, fit in fits.items()}))
            return
        print(f"{self.model}: fits of a model, for condvae ood score and the warnings of condvae complete")
        for kind, fit in fits.items():
            title = "Partly hidden images" if kind == "partial" else "Whole images"
            record = {key: value for key, value in fit.record.items() if key != "held_out"}
            held = f"{len(fit.held_scores):,} of held-out images"
            print_section(title, {"score": fit.score, "scores": held, **record})
        print_section("Origin", {"file": f"{file} ({mebibytes(file)})"})

    def _print_model(self) -> None:
        from condvae import observe, weights
        from condvae.ood import fit_file
        from condvae.weights import sealed_file
        from condvae.weights.artifact_file import plain_config

        file = weights.locate(self.model)
        if sealed_file.kind_of(file) == fit_file.KIND:
            self._print_fits(file)
            return
        header, card = weights.describe(file), card_at(file)
        if self.as_json:
            process = header.process.to_dict() if header.process else None
            bare = dataclasses.replace(header, process=None)
            plain = {**dataclasses.asdict(bare), "config": plain_config(header.config), "process": process}
            print(json.dumps({"card": card._asdict() if card else None, **plain}, indent=1))
            return
        print(f"{self.model}: {header.kind}")
        print_section("", _purpose(header, card))
        if card:
            labels = {"its use": card.use, "its limits": card.limits, "its data": card.data, "more": card.page}
            print_section("Before you use it", labels)
        print_section("Network", _network(header))
        record = dict(header.record)
        artifact = record.pop("artifact", None)
        before = dict(artifact) if isinstance(artifact, dict) else {"record": artifact}
        versions, options, _ = record.pop("versions", None), record.pop("options", None), before.pop("options", None)
        before = {key: value for key, value in before.items() if key != "versions" or value != versions}
        observes = observe.describe(header.process) if header.process else None
        print_section("Training", {"observes": observes, **record})
        print_section("Training of the artifact", before)
        hint = f"condvae info {self.model} --json prints all options of the training" if options else None
        size, stored = mebibytes(file), _STORAGE[header.bits]
        print_section("Origin", {"file": f"{file} ({size})", "stored": stored, "versions": versions, "options": hint})


def _purpose(header: "Header", card: ModelCard | None) -> dict[str, str | None]:
    """Return what a model is and what it wants to see, in a few words."""
    config, process = header.config, header.process
    colours = "grey" if config.channels == 1 else "colour"
    names = [part.name for part, _ in getattr(process, "parts", ())] or ([process.name] if process else [])
    known = [PROCESS_MEANINGS.get(name, name) for name in dict.fromkeys(names)]
    small = config.image_size // getattr(process, "factor", 1)
    give = [PROCESS_INPUTS[name].format(small=small) for name in names if name in PROCESS_INPUTS]
    use = "condvae train makes it conditional, condvae sample draws images from it"
    return {
        "what it is": card.summary if card else None,
        "crop to": card.subject if card else None,
        "or uncropped": "condvae complete --face finds faces in photos" if card and card.framing else None,
        "its images": f"{colours}, {config.image_size} x {config.image_size} pixels; others are cropped and resized",
        "what it sees": "; or ".join(known) if known else None,
        "give it": give[0] if give else None,
        "its use": use if header.kind == "unconditional VAE" and not card else None,
    }


def _network(header: "Header") -> dict[str, Any]:
    from condvae.vdvae import VDVAEConfig

    config, partial = header.config, header.partial
    if not isinstance(config, VDVAEConfig):
        return {"weights": header.parameters, **dataclasses.asdict(config)}
    groups = {stage.resolution: stage.groups for stage in config.decoder_stages if stage.groups}
    by_resolution = ", ".join(f"{count} of {size} x {size}" for size, count in groups.items())
    return {
        "weights": header.parameters,
        "latent groups": f"{sum(groups.values())}: {by_resolution}",
        "likelihood": config.likelihood,
        "partial encoder": f"{partial.form}, {partial.channels} input channels" if partial else None,
    }


def _by_line(options: Any) -> dict[str, Any]:
    """Return the options of a training as rows: one for all short values, and one for each long one."""
    if not isinstance(options, dict):
        return {"options": options}
    texts = {key: as_text(value) for key, value in options.items() if value is not None}
    brief = {key: text for key, text in texts.items() if len(text) < _LONG}
    return {"options": ", ".join(f"{key} {text}" for key, text in brief.items())} | {
        key: text for key, text in texts.items() if key not in brief
    }
