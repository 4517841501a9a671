"""The numbers of a completion model, and of trivial fillers beside it: bits per dimension, forward KL, LPIPS-GT and
LPIPS diversity on the test images of a data set, in five ranges of hole sizes. `condvae fetch lpips` gets the network.
"""

import itertools
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import tyro
from torch import Tensor
from tqdm import tqdm

import condvae
from condvae import weights
from condvae.baselines import Completer, HarmonicFill, RandomTrainingImage, TrainingMean
from condvae.checks import check_whole
from condvae.data import Dataset, ImageSet, open_data
from condvae.metrics import (
    HOLE_BINS,
    LPIPS,
    Estimate,
    elbo_bits_per_dim,
    forward_kl_nats_per_dim,
    known_in_bin,
    sample_distances,
)
from condvae.observe import Observation
from condvae.observe.observation import observe_pixels
from condvae.partial import ConditionalVAE
from condvae.pixels import from_uint8
from condvae.sample import Pixels
from condvae.sampler import Sampler
from condvae.temperature import parse
from condvae.train.evaluation import spread
from condvae.train.seeds import Seeds

TOGETHER = 10
"""Images completed in one call. A constant, on which the seeds depend, so that results do not depend on the device."""
CHUNK = 64
"""Most samples of the model computed together."""
ALL = "mean"
"""The column that takes the bins equally often."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Measure a model and the fillers."""

    data: Path
    """Images with training and test images, such as lfw64.zip."""
    model: str = "faces64"
    """A conditional model, by name or file; none: the fillers alone."""
    lpips: Path | None = None
    """lpips_alex.safetensors; the one that `condvae fetch lpips` put into the cache if not given."""
    images: int = 200
    """Test images that are completed, evenly over all."""
    bits_images: int | None = None
    """Test images for bits per dimension; all if not given."""
    k: int = 50
    """Completions of each."""
    temperature: tuple[str, ...] = ("1",)
    """One or several, each a number, or one per resolution of latents such as 8:0.9,16:0.7."""
    pixels: tuple[Literal["mean", "sample"], ...] = ("mean",)
    """One or both: every temperature is measured with each."""
    seed: int = 0
    device: Literal["auto", "cpu", "cuda"] = "auto"
    out: Path | None = None
    """JSON file for all numbers."""


@dataclass(frozen=True, kw_only=True)
class Ours:
    """The model as a completer."""

    name: str
    sampler: Sampler
    temperature: Sequence[float]
    pixels: Pixels

    @property
    def varies(self) -> bool:
        return self.pixels == "sample" or any(self.temperature)

    def complete(self, observation: Observation, k: int, seed: int) -> Tensor:
        return self.sampler(observation, k, seed=seed, temperature=self.temperature, pixels=self.pixels)


def main(options: Options) -> None:
    for value, name in ((options.images, "--images"), (options.k, "--k"), (options.bits_images or 1, "--bits-images")):
        check_whole(value, name, least=1)
    check_whole(options.seed, "--seed")
    if options.out is not None and options.out.suffix != ".json":
        raise ValueError(f"{options.out} should end in .json")
    if options.device == "cuda" and not torch.cuda.is_available():
        raise ValueError("there is no GPU that torch can use: give --device cpu")
    on_gpu = options.device == "cuda" or (options.device == "auto" and torch.cuda.is_available())
    device = torch.device("cuda" if on_gpu else "cpu")
    model = None if options.model == "none" else load_model(options.model).to(device)
    lpips = LPIPS.load(options.lpips).to(device)
    data = open_data(options.data)
    part = written_at_the_end(options.out) if options.out else None
    try:
        result = report(model, data, lpips, options)
        if options.out and part:
            part.write_text(json.dumps(result, indent=1))
            part.replace(options.out)
            print(f"wrote {options.out}\n")
    finally:
        if part:
            part.unlink(missing_ok=True)
    print(as_text(result))


def load_model(name: str) -> ConditionalVAE:
    model = weights.load_conditional(name)
    if model.partial_config.channels != model.artifact.config.channels + 1:
        raise ValueError(f"{name} was not trained to complete images, which is what is measured here")
    return model


def report(model: ConditionalVAE | None, data: Dataset, lpips: LPIPS, options: Options) -> dict[str, Any]:
    """All numbers, as plain data."""
    test = data.test
    if not len(test):
        raise ValueError(f"{options.data} has no test images")
    chosen = test.subset(spread(len(test), options.images))
    holes = [known_in_bin(hole, len(chosen), test.size, seed=options.seed).to(lpips.device) for hole in HOLE_BINS]
    mean = TrainingMean.fit(data.train)
    fillers: list[Completer] = [
        mean,
        RandomTrainingImage(images=data.train),
        HarmonicFill(fallback=mean.image, channels=test.channels),
    ]
    result: dict[str, Any] = {
        "condvae": condvae.__version__,
        "torch": torch.__version__,
        "device": lpips.device.type,
        "data": options.data.name,
        "model": Path(options.model).name,
        "images": len(chosen),
        "k": options.k,
        "seed": options.seed,
        "pairs_per_image": options.k // 2,
    }
    ours: list[Completer] = []
    if model is not None:
        config = model.artifact.config
        if (config.image_size, config.channels) != (test.size, test.channels):
            raise ValueError(
                f"{options.data} has images of {test.size} x {test.size} x {test.channels}, "
                f"{options.model} makes {config.image_size} x {config.image_size} x {config.channels}"
            )
        sampler = Sampler(model, chunk=even_chunk(options.k), say=print)
        settings = list(itertools.product(dict.fromkeys(options.temperature), dict.fromkeys(options.pixels)))
        ours = [
            Ours(name=f"t {t}, pixels {pixels}", sampler=sampler, temperature=parse(t, config), pixels=pixels)
            for t, pixels in settings
        ]
        result["bits_per_dim"] = measure_bits(model, test, options)
        result["forward_kl_nats_per_dim"] = measure_forward_kl(model, chosen, holes, options.seed)
    result["methods"] = {
        method.name: measure_completions(method, model, chosen, holes, lpips, options) for method in (*ours, *fillers)
    }
    result["ratio_to_best_filler"] = ratios(result["methods"], [o.name for o in ours], [f.name for f in fillers])
    return result


def even_chunk(k: int) -> int:
    """Samples computed together, such that all chunks of an image's k are about full."""
    size = -(-k // -(-k // CHUNK))
    return size * max(1, CHUNK // size)


def measure_bits(model: ConditionalVAE, test: ImageSet, options: Options) -> dict[str, Any]:
    """-ELBO of the VAE alone."""
    images = test.subset(spread(len(test), options.bits_images or len(test)))
    seeds, device = Seeds(options.seed, "bits per dimension"), model.artifact.decoder.gain.device
    native, of_8_bits = [], []
    for first, x in batches(images, device, "bits per dimension"):
        bits = elbo_bits_per_dim(model.artifact, x, noise=[seeds(first + i) for i in range(len(x))])
        native.append(bits.native)
        if bits.of_8_bits is not None:
            of_8_bits.append(bits.of_8_bits)
    likelihood = model.artifact.likelihood
    return {
        "images": len(images),
        "likelihood": str(likelihood),
        "native": plain(Estimate.of(torch.cat(native))),
        "of_8_bit_images": plain(Estimate.of(torch.cat(of_8_bits))) if of_8_bits else None,
    }


def measure_forward_kl(model: ConditionalVAE, images: ImageSet, holes: Sequence[Tensor], seed: int) -> dict[str, Any]:
    """KL(q || c) per bin, z from q with the same noise in each."""
    seeds, device = Seeds(seed, "forward KL"), model.artifact.decoder.gain.device
    values = []
    for hole, known in zip(HOLE_BINS, holes, strict=True):
        found = []
        for first, x in batches(images, device, f"forward KL, hole {hole}"):
            observation = model.observe(x, known[first : first + len(x)])
            noise = [seeds(first + i) for i in range(len(x))]
            found.append(forward_kl_nats_per_dim(model, x, observation, noise=noise))
        values.append(torch.cat(found))
    return by_bin(torch.stack(values))


def measure_completions(
    method: Completer,
    model: ConditionalVAE | None,
    images: ImageSet,
    holes: Sequence[Tensor],
    lpips: LPIPS,
    options: Options,
) -> dict[str, Any]:
    """LPIPS-GT and diversity per bin. Of a method that does not vary one completion is looked at: others are equal."""
    k = options.k if method.varies else 1
    seeds = Seeds(options.seed, "completions")
    closest, diversity = [], []
    for number, (hole, known) in enumerate(zip(HOLE_BINS, holes, strict=True)):
        here_closest, here_diversity = [], []
        for first, x in batches(images, lpips.device, f"{method.name}, hole {hole}"):
            some = known[first : first + len(x)]
            observation = model.observe(x, some) if model else observe_pixels(x, some, lambda images: images)
            made = method.complete(observation, k, seeds(number * len(images) + first))
            distances = sample_distances(lpips, x, made)
            here_closest.append(distances.closest())
            here_diversity.append(distances.diversity() if method.varies else torch.zeros(len(x)))
        closest.append(torch.cat(here_closest))
        diversity.append(torch.cat(here_diversity))
    return {
        "k": k,
        "lpips_gt": by_bin(torch.stack(closest)),
        "lpips_diversity": by_bin(torch.stack(diversity)) if options.k > 1 else None,
    }


def batches(images: ImageSet, device: torch.device, what: str) -> Iterator[tuple[int, Tensor]]:
    """(position of the first, images in [-1, 1] on the device), with a progress bar on a terminal."""
    for first in tqdm(range(0, len(images), TOGETHER), desc=what, leave=False, disable=None):
        positions = np.arange(first, min(first + TOGETHER, len(images)))
        yield first, from_uint8(images.take(positions).images.to(device))


def by_bin(values: Tensor) -> dict[str, Any]:
    """[bins, images] as an estimate for each bin, and for the bins together, which share the images."""
    found = {str(hole): plain(Estimate.of(row)) for hole, row in zip(HOLE_BINS, values, strict=True)}
    return {**found, ALL: plain(Estimate.of(values.double().mean(dim=0)))}


def plain(estimate: Estimate) -> dict[str, float | None]:
    """For JSON, which has neither NaN nor infinity."""
    return {name: value if np.isfinite(value) else None for name, value in estimate._asdict().items()}


def ratios(methods: dict[str, Any], ours: Sequence[str], fillers: Sequence[str]) -> dict[str, dict[str, float]]:
    """LPIPS-GT of each of our settings over that of the filler that is best in that bin."""
    columns = [*map(str, HOLE_BINS), ALL]

    def gt(name: str, column: str) -> float:
        return float(methods[name]["lpips_gt"][column]["mean"])

    return {
        name: {column: gt(name, column) / min(gt(filler, column) for filler in fillers) for column in columns}
        for name in ours
    }


def as_text(result: dict[str, Any]) -> str:
    """The tables that a person reads."""
    columns = [*map(str, HOLE_BINS), ALL]
    lines = [f"{result['model']} on {result['images']} test images of {result['data']}, K = {result['k']}", ""]
    if bits := result.get("bits_per_dim"):
        eight = bits["of_8_bit_images"]
        comparable = f"{_number(eight)} bits/dim of 8-bit images" if eight else "no figure for 8-bit images"
        lines += [
            f"VAE (-ELBO, {bits['images']} test images): {comparable}; {_number(bits['native'])} as trained, by "
            f"{bits['likelihood']}",
            "",
        ]

    def table(title: str, rows: dict[str, dict[str, Any]]) -> None:
        width = max(map(len, rows))
        lines.append(title)
        lines.append(" ".join([f"{'hidden share':{width}}", *(f"{column:>15}" for column in columns)]))
        for name, row in rows.items():
            cells = (row[column] if isinstance(row[column], str) else _number(row[column]) for column in columns)
            lines.append(" ".join([f"{name:{width}}", *(f"{cell:>15}" for cell in cells)]))
        lines.append("")

    if kl := result.get("forward_kl_nats_per_dim"):
        table("forward KL, nats per dimension", {"partial encoder": kl})
    methods = result["methods"]

    def labelled(key: str) -> dict[str, Any]:
        return {f"{name} (K = {found['k']})": found[key] for name, found in methods.items()}

    table("LPIPS-GT (alex, min over K; less is better)", labelled("lpips_gt"))
    if result["ratio_to_best_filler"]:
        rows = {
            name: {column: f"{value:.3f}" for column, value in row.items()}
            for name, row in result["ratio_to_best_filler"].items()
        }
        table("LPIPS-GT over that of the best filler", rows)
    if result["pairs_per_image"]:
        table(
            f"LPIPS diversity (alex, mean over {result['pairs_per_image']} disjoint pairs of each image's completions)",
            labelled("lpips_diversity"),
        )
    return "\n".join(lines).rstrip()


def _number(estimate: dict[str, float | None]) -> str:
    mean, error = estimate["mean"], estimate["standard_error"]
    if mean is None:
        return "not finite"
    return f"{mean:.4f}" + ("" if error is None else f" ±{error:.4f}")


def written_at_the_end(path: Path) -> Path:
    """A place for a file until it is whole; made at once, since all measuring would be for nothing without it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    part.touch()
    return part


if __name__ == "__main__":
    try:
        main(tyro.cli(Options))
    except (ValueError, OSError) as error:
        print(f"faces64_report: {error}", file=sys.stderr)
        sys.exit(2)
