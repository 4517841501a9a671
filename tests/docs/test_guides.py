"""The examples in README and guides run as printed, in a folder with the files that they name.

A block after `<!-- long -->` would take minutes, a network or a GPU; `test_links.py` checks its verbs and options.
"""

import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from helpers.fixtures import FIXTURES, ROOT
from helpers.training import call
from PIL import Image, ImageDraw

from condvae import Completion

PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/guides/*.md"))]


class Block(NamedTuple):
    language: str
    text: str
    is_long: bool


def blocks(page: Path) -> list[Block]:
    found = re.findall(r"^(<!-- long -->\n)?```(\w*)\n(.*?)^```", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    return [Block(language, text, bool(mark)) for mark, language, text in found]


def run_python(page: Path) -> dict[str, object]:
    """Run the page's Python blocks one after the other, with shared names, and return these."""
    names: dict[str, object] = {}
    for block in blocks(page):
        if block.language == "python" and not block.is_long:
            exec(compile(block.text, str(page), "exec"), names)
    return names


def commands(page: Path) -> list[str]:
    """The lines that call condvae, without comments and with continued lines joined."""
    lines = "\n".join(block.text for block in blocks(page) if block.language in ("", "sh") and not block.is_long)
    return [
        line.partition(" #")[0].strip() for line in lines.replace("\\\n", " ").splitlines() if line[:8] == "condvae "
    ]


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that examples name: photos, masks, an x-ray."""
    faces = sorted((FIXTURES / "faces64").glob("*.jpg"))
    shutil.copy(faces[2], tmp_path / "photo.jpg")
    (tmp_path / "photos").mkdir()
    for face in faces[:3]:
        shutil.copy(face, tmp_path / "photos")
    with Image.open(faces[2]) as photo:
        photo.save(tmp_path / "photo.png")
        photo.convert("L").save(tmp_path / "chest.png")
        mask = Image.new("L", photo.size)
    ImageDraw.Draw(mask).rectangle((20, 20, 40, 40), fill=255)
    for name in ("scratches.png", "scanned.png", "mask.png"):
        mask.save(tmp_path / name)
    shutil.copy(FIXTURES / "faces32.zip", tmp_path / "photos.zip")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_examples_run_as_printed(page: Path, scene: Path) -> None:
    names = run_python(page)
    for line in commands(page):
        call(*shlex.split(line)[1:])
    if check := CHECKS.get(page.stem):
        check(names, scene)


def check_readme(names: dict[str, object], scene: Path) -> None:
    result = names["result"]
    assert isinstance(result, Completion)
    assert result.images.shape == (8, 64, 64, 3)
    assert result.mean.shape == result.std.shape == (64, 64, 3)
    assert {"sheet.png", "record.json"} < {path.name for path in (scene / "out").iterdir()}


def check_library(names: dict[str, object], scene: Path) -> None:
    completions, observation = names["completions"], names["observation"]
    assert completions.shape == (32, 3, 32, 32)  # type: ignore[attr-defined]
    known = observation.known.repeat_interleave(4, 0).expand_as(completions)  # type: ignore[attr-defined]
    x = names["x"].repeat_interleave(4, 0)  # type: ignore[attr-defined]
    assert (completions[known] == x[known]).all()  # type: ignore[index]


def check_extend(names: dict[str, object], scene: Path) -> None:
    from condvae.observe import PROCESSES

    PROCESSES.pop("stripes")
    known = names["known"]
    assert (known.float().mean(dim=(1, 2, 3)) == 1 / 8).all()  # type: ignore[attr-defined]
    assert (known == known[..., :1]).all()  # type: ignore[index]
    psnr = names["report"]["methods"]["uniform noise"]["metrics"]["psnr_of_mean"]["mixture"]["mean"]  # type: ignore[index]
    assert 8 < psnr < 40


CHECKS: dict[str, Callable[[dict[str, object], Path], None]] = {
    "README": check_readme,
    "library": check_library,
    "extend": check_extend,
}


def test_every_guide_shows_something_that_is_run() -> None:
    for page in PAGES:
        assert commands(page) or any(block.language == "python" and not block.is_long for block in blocks(page)), page
