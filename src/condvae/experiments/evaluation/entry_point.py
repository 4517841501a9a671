"""`condvae.evaluate`: measure models, baselines and the completions of other programs on the same test images."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

import torch

from condvae import weights
from condvae.completers.baseline_names import BASELINES
from condvae.completers.learned_completer import LearnedCompleter
from condvae.conditional import ConditionalVAE
from condvae.data import Dataset, open_data
from condvae.data.layouts import DataPath, name_of_data
from condvae.experiments.evaluation.external_completions import ExternalCompletions
from condvae.experiments.evaluation.groups import GroupPatterns, read_groups
from condvae.experiments.evaluation.methods import (
    Method,
    Subject,
    check_fit,
    learned_method,
    methods_of,
    subject_of,
)
from condvae.experiments.evaluation.methods import baselines as baseline_methods
from condvae.experiments.evaluation.plan import DEEP, EvaluationSettings
from condvae.experiments.evaluation.problems import Problems
from condvae.experiments.evaluation.run import experiment
from condvae.experiments.resumable_work import Shard
from condvae.metrics.feature_networks import FeatureNetworks
from condvae.runtime.checks import strict
from condvae.runtime.folders import check_apart
from condvae.runtime.messages import Say
from condvae.runtime.ranks import join
from condvae.weights.artifact_file import as_conditional

EvaluatedModel: TypeAlias = str | Path | ConditionalVAE | LearnedCompleter
"""A model to measure: its name, its path, or the model itself."""
EvaluatedModels: TypeAlias = EvaluatedModel | Sequence[EvaluatedModel] | Mapping[str, EvaluatedModel]
"""Models to measure, with or without names for the report."""


def evaluate(
    model: EvaluatedModel | None,
    data: DataPath | Dataset,
    *,
    against: EvaluatedModels = (),
    out: str | Path = "evaluation",
    settings: EvaluationSettings | None = None,
    size: int | None = None,
    temperature: str | float | Sequence[str | float] = "1",
    pixels: Literal["mean", "sample"] | Sequence[Literal["mean", "sample"]] = "mean",
    baselines: Sequence[str] = BASELINES,
    completions: Mapping[str, str | Path] | None = None,
    image_groups: GroupPatterns | str | Path | None = None,
    lpips: Literal["alex", "vgg"] = "alex",
    precision: Literal["exact", "fast"] = "exact",
    device: str = "auto",
    shard: str | None = None,
    keep_parts: bool = False,
    say: Say = print,
    **given: Any,
) -> dict[str, Any] | None:
    """Measure a model on test images like `condvae evaluate`; return the report and write it to `out`.

    model: a name, a path, a model in memory, or None to measure only the other methods. against: other models that are
    measured on the same images, conditional VAEs or learned baselines; {NAME: MODEL} names them in the report. data: a
    path, several paths, "cifar10" after `condvae fetch cifar10`, or an open Dataset. completions: {NAME: FOLDER} with
    completions of other programs. image_groups: groups of test images whose metrics are also reported separately, as
    {NAME: [PATTERN, ...]} with patterns of file names, or the path of a JSON file with such a table.
    Settings are given as an `EvaluationSettings` object or by name: images, n (completions of each image),
    deep_images, bits_images, metrics, seed.

    Results that are already in `out` are not measured again. The return value is None if another process writes the
    report, which is the case with a shard and in ranks other than 0.
    """
    settings = _settings(settings, given)
    patterns = read_groups(Path(image_groups)) if isinstance(image_groups, str | Path) else image_groups
    if not isinstance(data, Dataset):
        check_apart(data, Path(out))
    with join(device) as world:
        share = Shard.of_text(shard, ranks=world.size)
        networks = FeatureNetworks.load(
            world.device,
            lpips=lpips if settings.needs_lpips else None,
            inception=precision if "inception" in settings.metrics else None,
        )
        opened = data if isinstance(data, Dataset) else open_data(data, size=size)
        problems = Problems.choose(opened, settings)
        named = [*([] if model is None else [(None, model)]), *_named(against)]
        opened_models = [_opened(one, problems, world.device, name=name) for name, one in named]
        subjects = [one for one in opened_models if isinstance(one, Subject)]
        deep = bool(set(DEEP) & set(settings.metrics))
        external = [
            ExternalCompletions.open(name, Path(folder), problems, k=settings.n, deep=deep)
            for name, folder in (completions or {}).items()
        ]
        several = [temperature] if isinstance(temperature, str | int | float) else temperature
        texts = [one if isinstance(one, str) else f"{one:g}" for one in several]
        choices = [pixels] if isinstance(pixels, str) else pixels
        ours = [
            method
            for one in opened_models
            for method in (
                methods_of(one, texts, choices, k=settings.n, say=say) if isinstance(one, Subject) else [one]
            )
        ]
        return experiment(
            [*ours, *external, *baseline_methods(baselines, opened)],
            opened,
            Path(out),
            settings=settings,
            networks=networks,
            models=subjects,
            groups=patterns,
            data_name="" if isinstance(data, Dataset) else name_of_data(data),
            world=world,
            shard=share,
            keep_parts=keep_parts,
            say=say,
        )


def _settings(settings: EvaluationSettings | None, given: dict[str, Any]) -> EvaluationSettings:
    if settings is None:
        return strict(EvaluationSettings, given, where="settings")
    if given:
        raise ValueError(f"settings were given both as an object and by name ({', '.join(given)}): use one of the two")
    return settings


def _named(models: EvaluatedModels) -> Sequence[tuple[str | None, EvaluatedModel]]:
    """Return each model with its name, or with None if no names were given."""
    if isinstance(models, Mapping):
        return list(models.items())
    if isinstance(models, Sequence) and not isinstance(models, str):
        return [(None, one) for one in models]
    return [(None, models)]


def _opened(given: EvaluatedModel, problems: Problems, device: torch.device, *, name: str | None) -> Subject | Method:
    """Open a model: a conditional VAE, whose bounds are measured, too, or a baseline."""
    if isinstance(given, str | Path):
        path = weights.locate(given)
        title, record = weights.title_of(str(given), path), weights.describe(path).record
        opened = weights.load(path)
        model = opened if isinstance(opened, LearnedCompleter) else as_conditional(opened, given)
    else:
        model, title, record = given, given.title if isinstance(given, LearnedCompleter) else "model", {}
    name = title if name is None else name
    model = model.to(device)
    check_fit(model, name, problems)
    if isinstance(model, LearnedCompleter):
        return learned_method(model, name, record=record)
    return subject_of(model, name, record=record)
