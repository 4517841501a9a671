"""Run the whole method in about a minute on two CPU cores: pretrain a small VAE on real faces, freeze it, train a
partial encoder, and complete test faces. The result demonstrates the method; it is not a good model.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from condvae import objectives
from condvae.conditional import ConditionalVAE
from condvae.data import open_data
from condvae.images.model_sheets import conditional_sheet, visible
from condvae.observe.batch import Batch
from condvae.runtime.scripts import run_script
from condvae.sampling.sampler import Sampler
from condvae.training import PretrainOptions, TrainOptions, options_for, pretrain, train
from condvae.weights import load

# Temperature per resolution: 1 for coarse latents, less for fine ones, whose prior is still poor after so short a
# training.
TEMPERATURE_AT = {1: 1.0, 4: 0.9, 8: 0.6}


@dataclass(frozen=True, kw_only=True)
class Options:
    """Pretrain a small VAE, train a partial encoder for it, and complete test faces."""

    images: Path = Path(__file__).parents[1] / "tests" / "fixtures" / "faces32.zip"
    """Folder or zip of 32 x 32 RGB images in train/ and test/."""
    out: Path = Path("out/train_in_a_minute")
    """Folder for the two run folders, vae/ and partial/, and for completions.png. Existing runs are resumed."""
    vae_steps: int = 450
    """How many steps to train the VAE."""
    partial_steps: int = 220
    """How many steps to train the partial encoder."""
    batch: int = 16
    """How many images each step uses."""
    seed: int = 0


def main(options: Options) -> None:
    shared = {"data": (options.images,), "batch": options.batch, "seed": options.seed, "validation": 0, "resume": True}
    vae = pretrain(options_for(PretrainOptions, "demo", **shared, steps=options.vae_steps, out=options.out / "vae"))
    file = train(
        options_for(
            TrainOptions, "demo", **shared, steps=options.partial_steps, artifact=vae, out=options.out / "partial"
        )
    )
    model = load(file)
    assert isinstance(model, ConditionalVAE)
    test = open_data(options.images).test
    x = test.take(np.arange(len(test))).batch().x
    report(model, x, options.seed)
    sheet = options.out / "completions.png"
    draw_sheet(model, x[:8], sheet)
    print(f"wrote {sheet}")


def report(model: ConditionalVAE, x: Tensor, seed: int) -> None:
    """Print the ELBO of test images in nats per dimension (relative to the noise floor), and two KLs in nats."""
    known = torch.ones(len(x), 1, 32, 32, dtype=torch.bool)
    known[..., 16:] = False
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        elbo = objectives.elbo(model.artifact, x, noise=generator)
        ipa = objectives.forward(model, x, model.observe(x, known), noise=generator)
    print(
        f"{len(x)} test faces: ELBO {elbo.nats.mean() / elbo.image_dims:.3f} nats per dimension; "
        f"KL from the encoder to the prior {elbo.kl_nats.sum(1).mean():.0f} nats; "
        f"KL from the encoder to the partial encoder, with the left half known, {ipa.kl_nats.sum(1).mean():.0f} nats"
    )


def draw_sheet(model: ConditionalVAE, x: Tensor, path: Path, *, n: int = 24) -> None:
    """Complete test images behind four kinds of holes in turn, and write the contact sheet."""
    known = torch.ones(len(x), 1, 32, 32, dtype=torch.bool)
    known[0::4, :, :, 16:] = False  # right half hidden
    known[1::4, :, 8:17, 3:29] = False  # eyes hidden
    known[2::4, :, 18:] = False  # mouth and chin hidden
    known[3::4] = False
    known[3::4, :, 6:26, 6:26] = True  # only the middle known
    observation = model.observe(x, known)
    made = Sampler(model)(observation, n, temperature=TEMPERATURE_AT)
    conditional_sheet(Batch(x=x), visible(observation, model.artifact.config), made).save(path)


if __name__ == "__main__":
    run_script(main, Options)
