"""A model that is given edges is measured on each set of test images, with real networks."""

import json
from pathlib import Path

import pytest
from helpers.fixtures import faces_pack
from helpers.lpips_networks import real_file
from helpers.recipe_calls import run

from condvae import weights
from condvae.metrics.network_files import INCEPTION, LPIPS_ALEX


def test_every_set_gets_all_metrics(tmp_path: Path) -> None:
    real_file(INCEPTION), real_file(LPIPS_ALEX)  # skips this test if they were not fetched
    out = tmp_path / "out.json"
    words = ("--deep-images", "5", "--n", "2", "--device", "cpu")
    done = run("edges_model.py", "--data", faces_pack(tmp_path / "faces", test=5), "--out", out, *words)
    assert done.returncode == 0, done.stderr
    result = json.loads(out.read_text())
    assert (
        result["format"] == "condvae edges model"
        and result["record"]["steps"] == weights.describe("shoes64").record["steps"]
    )
    found = result["sets"]["faces"]
    assert found["images"] == 5
    assert set(found["metrics"]) == {"bits_per_dim", "fid", "kid", "lpips_gt", "diversity"}
    assert found["metrics"]["lpips_gt"] > 0.1  # the model draws shoes, not faces


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--model", "faces64"], "faces64 is not given edges: give a model that was trained with --observe edges"),
        (["--model", "shoes46"], "did you mean shoes64?"),
    ],
)
def test_bad_input_gives_a_one_line_message(words: list[str], message: str, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    done = run("edges_model.py", "--data", tmp_path, "--out", out, *words)
    assert done.returncode == 2 and message in done.stderr and len(done.stderr.strip().splitlines()) == 1
    assert not out.exists()
