"""Copy the models that a run starts from into its run folder, so that it can be resumed without the original files."""

import dataclasses
import shutil
from pathlib import Path
from typing import Any

import torch
from torch import nn

from condvae import weights
from condvae.conditional import ConditionalVAE
from condvae.runtime.atomic import replacing
from condvae.training.options import TrainingOptions
from condvae.training.run_folder import RunFolder
from condvae.training.task import ConditionalTraining, TrainingTask

_DEPTH = 3
"""Maximum depth of nested training records. A record contains those of the models that its training started from."""


def with_stored_models(options: TrainingOptions, folder: RunFolder) -> TrainingOptions:
    """Return the options of a run, with the names of the models that it started from if it is resumed.

    Raise ValueError if another model is given now. A model that is at another place now, or cannot be read any more,
    is accepted, since a resumed run uses its own copy.
    """
    if not folder.has_checkpoint:
        return options
    stored = folder.stored_options()
    kept: dict[str, Any] = {}
    for name in (name for name in ("artifact", "init") if hasattr(options, name)):
        given, before, copy = _path_option(options, name), stored.get(name), getattr(folder, name)
        if (given is None) != (before is None):
            then, now = (f"--{name} {value}" if value else f"no --{name}" for value in (before, given))
            raise ValueError(
                f"{folder.path} contains a run with {then}, but {now} was given: resume with the same options, or "
                "choose another --out folder"
            )
        if given and copy.is_file():
            kept[name] = Path(str(before))
            # A model on the hub is not downloaded again.
            here = given.exists() or str(given) in weights.embedded_names()
            whole = name == "init" and options.verb == "train"
            if (here or given != kept[name]) and _differ(given, copy, whole=whole):
                what = "artifact" if name == "artifact" else "model"
                raise ValueError(
                    f"{folder.path} contains a run that started from another {what} than {given}: resume with the same "
                    f"{what} (a copy is {copy}), or choose another --out folder"
                )
    return dataclasses.replace(options, **kept)


def _differ(given: Path, copy: Path, *, whole: bool) -> bool:
    """Return whether two models have different weights. whole: compare partial encoders too, not only the VAEs."""
    try:
        models = [weights.load(given)]
    except ValueError:  # the model has been removed or damaged
        return False
    models.append(weights.load(copy))
    parts: list[nn.Module] = [
        model.artifact if isinstance(model, ConditionalVAE) and not whole else model for model in models
    ]
    mine, stored = (part.state_dict() for part in parts)
    return mine.keys() != stored.keys() or not all(torch.equal(mine[name], stored[name]) for name in mine)


def copy_starting_models(options: TrainingOptions, folder: RunFolder, task: TrainingTask) -> None:
    """Copy the frozen artifact and the model given as --init, with their training records, into the run folder."""
    if isinstance(task, ConditionalTraining) and _frozen(task):
        source = _path_option(options, "init") or _path_option(options, "artifact")
        weights.save(task.vae, folder.artifact, record=_record_of_vae(source) if source else None)
    init = _path_option(options, "init")
    if init and (file := weights.locate(init)).resolve() != folder.init.resolve():
        with replacing(folder.init) as temporary:
            shutil.copyfile(file, temporary)


def starting_model_records(options: TrainingOptions, folder: RunFolder, task: TrainingTask) -> dict[str, Any]:
    """Return the training records of the frozen artifact and of the model given as --init, for the new model file."""
    found: dict[str, Any] = {}
    if _frozen(task) and folder.artifact.is_file():
        found["artifact"] = _shortened(weights.describe(folder.artifact).record)
    if _path_option(options, "init") and folder.init.is_file():
        whole = (
            weights.describe(folder.init).record
            if isinstance(task, ConditionalTraining)
            else _record_of_vae(folder.init)
        )
        # The record of a frozen artifact is not repeated: it is the same in the model of --init.
        found["init"] = _shortened({key: value for key, value in whole.items() if key not in found})
    return {key: record for key, record in found.items() if record}


def _record_of_vae(name: Path) -> dict[str, Any]:
    """Return the training record of the VAE in a file. In a conditional model it is stored under "artifact"."""
    header = weights.describe(name)
    own = header.record.get("artifact") if header.partial else None
    return own if isinstance(own, dict) else header.record


def _shortened(record: dict[str, Any], depth: int = _DEPTH) -> dict[str, Any]:
    kept = {key: value for key, value in record.items() if depth > 1 or key not in ("artifact", "init")}
    for key in ("artifact", "init"):
        if isinstance(kept.get(key), dict):
            kept[key] = _shortened(kept[key], depth - 1)
    return kept


def _frozen(task: TrainingTask) -> bool:
    return isinstance(task, ConditionalTraining) and not task.trains_artifact


def _path_option(options: TrainingOptions, name: str) -> Path | None:
    path: Path | None = getattr(options, name, None)
    return path
