"""`train_classifier`: train and calibrate a classifier on labelled images."""

import copy
import math
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import condvae
from condvae import observe
from condvae.data import Dataset, open_data
from condvae.data.delivery import deliver
from condvae.data.image_set import Indices, LevelBatch
from condvae.data.order import Order
from condvae.design.avp_cnn.augmentation import Augmentation
from condvae.design.avp_cnn.classifier_file import KIND, save_classifier
from condvae.design.avp_cnn.classifier_options import ClassifierOptions
from condvae.design.avp_cnn.efficientnet import LITE0, Lite0
from condvae.design.avp_cnn.held_out import HeldOut
from condvae.design.avp_cnn.network import AVPCNN, ClassifierConfig
from condvae.design.avp_cnn.targets import Targets, targets_of
from condvae.observe.observation import observe_pixels
from condvae.observe.process import KnownPixels
from condvae.runtime import folders
from condvae.runtime.messages import Say, warn_with
from condvae.runtime.pixels import from_uint8
from condvae.runtime.progress import track
from condvae.runtime.ranks import join
from condvae.runtime.seeds import Seeds
from condvae.training.schedule import Schedule
from condvae.weights import downloaded_networks as networks
from condvae.weights import sealed_file

_BETAS = (0.9, 0.98)
_LAST_RATE = 0.02  # the final learning rate as a share of --lr


def train_classifier(options: ClassifierOptions, say: Say = print) -> Path:
    """Train a classifier, calibrate it on held-out images, evaluate it on held-out and test images, and write its file.

    Returns the path of the file.
    """
    options.check()
    folders.check_replaceable(
        options.out, what="a classifier file of condvae", ours=lambda path: sealed_file.kind_of(path) == KIND
    )
    process = observe.parse(options.observe)
    if not isinstance(process, KnownPixels):
        raise ValueError(
            f"--observe {process.name} does not make pixels known, but a classifier predicts from known pixels: "
            "use a process that does, such as patches"
        )
    pretrained = _pretrained(options)
    began = time.monotonic()
    with join(options.device) as world:
        if world.size > 1:
            raise ValueError("classifiers are trained in a single process: run the command without torchrun")
        dataset = open_data(options.data, size=options.size, validation=options.validation, seed=options.split_seed)
        targets = targets_of(dataset)
        say(f"data: {dataset.summary()}")
        model = _new_network(_config(options, dataset, targets), options.seed)
        model.plain = True  # it is evaluated too few times here to be worth compiling kernels
        model.start_at(targets.frequencies(dataset.train))
        if pretrained is not None:
            assert isinstance(model.trunk, Lite0)
            model.trunk.start_from(pretrained, image_channels=dataset.train.channels)
        model.to(world.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        if shared := dataset.seen_before(dataset.test):
            warn_with(say)(
                f"{shared} of the test patients also have training images, which makes test results look too good"
            )
        held_out = dataset.validation
        if not len(held_out) or held_out.labels is None:
            warn_with(say)("no images are held out: the best weights and the calibration are chosen on training images")
            held_out = dataset.train
        learner = Learner(model, options, process, targets, flips=dataset.flips)
        best = _train(learner, dataset, HeldOut(held_out, targets, process, seed=options.seed), say)
        judge = HeldOut(held_out, targets, process, seed=options.seed + 1, draws=options.draws)
        calibrated = judge.calibrate(model.eval())
        record = {
            "task": "design train",
            "data": dataset.summary(),
            **best,
            "minutes": round((time.monotonic() - began) / 60, 2),
            "device": _device_name(world.device),
            "options": options.for_record(),
            "validation": judge.report(calibrated),
        }
        if len(dataset.test) and dataset.test.labels is not None:
            unseen = HeldOut(dataset.test, targets, process, seed=options.seed, draws=options.draws)
            record["test"] = unseen.report(unseen.logits(model))
        record["versions"] = {"condvae": condvae.__version__, "torch": torch.__version__}
        try:
            save_classifier(model, options.out, process=process, record=record)
        except OSError as error:
            raise ValueError(f"{error}: free some disk space and train again") from error
    say(f"wrote {options.out}, {options.out.stat().st_size / 2**20:.1f} MiB")
    return options.out


class Learner:
    """Trains a network one batch at a time, and keeps a moving average of its weights."""

    def __init__(
        self, model: AVPCNN, options: ClassifierOptions, process: KnownPixels, targets: Targets, *, flips: bool
    ) -> None:
        self.model, self.options, self.process, self.targets = model, options, process, targets
        self.device = model.device
        self.average = copy.deepcopy(model).requires_grad_(False)
        mirrored = flips if options.flip == "auto" else options.flip == "yes"
        self.augment = Augmentation(
            shift=options.shift,
            scale=options.scale,
            rotation=options.rotation,
            contrast=options.contrast,
            brightness=options.brightness,
            blur=options.blur,
            flips=mirrored,
        )
        kernels = [parameter for parameter in model.parameters() if parameter.ndim > 1]
        vectors = [parameter for parameter in model.parameters() if parameter.ndim == 1]
        self.optimiser = torch.optim.AdamW(
            [{"params": kernels, "weight_decay": options.weight_decay}, {"params": vectors, "weight_decay": 0.0}],
            betas=_BETAS,
            fused=self.device.type == "cuda",
        )
        self.schedule = Schedule(decay="cosine", warm_up=options.warm_up, final=_LAST_RATE)
        self._averaged, self._current = (list(net.state_dict().values()) for net in (self.average, model))
        self._seeds = Seeds(options.seed, "classifier")

    def step(self, number: int, levels: LevelBatch) -> Tensor:
        """Make one update of the weights, and return the loss as a tensor, without waiting for the device.

        number: the number of the update, counted from 0.
        """
        assert levels.labels is not None
        options, generator = self.options, self._seeds.generator(number, self.device)
        rate = options.lr * self.schedule.factor(number, number / options.steps)
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        with torch.no_grad():
            x = self.augment(from_uint8(levels.images), generator)
            known = self.process.draw(len(x), x.shape[-1], generator)
            y = observe_pixels(x, known, self.model.normalise).y
            y = y.contiguous(memory_format=torch.channels_last)
        # On a CPU, bfloat16 is slower than float32 or not supported.
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
            logits = self.model(y, generator)
        loss = self._loss(logits.float(), self.targets.of(levels.labels))
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), options.clip)
        self.optimiser.step()
        self._update_average(number)
        return loss.detach()

    def _loss(self, logits: Tensor, truth: Tensor) -> Tensor:
        if self.targets.binary:
            return F.binary_cross_entropy_with_logits(logits, truth)
        return F.cross_entropy(logits, truth)

    @torch.no_grad()
    def _update_average(self, number: int) -> None:
        """Update the moving average of the weights and of the running statistics of normalisations."""
        decay = min(self.options.ema, (1 + number) / (10 + number))
        torch._foreach_lerp_(self._averaged, self._current, 1 - decay)


def _train(learner: Learner, dataset: Dataset, held_out: HeldOut, say: Say) -> dict[str, Any]:
    """Run all training steps and load the best averaged weights into the learner's model.

    Returns entries for the classifier's record: the steps, the best step, its NLL on held-out images, and the seed.
    """
    options, model = learner.options, learner.model
    count = sum(parameter.numel() for parameter in model.parameters())
    say(f"training {count:,} weights on {learner.device.type}")
    best: tuple[float, int, dict[str, Tensor]] | None = None
    losses: list[Tensor] = []
    guide = "docs/guides/design.md" if learner.device.type == "cpu" else None
    with (
        track("training", total=options.steps, unit="step", gpu_guide=guide) as job,
        torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=False, allow_tf32=True),
    ):
        for number, levels in enumerate(_batches(dataset, options, learner.device)):
            losses.append(learner.step(number, levels))
            job.update()
            done = number + 1
            if done % options.log_every == 0:
                say(f"step {done:,} of {options.steps:,}: loss {float(torch.stack(losses).mean()):.4f} nats")
                losses.clear()
            elif job.note_due():  # about every ten seconds, because reading the loss waits for the device
                job.note = f"loss {float(torch.stack(losses).mean()):.4f} nats"
            if done % options.evaluate_every == 0 or done == options.steps:
                nll = held_out.nll(held_out.logits(learner.average.eval()))
                say(f"step {done:,} of {options.steps:,}: {nll:.4f} nats on {len(held_out.images):,} held-out images")
                if math.isfinite(nll) and (best is None or nll < best[0]):
                    best = nll, done, copy.deepcopy(learner.average.state_dict())
    if best is None:
        from condvae.training import Diverged  # imported late, because it also imports the training step

        raise Diverged("training has diverged: the classifier predicts NaN or infinity; try a smaller --lr")
    model.load_state_dict(best[2])
    return {"steps": options.steps, "best_step": best[1], "validation_nll": round(best[0], 5), "seed": options.seed}


def _batches(dataset: Dataset, options: ClassifierOptions, device: torch.device) -> Iterator[LevelBatch]:
    """Yield one batch of training images per step, on the device. If all images fit, they are kept on the device."""
    order = Order(len(dataset.train), Seeds(options.seed, "order of images")(0))

    def positions() -> Iterator[Indices]:
        for number in range(options.steps):
            yield order(number * options.batch, options.batch)

    return deliver(dataset.train, positions(), device=device)


def _config(options: ClassifierOptions, dataset: Dataset, targets: Targets) -> ClassifierConfig:
    return ClassifierConfig(
        size=dataset.train.size,
        channels=dataset.train.channels,
        names=targets.names,
        outcomes=targets.outcomes,
        outcome_names=targets.outcome_names,
        trunk=options.trunk,
        stages=options.stages,
        widths=options.widths,
        blocks=options.blocks,
        stem_stride=options.stem_stride,
        enlarge=options.enlarge,
        head=options.head,
        dropout=options.dropout,
    )


def _pretrained(options: ClassifierOptions) -> networks.StateDict | None:
    """Read the pretrained weights to start from; None if training starts from random weights."""
    if not options.from_imagenet:
        return None
    return networks.read(LITE0, LITE0.cached if options.weights is None else options.weights)


def _new_network(config: ClassifierConfig, seed: int) -> AVPCNN:
    """Make a network with random weights, which depend only on the configuration and the seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(Seeds(seed, "weights")(0))
        return AVPCNN(config)


def _device_name(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{os.cpu_count()} CPU cores"
