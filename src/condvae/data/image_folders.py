"""Read data sets that consist of image files: folders and zip files, pix2pix pairs, packs, and Chest X-ray 14."""

import csv
import io
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from condvae.data.image_cache import ReadOptions, Stored, in_threads, store, stored
from condvae.data.image_set import ImageSet, Indices, Labels, class_numbers
from condvae.data.splits import ParsedData, folder_splits
from condvae.images.archive import Files, common_top, digest, opened
from condvae.images.decode import ImageHeader, decode, is_grey, read_header
from condvae.images.recorded_files import PICTURE_SUFFIXES
from condvae.runtime.checks import first_few
from condvae.runtime.json_reading import MOST_JSON_BYTES, parse_json
from condvae.runtime.messages import reason_of, short, shown
from condvae.runtime.pixels import PixelArray

# fmt: off
FINDINGS = (
    "Atelectasis", "Cardiomegaly", "Consolidation", "Edema", "Effusion", "Emphysema", "Fibrosis",
    "Hernia", "Infiltration", "Mass", "Nodule", "Pleural_Thickening", "Pneumonia", "Pneumothorax",
)
# fmt: on
_HEADER_THREADS = 2  # parsing headers holds the interpreter's lock: a second thread only hides the latency of the disk
_NO_FINDING = "No Finding"
_MOST_TABLE_BYTES = 2**27
"""Size limit of a table of labels or a list of files. The largest of Chest X-ray 14 has 8 MB."""
# Keys of lists in dataset.json that name the patient or person shown in each image.
_GROUP_KEYS = ("patient_id", "patient", "subject_id", "subject", "person_id", "person", "group_id", "group")


def read_folder(path: Path, reading: ReadOptions) -> ParsedData:
    """Read a folder or a zip of images, with or without a dataset.json."""
    with opened(path) as files:
        names = files.images()
        if not names:
            kinds = ", ".join(suffix[1:] for suffix in PICTURE_SUFFIXES)
            raise ValueError(
                f"{path} contains no images{files.except_own}: expected files of type {kinds} in it or its subfolders"
            )
        for top in ("", common_top(files.names)):
            if f"{top}dataset.json" in files.names:
                return _read_pack(files, top, reading)
        return _found(files, names, reading, splits=folder_splits(names))


def read_chest_xray14(path: Path, reading: ReadOptions) -> ParsedData:
    """Read Chest X-ray 14: `Data_Entry_2017*.csv`, `train_val_list.txt`, `test_list.txt`, and images in subfolders."""
    table = min(path.glob("Data_Entry_2017*.csv"))
    findings: dict[str, list[str]] = {}
    patients: dict[str, int] = {}
    try:
        for row in csv.DictReader(io.StringIO(_table(table), newline="")):
            stem = Path(row["Image Index"]).stem
            findings[stem] = [name for name in row["Finding Labels"].split("|") if name != _NO_FINDING]
            patients[stem] = _patient(row["Patient ID"])
    except (KeyError, TypeError, ValueError, AttributeError, csv.Error) as error:
        raise ValueError(
            f"{table} cannot be read ({reason_of(error)}): expected the columns Image Index, Finding Labels and "
            f"Patient ID, as in the file that NIH publishes"
        ) from error
    unknown = sorted({name for names in findings.values() for name in names} - set(FINDINGS))
    if unknown:
        raise ValueError(
            f"{table} contains unknown findings ({first_few(unknown)}), expected only {', '.join(FINDINGS)}"
        )
    lists = {
        split: _listed(path / file) for split, file in (("train", "train_val_list.txt"), ("test", "test_list.txt"))
    }
    with opened(path) as files:
        by_stem = {Path(name).stem: name for name in files.images()}
        stems = [stem for stem in findings if stem in by_stem]
        if not stems:
            raise ValueError(f"{path} contains none of the images listed in {table.name}: unpack images_*.tar.gz there")
        labels = np.zeros((len(stems), len(FINDINGS)), dtype=np.uint8)
        for i, stem in enumerate(stems):
            labels[i, [FINDINGS.index(name) for name in findings[stem]]] = 1
        found = _found(
            files,
            [by_stem[stem] for stem in stems],
            replace(reading, channels=reading.channels or 1),
            labels=labels,
            groups=np.array([patients[stem] for stem in stems], dtype=np.int64),
            splits=[_list_of(stem, lists) for stem in stems] if any(lists.values()) else None,
        )
    absent = len(findings) - len(stems)
    return replace(
        found,
        kinds=("chest-xray14",),
        label_names=FINDINGS,
        flips=False,
        skipped=(*_absent(table.name, absent), *found.skipped),
        skipped_images=found.skipped_images + absent,
    )


def _listed(path: Path) -> set[str]:
    if not path.is_file():
        return set()
    try:
        return {Path(line.strip()).stem for line in _table(path).splitlines()}
    except ValueError as error:
        raise ValueError(
            f"{path} cannot be read ({reason_of(error)}): expected one file name per line, as in the file that NIH "
            "publishes"
        ) from error


def _table(path: Path) -> str:
    """Return the text of a table or a list; raise ValueError with the reason if it is too large or not UTF-8."""
    with path.open("rb") as file:
        content = file.read(_MOST_TABLE_BYTES + 1)
    if len(content) > _MOST_TABLE_BYTES:
        raise ValueError(f"it is larger than {_MOST_TABLE_BYTES // 2**20} MiB")
    return content.decode("utf-8-sig")


def _patient(text: str) -> int:
    if not -(2**63) <= (number := int(text)) < 2**63:
        raise ValueError(f"a patient has the number {short(text)}")
    return number


def _list_of(stem: str, lists: dict[str, set[str]]) -> str | None:
    """Return the split, "train" or "test", whose list contains the image; None if no list contains it.

    If there is only one list, images that it does not contain belong to the other split.
    """
    for split, other in (("test", "train"), ("train", "test")):
        if stem in lists[split] or (not lists[split] and stem not in lists[other]):
            return split
    return None


def _absent(table: str, count: int) -> tuple[str, ...]:
    return (f"{table}: {count:,} of the images that it lists could not be found",) if count else ()


def _read_pack(files: Files, top: str, reading: ReadOptions) -> ParsedData:
    """Read a pack: image files and a dataset.json, as StyleGAN writes it.

    The dataset.json has labels, [[name, label], ...]. Its other lists, such as patients, have the same order.
    """
    place = files.path / f"{top}dataset.json"
    try:
        with files.open(f"{top}dataset.json", most=MOST_JSON_BYTES) as file:
            table: dict[str, Any] = dict(parse_json(file.read()))
        entries = [(str(name), label) for name, label in table.get("labels") or []]
    except (OSError, ValueError, TypeError) as error:
        raise ValueError(
            f'{place} cannot be read ({reason_of(error)}): expected JSON such as {{"labels": [[name, label], ...]}}'
        ) from error
    if not entries:  # StyleGAN writes null if there are no labels
        names = files.images()
        return replace(_found(files, names, reading, splits=folder_splits(names)), kinds=("pack",))
    present = set(files.names)
    here = [i for i, (name, _) in enumerate(entries) if f"{top}{name}" in present]
    if not here:
        raise ValueError(
            f"none of the images listed in {place} was found (the first in the list is {short(entries[0][0])}): "
            "use names relative to the folder of dataset.json"
        )
    names = tuple(f"{top}{entries[i][0]}" for i in here)
    groups = None
    for key in _GROUP_KEYS:
        who = table.get(key)
        if isinstance(who, list) and len(who) == len(entries):
            groups = np.unique([str(who[i]) for i in here], return_inverse=True)[1].astype(np.int64)
            break
    labels = _pack_labels([entries[i][1] for i in here], place)
    found = _found(files, names, reading, labels=labels, groups=groups, splits=folder_splits(names))
    label_names = table.get("label_names")
    images, absent = set(files.images()), len(entries) - len(here)
    unlisted = len(images - set(names))
    of = f"{unlisted:,} of the {len(images):,} image files {'is' if unlisted == 1 else 'are'} not in its list"
    return replace(
        found,
        kinds=("pack",),
        label_names=tuple(map(str, label_names)) if isinstance(label_names, list) and labels is not None else None,
        # A mirrored chest x-ray shows the heart on the wrong side.
        flips=not (isinstance(label_names, list) and set(map(str, label_names)) == set(FINDINGS)),
        skipped=(
            *_absent("dataset.json", absent),
            *((f"dataset.json: {of}",) if unlisted else ()),
            *found.skipped,
        ),
        skipped_images=found.skipped_images + absent + unlisted,
    )


def _pack_labels(values: Sequence[Any], place: Path) -> Labels | None:
    if all(value is None for value in values):
        return None
    if all(isinstance(value, int) for value in values):
        return class_numbers(values, place)
    lists = all(isinstance(value, list) and len(value) == len(values[0]) > 0 for value in values)
    if lists and all(type(item) in (int, float, bool) and item in (0, 1) for value in values for item in value):
        return np.array(values, dtype=np.uint8)
    alike = len(set(map(type, values))) == 1 and not isinstance(values[0], list)
    raise ValueError(
        f"{place} has labels {f'such as {shown(values[0])}' if alike else 'of different kinds'}, expected one whole "
        "number per image, "
        "or one list of zeros and ones per image, with lists of the same length"
    )


def _found(
    files: Files,
    names: Sequence[str],
    reading: ReadOptions,
    *,
    labels: Labels | None = None,
    groups: Indices | None = None,
    splits: Sequence[str | None] | None = None,
) -> ParsedData:
    """Decode the named image files, and return them divided into training, validation and test images."""
    pixels, broken = _decoded(files, names, reading)
    if len(broken) == len(names):
        raise _all_broken(files.path, len(names), names[0], broken[0])
    side, pairs = pixels.shape[1], pixels.shape[2] != pixels.shape[1]
    whole = ImageSet(
        images=pixels[:, :, side:] if pairs else pixels,
        paired=pixels[:, :, :side] if pairs else None,
        labels=labels,
        groups=groups,
        files=tuple(names),
        rows=np.arange(len(names), dtype=np.int64),
    )
    good = np.ones(len(names), dtype=bool)
    good[list(broken)] = False
    split = np.array(["train"] * len(names) if splits is None else [name or "" for name in splits])
    parts = {name: whole.subset(np.flatnonzero(good & (split == name))) for name in ("train", "validation", "test")}
    held = {name: part for name, part in parts.items() if name != "train" and len(part)}
    if pairs and "test" not in held and "validation" in held:  # pix2pix data has train/ and val/, and is tested on val/
        held["test"] = held.pop("validation")
    elsewhere = int((split == "").sum())
    return ParsedData(
        kinds=("pairs",) if pairs else ("images",),
        name=str(files.path),
        identity=files.identity,
        train=parts["train"],
        validation=held.get("validation"),
        test=held.get("test"),
        skipped=(
            *((f"{files.path}: {elsewhere:,} of the images could not be assigned to a split",) if elsewhere else ()),
            *(f"{names[row]}: {reason}" for row, reason in sorted(broken.items())),
        ),
        skipped_images=int((~good | (split == "")).sum()),
    )


def _decoded(files: Files, names: Sequence[str], reading: ReadOptions) -> Stored:
    """Decode images to [N, size, size, C], or to [N, size, 2 size, C] if all of them are pairs (twice as wide as high).

    If the cache already contains the array, no file is decoded.
    """
    key = reading.key(files.identity, digest(list(names)))
    ready = stored(key, reading)
    if ready is not None and len(ready.images) == len(names):
        return ready
    headers = _read_headers(files, names, reading)
    pairs = all(one.width == 2 * one.height for _, one in headers)
    size = reading.size or _common_size(files.path, [one for _, one in headers], pairs=pairs)
    channels = reading.channels or _channels(files, headers, reading)

    def one(i: int) -> PixelArray:
        with files.open(names[i]) as file:
            return decode(file, channels=channels, size=reading.size, pair=pairs)

    side = int(np.median([one.width * one.height for _, one in headers]) ** 0.5)
    shape = (len(names), size, 2 * size if pairs else size, channels)
    return store(shape, one, key=key, name=str(files.path), reading=reading.for_side(side))


def _read_headers(files: Files, names: Sequence[str], reading: ReadOptions) -> list[tuple[str, ImageHeader]]:
    """Read the headers of all files, and leave out unreadable files. Raise ValueError if no file is readable."""

    def one(i: int) -> ImageHeader | str:
        try:
            with files.open(names[i]) as file:
                return read_header(file)
        except Exception as error:  # decoders can raise any exception on broken files
            return reason_of(error)

    threads = min(reading.workers, _HEADER_THREADS)
    headers = list(in_threads(one, len(names), workers=threads, label=f"reading the image headers of {files.path}"))
    if isinstance(headers[0], str) and all(isinstance(one, str) for one in headers):
        raise _all_broken(files.path, len(names), names[0], headers[0])
    return [(name, one) for name, one in zip(names, headers, strict=True) if not isinstance(one, str)]


def _channels(files: Files, headers: Sequence[tuple[str, ImageHeader]], reading: ReadOptions) -> int:
    """Return 1 if all images are grey, otherwise 3.

    An image whose header does not show that it is grey is decoded. This stops at the first image with colours.
    """
    unsure = [name for name, one in headers if not one.grey]

    def grey(i: int) -> bool:
        try:
            with files.open(unsure[i]) as file:
                return is_grey(file)
        except Exception:  # a broken file will be skipped, so its colours do not matter
            return True

    return 1 if all(in_threads(grey, len(unsure), workers=reading.workers, label="checking for colours")) else 3


def _common_size(path: Path, headers: Sequence[ImageHeader], *, pairs: bool) -> int:
    """Return the height of the images. Raise ValueError unless all have one size, square or (as pairs) 2 to 1."""
    sizes = Counter((one.width, one.height) for one in headers).most_common()
    (width, height), _ = sizes[0]
    if len(sizes) == 1 and (pairs or width == height):
        return height
    counts = ", ".join(f"{count:,} of {w} x {h}" for (w, h), count in sizes[:3]) + (", ..." if len(sizes) > 3 else "")
    trouble = "images of different sizes" if len(sizes) > 1 else "images that are not square"
    raise ValueError(
        f"{path} contains {trouble} ({counts}), expected square images of one size: "
        "give --size with the network's image size, such as --size 64, to crop and resize them"
    )


def _all_broken(path: Path, count: int, name: str, reason: str) -> ValueError:
    return ValueError(
        f"none of the {count:,} images in {path} can be read ({short(name)}: {reason}): copy or download them again"
    )
