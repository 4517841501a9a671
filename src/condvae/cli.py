"""The command line: one verb per job."""
# Heavy imports stay inside the verbs, so that --help is quick.

import dataclasses
import itertools
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

import condvae
from condvae.train.options import ConditionOptions, PretrainOptions
from condvae.train.presets import options_for


@dataclass(frozen=True, kw_only=True)
class Import:
    """Turn a public checkpoint (.th, of VD-VAE's or the paper's release) into a condvae file. No code in it is run."""

    checkpoint: Annotated[Path, tyro.conf.Positional]
    """The .th file."""
    out: Annotated[Path, tyro.conf.Positional]
    """The .safetensors file to write."""
    preset: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """The network it belongs to, such as cifar10 or ffhq256; needed only if its shapes fit several."""
    encoder: Annotated[str | None, tyro.conf.arg(metavar="LAYERS")] = None
    """Where no preset fits: the encoder's layers as the public code writes them, such as 8x2,8d2,4x1,4d4,1x1."""
    decoder: Annotated[str | None, tyro.conf.arg(metavar="LAYERS")] = None
    """Likewise the decoder's, such as 1x1,4m1,4x1,8m4."""
    bits: Annotated[int | None, tyro.conf.arg(metavar="8|5")] = None
    """Needed with layers: bits of the likelihood."""
    shift: Annotated[float | None, tyro.conf.arg(metavar="NUMBER")] = None
    """Needed with layers: the network's input is (grey level + shift) * scale."""
    scale: Annotated[float | None, tyro.conf.arg(metavar="NUMBER")] = None
    """Needed with layers: see shift."""
    largest_bias: int = 64
    """With layers: the public code's no_bias_above."""
    half: bool = False
    """Store weights in half precision: half the size."""

    def run(self) -> None:
        from condvae import weights
        from condvae.vdvae import Normalisation

        if self.out.suffix != ".safetensors":
            raise ValueError(f"{self.out} should end in .safetensors")
        layers: str | weights.Layers | None = self.preset
        if any(option is not None for option in (self.encoder, self.decoder, self.bits, self.shift, self.scale)):
            if layers or not self.encoder or not self.decoder or not self.bits or self.shift is None or not self.scale:
                raise ValueError("give a preset, or all of --encoder, --decoder, --bits, --shift and --scale")
            layers = weights.Layers(
                encoder=self.encoder,
                decoder=self.decoder,
                bits=self.bits,
                normalisation=Normalisation(shift=self.shift, scale=self.scale),
                largest_bias=self.largest_bias,
            )
        model = weights.import_public(self.checkpoint, layers)
        weights.save(model, self.out, half=self.half, record={"imported_from": self.checkpoint.name})
        print(f"wrote {self.out}")


@dataclass(frozen=True, kw_only=True)
class Info:
    """Print what a condvae file or a run folder holds."""

    path: Annotated[Path, tyro.conf.Positional]
    """A .safetensors file, or the --out folder of a training."""
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False
    """Print everything as JSON."""

    def run(self) -> None:
        if self.path.is_dir():
            self._print_run()
        else:
            self._print_model()

    def _print_run(self) -> None:
        from condvae.train import describe_run

        run = describe_run(self.path)
        if self.as_json:
            print(json.dumps(run, indent=1))
            return
        state = "finished" if run["finished"] else "not finished: the same command with --resume goes on"
        state = "a process is training here now" if run["running"] else state
        print(f"{self.path}: step {run['step']:,} after {run['seconds'] / 60:.1f} minutes, {state}")
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

        header = weights.describe(self.path)
        if self.as_json:
            process = header.process.to_dict() if header.process else None
            bare = dataclasses.replace(header, process=None)
            plain = {**dataclasses.asdict(bare), "config": header.config.to_dict(), "process": process}
            print(json.dumps(plain, indent=1))
            return
        config, partial = header.config, header.partial
        print(f"{self.path}: {'conditional' if partial else 'unconditional'} VAE, {header.parameters:,} weights")
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


@dataclass(frozen=True, kw_only=True)
class Pretrain(PretrainOptions):
    """Train an unconditional VAE on images: the artifact that `condvae train` builds on."""

    def run(self) -> None:
        from condvae.train import pretrain

        pretrain(self)


@dataclass(frozen=True, kw_only=True)
class Train(ConditionOptions):
    """Train a partial encoder for a pretrained VAE, or a whole conditional VAE from scratch."""

    def run(self) -> None:
        from condvae.train import condition

        condition(self)


@dataclass(frozen=True, kw_only=True)
class Complete:
    """Complete images with a trained model: K answers for each, and a contact sheet."""

    images: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """Image files; they are cropped to a square and resized to the model's size."""
    model: Path
    """A conditional model: model.safetensors of a `condvae train` run."""
    out: Path = Path("completions")
    """Folder for the completions and sheet.png."""
    n: Annotated[int, tyro.conf.arg(aliases=["-n"])] = 5
    """Completions of each image."""
    box: Annotated[str | None, tyro.conf.arg(metavar="X,Y,W,H")] = None
    """Hide this box, in pixels of the model's images."""
    half: Literal["left", "right", "top", "bottom"] | None = None
    """Hide this half. Without a box or a half, what the model was trained to observe is drawn at random."""
    temperature: float = 1.0
    """Factor on the spread of the latents: less than 1 is calmer."""
    seed: int = 0
    """Decides what is drawn; completion k of image i is the same however many there are."""

    def run(self) -> None:
        from condvae import weights
        from condvae.completion import complete_files
        from condvae.partial import ConditionalVAE

        box = None if self.box is None else _box(self.box)
        if box is not None and self.half is not None:
            raise ValueError("give --box or --half, not both")
        model = weights.load(self.model)
        if not isinstance(model, ConditionalVAE):
            raise ValueError(f"{self.model} is an unconditional VAE: condition it first with condvae train")
        sheet = complete_files(
            model,
            self.images,
            self.out,
            n=self.n,
            seed=self.seed,
            temperature=self.temperature,
            box=box,
            half=self.half,
        )
        print(f"wrote {sheet}")


def main(arguments: list[str] | None = None) -> None:
    """Run one verb; bad input is one sentence on stderr and exit code 2."""
    arguments = (sys.argv[1:] if arguments is None else arguments) or ["--help"]
    if arguments == ["--version"]:
        print(f"condvae {condvae.__version__}")
        return
    try:
        verb: Any = tyro.cli(_verbs(arguments), prog="condvae", description=condvae.__doc__, args=arguments)
        verb.run()
    except (ValueError, OSError) as error:
        _leave(error, 2)
    except KeyboardInterrupt:
        _leave("interrupted", 130)
    except RuntimeError as error:
        from condvae.train import Diverged

        if isinstance(error, Diverged):
            _leave(error, 1)
        if "out of memory" not in str(error) and "allocate memory" not in str(error):
            raise
        _leave("there is not enough memory: give a smaller --batch or --micro-batch, or fewer images", 2)
    except Exception as error:
        from condvae.train import Stopped

        if not isinstance(error, Stopped):
            raise
        _leave(error, 130)


def _verbs(arguments: list[str]) -> Any:
    """The verbs; a preset on the command line becomes the defaults of its verb, in `--help` too."""
    name = _preset_in(arguments)
    training: dict[str, Any] = {}
    for word, kind in (("pretrain", Pretrain), ("train", Train)):
        chosen = name if arguments[:1] == [word] else None
        training[word] = options_for(kind, chosen, data=tyro.MISSING, out=tyro.MISSING)
    return (
        Annotated[Pretrain, tyro.conf.subcommand("pretrain", default=training["pretrain"], prefix_name=False)]
        | Annotated[Train, tyro.conf.subcommand("train", default=training["train"], prefix_name=False)]
        | Annotated[Complete, tyro.conf.subcommand("complete", prefix_name=False)]
        | Annotated[Import, tyro.conf.subcommand("import", prefix_name=False)]
        | Annotated[Info, tyro.conf.subcommand("info", prefix_name=False)]
    )


def _preset_in(arguments: list[str]) -> str | None:
    for word, after in itertools.pairwise([*arguments, ""]):
        if word == "--preset" and after:
            return after
        if word.startswith("--preset="):
            return word.removeprefix("--preset=")
    return None


def _box(text: str) -> tuple[int, int, int, int]:
    try:
        x, y, width, height = (int(number) for number in text.split(","))
    except ValueError:
        raise ValueError(f"--box {text} was given, expected four whole numbers x,y,width,height") from None
    return x, y, width, height


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


def _leave(error: Exception | str, code: int) -> None:
    rank = os.environ.get("RANK", "0")
    print(f"condvae{'' if rank == '0' else f' (rank {rank})'}: {error}", file=sys.stderr)
    sys.exit(code)


if __name__ == "__main__":
    main()
