"""Small experiments on pretraining whose main condition is a translation, edges.
Also a script: `python translation_runs.py OUT [I/N]` is one process of such an experiment.
"""

import sys
from pathlib import Path
from typing import Any

from helpers.pretraining_runs import small_experiment, small_presets
from helpers.resumed_runs import one_process

from condvae.experiments.pretraining import figures

EDGES: dict[str, Any] = {
    "condition": "edges,gaps=3",
    "conditions": (),
    "seeds": 1,
    "images": 0,
    "bound_images": 0,
    "deep_images": 6,
    "n": 4,
}


def edges_experiment(out: Path, **options: Any) -> dict[str, Any] | None:
    """Run an experiment on edges; options as for `small_experiment`."""
    return small_experiment(out, **{**options, "change": {**EDGES, **options.get("change", {})}})


if __name__ == "__main__":
    with small_presets():
        one_process(edges_experiment, figures, sys.argv[1:])
