"""`pretrain` and `train` make a finished model from options: they open the data, build the network and run the loop."""

import dataclasses
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from PIL import Image
from torch import nn

import condvae
from condvae import observe, weights
from condvae.conditional import ConditionalVAE, PartialConfig
from condvae.data import Dataset, open_data
from condvae.data.order import spread
from condvae.images.model_sheets import conditional_sheet, unconditional_sheet
from condvae.likelihood import LogisticMixture
from condvae.objectives import Target
from condvae.observe.batch import Batch
from condvae.observe.process import KnownPixels, Process
from condvae.runtime.json_reading import read_json_file
from condvae.runtime.messages import listed, reason_of
from condvae.runtime.progress import with_display
from condvae.runtime.ranks import World, join, restarts
from condvae.runtime.seeds import Seeds
from condvae.sampling.sampler import Sampler, completion_seeds
from condvae.training.capture import Capture, why_not_fused
from condvae.training.logs import RunLog, TensorBoard, Tracker, WeightsAndBiases
from condvae.training.loop import Loop
from condvae.training.memory import recomputes
from condvae.training.options import PretrainOptions, TrainingOptions, TrainOptions
from condvae.training.pictures import prepare_pictures
from condvae.training.presets import options_from
from condvae.training.run_folder import RunFolder
from condvae.training.schedule import Budget, Stopwatch
from condvae.training.starting_models import copy_starting_models, starting_model_records, with_stored_models
from condvae.training.step import TrainingPrecision, TrainingStep
from condvae.training.task import ConditionalTraining, Pretraining, TrainingTask
from condvae.vdvae import PRESETS, PUBLIC_PRESETS, VDVAE, Normalisation, VDVAEConfig, preset
from condvae.vdvae.blocks import recompute_activations

M = TypeVar("M", bound=nn.Module)

_SHOWN, _COMPLETIONS = 6, 5  # number of rows on a contact sheet, and of completions in each row


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

    return _run(options, prepare)


def train(options: TrainOptions | None = None, **given: Any) -> Path:
    """Train a partial encoder, or a conditional VAE from scratch, and return the path of the finished model file.

    Give the options by name, as in train(data="photos", artifact="vae", minutes=20, out="ipa"), or as one object.
    """
    options = options_from(TrainOptions, options, given)
    origins = [name for name in ("artifact", "scratch", "init") if getattr(options, name) is not None]
    if len(origins) != 1:
        raise ValueError(
            "give exactly one of --artifact (a pretrained VAE to condition), --scratch (a network to train from random "
            "weights) and --init (a conditional model to continue training); "
            f"given: {listed(f'--{name}' for name in origins) if origins else 'none of them'}"
        )
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
            model = weights.load(folder.copied(folder.init, options.init))
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

    return _run(options, prepare)


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


def _run(options: TrainingOptions, prepare: Callable[[World, RunFolder], tuple[Dataset, TrainingTask]]) -> Path:
    stopwatch = Stopwatch()
    options.check()
    Budget(steps=options.steps, minutes=options.minutes)
    with with_display(), join(options.device) as world:
        options.micro_batches(world.size)
        folder = RunFolder(options.out)
        # Rank 0 decides for all, since the other ranks may not see the folder.
        resume = bool(world.tell(options.resume or (restarts() > 0 and folder.of_this_job())))
        if world.leads:
            folder.check_same_run(options, resume=resume)
            options = with_stored_models(options, folder)
        dataset, task = prepare(world, folder)
        _check_fit(dataset, task)
        # Nothing is written before all options are known to fit together.
        if world.leads:
            folder.claim(options, data=_fingerprint(dataset), resume=resume)
            if not folder.has_checkpoint:
                copy_starting_models(options, folder, task)
        try:
            _train(options, world, folder, dataset, task, stopwatch, resume=resume)
        finally:
            folder.release()
        return folder.model


def _train(
    options: TrainingOptions,
    world: World,
    folder: RunFolder,
    dataset: Dataset,
    task: TrainingTask,
    stopwatch: Stopwatch,
    *,
    resume: bool,
) -> None:
    log = RunLog(folder.path, enabled=world.leads, trackers=_trackers(options, folder) if world.leads else ())
    try:
        log.say(f"data: {dataset.summary()}")
        for skipped in dataset.skipped[:5]:
            log.warn(f"skipped {skipped}")
        held_out = dataset.validation
        if not len(held_out):
            log.warn("no images are held out: evaluations use training images, and do not show the loss on new images")
            held_out = dataset.train
        train_set, held_out = prepare_pictures(task, dataset.train, held_out, world, log.warn)
        task.model.to(world.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        micro, _ = options.micro_batches(world.size)
        precision = _precision(options, world)
        if recomputes(options.recompute, task, micro, world.device, precision=precision):
            recompute_activations(task.model if task.needs_whole_network else task.model.partial)  # type: ignore[arg-type]
            log.say("to save memory, activations are recomputed in the backward pass")
        flip = dataset.flips if options.flip == "auto" else options.flip == "yes"
        obstacle = "--engine is plain" if options.engine == "plain" else why_not_fused(world.device, precision)
        step = TrainingStep(task, options.rule, world, precision=precision, flip=flip, fused=obstacle is None)
        log.say(f"training {len(step.flat):,} weights on {world.size} x {world.device.type} in {step.precision}")
        if obstacle:
            log.say(f"using plain torch operations without fused kernels: {obstacle}")

        def draw_sheet() -> Image.Image:
            batch = held_out.take(spread(len(held_out), _SHOWN)).to(world.device).batch()
            return _sheet(task, batch, options.seed)

        origins = starting_model_records(options, folder, task) if world.leads else {}

        def save_model(path: Path, record: dict[str, Any]) -> None:
            made = {"task": "train" if isinstance(task, ConditionalTraining) else "pretrain", "data": dataset.summary()}
            versions = {"condvae": condvae.__version__, "torch": torch.__version__}
            weights.save(task.model, path, record={**made, **record, "versions": versions, **origins})  # type: ignore[arg-type]

        loop = Loop(
            options,
            step,
            train=train_set,
            held_out=held_out,
            held_out_name="held-out" if len(dataset.validation) else "training",
            folder=folder,
            log=log,
            stopwatch=stopwatch,
            take_step=step if options.engine == "plain" or world.device.type == "cpu" else Capture(step, log.say),
            draw_sheet=draw_sheet,
            save_model=save_model,
        )
        loop.run(resume=resume)
    finally:
        log.close()


def _sheet(task: TrainingTask, batch: Batch, seed: int) -> Image.Image:
    if not isinstance(task, ConditionalTraining):
        return unconditional_sheet(task.vae, batch.x)
    generator = Seeds(seed, "contact sheet").generator(0, batch.x.device)
    observation = task.process.observe(batch, normalise=task.vae.normalise, generator=generator)
    model: ConditionalVAE = task.model
    seeds = completion_seeds(0, _COMPLETIONS, tuple(range(len(observation))))
    drawn = Sampler(model, precision="fp32", graphs=False).drawn(observation, seeds)
    return conditional_sheet(model, batch, observation, drawn.images)  # also if they are degenerate, early in training


def _open(options: TrainingOptions, world: World, config: VDVAEConfig, channels: int | None) -> Dataset:
    if options.size not in (None, config.image_size):
        raise ValueError(
            f"--size is {options.size}, but the network takes images of {config.image_size} x {config.image_size} "
            f"pixels: give --size {config.image_size}, or another network"
        )

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


def _fingerprint(dataset: Dataset) -> str:
    """Return a text that identifies a data set: its summary, and a checksum of some training and validation images."""
    digest = 0
    for images in (dataset.train, dataset.validation):
        digest = zlib.crc32(images.take(spread(len(images), 64)).images.contiguous().numpy().tobytes(), digest)
    return f"{dataset.summary()}, fingerprint {digest:08x}"


def _check_fit(dataset: Dataset, task: TrainingTask) -> None:
    size, found = task.vae.config.image_size, dataset.train.size
    if size != found:
        raise ValueError(
            f"the images are {found} x {found} pixels, but the network takes {size} x {size}: "
            f"give --size {size} to resize them, or another network"
        )
    if isinstance(task, ConditionalTraining):
        # Observe the first image and the one with the largest label, so that data that do not fit the process raise an
        # error before anything is written.
        labels, rows = dataset.train.labels, dataset.train.rows
        largest = 0 if labels is None or labels.ndim > 1 else int(np.argmax(labels[rows]))
        batch = dataset.train.take(np.array([0, largest])).batch()
        task.process.observe(batch, normalise=task.vae.normalise, generator=torch.Generator())


def _precision(options: TrainingOptions, world: World) -> TrainingPrecision:
    if options.precision == "auto":
        return "bf16" if world.device.type == "cuda" else "fp32"
    return options.precision


def _trackers(options: TrainingOptions, folder: RunFolder) -> list[Tracker]:
    trackers: list[Tracker] = []
    if options.tensorboard:
        trackers.append(TensorBoard(folder.path))
    if options.wandb:
        trackers.append(WeightsAndBiases(folder.path, options.wandb, options.to_dict()))
    return trackers
