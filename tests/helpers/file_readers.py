"""Every reader of files from outside, with small valid files to damage: the inputs of the campaign of mutations."""

import contextlib
import csv
import functools
import gzip
import io
import itertools
import json
import pickle
import random
import re
import struct
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from helpers.models import SMALLEST, small_conditional, small_vae
from helpers.mutated_files import Change, mutated_bytes, mutated_json, mutated_png, mutated_sealed, mutated_text
from PIL import Image

from condvae import save
from condvae.cli.info import Info
from condvae.cli.terminal import SafeStream
from condvae.completion.record import read_record
from condvae.data.layouts import open_data
from condvae.design.avp_cnn.classifier_file import load_classifier, save_classifier
from condvae.design.avp_cnn.network import AVPCNN, ClassifierConfig
from condvae.images.decode import decode, is_grey, read_header
from condvae.images.holes import Hole
from condvae.images.reading import read_picture
from condvae.images.recorded_files import read_recorded
from condvae.observe import Boxes, Halves, Mixture
from condvae.ood.density import GaussianDensity
from condvae.ood.fit_file import load_fits, save_fits
from condvae.ood.fitting import Fit
from condvae.ood.inference import Inference
from condvae.ood.scores import score_of
from condvae.training.checkpoint import Checkpoints, Position
from condvae.training.entry_points import network_config
from condvae.training.run_folder import describe_run
from condvae.vdvae import Stage, VDVAEConfig
from condvae.weights import sealed_file
from condvae.weights.artifact_file import read_model

SIDE = 8
SMALL = VDVAEConfig(
    stages=(
        Stage(resolution=SIDE, width=2, inner=1, encoder_blocks=1, decoder_blocks=1, latent_blocks=0),
        Stage(resolution=1, width=2, inner=1, encoder_blocks=0, decoder_blocks=1),
    ),
    latent_channels=1,
)


CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


class Reader(NamedTuple):
    """A reader, the valid files that are damaged for it, and how many of 1,000 inputs it gets."""

    share: int
    seeds: Callable[[], list[bytes]]
    change: Change
    read: Callable[[Path, bytes], object]
    """Writes the content to a folder and reads it. The folder stays, and is used again by the next call."""


def _pixels(channels: int = 3, seed: int = 0) -> Any:
    return np.random.RandomState(seed).randint(0, 256, (SIDE, SIDE, channels)).astype(np.uint8)


def written(image: Image.Image, kind: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


@functools.cache
def images() -> list[bytes]:
    """Return small picture files of all formats and modes."""
    colours, grey = Image.fromarray(_pixels()), Image.fromarray(_pixels()[:, :, 0])
    clear, clear_grey = colours.copy(), grey.copy()
    clear.putalpha(grey)
    clear_grey.putalpha(grey)
    deep = Image.fromarray(_pixels()[:, :, 0].astype(np.uint16) * 257)
    few, lines = colours.quantize(8), grey.convert("1")
    exif = Image.Exif()
    exif[0x0112] = 6
    found = [
        *(written(colours, "png", exif=exif), written(clear, "png"), written(clear_grey, "png"), written(lines, "png")),
        *(written(deep, "png", transparency=300), written(few, "png", transparency=2), written(grey, "png")),
        *(written(colours, "jpeg", exif=exif, quality=20), written(grey, "jpeg", progressive=True)),
        *(written(few, "gif", transparency=1), written(few, "gif", save_all=True, append_images=[few.rotate(90)])),
        *(written(colours, "bmp"), written(few, "bmp"), written(colours, "ppm"), written(deep, "ppm")),
        *(written(colours, "tiff", exif=exif), written(clear, "tiff", compression="tiff_lzw")),
        *(written(deep, "tiff", compression="tiff_deflate"), written(lines, "tiff", compression="group4")),
        *(written(colours, "webp"), written(clear, "webp", lossless=True)),
    ]
    with contextlib.suppress(KeyError, OSError):  # not every Pillow can write AVIF
        found.append(written(colours, "avif", speed=10))
    return found


@functools.cache
def masks() -> list[bytes]:
    mask = Image.fromarray((_pixels()[:, :, 0] > 128).astype(np.uint8) * 255)
    return [written(mask, kind) for kind in ("png", "bmp", "gif", "jpeg")] + [written(mask.convert("1"), "png")]


@functools.cache
def _whole() -> Any:
    return read_picture(_pixels())


def _file(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def _decoded(folder: Path, content: bytes) -> object:
    try:
        read_header(io.BytesIO(content))
        if len(content) % 2:
            return is_grey(io.BytesIO(content))
        return decode(io.BytesIO(content), channels=3, size=SIDE)
    except Exception as error:  # its callers turn every exception into a sentence
        if isinstance(error, MemoryError):
            raise
        return None


def _mask(folder: Path, content: bytes) -> object:
    return Hole(known=_file(folder, "mask.png", content)).hidden(_whole())


def _opened(path: Path, **options: Any) -> object:
    data = open_data(path, validation=0, workers=1, cache=path.parent / "cache", **options)
    return data.summary(), data.train.take(np.arange(len(data.train)))


def _zip(members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content, compress_type=method)
    return buffer.getvalue()


def _labels() -> dict[str, Any]:
    return {"labels": [["a.png", 0], ["b.png", 1]], "patient_id": [7, 8], "label_names": ["x", "y"]}


@functools.cache
def zips() -> list[bytes]:
    pictures = {f"{name}.png": images()[i] for i, name in enumerate("ab")}
    packed = _zip({**pictures, "dataset.json": json.dumps(_labels()).encode()})
    return [packed, _zip(pictures, zipfile.ZIP_STORED), _zip({f"train/{n}": c for n, c in pictures.items()})]


@functools.cache
def tables() -> list[bytes]:
    return [json.dumps(one).encode() for one in (_labels(), {"labels": [["a.png", [0, 1]], ["b.png", [1, 1]]]})]


def _pack(folder: Path, content: bytes) -> object:
    for name, image in (("a", images()[0]), ("b", images()[1])):
        if not (folder / "pack" / f"{name}.png").exists():
            _file(folder, f"pack/{name}.png", image)
    _file(folder, "pack/dataset.json", content)
    return _opened(folder / "pack")


def _folder(folder: Path, content: bytes) -> object:
    if not (folder / "photos/a.png").exists():
        _file(folder, "photos/a.png", images()[0])
    _file(folder, "photos/b.png", content)
    return _opened(folder / "photos", size=SIDE)


@functools.cache
def sheets() -> list[bytes]:
    text = io.StringIO()
    head = ["Image Index", "Finding Labels", "Patient ID"]
    rows = [head, ["a.png", "Hernia|Mass", "1"], ["b.png", "No Finding", "2"]]
    csv.writer(text).writerows(rows)
    return [text.getvalue().encode()]


def _chest(folder: Path, content: bytes) -> object:
    for name in "ab":
        if not (folder / "chest" / f"{name}.png").exists():
            _file(folder, f"chest/{name}.png", images()[6])
    _file(folder, "chest/Data_Entry_2017.csv", content)
    return _opened(folder / "chest")


def _saved(write: Callable[..., None], *arguments: Any, **arrays: Any) -> bytes:
    buffer = io.BytesIO()
    write(buffer, *arguments, **arrays)
    return buffer.getvalue()


@functools.cache
def arrays() -> list[bytes]:
    return [_saved(np.save, np.stack([_pixels(), _pixels(seed=1)])), _saved(np.save, _pixels(2).transpose(2, 0, 1))]


@functools.cache
def archives() -> list[bytes]:
    images, labels = np.stack([_pixels(), _pixels(seed=1)]), np.array([0, 1])
    return [_saved(write, images=images, labels=labels) for write in (np.savez, np.savez_compressed)]


@functools.cache
def batches() -> list[bytes]:
    data = np.random.RandomState(0).randint(0, 256, (1, 3072)).astype(np.uint8)
    return [pickle.dumps({b"data": data, b"labels": [3]}, protocol=protocol) for protocol in (2, 4, 5)]


def _cifar(folder: Path, content: bytes) -> object:
    for name in (*(f"data_batch_{i}" for i in range(2, 6)), "test_batch"):
        if not (folder / "cifar" / name).exists():
            _file(folder, f"cifar/{name}", batches()[0])
    _file(folder, "cifar/data_batch_1", content)
    return _opened(folder / "cifar")


@functools.cache
def idx_files() -> list[bytes]:
    grey = np.stack([_pixels()[:, :, 0]] * 2)
    plain = bytes([0, 0, 8, 3]) + struct.pack(">3I", *grey.shape) + grey.tobytes()
    return [plain, gzip.compress(plain, mtime=0)]


def _idx(folder: Path, content: bytes) -> object:
    return _opened(_file(folder, "some-idx3-ubyte" + (".gz" if content[:1] == b"\x1f" else ""), content))


def _made(write: Callable[[Path], object]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "made")
        write(path)
        return path.read_bytes()


@functools.cache
def model() -> Any:
    made = small_conditional(SMALL)
    made.process = Mixture(parts=((Boxes(), 1.0), (Halves(), 2.0)))
    return made.eval()


@functools.cache
def models() -> list[bytes]:
    record = {"data": "faces", "steps": 3, "artifact": {"steps": 2, "kl_nats": {"1": 0.5}}, "options": {"batch": 2}}
    options: list[dict[str, Any]] = [{}, {"bits": 16}, {"bits": 16, "packed": True}]
    found = [_made(functools.partial(save, model(), record=record, **one)) for one in options]
    wider = small_vae(SMALLEST)  # convolutions with fewer channels are not stored with 8 bits
    found += [_made(functools.partial(save, wider, bits=8, packed=packed)) for packed in (False, True)]
    return [*found, _made(functools.partial(save, small_vae(SMALL), record=record))]


def _model(folder: Path, content: bytes) -> object:
    return read_model(_file(folder, "model.safetensors", content))


def _info(folder: Path, content: bytes) -> object:
    """Print the description of a model, and fail if a control code reaches the terminal."""
    path = _file(folder, "model.safetensors", content)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        safe = SafeStream(printed)
        with contextlib.redirect_stdout(safe):
            Info(model=str(path)).run()
    assert all(letter.isprintable() or letter in "\n\xa0" for letter in printed.getvalue()), (
        "a control code was printed"
    )
    return printed.getvalue()


@functools.cache
def fits() -> list[bytes]:
    scores = np.linspace(0, 1, 4)
    names: list[tuple[Any, str]] = [("partial", "gradient"), ("whole", "likelihood-2")]
    found = []
    for kind, score in names:
        density = GaussianDensity(mean=np.zeros(1), covariance=np.eye(1), shrinkage=0.5) if kind == "partial" else None
        record = {"model": Inference.of(model(), kind).identity, "images": 3}
        fit = Fit(score=score, kind=kind, density=density, held_scores=scores, held_shares=scores, record=record)
        found.append(fit)
    return [_made(functools.partial(save_fits, fits=found))]


def _fits(folder: Path, content: bytes) -> object:
    found = load_fits(_file(folder, "model.ood.safetensors", content), model())
    return [score_of(fit.score) for fit in found.values()]


@functools.cache
def classifiers() -> list[bytes]:
    torch.manual_seed(0)
    config = ClassifierConfig(size=SIDE, channels=1, names=("a", "b"), trunk="plain", widths=(2,), blocks=1, head=0)
    write = functools.partial(save_classifier, AVPCNN(config), process=Boxes())
    return [_made(functools.partial(write, bits=bits)) for bits in (16, 32)]


def _classifier(folder: Path, content: bytes) -> object:
    return load_classifier(_file(folder, "classifier.safetensors", content))


@functools.cache
def records() -> list[bytes]:
    files = {"path": "a.png", "sha256": "0" * 64}
    plain = {
        "format": "condvae completions",
        "format_version": 1,
        "model": {"name": "faces64", "sha256": "0" * 64},
        "n": 2,
        "temperature": 1.0,
        "seed": 0,
        "pixels": "mean",
        "share": None,
        "keep_size": False,
        "device": "cpu",
        "precision": "exact",
        "versions": {"condvae": "0.1.0"},
        "sheets": ["sheet.png"],
    }
    hidden = ({"way": "box", "box": [0, 0, 4, 4]}, {"way": "half", "half": "left"}, {"way": "known"}, {"way": "random"})
    return [
        json.dumps(
            {**plain, "hidden": one, "images": [{"image": files, "hidden_by": by, "outputs": ["a-1.png"]}]}
        ).encode()
        for one in hidden
        for by in [files if one["way"] == "known" else None]
    ]


def _record(folder: Path, content: bytes) -> object:
    path = _file(folder, "record.json", content)
    read_recorded(path)
    return read_record(path)


@functools.cache
def run_files() -> list[bytes]:
    """Return the options and the log of a run, in one JSON list."""
    options = {"verb": "pretrain", "data": ["faces"], "batch": 4, "data_summary": "images: 3 training"}
    log = [{"event": "train", "step": 1, "loss": 3.5}, {"event": "evaluate", "step": 2, "kl_nats": {"1": 2.5}}]
    return [json.dumps([options, *log]).encode()]


def _run(folder: Path, content: bytes) -> object:
    """Read a run folder whose options.json and log.jsonl are the damaged file, whole and divided into lines."""
    first, _, rest = content.partition(b"}, {")
    _file(folder, "run/options.json", first.removeprefix(b"[") + b"}")
    _file(folder, "run/log.jsonl", (b"{" + rest).removesuffix(b"]").replace(b"}, {", b"}\n{"))
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        Info(model=str(folder / "run")).run()
    return describe_run(folder / "run"), printed


@functools.cache
def checkpoints() -> list[bytes]:
    position = {"position": vars(Position(step=3, elapsed=1.5, best_loss=0.5, best_step=2)), "options": {}}
    tensors = {"updates": torch.zeros(()), "m/weight": torch.ones(2, 3)}
    write = functools.partial(sealed_file.write, kind=sealed_file.CHECKPOINT, description=position, tensors=tensors)
    return [_made(write)]


def _checkpoint(folder: Path, content: bytes) -> object:
    return Checkpoints.read(_file(folder, "step-000000003.safetensors", content))


def _image(folder: Path, content: bytes) -> object:
    return read_picture(_file(folder, "picture.png", content))


def _network(folder: Path, content: bytes) -> object:
    return network_config(str(_file(folder, "network.json", content)))


READERS: dict[str, Reader] = {
    "image": Reader(200, images, mutated_png, _image),
    "image as data": Reader(50, images, mutated_png, _decoded),
    "mask": Reader(120, masks, mutated_png, _mask),
    "zip": Reader(45, zips, mutated_bytes, lambda folder, content: _opened(_file(folder, "data.zip", content))),
    "folder": Reader(20, images, mutated_png, _folder),
    "dataset.json": Reader(45, tables, mutated_json, _pack),
    "csv": Reader(30, sheets, mutated_text, _chest),
    "npy": Reader(60, arrays, mutated_bytes, lambda folder, content: _opened(_file(folder, "x.npy", content))),
    "npz": Reader(50, archives, mutated_bytes, lambda folder, content: _opened(_file(folder, "x.npz", content))),
    "cifar": Reader(30, batches, mutated_bytes, _cifar),
    "idx": Reader(50, idx_files, mutated_bytes, _idx),
    "model": Reader(50, models, mutated_sealed, _model),
    "info": Reader(20, models, mutated_sealed, _info),
    "fit": Reader(40, fits, mutated_sealed, _fits),
    "classifier": Reader(20, classifiers, mutated_sealed, _classifier),
    "checkpoint": Reader(30, checkpoints, mutated_sealed, _checkpoint),
    "record": Reader(80, records, mutated_json, _record),
    "run folder": Reader(20, run_files, mutated_json, _run),
    "network": Reader(40, lambda: [json.dumps(SMALL.to_dict()).encode()], mutated_json, _network),
}
"""All readers by name. The shares sum to 1,000."""


def damaged(seed: int, index: int) -> tuple[str, bytes]:
    """Return the name of the reader and the content of one input. It depends only on the seed and the index."""
    place = index % 1000
    ends = itertools.accumulate(reader.share for reader in READERS.values())
    name = next(name for name, end in zip(READERS, ends, strict=True) if place < end)
    chance, reader = random.Random(f"{seed}/{index}"), READERS[name]
    return name, reader.change(chance.choice(reader.seeds()), chance)
