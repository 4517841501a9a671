r"""Measure what a model loses if its weights are stored with 8 bits instead of 16.

    python recipes/eight_bits.py --model faces64 --data faces64-a.zip faces64-b.zip faces64-c.zip --out eight_bits

The model is stored in two packed files, with 16 and with 8 bits per weight. Both are loaded and compared on the same
test images, with holes of five sizes and the same seeds. If the model was stored with 8 bits before, its weights before
rounding are not known. The 16-bit model then gets random ones that are rounded to the same 8-bit weights:

- the KL divergence from c(z|y) of the 16-bit model to that of the 8-bit model, along latents of the 16-bit model;
- LPIPS-GT of both, and the standard error of their difference, which is over images;
- bits per dimension of both VAEs;
- by how many grey levels the hidden pixels of a completion change.

The folder gets result.json, and sheet.png with completions by both and their differences.
"""

import copy
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from condvae import weights
from condvae.conditional import ConditionalVAE
from condvae.data import open_data
from condvae.data.image_set import Indices
from condvae.experiments.evaluation.measure import EvaluationContext, EvaluationUnit
from condvae.experiments.evaluation.methods import check_fit, methods_of, subject_of
from condvae.experiments.evaluation.plan import EvaluationSettings
from condvae.experiments.evaluation.problems import Problems
from condvae.gaussian import Gaussian
from condvae.images.contact_sheet import contact_sheet
from condvae.images.model_sheets import visible
from condvae.metrics import HOLE_BINS, LPIPS, Estimate, sample_distances
from condvae.metrics.feature_networks import FeatureNetworks
from condvae.noise import NoiseSource
from condvae.observe import Observation
from condvae.observe.observation import observe_levels
from condvae.runtime.atomic import write_text, writing
from condvae.runtime.checks import check_whole, option_name
from condvae.runtime.devices import resolve_device
from condvae.runtime.formats import json_text
from condvae.runtime.pixels import from_uint8, to_uint8
from condvae.runtime.progress import track, with_display
from condvae.runtime.scripts import run_script
from condvae.runtime.seeds import Seeds
from condvae.vdvae.model import Step
from condvae.weights.artifact_file import as_conditional, read_model
from condvae.weights.precision import LARGEST, SCALE, WeightBits, dequantised, stored

FORMAT = "condvae eight bits"
DIFFERENCE_FACTOR = 32
"""In the sheet, differences are multiplied by this number."""
_AT_ONCE = 25
_COLUMNS = ("original", "known", *("16 bits", "8 bits", f"difference x {DIFFERENCE_FACTOR}") * 2)


@dataclass(frozen=True, kw_only=True)
class Options:
    """Compare a model with 16 bits per weight and the same model with 8."""

    data: tuple[Path, ...]
    """Data with test images."""
    model: str = weights.DEFAULT_MODEL
    """The name or the path of a model that completes holes."""
    out: Path = Path("out/eight_bits")
    """Folder for result.json and sheet.png."""
    images: int = 300
    """How many test images to use, spread evenly over the test set."""
    n: int = 20
    """How many completions to draw of each image and hole."""
    size: int | None = None
    """Images are resized to this side, in pixels. None: they are not resized."""
    seed: int = 0
    device: Literal["auto", "cpu", "cuda"] = "auto"
    lpips: Path | None = None
    """The file lpips_alex.safetensors. Default: the one that `condvae fetch metrics` downloaded."""
    sheet_images: int = 10
    """How many images the sheet shows."""


class Pair(NamedTuple):
    """The same model from the two files."""

    half: ConditionalVAE
    eight: ConditionalVAE
    sizes: dict[str, int]
    """The sizes of the files, in bytes."""
    unrounded: bool
    """Whether the given model had 8-bit weights, and those of `half` are random numbers that are rounded to them."""


def main(options: Options) -> None:
    check_whole(options.sheet_images, option_name("sheet_images"), least=1)
    device = resolve_device(options.device)
    settings = EvaluationSettings(
        images=options.images, deep_images=options.images, n=options.n, seed=options.seed, metrics=("lpips", "bounds")
    )
    lpips = LPIPS.load(options.lpips).to(device)
    problems = Problems.choose(open_data(options.data, size=options.size), settings)
    name = weights.title_of(options.model, weights.locate(options.model))
    model = as_conditional(weights.load(options.model), options.model)
    if not model.completes_holes:
        raise ValueError(f"{name} was not trained to complete images with holes: give a model that was")
    check_fit(model, name, problems)
    pair = pair_of(model, device, seed=options.seed)
    context = EvaluationContext(
        problems=problems, settings=settings, networks=FeatureNetworks(lpips=lpips), device=device
    )
    started = time.monotonic()
    with with_display():
        result = {
            "format": FORMAT,
            "model": name,
            "data": [path.name for path in options.data],
            "images": len(problems),
            "n": options.n,
            "seed": options.seed,
            "device": device.type,
            "bytes": pair.sizes,
            "unrounded": pair.unrounded,
            "kl": kl_of(pair, problems, options.seed, device),
            "bits_per_dim": bits_per_dim_of(pair, context),
        }
        found, tiles = completions_of(pair, context, options.sheet_images)
    result |= {**found, "seconds": round(time.monotonic() - started, 1)}
    options.out.mkdir(parents=True, exist_ok=True)
    with writing(options.out / "sheet.png") as temporary:
        sheet_of(tiles).save(temporary, format="png")
    write_text(options.out / "result.json", json_text(result))
    print("\n".join(lines_of(result)))
    print(f"wrote {options.out / 'result.json'} and sheet.png")


def pair_of(model: ConditionalVAE, device: torch.device, *, seed: int = 0) -> Pair:
    """Store a model with 16 and with 8 bits per weight, and load both files."""
    rounded = has_8_bits(model)
    originals: dict[WeightBits, ConditionalVAE] = {16: unrounded(model, seed) if rounded else model, 8: model}
    found, sizes = [], {}
    with tempfile.TemporaryDirectory() as folder:
        for bits, original in originals.items():
            path = Path(folder) / f"{bits}.safetensors"
            weights.save(original, path, bits=bits, packed=True)
            sizes[f"{bits}_bits"] = path.stat().st_size
            found.append(as_conditional(read_model(path), path).to(device).eval())
    return Pair(found[0], found[1], sizes, rounded)


def has_8_bits(model: ConditionalVAE) -> bool:
    """Return whether rounding to 8 bits changes no weight that it applies to."""
    own = model.state_dict()
    tensors = stored(own, bits=8)
    return all(
        torch.equal(dequantised(numbers, tensors[f"{name}{SCALE}"]), own[name].cpu())
        for name, numbers in tensors.items()
        if numbers.dtype == torch.int8
    )


def unrounded(model: ConditionalVAE, seed: int) -> ConditionalVAE:
    """Return a model with random weights that are rounded to those of the given one, which has 8 bits per weight.

    A weight that was rounded to n steps was between n - 1/2 and n + 1/2 steps: this draws it uniformly from there. The
    largest weights of each channel stay, as they give it its scale.
    """
    generator = torch.Generator().manual_seed(seed)
    found = dict(model.state_dict())
    tensors = stored(found, bits=8)
    for name, numbers in tensors.items():
        if numbers.dtype == torch.int8:
            noise = torch.rand(numbers.shape, generator=generator) - 0.5
            found[name] = (numbers + noise.where(numbers.abs() < LARGEST, 0)) * tensors[f"{name}{SCALE}"].float()
    changed = copy.deepcopy(model)
    changed.load_state_dict(found)
    return changed


def kl_of(pair: Pair, problems: Problems, seed: int, device: torch.device) -> dict[str, Any]:
    """Return KL(c of 16 bits || c of 8 bits) per image in nats, in all and by resolution, as means over the bins.

    For comparison, `to_prior` is KL(c || p) of the 16-bit model: the information that c has about an image's latents.
    """
    seeds, by_bin = Seeds(seed, "eight bits"), []
    for hole in range(len(HOLE_BINS)):
        pieces = []
        for places in _batches(len(problems), f"KL, holes {HOLE_BINS[hole]}"):
            x = from_uint8(problems.truth(places, device))
            observation = pair.half.observe(x, problems.known(hole, places, device))
            noise = [seeds(hole * len(problems) + int(place)) for place in places]
            pieces.append(kl_between(pair.half, pair.eight, observation, noise=noise))
        by_bin.append(torch.cat(pieces))
    nats = torch.stack(by_bin).double().mean(dim=0).cpu()  # [images, L, 2]
    resolutions = [stage.resolution for stage in pair.half.artifact.config.group_stages]
    groups = {size: [i for i, other in enumerate(resolutions) if other == size] for size in dict.fromkeys(resolutions)}
    between, to_prior = nats.unbind(dim=2)
    return {
        "nats": _plain(Estimate.of(between.sum(dim=1))),
        "to_prior": _plain(Estimate.of(to_prior.sum(dim=1))),
        "by_resolution": {
            str(size): {"nats": _plain(Estimate.of(between[:, own].sum(dim=1))), "groups": len(own)}
            for size, own in groups.items()
        },
        "by_bin": {
            str(hole): _plain(Estimate.of(one[..., 0].sum(dim=1))) for hole, one in zip(HOLE_BINS, by_bin, strict=True)
        },
    }


@torch.no_grad()
def kl_between(
    first: ConditionalVAE, second: ConditionalVAE, observation: Observation, *, noise: NoiseSource
) -> Tensor:
    """Return KL(c of the first model || c of the second), and KL(c || p) of the first, of each image and latent group.

    The latents are drawn from the first model. At each group, both models get the same coarser latents, so that the sum
    over groups is an unbiased estimate of the KL divergence of all latents, [B, L, 2].
    """
    drawn: list[Gaussian] = []

    def keep(step: Step) -> Tensor:
        drawn.append(step.drawn_from)
        return step.drawn_from.total_kl_to(step.prior())

    def compare(step: Step) -> Tensor:
        return drawn[step.group].total_kl_to(step.drawn_from)

    batch = len(observation)
    # TF32 would change the KL of two models that are almost equal.
    with torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False):
        descent = first.artifact.descend(first.posterior(observation), batch=batch, noise=noise, score=keep)
        source = second.posterior(observation)
        other = second.artifact.descend(source, batch=batch, noise=noise, given=descent.latents, score=compare)
    return torch.stack((other.scores, descent.scores), dim=2)


def bits_per_dim_of(pair: Pair, context: EvaluationContext) -> dict[str, Any]:
    """Return the bits per dimension of both VAEs and their difference, with the same noise."""
    unit = EvaluationUnit(None, 0, len(context.problems.bits))
    numbers = [context.elbo(subject_of(model, str(i)), unit) for i, model in enumerate((pair.half, pair.eight))]
    likelihood = "8_bits" if "8_bits" in numbers[0] else "native"
    half, eight = (found[likelihood].cpu() for found in numbers)
    return {
        "likelihood": "of 8-bit pixels" if likelihood == "8_bits" else "the model's own",
        "16_bits": _plain(Estimate.of(half)),
        "8_bits": _plain(Estimate.of(eight)),
        "difference": _plain(Estimate.of(eight - half)),
    }


@torch.inference_mode()
def completions_of(
    pair: Pair, context: EvaluationContext, shown: int
) -> tuple[dict[str, Any], list[tuple[Tensor, ...]]]:
    """Draw completions with both models; return LPIPS-GT, changes in grey levels, and the rows of the sheet."""
    problems, settings, device, lpips = context.problems, context.settings, context.device, context.networks.lpips
    assert lpips is not None
    methods = [
        methods_of(subject_of(model, name), ["1"], ["mean"], k=settings.n)[0]
        for name, model in (("16 bits", pair.half), ("8 bits", pair.eight))
    ]
    closest = torch.zeros(2, len(HOLE_BINS), len(problems), dtype=torch.float64)
    counts, other_counts = torch.zeros(2, 256, dtype=torch.int64)
    rows: dict[int, tuple[Tensor, ...]] = {}
    chosen = np.linspace(0, len(problems) - 1, min(shown, len(problems))).round().astype(int).tolist()
    for hole in range(len(HOLE_BINS)):
        for places in _batches(len(problems), f"completions, holes {HOLE_BINS[hole]}"):
            truth, known = problems.truth(places, device), problems.known(hole, places, device)
            observation = observe_levels(truth, known)
            made = [
                method.complete(observation, settings.n, seed=settings.seed, hole=hole, places=places)
                for method in methods
            ]
            for i, images in enumerate(made):
                closest[i, hole, places] = sample_distances(lpips, truth, images).closest().double().cpu()
            counts += changes(made[0], made[1], known)
            if settings.n > 1:
                other_counts += changes(made[0][:, 1:], made[0][:, :-1], known)
            for i, place in enumerate(places.tolist()):
                if place in chosen and chosen.index(place) % len(HOLE_BINS) == hole:
                    seen = to_uint8(visible(observation[i : i + 1]))[0]
                    rows[place] = (truth[i], seen, *_compared(made[0][i], made[1][i]))
    half, eight = closest.mean(dim=1)  # over bins
    relative = Estimate.of_ratio(eight - half, half)
    found = {
        "precision": methods[0].notes["precision"],
        "lpips_gt": {
            "16_bits": _plain(Estimate.of(half)),
            "8_bits": _plain(Estimate.of(eight)),
            "relative_difference": _plain(relative),
            "by_bin": {
                str(hole): _plain(Estimate.of_ratio(closest[1, i] - closest[0, i], closest[0, i]))
                for i, hole in enumerate(HOLE_BINS)
            },
        },
        "grey_levels": levels_of(counts),
        "grey_levels_of_another_seed": levels_of(other_counts) if settings.n > 1 else None,
    }
    return found, [rows[place] for place in sorted(rows)]


def changes(first: Tensor, second: Tensor, known: Tensor) -> Tensor:
    """Return how often each difference 0 ... 255 occurs in the hidden pixels of images [B, K, C, H, W]: [256]."""
    hidden = ~known[:, None].expand_as(first)
    return torch.bincount((first.short() - second.short()).abs()[hidden].long(), minlength=256).cpu()


def levels_of(counts: Tensor) -> dict[str, float]:
    """Return the mean and the largest difference in grey levels, and the share of differences above 8 levels."""
    levels, total = torch.arange(256), max(1, int(counts.sum()))
    return {
        "mean": float((levels * counts).sum()) / total,
        "largest": int(levels[counts > 0].max()) if counts.any() else 0,
        "share_above_8": float(counts[9:].sum()) / total,
    }


def sheet_of(rows: Sequence[tuple[Tensor, ...]]) -> Image.Image:
    """Make the sheet. A row has the original, what is known, and two completions by each model with differences."""
    return contact_sheet([[tile.cpu() for tile in row] for row in rows], list(_COLUMNS), tile=96)


def _compared(half: Tensor, eight: Tensor) -> Iterator[Tensor]:
    """Return the first two completions [K, C, H, W] by both models, each pair with its difference."""
    for i in range(2):
        one, other = half[i % len(half)], eight[i % len(eight)]
        yield one
        yield other
        yield ((one.short() - other.short()).abs() * DIFFERENCE_FACTOR).clamp(max=255).to(torch.uint8)


def lines_of(result: Mapping[str, Any]) -> list[str]:
    """Return the result as lines of text."""

    def shown(estimate: Mapping[str, float | None], digits: int, factor: float = 1) -> str:
        mean, error = estimate["mean"], estimate["standard_error"]
        assert mean is not None
        return f"{factor * mean:.{digits}f}" + ("" if error is None else f" ±{factor * error:.{digits}f}")

    kl, lpips, bits, levels = (result[name] for name in ("kl", "lpips_gt", "bits_per_dim", "grey_levels"))
    sizes = {name: size / 2**20 for name, size in result["bytes"].items()}
    by_resolution = ", ".join(f"{size}: {shown(one['nats'], 3)}" for size, one in kl["by_resolution"].items())
    rows = [
        ("file", f"16 bits {sizes['16_bits']:.2f} MiB, 8 bits {sizes['8_bits']:.2f} MiB (packed)"),
        ("KL of c, nats", f"{shown(kl['nats'], 3)}  (KL from c to the prior: {shown(kl['to_prior'], 1)})"),
        ("  by resolution", by_resolution),
        ("LPIPS-GT", f"16 bits {shown(lpips['16_bits'], 4)}, 8 bits {shown(lpips['8_bits'], 4)}"),
        ("  difference", f"{shown(lpips['relative_difference'], 3, 100)} %"),
        ("bits per dim", f"16 bits {shown(bits['16_bits'], 4)}, 8 bits {shown(bits['8_bits'], 4)}"),
        ("  difference", f"{shown(bits['difference'], 5)}"),
        (
            "grey levels",
            f"mean change {levels['mean']:.2f}, largest {levels['largest']}, "
            f"above 8 levels {100 * levels['share_above_8']:.2f} %",
        ),
    ]
    found = [f"{result['model']}: {result['images']} images of {', '.join(result['data'])}, n = {result['n']}"]
    if result["unrounded"]:
        found.append("  the model has 8-bit weights: those with 16 bits are random numbers that are rounded to them")
    found += [f"  {name:16} {text}" for name, text in rows]
    if other := result["grey_levels_of_another_seed"]:
        found.append(f"  {'  another seed':16} mean change {other['mean']:.2f}")
    return [*found, f"  {'time':16} {result['seconds']:.1f} s on {result['device']}, {result['precision']}"]


def _batches(count: int, label: str) -> Iterator[Indices]:
    with track(label, total=count, unit="image") as job:
        for first in range(0, count, _AT_ONCE):
            yield np.arange(first, min(first + _AT_ONCE, count))
            job.update(min(_AT_ONCE, count - first))


def _plain(estimate: Estimate) -> dict[str, float | None]:
    """Convert an estimate for JSON, which has no NaN: the standard error of a single image becomes None."""
    return {name: None if value != value else value for name, value in estimate._asdict().items()}


if __name__ == "__main__":
    run_script(main, Options, __doc__)
