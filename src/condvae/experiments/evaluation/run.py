"""`experiment`: measure methods and models on the same images, in any number of calls and processes."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from condvae.data import Dataset
from condvae.experiments.evaluation import report
from condvae.experiments.evaluation.groups import GroupPatterns, choose_groups
from condvae.experiments.evaluation.jobs import jobs_of, shared_jobs, work_units
from condvae.experiments.evaluation.measure import EvaluationContext
from condvae.experiments.evaluation.methods import Method, Subject, check_fit, check_names
from condvae.experiments.evaluation.plan import EvaluationSettings, UnitSizes
from condvae.experiments.evaluation.problems import Problems
from condvae.experiments.resumable_work import Shard, work_together
from condvae.metrics.feature_networks import FeatureNetworks
from condvae.runtime.messages import Say, silent
from condvae.runtime.ranks import World


def experiment(
    methods: Sequence[Method],
    data: Dataset,
    out: Path,
    *,
    settings: EvaluationSettings,
    networks: FeatureNetworks,
    models: Sequence[Subject] = (),
    groups: GroupPatterns | None = None,
    data_name: str = "",
    unit_sizes: UnitSizes | None = None,
    world: World | None = None,
    shard: Shard | None = None,
    keep_parts: bool = False,
    say: Say = print,
) -> dict[str, Any] | None:
    """Measure methods, and the bounds of models, on the test images; return the report and write it to `out`.

    Results that are already in `out` are not measured again, so a killed call can be resumed and methods can be added
    later. The return value is None if another process writes the report: with a shard, and in ranks other than 0.
    groups: patterns of file names for each group of test images whose metrics are also reported separately.
    """
    world = world or World(0, 1, _device(networks))
    say = say if world.leads else silent
    problems = Problems.choose(data, settings)
    check(problems, settings, networks, methods, models)
    chosen = choose_groups(groups or {}, problems, settings)
    report.claim(out)
    context = EvaluationContext(problems=problems, settings=settings, networks=networks, device=world.device)
    sizes = unit_sizes or UnitSizes()
    jobs = list(jobs_of(context, methods, models, out, sizes))
    todo = [job for job in jobs if not job.is_final]
    if done := len(jobs) - len(todo):
        say(f"{done} of {len(jobs)} measurements are already final")
    shared = shared_jobs(context, out, sizes) if any(job.kind == "wide" for job in todo) else []
    units = work_units([*shared, *todo], problems)
    if not work_together(units, world, shard, say, guide="docs/guides/evaluate.md"):
        return None
    report.finish([*shared, *jobs], context, keep_parts=keep_parts)
    result = report.assemble(jobs, out, context, data_name or data.kind, say, groups=chosen)
    report.write(result, out, say)
    return result


def check(
    problems: Problems,
    settings: EvaluationSettings,
    networks: FeatureNetworks,
    methods: Sequence[Method],
    models: Sequence[Subject],
) -> None:
    """Raise a ValueError if something cannot be measured, before any measurement starts."""
    of_models = bool(models) and "bounds" in settings.metrics
    if not of_models and not (methods and set(settings.metrics) - {"bounds"}):
        raise ValueError(
            "there is nothing to measure: give a model, --baselines or --completions, and metrics that apply to them "
            "(bounds apply to models only)"
        )
    check_names([*methods, *models])
    test, chosen = problems.test, settings.metrics
    for subject in models:
        check_fit(subject.model, subject.name, problems)
    if settings.needs_lpips and networks.lpips is None:
        raise ValueError("the metric groups lpips and coverage need the LPIPS network: run condvae fetch metrics")
    if "inception" in chosen and networks.inception is None:
        raise ValueError("the metric group inception needs the Inception network: run condvae fetch metrics")
    if "inception" in chosen and len(problems) < 4:
        raise ValueError(f"FID and KID need four test images, but there are {len(problems)}: choose other --metrics")
    if "pixels" in chosen and test.size < 11:
        raise ValueError(
            f"images are {test.size} x {test.size}, but SSIM needs 11 x 11: choose --metrics without the group pixels"
        )
    one = test.take(problems.rows[:1]).images
    for network in (networks.lpips, networks.inception):
        if network is not None:  # raises now instead of hours later if images are too small
            network.features(one.to(network.device))


def _device(networks: FeatureNetworks) -> torch.device:
    found = [network.device for network in (networks.lpips, networks.inception) if network is not None]
    return found[0] if found else torch.device("cpu")
