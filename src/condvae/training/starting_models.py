"""What a run starts from: copies in its folder, so that it can go on if those files move, and the records in them."""

import shutil
from pathlib import Path
from typing import Any

from condvae import weights
from condvae.runtime.atomic import replacing
from condvae.training.options import TrainingOptions
from condvae.training.run_folder import RunFolder
from condvae.training.task import ConditionalTraining, TrainingTask

_LINKS = 3
"""Of a chain of models, each trained on from the one before, so many tell their story."""


def keep_origins(options: TrainingOptions, folder: RunFolder, task: TrainingTask) -> None:
    """Copy the frozen artifact and the initial model, with their records, into the run's folder."""
    if _frozen(task):
        source = _given(options, "init") or _given(options, "artifact")
        weights.save(task.vae, folder.artifact, record=_record_of_vae(source) if source else None)
    init = _given(options, "init")
    if init and (file := weights.locate(init)).resolve() != folder.init.resolve():
        with replacing(folder.init) as temporary:
            shutil.copyfile(file, temporary)


def origin_records(options: TrainingOptions, folder: RunFolder, task: TrainingTask) -> dict[str, Any]:
    """How the artifact and the initial model were made, from the copies: what the finished model tells of them."""
    found: dict[str, Any] = {}
    if _frozen(task) and folder.artifact.is_file():
        found["artifact"] = _shortened(weights.describe(folder.artifact).record)
    if _given(options, "init") and folder.init.is_file():
        whole = (
            weights.describe(folder.init).record
            if isinstance(task, ConditionalTraining)
            else _record_of_vae(folder.init)
        )
        # A frozen artifact is the same as in the initial model, and already told of.
        found["init"] = _shortened({key: value for key, value in whole.items() if key not in found})
    return {key: record for key, record in found.items() if record}


def _record_of_vae(name: Path) -> dict[str, Any]:
    """How the VAE in a file was trained; in a conditional model that stands apart from the partial encoder's record."""
    header = weights.describe(name)
    own = header.record.get("artifact") if header.partial else None
    return own if isinstance(own, dict) else header.record


def _shortened(record: dict[str, Any], links: int = _LINKS) -> dict[str, Any]:
    kept = {key: value for key, value in record.items() if links > 1 or key not in ("artifact", "init")}
    for key in ("artifact", "init"):
        if isinstance(kept.get(key), dict):
            kept[key] = _shortened(kept[key], links - 1)
    return kept


def _frozen(task: TrainingTask) -> bool:
    return isinstance(task, ConditionalTraining) and not task.trains_artifact


def _given(options: TrainingOptions, name: str) -> Path | None:
    given: Path | None = getattr(options, name, None)
    return given
