r"""Measure a model that makes photos from edges, such as the embedded model shoes64, on several sets of test images.

    condvae fetch metrics
    python recipes/edges_model.py --model shoes64 --data shoes64.zip bags64.zip --out out/shoes64.json

The metrics are those of recipes/edges.py. On two CPU cores, this takes about half an hour.
"""

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from condvae import weights
from condvae.experiments.pretraining import PretrainingSettings
from condvae.experiments.pretraining.jobs import PART
from condvae.experiments.pretraining.measure import PretrainingContext
from condvae.experiments.pretraining.run import open_data_for
from condvae.experiments.pretraining.summary import metrics_of
from condvae.experiments.resumable_work import ResultStore
from condvae.metrics.feature_networks import FeatureNetworks
from condvae.observe import Edges
from condvae.runtime.atomic import writing
from condvae.runtime.ranks import join
from condvae.runtime.scripts import run_script
from condvae.runtime.versions import device_name, versions

sys.path.insert(0, str(Path(__file__).parents[1]))
from recipes.pages import DIGITS, compact, rounded

FORMAT = "condvae edges model"


@dataclass(frozen=True, kw_only=True)
class Options:
    """Measure a model that makes photos from edges."""

    data: tuple[Path, ...]
    """Data sets with test images. Each is measured by itself."""
    out: Path
    """The JSON file to write."""
    model: str = "shoes64"
    """A conditional model: a name, a file or a run folder."""
    preset: str = "shoes64"
    """A preset with the image size of the model."""
    deep_images: int = 100
    """How many test images are answered n times, for LPIPS-GT and diversity."""
    n: int = 100
    """How many answers LPIPS-GT chooses the best of."""
    seed: int = 0
    precision: Literal["exact", "fast"] = "exact"
    """Precision of the Inception network on a GPU; see `condvae evaluate --help`."""
    device: str = "auto"


def main(options: Options) -> None:
    model = weights.load_conditional(options.model)
    if not isinstance(model.process, Edges):
        raise ValueError(f"{options.model} is not given edges: give a model that was trained with --observe edges")
    settings = PretrainingSettings(
        preset=options.preset,
        condition=Edges.name,
        conditions=(),
        batch=1,
        validation=1,
        images=0,
        bound_images=0,
        deep_images=options.deep_images,
        n=options.n,
        seed=options.seed,
    )
    with join(options.device) as world:
        networks = FeatureNetworks.load(world.device, inception=options.precision)
        model = model.to(world.device).eval()
        opened = {path: open_data_for(settings, path) for path in options.data}
        found: dict[str, Any] = {}
        for path, data in opened.items():
            context = PretrainingContext(data, path, settings, networks, world.device)
            with tempfile.TemporaryDirectory() as scratch:
                numbers = context.measured(model, settings.condition, ResultStore(Path(scratch), kind=PART))
            dims = data.test.channels * data.test.size**2
            metrics = metrics_of(numbers, settings.condition, dims)
            found[path.name] = {"images": len(context.rows), "metrics": metrics}
            print(f"{path.name}, {len(context.rows):,} images: {metrics}", flush=True)
        result = {
            "format": FORMAT,
            "model": options.model,
            "record": weights.describe(options.model).record,
            "sets": found,
            "deep_images": options.deep_images,
            "n": options.n,
            "seed": options.seed,
            "precision": options.precision,
            "versions": versions(),
            "device": device_name(world.device),
        }
    with writing(options.out) as temporary:
        temporary.write_text(compact(rounded(result, DIGITS)) + "\n")
    print(f"wrote {options.out}")


if __name__ == "__main__":
    run_script(main, Options, __doc__)
