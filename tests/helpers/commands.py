"""Command-line calls, as a user types them."""

from pathlib import Path

import pytest
from helpers.models import images

from condvae.cli import main
from condvae.images.contact_sheet import to_pil
from condvae.runtime.pixels import to_uint8


def failure(capsys: pytest.CaptureFixture[str], *words: str | Path) -> str:
    """Run a call that must fail with exit code 2 and one line on stderr; return this line."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as stopped:
        main([str(word) for word in words])
    assert stopped.value.code == 2
    captured = capsys.readouterr()
    lines = [line for line in captured.err.splitlines() if not line.endswith(" so far")]  # of calls that took long
    assert len(lines) == 1 and lines[0].startswith("condvae: "), captured.err
    assert captured.out == ""
    return lines[0]


def refused(words: list[str], out: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Run `condvae complete`, which must fail and write nothing; return its error message."""
    before = names(out.parent)
    error = failure(capsys, "complete", *words, "-o", out, "--quiet")  # without notes on stdout
    assert names(out.parent) == before
    return error


def photos(n: int) -> list[str]:
    """Write n pictures, with spaces in their names, to the current folder."""
    for i, image in enumerate(images(n, size=20)):
        to_pil(to_uint8(image)).save(f"photo {i}.png")
    return [f"photo {i}.png" for i in range(n)]


def names(folder: str | Path) -> list[str]:
    """The sorted names of the files in a folder."""
    return sorted(path.name for path in Path(folder).iterdir())
