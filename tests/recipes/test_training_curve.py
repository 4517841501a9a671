"""LPIPS-GT at checkpoints of a real, tiny run."""

import json
import subprocess
import sys
from pathlib import Path

from lpips_networks import real_file

from condvae.metrics.networks import LPIPS_ALEX

ROOT = Path(__file__).parents[2]


def test_the_curve_of_a_run(tmp_path: Path) -> None:
    network = real_file(LPIPS_ALEX)
    data = ROOT / "tests" / "data" / "faces32.zip"
    train = ["--preset", "demo", "--data", data, "--batch", "4", "--validation", "4", "--checkpoint-every", "2"]

    def run(*words: object) -> str:
        done = subprocess.run([sys.executable, *map(str, words)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    run("-m", "condvae", "pretrain", *train, "--steps", "1", "--out", tmp_path / "vae")
    partial = ["--artifact", tmp_path / "vae", "--keep", "9", "--steps", "6", "--out", tmp_path / "partial"]
    run("-m", "condvae", "train", *train, *partial)
    words = ["--run", tmp_path / "partial", "--data", data, "--out", tmp_path / "out", "--images", "3", "--k", "2"]
    words = [ROOT / "recipes" / "training_curve.py", *words, "--points", "2", "--lpips", network, "--device", "cpu"]
    said = run(*words)
    assert run(*words).splitlines()[-3:] == said.splitlines()[-3:]  # nothing is measured twice
    points = json.loads((tmp_path / "out" / "curve.json").read_text())["points"]
    assert len(points) == 3 and said.count("LPIPS-GT") == 3
    minutes = [point["minutes"] for point in points]
    assert minutes == sorted(minutes) and 0 < minutes[0] < minutes[1]
    assert len({point["lpips_gt"] for point in points}) > 1  # other weights, other completions
