"""Measure how many images per second the classifier g processes, and how its fast modes differ from the exact one.

    python benchmarks/classifier.py --device cuda --out classifier.json

The modes are plain torch in float32 (exact), plain torch in float16, and fused kernels in float16. A CPU only has the
first mode. By default the classifier is untrained, which does not change its speed; only the statistics of its
normalisation layers are set.
"""

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.clock import seconds
from condvae import kernels
from condvae.design.avp_cnn.classifier_file import load_classifier
from condvae.design.avp_cnn.layers import Norm
from condvae.design.avp_cnn.network import AVPCNN, ClassifierConfig
from condvae.design.candidates import Candidates
from condvae.runtime.ranks import join
from condvae.runtime.scripts import run_script


@dataclass(frozen=True, kw_only=True)
class Options:
    """Measure the speed of the classifier."""

    classifier: str | None = None
    """A classifier file, or the name of an embedded one. By default, an untrained one (15 variables, 64 x 64, grey)."""
    batch: int | None = None
    """Images per call. By default 8,192 on a GPU, 64 on a CPU."""
    repeats: int = 10
    """Number of timed calls. Their median is reported."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    out: Path | None = None
    """JSON file for all results."""


def main(options: Options) -> None:
    with join(options.device) as world:
        device = world.device
        on_gpu = device.type == "cuda"
        g = (load_classifier(options.classifier) if options.classifier else untrained()).to(device).eval()
        pixels, known = observations(g.config, options.batch or (8192 if on_gpu else 64), device)
        threads = f"CPU, {torch.get_num_threads()} threads"
        result: dict[str, Any] = {
            "device": torch.cuda.get_device_name(device) if on_gpu else threads,
            "cores": os.cpu_count(),
            "torch": torch.__version__,
            "classifier": options.classifier or "untrained",
            "image": list(pixels.shape[1:]),
            "batch": len(pixels),
        }
        ways = {"plain_exact": ("exact", True)}
        if on_gpu:
            ways["plain_half"] = ("fast", True)
        if kernels.available(device):
            ways["fused_half"] = ("fast", False)
        exact: Tensor | None = None
        for name, (precision, plain) in ways.items():
            g.precision, g.plain = precision, plain  # type: ignore[assignment]
            log_p = g.log_posterior(pixels, known).double()
            exact = log_p if exact is None else exact
            result[name] = rate(lambda: g.log_posterior(pixels, known), len(pixels), options.repeats, device)
            result[name]["log_probabilities_off"] = difference(log_p, exact)
            if on_gpu:
                torch.cuda.empty_cache()
        fastest = list(ways)[-1]
        result["times_the_plain"] = {
            name: round(result[fastest]["per_s"] / result[name]["per_s"], 2) for name in ways if name != fastest
        }
    print(json.dumps(result, indent=1))
    if options.out:
        options.out.write_text(json.dumps(result, indent=1) + "\n")


def rate(work: Callable[[], object], images: int, repeats: int, device: torch.device) -> dict[str, Any]:
    """Return the number of images per second, from the median time of a call, and the largest memory in use."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    took = sorted(seconds(work, device) for _ in range(max(1, repeats)))
    median = took[len(took) // 2]
    made: dict[str, Any] = {"per_s": round(images / median), "ms": round(1000 * median, 3)}
    if device.type == "cuda":
        made["peak_gb"] = round(torch.cuda.max_memory_allocated(device) / 1e9, 2)
    return made


def difference(log_p: Tensor, exact: Tensor) -> dict[str, float]:
    """Return the mean and the largest difference from the exact log-probabilities, in nats.

    Also return the largest difference from the exact probabilities.
    """
    off, p = (log_p - exact).abs(), (log_p.exp() - exact.exp()).abs()
    return {"mean": float(off.mean()), "worst": float(off.max()), "worst_probability": float(p.max())}


def observations(config: ClassifierConfig, n: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return n smooth random images, and their known pixels: two random windows in each image."""
    generator = torch.Generator().manual_seed(0)
    coarse = torch.rand(n, config.channels, 8, 8, generator=generator) * 2 - 1
    pixels = F.interpolate(coarse.to(device), size=(config.size, config.size), mode="bilinear")
    windows = Candidates.grid(config.size, side=config.size // 4).windows
    one, other = torch.randint(len(windows), (2, n), generator=generator)
    return pixels, (windows[one] | windows[other]).to(device)


@torch.no_grad()
def untrained() -> AVPCNN:
    torch.manual_seed(0)
    g = AVPCNN(ClassifierConfig(size=64, channels=1, names=tuple(f"finding {i}" for i in range(15))))
    for layer in g.modules():
        if isinstance(layer, Norm):
            layer.momentum = 1.0  # use the statistics of one batch, so that signals neither vanish nor explode
    pixels, known = observations(g.config, 16, torch.device("cpu"))
    g.train()(torch.cat((g.normalise(pixels) * known, known.float()), dim=1))
    return g.eval()


if __name__ == "__main__":
    run_script(main, Options, __doc__)
