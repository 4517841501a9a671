"""The evaluation benchmark times condvae and the references with real networks."""

import json
from pathlib import Path

import pytest
from helpers.fixtures import FIXTURES
from helpers.lpips_networks import real_file

from benchmarks import measuring
from condvae.metrics.network_files import INCEPTION, LPIPS_ALEX


def test_both_sides_are_timed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = measuring.Options(
        data=FIXTURES / "faces32.zip",
        images=2,
        n=3,
        features=2,
        reference_images=1,
        device="cpu",
        lpips=real_file(LPIPS_ALEX),
        inception=real_file(INCEPTION),
        out=tmp_path / "out.json",
    )
    measuring.main(options)
    result = json.loads((tmp_path / "out.json").read_text())
    assert json.loads(capsys.readouterr().out) == result
    lpips_gt, inception = result["lpips_gt"], result["inception"]
    assert lpips_gt["five_bins_s"] == pytest.approx(5 * lpips_gt["one_bin_s"], rel=0.05)
    assert (
        lpips_gt["reference_one_bin_s"].keys() == lpips_gt["times_the_reference"].keys() == {"one_by_one", "k_at_once"}
    )
    assert inception["relative_error_of_fast"] < 1e-4  # on a CPU, they differ only in the memory layout
    assert inception["fid_of_fast_to_exact"] < 1e-4
