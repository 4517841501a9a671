"""Run a training: claim the run folder, set up the step and the log, and start the loop."""

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

import condvae
from condvae import weights
from condvae.data import Dataset
from condvae.data.order import spread
from condvae.images.model_sheets import conditional_sheet, unconditional_sheet, visible
from condvae.observe.batch import Batch
from condvae.runtime.progress import with_display
from condvae.runtime.ranks import World, join, restarts
from condvae.runtime.seeds import Seeds
from condvae.sampling.plain import completion_seeds
from condvae.sampling.sampler import Sampler
from condvae.training.baseline_task import BaselineTraining
from condvae.training.capture import Capture, why_not_fused
from condvae.training.logs import RunLog, TensorBoard, Tracker, WeightsAndBiases
from condvae.training.loop import Loop
from condvae.training.memory import recomputes
from condvae.training.options import TrainingOptions
from condvae.training.pictures import prepare_pictures
from condvae.training.run_folder import RunFolder
from condvae.training.schedule import Budget, Stopwatch
from condvae.training.starting_models import copy_starting_models, starting_model_records, with_stored_models
from condvae.training.step import TrainingPrecision, TrainingStep
from condvae.training.task import BoundTask, ConditionalTraining, Pretraining, TrainingTask
from condvae.vdvae.blocks import recompute_activations

_SHOWN, _COMPLETIONS = 6, 5  # number of rows on a contact sheet, and of completions in each row


def run_training(options: TrainingOptions, prepare: Callable[[World, RunFolder], tuple[Dataset, TrainingTask]]) -> Path:
    """Run a training from its start or its last checkpoint to its end, and return the path of the finished model file.

    prepare: opens the data and builds the model, before anything is written.
    """
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
        task.move_to(world.device)
        micro, _ = options.micro_batches(world.size)
        precision = _precision(options, world)
        vae_task = task if isinstance(task, BoundTask) else None
        if vae_task and recomputes(options.recompute, vae_task, micro, world.device, precision=precision):
            recompute_activations(task.model if vae_task.needs_whole_network else task.model.partial)  # type: ignore[arg-type]
            log.say("to save memory, activations are recomputed in the backward pass")
        flip = dataset.flips if options.flip == "auto" else options.flip == "yes"
        obstacle = "--engine is plain" if options.engine == "plain" else why_not_fused(world.device, precision)
        obstacle = obstacle if vae_task else "baselines have none"
        step = TrainingStep(task, options.rule, world, precision=precision, flip=flip, fused=obstacle is None)
        log.say(f"training {len(step.flat):,} weights on {world.size} x {world.device.type} in {step.precision}")
        if obstacle:
            log.say(f"using plain torch operations without fused kernels: {obstacle}")

        def draw_sheet() -> Image.Image:
            batch = held_out.take(spread(len(held_out), _SHOWN)).to(world.device).batch()
            return _sheet(task, batch, options.seed)

        origins = starting_model_records(options, folder, task) if world.leads else {}

        def save_model(path: Path, record: dict[str, Any]) -> None:
            made = {"task": options.verb, "data": dataset.summary()}
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
    if isinstance(task, Pretraining):
        return unconditional_sheet(task.vae, batch.x)
    generator = Seeds(seed, "contact sheet").generator(0, batch.x.device)
    seeds = completion_seeds(0, _COMPLETIONS, tuple(range(len(batch))))
    if isinstance(task, BaselineTraining):
        observation = task.model.observe(batch.x, task.process.draw(len(batch), task.image_size, generator))
        return conditional_sheet(batch, visible(observation), task.model.draw(observation, seeds))
    assert isinstance(task, ConditionalTraining)
    observation = task.process.observe(batch, normalise=task.vae.normalise, generator=generator)
    drawn = Sampler(task.model, precision="fp32", graphs=False).drawn(observation, seeds)
    # Also if completions are degenerate, as they may be early in training.
    return conditional_sheet(batch, visible(observation, task.vae.config), drawn.images)


def _fingerprint(dataset: Dataset) -> str:
    """Return a text that identifies a data set: its summary, and a checksum of some training and validation images."""
    digest = 0
    for images in (dataset.train, dataset.validation):
        digest = zlib.crc32(images.take(spread(len(images), 64)).images.contiguous().numpy().tobytes(), digest)
    return f"{dataset.summary()}, fingerprint {digest:08x}"


def _check_fit(dataset: Dataset, task: TrainingTask) -> None:
    size, found = task.image_size, dataset.train.size
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
