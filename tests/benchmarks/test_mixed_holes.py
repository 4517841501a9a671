"""The benchmark of mixed holes times both ways of every method, and leaves the fast path as it was."""

import json
from pathlib import Path

from helpers.recipe_calls import run


def test_both_ways_are_timed(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    words = ("--steps", "1", "--warm-up", "1", "--batch", "2", "--device", "cpu")
    done = run("benchmarks/mixed_holes.py", "--methods", "ipa", "ce", "--out", out, *words)
    assert done.returncode == 0, done.stderr
    speeds = json.loads(out.read_text())["images_per_second"]
    assert list(speeds) == ["ipa", "ce"]
    for method, found in speeds.items():
        together, separate = found["one launch"], found["part by part"]
        assert together > 0 and separate > 0
        assert f"{method}: {together:,.0f} images/s with one launch, {separate:,.0f} part by part" in done.stdout


def test_the_fast_path_is_restored() -> None:
    from benchmarks.mixed_holes import FAST_PATH, part_by_part
    from condvae import kernels
    from condvae.runtime import fast_paths

    with part_by_part():
        assert fast_paths._FINDERS[FAST_PATH] is not kernels.find_mixtures
    assert fast_paths._FINDERS[FAST_PATH] is kernels.find_mixtures


def test_an_unknown_method_gives_a_one_line_message() -> None:
    done = run("benchmarks/mixed_holes.py", "--methods", "gan", "--device", "cpu")
    assert done.returncode == 2
    assert done.stderr.startswith("mixed_holes: --methods is 'gan', expected 'ipa' or 'ce'")
    assert done.stderr.count("\n") == 1
