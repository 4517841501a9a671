"""The verb `condvae info`."""

import dataclasses
import json
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from condvae.cli import shared
from condvae.cli.export import mebibytes
from condvae.cli.help_text import explained
from condvae.weights.hub import MODEL_FILE
from condvae.weights.model_cards import card_at
from condvae.weights.model_names import DEFAULT_MODEL

_LABEL_WIDTH, _LINE_WIDTH = 14, 110


@explained()
@dataclass(frozen=True, kw_only=True)
class Info:
    """Describe a model or a run folder: what it is for, its network, and how it was trained."""

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
            kind = "conditional" if header.partial else "unconditional"
            size = header.config.image_size
            default = ", the default" if name == DEFAULT_MODEL else ""
            print(f"{name:13} {mebibytes(files[name])}, {kind}, {size} x {size} pixels{default}")
            if card := cards[name]:
                print(_paragraph("", card.summary))
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
        print(f"{path}: step {run['step']:,} after {run['seconds'] / 60:.1f} minutes, {state}")
        for step, condition in run["checkpoints"].items():
            print(f"checkpoint    step {step:,}, {condition}{', the best' if step == run['best_step'] else ''}")
        if run["rollbacks"]:
            print(f"roll-backs    {run['rollbacks']}")
        for event, record in run["last"].items():
            figures = {key: value for key, value in record.items() if key != "event" and value is not None}
            print(f"{event:13} {_as_text(figures)}")
        print(f"options       {_as_text(run['options'])}")

    def _print_model(self) -> None:
        from condvae import observe, weights

        file = weights.locate(self.model)
        header, card = weights.describe(file), card_at(file)
        if self.as_json:
            process = header.process.to_dict() if header.process else None
            bare = dataclasses.replace(header, process=None)
            plain = {**dataclasses.asdict(bare), "config": header.config.to_dict(), "process": process}
            print(json.dumps({"card": card._asdict() if card else None, **plain}, indent=1))
            return
        config, partial = header.config, header.partial
        print(f"{self.model}: {'conditional' if partial else 'unconditional'} VAE, {header.parameters:,} weights")
        if card:
            for label, text in card.paragraphs().items():
                print(_paragraph(label, text))
            print()
        print(f"images        {config.channels} x {config.image_size} x {config.image_size}")
        groups = {stage.resolution: stage.groups for stage in config.decoder_stages if stage.groups}
        by_resolution = ", ".join(f"{count} at {resolution}" for resolution, count in groups.items())
        print(f"latent groups {sum(groups.values())}: {by_resolution}")
        print(f"likelihood    {config.likelihood}")
        if partial:
            print(f"partial       {partial.channels} input channels, {partial.form}")
        if header.process:
            print(f"observes      {observe.describe(header.process)}")
        for key, value in header.record.items():
            print(f"{key:13} {_as_text(value) if isinstance(value, dict) else value}")


def _paragraph(label: str, text: str) -> str:
    """Wrap a text into lines next to its label, which is in a column of its own on the left."""
    indent = " " * _LABEL_WIDTH
    wrapped = textwrap.fill(
        text,
        _LINE_WIDTH,
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return f"{label:{_LABEL_WIDTH}}{wrapped.lstrip()}"


def _as_text(values: dict[str, Any]) -> str:
    """Format nested values as one line, such as "steps 7; kl_nats (1 2.8; 4 57.6)", without values that are None."""

    def word(value: Any) -> str:
        if isinstance(value, float):
            return f"{value:.5g}"
        return ", ".join(map(str, value)) if isinstance(value, list) else str(value)

    return "; ".join(
        f"{key} ({_as_text(value)})" if isinstance(value, dict) else f"{key} {word(value)}"
        for key, value in values.items()
        if value is not None
    )
