"""Time the choice of the next scan: drawing n completions, and the classifier's predictions for all locations.

    python benchmarks/design.py --device cuda --out design.json

A reference is timed in the same run: plain torch in float32, which draws one completion at a time, encodes y again for
each, and calls the classifier once per completion and location. Only a few of these calls are timed, and the time of
all calls is extrapolated. By default the networks are untrained, which does not change their speed.
"""

import json
import os
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.clock import seconds
from condvae import weights
from condvae.completers.by_place import complete_at
from condvae.completers.model_completer import ModelCompleter
from condvae.conditional import ConditionalVAE, PartialConfig
from condvae.design import Candidates, Completions, Greedy, look_ahead
from condvae.design.avp_cnn.classifier_file import load_classifier
from condvae.design.avp_cnn.network import AVPCNN, ClassifierConfig
from condvae.experiments.design.run import sampler_chunk
from condvae.observe.observation import observe_levels
from condvae.runtime.pixels import from_uint8, to_uint8
from condvae.runtime.ranks import join
from condvae.runtime.scripts import run_script
from condvae.sampling.plain import sample_conditional, seeds_from
from condvae.vdvae import VDVAE, preset

WANTED_MS = {"cuda": 100, "cpu": 8000}
"""Target for the time of one step on one image, in milliseconds, by device."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Time the choice of the next scan."""

    model: str | None = None
    """A conditional model. By default, an untrained one with the preset xray64."""
    classifier: str | None = None
    """A classifier for the model's images. By default, an untrained one for 15 variables."""
    n: int = 10
    """Number of completions per step."""
    points: int = 17
    """Number of locations along one side of the image."""
    block: int = 0
    """Also time a step on this many images together. 0: time only one image."""
    repeats: int = 10
    """Number of timed calls. Their median is reported."""
    reference_calls: int = 20
    """Number of the reference's classifier calls that are timed."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    out: Path | None = None
    """JSON file for all results."""


def main(options: Options) -> None:
    with join(options.device) as world:
        device = world.device
        model, classifier = networks_of(options)
        model, classifier = model.to(device), classifier.to(device)
        config = model.artifact.config
        name = (
            torch.cuda.get_device_name(device) if device.type == "cuda" else f"CPU, {torch.get_num_threads()} threads"
        )
        result: dict[str, Any] = {
            "device": name,
            "cores": os.cpu_count(),
            "torch": torch.__version__,
            "model": options.model or "xray64, untrained",
            "classifier": options.classifier or "untrained",
            "image": [config.channels, config.image_size, config.image_size],
            "n": options.n,
            "locations": options.points**2,
            **measure(model, classifier, options, device),
        }
    print(json.dumps(result, indent=1))
    if options.out:
        options.out.write_text(json.dumps(result, indent=1) + "\n")


def measure(model: ConditionalVAE, classifier: AVPCNN, options: Options, device: torch.device) -> dict[str, Any]:
    """Time one step of a policy in milliseconds, for one image and then for a block of images."""
    size, channels = model.artifact.config.image_size, model.artifact.config.channels
    candidates = Candidates.grid(size, side=size // 4, points=options.points).to(device)
    images = torch.randint(256, (max(1, options.block), channels, size, size), device=device, dtype=torch.uint8)
    known = candidates.windows[torch.arange(len(images)) % len(candidates)]  # one scan has been taken
    completer = ModelCompleter.of(model, name="model", chunk=sampler_chunk(model, options.n))
    policy = Greedy(
        name="eig",
        classifier=classifier,
        candidates=candidates,
        variable=0,
        source=Completions(completer=completer),
        n=options.n,
    )
    one = observe_levels(images[:1], known[:1])
    completions = complete_at(completer, one, options.n, seed=0, places=[0])

    def ms(work: Callable[[], object], repeats: int = options.repeats) -> dict[str, float]:
        first, *took = [1000 * seconds(work, device) for _ in range(repeats + 1)]
        return {"first": round(first, 1), "median": round(statistics.median(took), 2), "worst": round(max(took), 2)}

    step = ms(lambda: policy.choose(one, 1, seed=0, places=[0]))
    result: dict[str, Any] = {
        "step_ms": step,
        "step_wanted_ms": WANTED_MS[device.type],
        "completions_ms": ms(lambda: complete_at(completer, one, options.n, seed=0, places=[0])),
        "foresight_ms": ms(lambda: look_ahead(classifier, completions, known[:1], candidates, variable=0)),
    }
    reference = plain_ms(model, classifier, images[:1], known[:1], candidates, options, device)
    result["reference"] = reference
    result["times_the_reference"] = round(reference["step_ms"] / step["median"], 1)
    if options.block:
        many, places = observe_levels(images, known), range(len(images))
        took = ms(lambda: policy.choose(many, 1, seed=0, places=places), repeats=2)["median"]
        result["block"] = {
            "images": len(images),
            "step_ms": took,
            "step_ms_per_image": round(took / len(images), 2),
            "minutes_for_500_images_5_scans_4_tasks": round(took / len(images) * 500 * 5 * 4 / 60_000, 2),
        }
    if device.type == "cuda":
        result["peak_gb"] = round(torch.cuda.max_memory_allocated(device) / 1e9, 2)
    return result


@torch.inference_mode()
def plain_ms(
    model: ConditionalVAE,
    classifier: AVPCNN,
    image: Tensor,
    known: Tensor,
    candidates: Candidates,
    options: Options,
    device: torch.device,
) -> dict[str, Any]:
    """Time some calls of the reference, and extrapolate to the time of one step, in milliseconds."""
    x = from_uint8(image)

    def complete(k: int) -> Tensor:
        seen = model.observe(x, known)
        made = sample_conditional(model, seen, noise=seeds_from(0, 1, first=k), pixels="mean").images
        return to_uint8(seen.paste(made))

    completions = [complete(k) for k in range(options.n)]
    exact = AVPCNN(classifier.config, precision="exact").to(device).eval()
    exact.load_state_dict(classifier.state_dict())

    def ask(number: int) -> list[float]:
        after = known | candidates.windows[number % len(candidates)]
        seen = torch.where(after, from_uint8(completions[number % options.n]), 0.0)
        log_p: list[float] = exact.log_posterior(seen, after)[0, 0].tolist()
        return log_p

    ask(0)
    draws = min(3, options.n)
    drawing = seconds(lambda: [complete(k) for k in range(draws)], device) / draws * options.n
    calls = min(options.reference_calls, options.n * len(candidates))
    asking = seconds(lambda: [ask(i) for i in range(calls)], device) / calls * options.n * len(candidates)
    return {
        "step_ms": round(1000 * (drawing + asking)),
        "completions_ms": round(1000 * drawing),
        "foresight_ms": round(1000 * asking),
        "extrapolated_from": f"{draws} of {options.n} completions, {calls} of {options.n * len(candidates)} calls",
    }


def networks_of(options: Options) -> tuple[ConditionalVAE, AVPCNN]:
    """Load the networks that the options name; make untrained ones for those that are not named."""
    if options.model is None:
        config = preset("xray64")
        model = ConditionalVAE(VDVAE(config), PartialConfig(channels=config.channels + 1))
    else:
        model = weights.load_conditional(options.model)
    if options.classifier is not None:
        return model, load_classifier(options.classifier)
    names = tuple(f"finding {i}" for i in range(15))
    config = model.artifact.config
    classifier = AVPCNN(ClassifierConfig(size=config.image_size, channels=config.channels, names=names))
    return model, classifier.eval()


if __name__ == "__main__":
    run_script(main, Options, __doc__)
