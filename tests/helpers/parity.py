"""Compare condvae with the code of the paper's authors: `python tests/helpers/parity.py FOLDER [DEVICE]`.

FOLDER contains one case: config.json, official_vdvae.th, official_ipa.th, inputs.safetensors, expected.safetensors.
Prints the largest relative error of every quantity; exits with 1 if one is above 1e-4. DEVICE: cpu (default) or cuda.
"""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from condvae import objectives
from condvae.conditional import ConditionalVAE
from condvae.likelihood import LogisticMixture
from condvae.observe import Observation
from condvae.runtime import pixels
from condvae.sampling.plain import sample_conditional, sample_prior
from condvae.vdvae import VDVAE, Normalisation
from condvae.weights.public import LayerStrings, import_public

TOLERANCE = 1e-4


def errors(folder: Path, device: str = "cpu") -> dict[str, float]:
    """The largest relative error of each expected quantity; infinite for quantities that are not computed here."""
    expected = load_file(folder / "expected.safetensors")
    inputs = load_file(folder / "inputs.safetensors")
    expected |= {
        f"inputs.{name}": inputs[name] for name in ("x", "target", "y") if name in inputs
    }  # we compute these from grey levels
    found: dict[str, float] = {}
    for name, value in computed(folder, device, list(expected)):
        key = name.removeprefix("(artifact of the conditional checkpoint) ")
        if key in expected:
            found[name] = relative_error(value.cpu(), expected[key])
    return found | {name: float("inf") for name in expected if name not in found}


def relative_error(value: Tensor, reference: Tensor) -> float:
    """The largest relative difference. Fields are compared relative to their largest value. Numbers per image or group
    are compared relative to themselves, but at least to 1/1000 of the largest, because a KL near zero is imprecise.
    """
    if value.shape != reference.shape or not torch.isfinite(value).all():
        return float("inf")
    difference = (value - reference).abs()
    scale = max(float(reference.abs().max()), 1e-30)
    if reference.ndim <= 2:
        return float((difference / reference.abs().clamp_min(1e-3 * scale)).max())
    return float(difference.max() / scale)


@torch.no_grad()
def computed(folder: Path, device: str, wanted: list[str]) -> Iterator[tuple[str, Tensor]]:
    """Compute every quantity of the case, and yield it with its name in the files."""
    config = json.loads((folder / "config.json").read_text())
    layers = LayerStrings(
        encoder=config["enc_blocks"],
        decoder=config["dec_blocks"],
        bits=5 if config["low_bit"] else 8,
        normalisation=Normalisation(shift=config["shift"], scale=config["scale"]),
        largest_bias=config["no_bias_above"],
    )
    vae = import_public(folder / "official_vdvae.th", layers).to(device)
    model = import_public(folder / "official_ipa.th", layers).to(device)
    assert isinstance(vae, VDVAE) and isinstance(model, ConditionalVAE)
    inputs = load_file(folder / "inputs.safetensors", device=device)
    x = pixels.from_uint8(channels_first(inputs["image_uint8"]))
    noise = [inputs[name] for name in sorted(inputs) if name.startswith("noise.")]

    yield from unconditional(vae, x, noise, wanted)
    for name, value in unconditional(model.artifact, x, noise, wanted):
        yield f"(artifact of the conditional checkpoint) {name}", value
    yield from conditional(model, x, noise, inputs, wanted)


def temperatures(wanted: list[str], kind: str) -> list[tuple[str, float]]:
    """The temperatures of the samples in a case, from names such as prior_sample_t0.7.px_z."""
    matches = [re.fullmatch(rf"{kind}_sample_t([\d.]+)\.px_z", name) for name in wanted]
    return [(match[0], float(match[1])) for match in matches if match]


def unconditional(vae: VDVAE, x: Tensor, noise: list[Tensor], wanted: list[str]) -> Iterator[tuple[str, Tensor]]:
    yield "inputs.x", channels_last(vae.normalise(x))
    assert isinstance(vae.likelihood, LogisticMixture)
    yield "inputs.target", channels_last(vae.likelihood.quantise(x))
    posterior = vae.posterior(x)
    for resolution, activation in vae.encoder.pyramid(vae.normalise(x)).items():
        yield f"encoder.activations.{resolution}", activation
    bound = objectives.elbo(vae, x, noise=noise)
    state = vae.descend(posterior, batch=len(x), noise=noise).state
    yield "elbo.px_z", state
    yield "elbo.logits", channels_last(vae.decoder.pixel_parameters(state))
    yield "elbo.kl_per_group", bound.kl_nats
    yield "elbo.nll_per_dim", nll_per_dim(bound)
    yield "elbo.total_per_dim", -bound.nats / bound.image_dims
    for name, temperature in temperatures(wanted, "prior"):
        latents = sample_prior(vae, len(x), noise=noise, temperature=temperature, pixels="mean").latents
        yield name, vae.descend(None, batch=len(x), noise=[], given=latents).state


def conditional(
    model: ConditionalVAE, x: Tensor, noise: list[Tensor], inputs: dict[str, Tensor], wanted: list[str]
) -> Iterator[tuple[str, Tensor]]:
    if "mask_observed" in inputs:
        observation = model.observe(x, channels_first(inputs["mask_observed"]) > 0.5)
    else:
        observation = Observation(y=channels_first(inputs["y"]))
    yield "inputs.y", channels_last(observation.y)
    bound = objectives.forward(model, x, observation, noise=noise)
    yield "forward.kl_per_group", bound.kl_nats
    yield "forward.nll_unobserved_per_dim", nll_per_dim(bound)
    yield "forward.nll_all_per_dim", nll_per_dim(objectives.forward(model, x, observation, noise=noise, target="whole"))
    if observation.known is not None:
        bound = objectives.reverse(model, observation, noise=noise)
        yield "reverse.kl_per_group", bound.kl_nats
        yield "reverse.nll_observed_per_dim", nll_per_dim(bound)
    for name, temperature in temperatures(wanted, "conditional"):
        samples = sample_conditional(model, observation, noise=noise, temperature=temperature, pixels="mean")
        yield name, model.artifact.descend(None, batch=len(x), noise=[], given=samples.latents).state


def nll_per_dim(bound: objectives.Bound) -> Tensor:
    assert bound.log_likelihood_nats is not None
    return -bound.log_likelihood_nats / bound.image_dims


def channels_first(images: Tensor) -> Tensor:
    return images.permute(0, 3, 1, 2).contiguous()


def channels_last(images: Tensor) -> Tensor:
    return images.permute(0, 2, 3, 1)


def main() -> int:
    if len(sys.argv) not in (2, 3) or not Path(sys.argv[1], "config.json").is_file():
        print(
            "usage: python tests/helpers/parity.py FOLDER [DEVICE]; FOLDER contains config.json and the rest of a case",
            file=sys.stderr,
        )
        return 2
    torch.backends.cudnn.allow_tf32 = False  # its rounding error of 1e-3 is larger than the tolerance
    try:
        largest = errors(Path(sys.argv[1]), *sys.argv[2:])
    except (ValueError, OSError, KeyError) as problem:
        print(f"{sys.argv[1]} is not a case that can be compared: {problem}", file=sys.stderr)
        return 2
    for name, error in largest.items():
        print(f"{error:9.2e}  {'ok  ' if error <= TOLERANCE else 'FAIL'}  {name}")
    return int(max(largest.values()) > TOLERANCE)


if __name__ == "__main__":
    sys.exit(main())
