"""Each selected file is used once; bad files are skipped in folders, and refused if they are named."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.pictures_to_complete import levels, photo
from PIL import Image

from condvae.images.holes import Hole
from condvae.images.reading import Picture
from condvae.images.selection import LimitedNotes, PictureQueue, read_images, select_pictures
from condvae.runtime.fingerprints import FileId
from condvae.runtime.messages import silent
from condvae.runtime.pixels import to_uint8


@dataclass(eq=False)
class Prepared:
    name: str
    nbytes: int
    hole_file: FileId | None = None


def preparing(nbytes: int = 100) -> tuple[list[str], Callable[[Picture, Hole], Prepared]]:
    """Return a list that collects the names of prepared pictures, and the function that prepares them."""
    names: list[str] = []

    def prepare(picture: Picture, hole: Hole) -> Prepared:
        names.append(Path(picture.name).name)
        return Prepared(names[-1], nbytes)

    return names, prepare


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "photos" / "inside").mkdir(parents=True)
    for i, name in enumerate(("b", "inside/a")):
        photo(tmp_path / "photos" / f"{name}.png", 8, 8, seed=i)
    (tmp_path / "photos" / "c.jpg").write_text("no picture")
    return tmp_path / "photos"


def test_files_and_folders_each_once_in_order(folder: Path, tmp_path: Path) -> None:
    said: list[str] = []
    one = photo(tmp_path / "z.webp", 8, 8)
    (tmp_path / "link.png").symlink_to(one)
    paths = [one, folder / "b.png", folder, tmp_path / "link.png"]
    selected = select_pictures(paths, Hole(), said.append, done="completed")
    assert [(one.path.name, one.named) for one in selected] == [
        ("z.webp", True),
        ("b.png", True),
        ("c.jpg", False),
        ("a.png", False),
    ]
    assert said == [f"{tmp_path / 'link.png'} was named twice: it is completed once"]
    inside = select_pictures([folder], Hole(), silent, done="completed", out=folder / "inside")
    assert [one.path.name for one in inside] == ["b.png", "c.jpg"]
    with pytest.raises(ValueError, match="name at least one"):
        select_pictures([], Hole(), silent, done="completed")


def test_named_pictures_are_prepared_at_the_start_and_once(folder: Path) -> None:
    selected = select_pictures([folder / "b.png", folder], Hole(), silent, done="completed")
    names, prepare = preparing()
    queue = PictureQueue(selected, prepare, done="completed")
    assert names == ["b.png"]
    taken = [queue.take(one) for one in selected]
    assert [one and one.name for one in taken] == ["b.png", None, "a.png"] and names == ["b.png", "a.png"]
    queue.skipped.check_not_all()
    said: list[str] = []
    queue.skipped.tell(said.append)
    assert len(said) == 1 and said[0].startswith("skipped 1 of 3 files: ") and "c.jpg is not an image" in said[0]
    bad = select_pictures([folder / "b.png", folder / "c.jpg"], Hole(), silent, done="completed")
    with pytest.raises(ValueError, match=r"c\.jpg is not an image"):
        PictureQueue(bad, prepare, done="completed")


def test_prepared_pictures_that_exceed_the_memory_are_prepared_again(tmp_path: Path) -> None:
    paths = [photo(tmp_path / f"{i}.png", 8, 8) for i in range(5)]
    selected = select_pictures(paths, Hole(), silent, done="completed")
    names, prepare = preparing(nbytes=2**26)  # memory for two of them
    queue = PictureQueue(selected, prepare, done="completed")
    assert len(names) == 5 and len(queue._waiting) == 2
    assert [one.name for one in map(queue.take, selected) if one] == [path.name for path in paths]
    assert names[5:] == ["2.png", "3.png", "4.png"] and not queue._waiting


def test_whole_images_of_files_and_folders(folder: Path) -> None:
    said: list[str] = []
    found = read_images([folder], channels=3, size=8, done="rebuilt", say=said.append)
    assert [file.path.name for file in found.files] == ["b.png", "a.png"] and len(said) == 1
    expected = torch.from_numpy(np.stack([levels(8, 8, seed=i) for i in range(2)])).permute(0, 3, 1, 2)
    assert torch.equal(to_uint8(found.x), expected)
    clear = np.dstack([levels(8, 8), np.zeros((8, 8), dtype=np.uint8)])
    Image.fromarray(clear).save(folder / "clear.png")
    assert (read_images([folder / "clear.png"], channels=1, size=4, done="read").x == 1).all()  # it is shown on white
    with pytest.raises(ValueError, match=r"c\.jpg is not an image"):
        read_images([folder / "b.png", folder / "c.jpg"], channels=3, size=8, done="read")
    for path in folder.rglob("*.png"):
        path.unlink()
    with pytest.raises(ValueError, match=r"the only image could not be rebuilt: .*c\.jpg is not an image"):
        read_images([folder], channels=3, size=8, done="rebuilt", say=silent)


def test_what_earlier_calls_have_written_in_subfolders_is_no_input(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    for name in ("completions", "mine"):
        for picture in ("1.png", "2.png"):
            Path(name).mkdir(exist_ok=True)
            photo(Path(name, picture), 8, 8)
    record = {"format": "condvae completions", "images": [{"outputs": ["1.png"]}], "sheets": []}
    Path("completions", "record.json").write_text(json.dumps(record))
    said: list[str] = []

    def selected(path: str) -> list[str]:
        return [one.path.as_posix() for one in select_pictures([Path(path)], Hole(), said.append, done="completed")]

    # The user's own file next to the outputs counts.
    assert selected(".") == ["b.png", "c.jpg", "completions/2.png", "inside/a.png", "mine/1.png", "mine/2.png"]
    assert said == ["left out 1 output of earlier calls: name their folder to use them"]
    assert selected("completions") == ["completions/1.png", "completions/2.png"]
    Path("completions", "2.png").unlink()
    Path("all").mkdir()
    Path("completions").rename("all/completions")
    with pytest.raises(ValueError, match=r"all images in all are outputs of earlier calls: name their folder"):
        selected("all")


def test_notes_beyond_the_first_few_are_counted() -> None:
    said: list[str] = []
    notes = LimitedNotes()
    for i in range(8):
        notes.tell([f"note {i}"] if i % 4 else [], said.append)
    assert len(said) == 5 and notes.untold == 1
