"""The recipe measures LPIPS-GT of the snapshots of a real, tiny run."""

import json
from pathlib import Path

from helpers.fixtures import FIXTURES
from helpers.lpips_networks import real_file
from helpers.recipe_calls import run

from condvae import weights
from condvae.cli import main
from condvae.metrics.network_files import LPIPS_ALEX


def test_the_curve_of_a_run(tmp_path: Path) -> None:
    network = real_file(LPIPS_ALEX)
    data = FIXTURES / "faces32.zip"
    train = ["--preset", "demo", "--data", data, "--batch", "4", "--validation", "4"]

    main(["pretrain", *map(str, train), "--steps", "1", "--out", str(tmp_path / "vae")])
    partial = ["--artifact", tmp_path / "vae", "--steps", "6", "--snapshot-at", "2", "4", "--out", tmp_path / "partial"]
    main(["train", *map(str, [*train, *partial])])
    files = [*sorted((tmp_path / "partial" / "snapshots").iterdir()), tmp_path / "partial" / "model.safetensors"]
    for file, minutes in zip(files, (0.5, 1.5, 2.5), strict=True):  # the real ones may round to 0
        record = weights.describe(file).record
        weights.save(weights.load_conditional(file), file, record={**record, "minutes": minutes})
    words = ["--run", tmp_path / "partial", "--data", data, "--out", tmp_path / "out", "--images", "3", "--n", "2"]
    done = [run("training_curve.py", *words, "--lpips", network, "--device", "cpu") for _ in range(2)]
    assert [call.returncode for call in done] == [0, 0], done[0].stderr
    said = done[0].stdout
    assert done[1].stdout.splitlines()[-3:] == said.splitlines()[-3:]  # the second call reuses the results of the first
    points = json.loads((tmp_path / "out" / "curve.json").read_text())["points"]
    assert len(points) == 3 and said.count("LPIPS-GT") == 3
    assert [point["minutes"] for point in points] == [0.5, 1.5, 2.5]
    assert len({point["lpips_gt"] for point in points}) > 1  # the weights differ between snapshots
