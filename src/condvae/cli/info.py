"""condvae info."""

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from condvae.cli import shared
from condvae.cli.export import mebibytes
from condvae.weights.hub import MODEL_FILE
from condvae.weights.model_names import DEFAULT_MODEL


@dataclass(frozen=True, kw_only=True)
class Info:
    """Print what a model or a run folder holds."""

    model: shared.ModelArgument = DEFAULT_MODEL
    list_models: Annotated[bool, tyro.conf.arg(name="list")] = False
    """Print the models that come with the package instead."""
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False
    """Print everything as JSON."""

    def run(self) -> None:
        from condvae.weights import embedded_names

        path = Path(self.model)
        shared = (path / MODEL_FILE).is_file() and not (path / "options.json").is_file()  # a model's folder, not a run
        if self.list_models:
            self._print_embedded()
        elif path.is_dir() and not shared and self.model not in embedded_names():
            self._print_run(path)
        else:
            self._print_model()

    def _print_embedded(self) -> None:
        from condvae import weights

        files = {name: weights.locate(name) for name in weights.embedded_names()}
        headers = {name: weights.describe(file) for name, file in files.items()}
        if self.as_json:
            print(json.dumps({name: {"bytes": file.stat().st_size} for name, file in files.items()}, indent=1))
            return
        for name, header in headers.items():
            kind = "conditional" if header.partial else "unconditional"
            size = header.config.image_size
            default = ", the default" if name == DEFAULT_MODEL else ""
            print(f"{name:13} {mebibytes(files[name])}, {kind}, {size} x {size} pixels{default}")
        if not files:
            print("no models come with this installation")

    def _print_run(self, path: Path) -> None:
        from condvae.training import describe_run

        run = describe_run(path)
        if self.as_json:
            print(json.dumps(run, indent=1))
            return
        state = "finished" if run["finished"] else "not finished: the same command with --resume goes on"
        state = "a process is training here now" if run["running"] else state
        print(f"{path}: step {run['step']:,} after {run['seconds'] / 60:.1f} minutes, {state}")
        for step, condition in run["checkpoints"].items():
            print(f"checkpoint    step {step:,}, {condition}{', the best' if step == run['best_step'] else ''}")
        if run["rollbacks"]:
            print(f"roll-backs    {run['rollbacks']}")
        for event, record in run["last"].items():
            figures = {key: value for key, value in record.items() if key != "event" and value is not None}
            print(f"{event:13} {_in_words(figures)}")
        print(f"options       {_in_words(run['options'])}")

    def _print_model(self) -> None:
        from condvae import observe, weights

        header = weights.describe(self.model)
        if self.as_json:
            process = header.process.to_dict() if header.process else None
            bare = dataclasses.replace(header, process=None)
            plain = {**dataclasses.asdict(bare), "config": header.config.to_dict(), "process": process}
            print(json.dumps(plain, indent=1))
            return
        config, partial = header.config, header.partial
        print(f"{self.model}: {'conditional' if partial else 'unconditional'} VAE, {header.parameters:,} weights")
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
            print(f"{key:13} {_in_words(value) if isinstance(value, dict) else value}")


def _in_words(values: dict[str, Any]) -> str:
    def word(value: Any) -> str:
        if isinstance(value, float):
            return f"{value:.5g}"
        return ", ".join(map(str, value)) if isinstance(value, list) else str(value)

    return "; ".join(
        f"{key} ({_in_words(value)})" if isinstance(value, dict) else f"{key} {word(value)}"
        for key, value in values.items()
        if value is not None
    )
