"""Calls of all verbs that write, with the smallest models and data, for the campaign of kills."""

import dataclasses
import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from campaigns.killed_calls import TEMPORARY, run
from helpers.cifar10_batches import write_cifar10
from helpers.fixtures import FIXTURES
from helpers.labelled_images import findings_pack
from helpers.models import small_conditional
from helpers.pictures_to_complete import photo
from safetensors.torch import save_file
from torch import Tensor

from condvae import save
from condvae.observe import Boxes
from condvae.vdvae import Stage, preset

WORLD = "../../world"
"""The folder of models and data, seen from the folder of a call. It is the same for all, since records contain it."""
_DATA = f"{WORLD}/data.zip"
_MODEL = f"{WORLD}/model.safetensors"
_SMALL = ["--data", _DATA, "--size", "16", "--validation", "8", "--batch", "4", "--evaluate-on", "8", "--device", "cpu"]
_TRAINING = [*_SMALL, "--steps", "12", "--log-every", "3", "--evaluate-every", "4", "--checkpoint-every", "2"]
_VAE = ["pretrain", *_TRAINING, "--network", f"{WORLD}/network.json", "--sheet-every", "6"]
_IPA = ["train", *_TRAINING, "--artifact", f"{WORLD}/vae.safetensors", "--observe", "boxes", "--sheet-every", "6"]
_CLASSIFIER = [
    *("design", "train", "--data", _DATA, "--size", "16", "--validation", "20", "--trunk", "plain", "--widths", "4"),
    *("--blocks", "1", "--head", "0", "--batch", "8", "--steps", "6", "--warm-up", "2", "--evaluate-every", "3"),
    *("--draws", "1", "--log-every", "2", "--device", "cpu"),
]
_COMPLETE = ["complete", f"{WORLD}/photos", "--model", _MODEL, "--half", "right", "--device", "cpu", "-o", "out"]
_SAMPLE = ["sample", "--model", _MODEL, "--device", "cpu", "-o", "out"]
_REBUILD = ["reconstruct", "--model", _MODEL, "--device", "cpu", "-o", "out"]
_SCAN = [
    *("design", "scan", f"{WORLD}/photos", "--model", _MODEL, "--classifier", f"{WORLD}/classifier.safetensors"),
    *("--task", "Mass", "--steps", "2", "--points", "3", "--device", "cpu", "-o", "out"),
]
_FIT = [
    *("ood", "fit", "--model", _MODEL, "--data", _DATA, "--fit-images", "10", "--held-out", "12", "--device", "cpu"),
    *("-o", "fit.safetensors"),
]
_SCORE = [
    *("ood", "score", f"{WORLD}/photos", "--model", _MODEL, "--fit", f"{WORLD}/fit.safetensors", "--device", "cpu"),
    *("-o", "scores.json"),
]
_COMPARE = ["compare", f"{WORLD}/photos", f"{WORLD}/others", "--device", "cpu", "-o", "numbers.json"]
_EXPORT = ["export", _MODEL, "-o", "exported.safetensors"]
_IMPORT = [
    *("import", str(FIXTURES / "parity" / "tiny8" / "official_ipa.th"), "-o", "imported.safetensors"),
    *("--encoder", "8x2,8d2,4x1,4d4,1x1", "--decoder", "1x1,4m1,4x1,8m4,8x2", "--bits", "8"),
    *("--shift", "-120.63838", "--scale", "0.015584247193588766"),
]
_EVALUATE = [
    *("evaluate", "--model", _MODEL, "--data", _DATA, "--size", "16", "--images", "4", "--deep-images", "2", "-n", "2"),
    *("--bits-images", "2", "--device", "cpu"),
]
_MEASURES = ["--metrics", "pixels", "bounds"]  # these need no downloaded network
_DESIGN = [
    *("design", "experiment", "--model", _MODEL, "--classifier", f"{WORLD}/classifier.safetensors", "--data", _DATA),
    *("--tasks", "Mass", "--images", "8", "--steps", "2", "-n", "2", "--first-n", "4", "--points", "3"),
    *("--repeats", "2", "--resamples", "20", "--block", "4", "--device", "cpu", "-o", "out"),
]
_OOD = [
    *("ood", "experiment", "--model", _MODEL, "--data", _DATA, "--images", "4", "--fit-images", "6", "--resamples"),
    *("20", "--scores", "gradient", "likelihood", "--sets", "noise", "flip", "--block", "2", "--device", "cpu"),
    *("-o", "out"),
]


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A call that is killed, and what must hold of its files."""

    name: str
    words: Sequence[str]
    earlier: Sequence[Sequence[str]] = ()
    """Calls that were made in the folder before."""
    needs: Sequence[str] = ()
    """What the call needs in the folder WORLD in addition to the photos, the data and the models; see `build_world`."""
    record: str | None = None
    """The record in the folder `out`. If it is there, all files of its call are there, and none of another call."""
    output: str | None = None
    """The only file that the call writes. It is never absent if it was there before."""
    resumable: bool = False
    """Whether the call continues after a kill. Its folder then also has whole files of work in progress."""
    repeatable: bool = True
    """Whether the command can be given again when it has finished."""
    guests: Sequence[str] = ("out/holiday.png", "out/.holiday.part")
    """Files of the user in the folder `out`."""
    prepare: Callable[[], None] | None = None
    """Called in the process of the call before it starts."""

    @property
    def sentinels(self) -> Sequence[str]:
        """Files of the user, which must not change."""
        return ("notes.txt", ".exported.safetensors.part", *self.guests)


def _in_folder(name: str, words: Sequence[str], **more: object) -> Scenario:
    return Scenario(name=name, words=words, **more)  # type: ignore[arg-type]


def _file(name: str, words: Sequence[str], *earlier: Sequence[str], needs: Sequence[str] = ()) -> Scenario:
    out = words[list(words).index("-o") + 1]
    return Scenario(name=name, words=words, earlier=earlier, output=out, needs=needs, guests=())


def _resumable(name: str, words: Sequence[str], *earlier: Sequence[str], needs: Sequence[str] = ()) -> Scenario:
    guests = ("out/.holiday.part", "out/.mine")
    return Scenario(name=name, words=words, earlier=earlier, needs=needs, resumable=True, guests=guests)


SCENARIOS = (
    _in_folder("complete", [*_COMPLETE, "-n", "3"], record="record.json"),
    _in_folder(
        "complete over an earlier call",
        [*_COMPLETE, "-n", "2"],
        earlier=[[*_COMPLETE, "-n", "4", "--seed", "1"]],
        record="record.json",
    ),
    _in_folder("complete --keep-size", [*_COMPLETE, "-n", "2", "--keep-size"], record="record.json"),
    Scenario(
        name="complete --repeat",
        words=["complete", "--repeat", f"{WORLD}/completions/record.json", "-o", "out"],
        needs=("completions",),
        record="record.json",
    ),
    _in_folder("sample", [*_SAMPLE, "-n", "4"], record="record.json"),
    _in_folder(
        "sample over an earlier call",
        [*_SAMPLE, "-n", "3"],
        earlier=[[*_SAMPLE, "-n", "5", "--seed", "1"]],
        record="record.json",
    ),
    _in_folder("reconstruct", [*_REBUILD, f"{WORLD}/photos"], record="record.json"),
    _in_folder(
        "reconstruct over an earlier call",
        [*_REBUILD, f"{WORLD}/photos/1.png"],
        earlier=[[*_REBUILD, f"{WORLD}/photos"]],
        record="record.json",
    ),
    Scenario(
        name="design scan",
        words=[*_SCAN, "-n", "2"],
        earlier=[[*_SCAN, "-n", "3", "--seed", "1"]],
        needs=("classifier",),
        record="design.json",
    ),
    _resumable("pretrain", [*_VAE, "--resume", "-o", "out"]),
    _resumable("train", [*_IPA, "--resume", "-o", "out"]),
    _file("design train", [*_CLASSIFIER, "-o", "classifier.safetensors"]),
    _file("ood fit", _FIT, [*_FIT, "--seed", "1"]),
    _file("ood score", [*_SCORE, "--half", "right"], [*_SCORE, "--half", "left"], needs=("fit",)),
    _file("compare", [*_COMPARE, "--metrics", "psnr", "ssim"], [*_COMPARE, "--metrics", "psnr"]),
    _resumable("evaluate", [*_EVALUATE, *_MEASURES, "--baselines", "mean", "-o", "out"]),
    _resumable(
        "evaluate with one more method",
        [*_EVALUATE, *_MEASURES, "--baselines", "mean", "random", "-o", "out"],
        [*_EVALUATE, *_MEASURES, "--baselines", "mean", "-o", "out"],
    ),
    Scenario(
        name="evaluate --inputs-to",
        words=[*_EVALUATE, "--inputs-to", "out"],
        repeatable=False,
        guests=(),
    ),
    _resumable("design experiment", [*_DESIGN, "--policies", "eig-ipa", "random", "full"], needs=("classifier",)),
    _resumable("ood experiment", [*_OOD, "--baselines", "completed-ipa"]),
    Scenario(name="export", words=_EXPORT, output=_EXPORT[-1], guests=(), repeatable=False),
    Scenario(name="import", words=_IMPORT, output="imported.safetensors", guests=(), repeatable=False),
    Scenario(
        name="fetch cifar10",
        words=["fetch", "cifar10", "--from", f"{WORLD}/batches", "-o", "out"],
        needs=("batches",),
        guests=(),
        prepare=lambda: _trust_batches(),
    ),
    Scenario(
        name="fetch lpips",
        words=["fetch", "lpips", "--from", f"{WORLD}/lpips_alex.safetensors", "-o", "out"],
        needs=("network",),
        prepare=lambda: _trust_network(),
    ),
)


def build_world(work: Path, needs: set[str]) -> None:
    """Write the models and data that the scenarios need to the folder `work / "world"`."""
    world, here = work / "world", work / "calls" / "world"
    here.mkdir(parents=True)
    (world / "photos").mkdir(parents=True)
    (world / "others").mkdir()
    for i in range(2):
        photo(world / "photos" / f"{i}.png", 20, 16, seed=i)
        photo(world / "others" / f"{i}.png", 20, 16, seed=i + 5)
    findings_pack(world / "data.zip", train=60, test=16)
    stages = tuple(Stage(resolution=r, width=8, inner=4, encoder_blocks=1, decoder_blocks=1) for r in (16, 4, 1))
    network = dataclasses.replace(preset("tiny", channels=1), stages=stages)
    (world / "network.json").write_text(json.dumps(network.to_dict()))
    model = small_conditional(network)
    model.process = Boxes()
    save(model, world / "model.safetensors", record={"minutes": 1.0})
    save(model.artifact, world / "vae.safetensors")
    if "classifier" in needs:
        call([*_CLASSIFIER, "-o", f"{WORLD}/classifier.safetensors"], here)
    if "completions" in needs:
        call([*_COMPLETE[:-1], f"{WORLD}/completions", "-n", "2"], here)
    if "fit" in needs:
        call([*_FIT[:-1], f"{WORLD}/fit.safetensors"], here)
    if "batches" in needs:
        faces = np.random.RandomState(0).randint(0, 256, (480, 32, 32, 3)).astype(np.uint8)
        write_cifar10(world / "batches", faces)
    if "network" in needs:
        save_file(_network(), world / "lpips_alex.safetensors")
    shutil.rmtree(here)


def call(words: Sequence[str], folder: Path) -> None:
    """Run a call that must succeed."""
    ended = run(words, folder)
    if ended.code != 0:
        raise RuntimeError(f"condvae {' '.join(words)} ended with exit code {ended.code}:\n{ended.said}")


def start_of(scenario: Scenario, folder: Path) -> None:
    """Write the files that are there before the call: those of the user and those of earlier calls."""
    folder.mkdir(parents=True)
    for name in scenario.sentinels:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(f"{name} of the user\n")
    for words in scenario.earlier:
        call(words, folder)
    shutil.rmtree(folder / TEMPORARY, ignore_errors=True)


def _trust_batches() -> None:
    """Make random images count as CIFAR-10, which is not on this machine."""
    from condvae.data import cifar10

    sets = cifar10._from_source(Path(WORLD) / "batches")
    digests = {split: cifar10.digest(images) for split, images in sets.items()}
    cifar10.CIFAR10 = dataclasses.replace(cifar10.CIFAR10, sha256=digests)


def _trust_network() -> None:
    """Make random weights count as a network of the metrics, which need not be on this machine."""
    from condvae.metrics import network_files
    from condvae.weights.downloaded_networks import digest

    network_files.LPIPS_ALEX = dataclasses.replace(network_files.LPIPS_ALEX, sha256=digest(_network()))


def _network() -> dict[str, Tensor]:
    return {"weight": torch.randn(2000, generator=torch.Generator().manual_seed(0))}
