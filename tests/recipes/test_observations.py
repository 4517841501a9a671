from pathlib import Path

from helpers.recipe_calls import run
from PIL import Image

RECIPE = "observations.py"


def test_the_sheet_is_drawn(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "sheet.png"
    assert run(RECIPE, "--out", out, "--rows", "2").returncode == 0
    with Image.open(out) as sheet:
        assert sheet.width > 4 * sheet.height


def test_bad_data_gives_a_one_line_message(tmp_path: Path) -> None:
    done = run(RECIPE, "--data", tmp_path / "none")
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
