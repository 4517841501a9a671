"""`pretrain` and `train` make a finished model from options: they open the data, build the network and run the loop."""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import nn

from condvae import observe, weights
from condvae.completers.learned_baselines import make_completer, make_loss, named_config, stages_of
from condvae.completers.learned_completer import CompleterLoss, LearnedCompleter
from condvae.conditional import ConditionalVAE, PartialConfig
from condvae.data import Dataset, open_data
from condvae.likelihood import LogisticMixture
from condvae.metrics.lpips import LPIPS
from condvae.objectives import Target
from condvae.observe.process import KnownPixels, Process
from condvae.runtime.json_reading import read_json_file
from condvae.runtime.messages import listed, reason_of
from condvae.runtime.ranks import World, restarts
from condvae.runtime.seeds import Seeds
from condvae.training.baseline_task import BaselineTraining
from condvae.training.options import VAE_OPTIONS, PretrainOptions, TrainingOptions, TrainOptions
from condvae.training.presets import options_from
from condvae.training.run_folder import RunFolder
from condvae.training.schedule import Budget, part_of_limits
from condvae.training.task import ConditionalTraining, Pretraining, TrainingTask
from condvae.training.training_run import run_training
from condvae.vdvae import PRESETS, PUBLIC_PRESETS, VDVAE, Normalisation, VDVAEConfig, preset
from condvae.weights.artifact_file import as_vae

M = TypeVar("M", bound=nn.Module)


def pretrain(options: PretrainOptions | None = None, **given: Any) -> Path:
    """Train an unconditional VAE and return the path of the finished model file.

    Give the options by name, as in pretrain(data="photos", preset="small64", minutes=60, out="vae"), or as one object.
    """
    options = options_from(PretrainOptions, options, given)

    def prepare(world: World, folder: RunFolder) -> tuple[Dataset, TrainingTask]:
        if options.init:
            if options.bits is not None:
                raise ValueError(
                    "--bits cannot be given with --init, which keeps the model's likelihood: leave out --bits"
                )
            vae = weights.load_vae(folder.copied(folder.init, options.init)).requires_grad_(True)
            return _open(options, world, vae.config, vae.config.channels), Pretraining(vae.train())
        config = network_config(options.network)
        if options.bits is not None:
            if not isinstance(config.likelihood, LogisticMixture):
                raise ValueError(
                    f"--bits does not apply to the likelihood of the network {options.network}: leave out --bits"
                )
            config = dataclasses.replace(config, likelihood=dataclasses.replace(config.likelihood, bits=options.bits))
        config, dataset = _fit_to_data(config, options, options.network, world, normalise=options.normalise)
        return dataset, Pretraining(_fresh(options.seed, lambda: VDVAE(config)))

    return run_training(options, prepare)


def train(options: TrainOptions | None = None, **given: Any) -> Path:
    """Train a partial encoder, a conditional VAE from scratch, or a baseline. Return the path of the finished model.

    Give the options by name, as in train(data="photos", artifact="vae", minutes=20, out="ipa"), or as one object.
    """
    options = options_from(TrainOptions, options, given)
    origins = [name for name in ("artifact", "scratch", "init", "baseline") if getattr(options, name) is not None]
    if len(origins) != 1:
        raise ValueError(
            "give exactly one of --artifact (a pretrained VAE to condition), --scratch (a network to train from random "
            "weights), --init (a conditional model to continue training) and --baseline (another method); "
            f"given: {listed(f'--{name}' for name in origins) if origins else 'none of them'}"
        )
    if options.baseline is not None:
        return _train_baseline(options, options.baseline)
    if options.anneal < 0 or (options.anneal and options.objective == "forward"):
        raise ValueError(f"--anneal is {options.anneal}, expected 0 or more steps, and 0 unless --objective is reverse")
    process = observe.parse(options.observe or ("freeform",))
    if options.init and not options.observe:
        folder = RunFolder(options.out)
        process = weights.describe(folder.copied(folder.init, options.init)).process or process
    if options.objective == "reverse" and not isinstance(process, KnownPixels):
        raise ValueError(
            f"--objective reverse needs known pixels, but --observe {process.name} gives none: use --objective forward"
        )

    def prepare(world: World, folder: RunFolder) -> tuple[Dataset, TrainingTask]:
        if options.init:
            model = as_vae(weights.load(folder.copied(folder.init, options.init)), f"--init {options.init}")
            if not isinstance(model, ConditionalVAE):
                raise ValueError(f"--init {options.init} is an unconditional VAE: give it as --artifact instead")
            dataset = _open(options, world, model.artifact.config, model.artifact.config.channels)
        elif options.scratch:
            config, dataset = _fit_to_data(network_config(options.scratch), options, options.scratch, world)
            model = _fresh(options.seed, lambda: _conditional(VDVAE(config), process, options, train_artifact=True))
        else:
            assert options.artifact is not None
            artifact = weights.load_vae(folder.copied(folder.artifact, options.artifact))
            dataset = _open(options, world, artifact.config, artifact.config.channels)
            model = _fresh(options.seed, lambda: _conditional(artifact, process, options, train_artifact=False))
        expected = process.channels(model.artifact.config.channels)
        if expected != model.partial_config.channels:
            raise ValueError(
                f"{options.init} takes observations of {model.partial_config.channels} channels, but --observe "
                f"{observe.describe(process)} makes {expected} channels: leave out --observe to use the model's process"
            )
        model.process = process
        # From scratch, the target is the whole image (section 4 of the paper). For a partial encoder alone both targets
        # have the same gradients.
        target: Target = "whole" if model.trains_artifact else "hidden"
        task = ConditionalTraining(
            model.train(), process, objective=options.objective, target=target, anneal=options.anneal
        )
        return dataset, task

    return run_training(options, prepare)


def _train_baseline(options: TrainOptions, baseline: str) -> Path:
    defaults = {field.name: field.default for field in dataclasses.fields(TrainOptions)}
    if others := [name for name in VAE_OPTIONS if getattr(options, name) != defaults[name]]:
        raise ValueError(f"--{others[0]} applies to VAEs only, and --baseline {baseline} trains none: leave it out")
    process = observe.parse(options.observe or ("freeform",))
    if not isinstance(process, KnownPixels):
        raise ValueError(
            f"--baseline {baseline} completes images with holes, but --observe {process.name} makes no holes: "
            "use --observe freeform, or leave it out"
        )

    def run(own: TrainOptions, stage: str | None = None) -> Path:
        def prepare(world: World, folder: RunFolder) -> tuple[Dataset, TrainingTask]:
            dataset = _read_data(own, world, None)
            config = named_config(baseline, image_size=dataset.train.size, channels=dataset.train.channels)
            features = LPIPS.load(trunk="vgg").to(world.device).pooled_features if config.needs_features else None

            def make() -> CompleterLoss:
                if own.init is None:
                    return make_loss(make_completer(config), features, stage)
                before = weights.load(folder.copied(folder.init, own.init))
                if not isinstance(before, LearnedCompleter) or before.config != config:
                    raise ValueError(f"{own.init} is not the model of the stage before: choose another --out folder")
                return make_loss(before.train(), features, stage)

            losses = _fresh(own.seed, make)
            losses.completer.process = process
            return dataset, BaselineTraining(losses, process)

        return run_training(own, prepare)

    stages = stages_of(baseline)
    if not stages:
        return run(options)
    if options.snapshot_at or options.snapshot_minutes:
        raise ValueError(f"snapshots of --baseline {baseline} would be unfinished, since it is trained in stages")
    options.check()
    Budget(steps=options.steps, minutes=options.minutes)
    every = _stage_options(options, stages)
    for own in every.values():
        _check_stage(own)
    model: Path | None = None
    for stage, own in every.items():
        finished = RunFolder(own.out).model
        *_, last = every
        done = stage != last and _resumes(own) and finished.is_file()
        model = finished if done else run(dataclasses.replace(own, init=model), stage)
    assert model is not None
    return model


def _stage_options(options: TrainOptions, stages: Mapping[str, float]) -> dict[str, TrainOptions]:
    """Return the options of each stage: its part of the budget, and a folder of its own, except for the last stage."""
    *_, last = stages
    return {
        stage: dataclasses.replace(
            options,
            out=options.out if stage == last else options.out / stage,
            **part_of_limits(part, steps=options.steps, minutes=options.minutes),
        )
        for stage, part in stages.items()
    }


def _check_stage(own: TrainOptions) -> None:
    """Raise ValueError if the folder of a stage has a run that cannot be continued, or that had another budget."""
    folder, resume = RunFolder(own.out), _resumes(own)
    folder.check_same_run(own, resume=resume)
    if resume and folder.has_checkpoint and folder.model.is_file():
        stored = folder.stored_options()
        for name in ("steps", "minutes"):
            if stored.get(name) != (now := getattr(own, name)):
                raise ValueError(
                    f"{folder.path} was trained with {name} {stored.get(name)}, but now it would be {now}: a training "
                    "in stages cannot be prolonged, so give the same budget, or another --out folder"
                )


def _resumes(own: TrainOptions) -> bool:
    """Return whether a run is continued: on request, or because torchrun has restarted this job."""
    return own.resume or (restarts() > 0 and RunFolder(own.out).of_this_job())


def network_config(network: str) -> VDVAEConfig:
    """Return the configuration of a network, which is given by name or as a JSON file of `VDVAEConfig.to_dict()`."""
    path = Path(network)
    if path.suffix != ".json":
        if network not in PRESETS:
            raise ValueError(f"unknown network {network!r}, expected one of {', '.join(PRESETS)}, or a .json file")
        return preset(network)
    try:
        return VDVAEConfig.from_dict(read_json_file(path))
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from error
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path} is not a valid network configuration: {reason_of(error)}") from error


def _open(options: TrainingOptions, world: World, config: VDVAEConfig, channels: int | None) -> Dataset:
    """Open the data for a network; raise ValueError if --size contradicts it. channels: None for those of the data."""
    if options.size not in (None, config.image_size):
        raise ValueError(
            f"--size is {options.size}, but the network takes images of {config.image_size} x {config.image_size} "
            f"pixels: give --size {config.image_size}, or another network"
        )
    return _read_data(options, world, channels)


def _read_data(options: TrainingOptions, world: World, channels: int | None) -> Dataset:
    def read() -> Dataset:
        return open_data(
            options.data, size=options.size, channels=channels, validation=options.validation, seed=options.split_seed
        )

    # Rank 0 reads first: it decodes a large folder into a cache file that the other ranks then use.
    dataset = read() if world.leads else None
    world.tell(None)
    return dataset or read()


def _fit_to_data(
    config: VDVAEConfig, options: TrainingOptions, network: str, world: World, *, normalise: str = "auto"
) -> tuple[VDVAEConfig, Dataset]:
    """Open the data, and adapt the configuration of a network to the training images.

    The networks of the public code keep their number of channels; all others take that of the images. normalise: the
    option --normalise, which decides whether the mean and standard deviation of the images are used for normalisation.
    """
    public = network in PUBLIC_PRESETS
    dataset = _open(options, world, config, config.channels if public else None)
    if config.channels != dataset.train.channels:
        likelihood = dataclasses.replace(config.likelihood, channels=dataset.train.channels)
        config = dataclasses.replace(config, likelihood=likelihood)
    if normalise == "data" or (normalise == "auto" and not public):
        mean, std = dataset.train.normalisation()
        config = dataclasses.replace(config, normalisation=Normalisation(shift=-mean, scale=1 / std))
    return config, dataset


def _conditional(artifact: VDVAE, process: Process, options: TrainOptions, *, train_artifact: bool) -> ConditionalVAE:
    channels = artifact.config.channels
    partial = PartialConfig(channels=process.channels(channels), form=options.form)
    model = ConditionalVAE(artifact, partial, train_artifact=train_artifact, process=process)
    # The weights of the encoder's first layer only fit if the first channels of y are an image.
    alike = isinstance(process, KnownPixels) or process.channels(channels) == channels
    if options.start == "encoder" and not alike:
        raise ValueError(
            f"--start encoder needs observations that contain an image, but those of --observe {process.name} do not: "
            "leave out --start"
        )
    wanted = options.objective == "reverse" or options.form == "relative"
    if options.start == "encoder" or (options.start == "auto" and wanted and alike and not train_artifact):
        model.start_from_encoder()
    return model


def _fresh(seed: int, make: Callable[[], M]) -> M:
    """Call `make` with torch seeded, so that the random weights of the new model depend only on the seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(Seeds(seed, "weights")(0))
        return make()
