"""The examples in README and guides run as printed, in a folder with the files that they name.

A block after `<!-- long -->` needs minutes, a GPU or a download; `test_links.py` checks its verbs and options.
A training with `--minutes N` makes two steps here, and `condvae complete` draws two completions.
"""

import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from helpers.fixtures import FIXTURES, ROOT
from helpers.training import call
from PIL import Image, ImageDraw, ImageOps

from condvae import Completion
from condvae.design import Location
from condvae.weights import locate

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


def shortened(line: str) -> list[str]:
    """The words of a call, with fewer steps or completions."""
    words = shlex.split(re.sub(r"--minutes \S+", "--steps 2", line))[1:]
    if words[0] != "complete" or "--repeat" in words:
        return words
    given = words.index("-n") if "-n" in words else len(words)
    return [*words[:given], "-n", "2", *words[given + 2 :]]


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that examples name: photos, masks, an x-ray, a trained model."""
    photos = [Image.open(path).resize((160, 160)) for path in sorted((FIXTURES / "faces64").glob("*.jpg"))]
    mask = Image.new("L", (160, 160))
    ImageDraw.Draw(mask).rectangle((40, 40, 90, 90), fill=255)
    for folder in ("photos", "faces", "holes", "real", "fake", "runs/mine"):
        (tmp_path / folder).mkdir(parents=True)
    for i, photo in enumerate(photos):
        photo.save(tmp_path / "photos" / f"{i}.jpg")
    for i, photo in enumerate(photos[:2]):
        for folder in ("faces", "real", "fake"):
            photo.save(tmp_path / folder / f"{i}.png")
        mask.save(tmp_path / "holes" / f"{i}.png")
    for name in ("photo.jpg", "me.jpg", "frog.png"):
        photos[0].save(tmp_path / name)
    for name in ("known.png", "mask.png", "scanned.png", "scratches.png"):
        mask.save(tmp_path / name)
    transparent = photos[0].convert("RGBA")
    transparent.putalpha(Image.eval(mask, lambda level: 255 - level))
    transparent.save(tmp_path / "photo.png")
    photos[0].convert("L").save(tmp_path / "chest.png")
    shutil.copy(FIXTURES / "photos" / "astronaut.jpg", tmp_path / "portrait.jpg")
    with Image.open(tmp_path / "portrait.jpg") as portrait:
        two = Image.new("RGB", (920, 512))
        two.paste(portrait, (0, 0))
        two.paste(ImageOps.mirror(portrait).resize((400, 400)), (520, 60))
    two.save(tmp_path / "family.jpg")
    shutil.copy(FIXTURES / "faces32.zip", tmp_path / "photos.zip")
    shutil.copy(locate("cifar10"), tmp_path / "runs" / "mine" / "model.safetensors")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_examples_run_as_printed(page: Path, scene: Path) -> None:
    names = run_python(page)
    for line in commands(page):
        call(*shortened(line))
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


def check_design(names: dict[str, object], scene: Path) -> None:
    answer = names["answer"]
    assert isinstance(answer, Location)
    assert answer.index not in (4, 20)  # these lines are known
    assert answer.window.sum() == 32
    assert answer.eig.shape == (32,) and answer.gains.shape == (10, 32) and answer.completions.shape == (10, 3, 32, 32)
    assert torch.allclose(answer.gains.mean(dim=0), answer.eig)
    assert answer.eig[[4, 20]].max() == 0 < answer.eig.max()
    assert answer.posterior.shape == (2,)


CHECKS: dict[str, Callable[[dict[str, object], Path], None]] = {
    "README": check_readme,
    "library": check_library,
    "extend": check_extend,
    "design": check_design,
}


def test_every_guide_shows_something_that_is_run() -> None:
    for page in PAGES:
        assert commands(page) or any(block.language == "python" and not block.is_long for block in blocks(page)), page
