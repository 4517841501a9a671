"""The benchmark of training from edges times both ways, and refuses data that do not exist."""

import json
from pathlib import Path

from helpers.recipe_calls import run
from helpers.training import few_faces


def test_both_ways_are_timed(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    words = ("--preset", "demo", "--steps", "2", "--warm-up", "1", "--batch", "2", "--device", "cpu")
    done = run("benchmarks/edges.py", "--data", few_faces(), "--out", out, *words)
    assert done.returncode == 0, done.stderr
    result = json.loads(out.read_text())
    once, each = result["images_per_second"].values()
    assert once > 0 and each > 0 and result["images"] > 100
    assert f"{once / each:.1f} times as fast" in done.stdout


def test_bad_input_gives_a_one_line_message(tmp_path: Path) -> None:
    done = run("benchmarks/edges.py", "--data", tmp_path / "none.zip", "--device", "cpu")
    assert done.returncode == 2
    assert done.stderr.strip() == f"edges: {tmp_path / 'none.zip'} does not exist: check the path to the data"
