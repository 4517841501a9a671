"""The whole method in about a minute on two CPU cores: pretrain a small VAE on real faces, freeze it, train a partial
encoder, complete faces it has not seen. `make demo` runs this; the result is a first look, not a good model.
"""

import io
import math
import sys
import time
import zipfile
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import tyro
from PIL import Image
from torch import Tensor, nn
from tqdm import trange

from condvae import objectives, pixels
from condvae.likelihood import GaussianPixels
from condvae.partial import ConditionalVAE, PartialConfig
from condvae.pictures import contact_sheet, heat_map
from condvae.sample import sample_conditional, seeds_from
from condvae.vdvae import VDVAE, Stage, VDVAEConfig
from condvae.weights import load, save

# Latents only where structure is decided, plain blocks at 16 and 32; a coarse noise floor: a minute buys no detail.
CONFIG = VDVAEConfig(
    stages=(
        Stage(resolution=32, width=16, inner=16, encoder_blocks=1, decoder_blocks=1, latent_blocks=0),
        Stage(resolution=16, width=32, inner=16, encoder_blocks=1, decoder_blocks=1, latent_blocks=0),
        Stage(resolution=8, width=64, inner=32, encoder_blocks=1, decoder_blocks=1),
        Stage(resolution=4, width=128, inner=48, encoder_blocks=2, decoder_blocks=4),
        Stage(resolution=1, width=128, inner=48, encoder_blocks=1, decoder_blocks=2),
    ),
    latent_channels=8,
    scales="softplus",
    likelihood=GaussianPixels(noise_floor=0.1),
)
# Structure as varied as the model believes it to be; details calmer, since their prior has seen little training.
TEMPERATURE_AT = {1: 1.0, 4: 0.9, 8: 0.6}


@dataclass(frozen=True, kw_only=True)
class Options:
    """Train and complete."""

    images: Path = Path(__file__).parents[1] / "tests" / "data" / "faces32.zip"
    """Zip of 32 x 32 RGB images under train/ and test/."""
    out: Path = Path("out/demo")
    """Folder for model.safetensors and completions.png."""
    vae_steps: int = 450
    """Training steps of the VAE."""
    partial_steps: int = 220
    """Training steps of the partial encoder."""
    batch: int = 16
    """Images a step."""
    seed: int = 0


def main(options: Options) -> None:
    if min(options.vae_steps, options.partial_steps, options.batch) < 1:
        raise ValueError("--vae-steps, --partial-steps and --batch must be at least 1")
    train_images, test_images = read_images(options.images, "train/"), read_images(options.images, "test/")
    options.out.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    torch.manual_seed(options.seed)
    generator = torch.Generator().manual_seed(options.seed)

    def batch() -> Tensor:
        x = train_images[torch.randint(len(train_images), (options.batch,), generator=generator)]
        mirrored = torch.rand(options.batch, 1, 1, 1, generator=generator) < 0.5
        return torch.where(mirrored, x.flip(3), x)

    vae = VDVAE(CONFIG).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    train(
        "VAE",
        vae.parameters(),
        lambda: objectives.elbo(vae, batch(), noise=generator, check_values=False).loss,
        options.vae_steps,
    )

    model = ConditionalVAE(vae, PartialConfig(channels=CONFIG.channels + 1, form="relative")).start_from_encoder()

    def ipa_loss() -> Tensor:
        x = batch()
        observation = model.observe(x, draw_known(len(x), generator))
        # The frozen artifact's likelihood is a constant in psi: the KL is all there is to learn from.
        bound = objectives.forward(model, x, observation, noise=generator, likelihood=False, check_values=False)
        return bound.loss

    train("partial encoder", model.partial.parameters(), ipa_loss, options.partial_steps)

    seconds = time.perf_counter() - start
    record = {"recipe": "demo", "images": len(train_images), "seconds": round(seconds), "seed": options.seed}
    save(model, options.out / "model.safetensors", half=True, record=record)
    trained = load(options.out / "model.safetensors")
    assert isinstance(trained, ConditionalVAE)
    report(trained, test_images, generator)
    draw_sheet(trained, test_images, options.out / "completions.png")
    print(
        f"trained in {seconds:.0f} s; wrote {options.out / 'model.safetensors'} and {options.out / 'completions.png'}"
    )


def train(what: str, parameters: Iterable[nn.Parameter], loss_of: Callable[[], Tensor], steps: int) -> None:
    """AdamW with a short warm-up and a cosine decay."""
    parameters = list(parameters)
    optimiser = torch.optim.AdamW(parameters, lr=5e-3, betas=(0.9, 0.95), weight_decay=0.01)
    warm_up = 30
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda i: min(1.0, (i + 1) / warm_up) * (0.51 + 0.49 * math.cos(math.pi * i / steps))
    )
    for _ in (bar := trange(steps, desc=what, unit="step", mininterval=1, file=sys.stdout)):
        loss = loss_of()
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 20.0)
        optimiser.step()
        schedule.step()
        bar.set_postfix(nats_per_dim=f"{loss.item():.3f}", refresh=False)


def draw_known(n: int, generator: torch.Generator) -> Tensor:
    """[n, 1, 32, 32] bool: a box of 8 to 24 pixels a side, or half of the image, hidden or the only thing known."""
    size = CONFIG.image_size
    sides = torch.randint(8, 25, (n, 2), generator=generator)
    corner = (torch.rand(n, 2, generator=generator) * (size + 1 - sides)).long()
    half = torch.rand(n, generator=generator) < 1 / 3
    axis, second = torch.randint(2, (2, n), generator=generator)
    axes = torch.arange(2)
    # A half: all of one axis, 16 pixels of the other.
    sides[half] = torch.where(axes == axis[half, None], size // 2, size)
    corner[half] = torch.where(axes == axis[half, None], second[half, None] * (size // 2), 0)
    along = torch.arange(size)
    inside = (along >= corner[..., None]) & (along < (corner + sides)[..., None])  # [n, 2, size]
    box = inside[:, 0, :, None] & inside[:, 1, None, :]
    reveal = torch.rand(n, 1, 1, generator=generator) < 0.4
    return torch.where(reveal, box, ~box).unsqueeze(1)


def report(model: ConditionalVAE, x: Tensor, generator: torch.Generator) -> None:
    """Bounds on images that were not trained on, in nats per dimension above the noise floor."""
    known = torch.ones(len(x), 1, 32, 32, dtype=torch.bool)
    known[..., 16:] = False
    with torch.no_grad():
        elbo = objectives.elbo(model.artifact, x, noise=generator)
        ipa = objectives.forward(model, x, model.observe(x, known), noise=generator)
    print(
        f"{len(x)} test faces: ELBO {elbo.nats.mean() / elbo.image_dims:.3f} nats per dimension, "
        f"KL to the prior {elbo.kl_nats.sum(1).mean():.0f} nats; with the left half known, "
        f"KL to the partial encoder {ipa.kl_nats.sum(1).mean():.0f} nats"
    )


def draw_sheet(model: ConditionalVAE, x: Tensor, path: Path, *, rows: int = 8, shown: int = 5, n: int = 24) -> None:
    """Original, observed, completions, their mean and their spread, for the first test images."""
    x = x[:rows]
    rows = len(x)
    known = torch.ones(rows, 1, 32, 32, dtype=torch.bool)
    known[0::4, :, :, 16:] = False  # right half hidden
    known[1::4, :, 8:17, 3:29] = False  # eyes hidden
    known[2::4, :, 18:] = False  # mouth and chin hidden
    known[3::4] = False
    known[3::4, :, 6:26, 6:26] = True  # only the middle known
    observation = model.observe(x, known)
    temperature = [TEMPERATURE_AT[stage.resolution] for stage in model.artifact.config.group_stages]
    noise = seeds_from(0, n, observations=range(rows))
    samples = sample_conditional(model, observation, n, noise=noise, temperature=temperature, pixels="mean")
    completions = observation.paste(samples.images, n=n).reshape(rows, n, *x.shape[1:])
    table = [
        [
            pixels.to_uint8(x[i]),
            pixels.to_uint8(torch.where(known[i], x[i], 0.2)),
            *pixels.to_uint8(completions[i, :shown]),
            pixels.to_uint8(completions[i].mean(0)),
            heat_map(completions[i].std(0).mean(0), largest=0.4),
        ]
        for i in range(rows)
    ]
    columns = ["original", "observed", *["completion"] * shown, f"mean of {n}", "spread"]
    contact_sheet(table, columns).save(path)


def read_images(path: Path, split: str) -> Tensor:
    """[N, 3, 32, 32] in [-1, 1]: the images of a zip whose names start with `split`."""
    size = CONFIG.image_size
    try:
        with zipfile.ZipFile(path) as pack:
            names = sorted(name for name in pack.namelist() if name.startswith(split) and not name.endswith("/"))
            images = [Image.open(io.BytesIO(pack.read(name))) for name in names]
            arrays = [np.asarray(image) for image in images if image.size == (size, size) and image.mode == "RGB"]
    except FileNotFoundError:
        raise ValueError(f"{path} does not exist: give a zip of images") from None
    except (OSError, RuntimeError, zipfile.BadZipFile, zlib.error, Image.DecompressionBombError) as error:
        raise ValueError(f"{path} is not a zip of images: {error}") from error
    if not images:
        raise ValueError(f"{path} holds no images under {split}")
    if len(arrays) < len(images):
        raise ValueError(f"{path} holds images that are not {size} x {size} RGB, 8 bits a channel")
    return pixels.from_uint8(torch.from_numpy(np.stack(arrays)).permute(0, 3, 1, 2))


if __name__ == "__main__":
    try:
        main(tyro.cli(Options))
    except (ValueError, OSError) as error:
        print(f"demo: {error}", file=sys.stderr)
        sys.exit(2)
