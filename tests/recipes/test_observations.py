import subprocess
import sys
from pathlib import Path

from PIL import Image

RECIPE = Path(__file__).parents[2] / "recipes" / "observations.py"


def test_the_sheet_is_drawn(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "sheet.png"
    subprocess.run([sys.executable, RECIPE, "--out", out, "--rows", "2"], check=True, capture_output=True)
    with Image.open(out) as sheet:
        assert sheet.width > 4 * sheet.height


def test_bad_data_is_one_sentence(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, RECIPE, "--data", tmp_path / "none"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
