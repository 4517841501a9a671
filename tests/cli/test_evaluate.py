import json
from pathlib import Path

import numpy as np
import pytest
from helpers.baseline_models import baseline_file
from helpers.commands import failure
from helpers.evaluation_runs import FACES, small_model
from helpers.lpips_networks import real_file, real_lpips_file

from condvae import VDVAE, preset, save
from condvae.cli import main
from condvae.metrics import network_files as networks


def run(*arguments: str | Path) -> None:
    main(["evaluate", *map(str, arguments)])


@pytest.fixture
def model(tmp_path: Path) -> Path:
    save(small_model(), tmp_path / "run" / "model.safetensors", record={"minutes": 2})
    return tmp_path / "run"


@pytest.mark.usefixtures("drawn")
def test_a_model_is_measured_with_the_real_networks(
    tmp_path: Path, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    real_lpips_file()
    real_file(networks.INCEPTION)
    out = tmp_path / "deep" / "out"
    small = ("--images", "4", "--deep-images", "2", "-n", "2", "--bits-images", "2", "--device", "cpu")
    with pytest.MonkeyPatch.context() as undrawn:  # figures are drawn below
        undrawn.setattr("condvae.experiments.evaluation.figures.draw", lambda result, folder: [])
        run("--model", model, "--data", FACES, "--out", out, *small, "--baselines")
    printed = capsys.readouterr().out
    assert "run, t 1, deep, hole 0.2-0.4: 2 images in" in printed
    assert "run, t 1, wide, hole 0.2-0.4: 4 images in" in printed
    result = json.loads((out / "results.json").read_text())
    assert list(result["methods"]) == ["run, t 1"]
    assert result["models"]["run"]["training_minutes"] == {"partial encoder": 2.0}
    assert result["networks"] == {"lpips": "alex", "inception": "exact"}
    assert result["data"] == "faces32.zip"
    run("--redraw", out)
    assert (out / "metrics.png").is_file()


@pytest.mark.usefixtures("undrawn")
def test_finished_methods_are_reported_and_not_measured_again(
    tmp_path: Path, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = ("--images", "4", "--deep-images", "2", "-n", "2", "--metrics", "pixels", "--device", "cpu")
    for chosen, measured in ((("--baselines", "mean"), True), (("--baselines",), False)):
        run("--model", model, "--data", FACES, "--out", tmp_path / "out", *small, *chosen)
        assert ("2 images in" in capsys.readouterr().out) == measured
        result = json.loads((tmp_path / "out" / "results.json").read_text())
        assert list(result["methods"]) == ["run, t 1", "training mean"]


@pytest.mark.usefixtures("undrawn")
def test_rivals_are_measured_with_the_model_and_later_without_it(
    tmp_path: Path, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rivals = [str(baseline_file(tmp_path, kind, size=32)) for kind in ("ce", "anp")]
    small = ("--images", "4", "--deep-images", "2", "-n", "2", "--metrics", "pixels", "--baselines", "--device", "cpu")
    given = ("--data", FACES, "--out", tmp_path / "out", *small)
    run("--model", model, "--against", *rivals, *given)
    printed = capsys.readouterr().out
    for name in ("run, t 1", "ce", "anp"):
        assert f"{name}, deep, hole 0.2-0.4: 2 images in" in printed
    result = json.loads((tmp_path / "out" / "results.json").read_text())
    assert list(result["methods"]) == ["run, t 1", "ce", "anp"]
    assert [result["methods"][name]["k"] for name in ("ce", "anp")] == [1, 2]
    table = (tmp_path / "out" / "results.md").read_text()
    assert all(name in table for name in ("run, t 1", "ce", "anp"))
    run("--model", rivals[0], "--against", rivals[1], *given)
    assert "images in" not in capsys.readouterr().out
    baseline_file(tmp_path, "ce", size=32, seed=1)
    run("--model", "none", "--against", rivals[0], *given)
    printed = capsys.readouterr().out
    assert "ce, deep, hole 0.2-0.4: 2 images in" in printed and "anp, deep" not in printed


def test_results_are_not_written_into_the_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "data").mkdir()
    given = ("--model", "none", "--data", tmp_path / "data")
    for option in ("--out", "--inputs-to"):
        assert "would become part of the data" in failure(
            capsys, "evaluate", *given, option, tmp_path / "data" / "new" / "out"
        )
    assert not list((tmp_path / "data").iterdir())


def test_only_the_inputs_for_other_programs_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = ("--images", "4", "--deep-images", "2", "-n", "2")
    run("--model", "none", "--data", FACES, *small, "--inputs-to", tmp_path / "inputs", "--out", tmp_path / "out")
    assert (tmp_path / "inputs" / "README.txt").is_file()
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("undrawn")
def test_groups_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = tmp_path / "groups.json", tmp_path / "out"
    file.write_text(json.dumps({"first": ["[A-F]*"], "last": ["test/[S-Z]*"]}))
    small = ("--images", "32", "--deep-images", "32", "-n", "2", "--metrics", "pixels", "--baselines", "mean")
    given = ("--model", "none", "--data", FACES, "--out", out, *small, "--device", "cpu")
    run(*given)
    capsys.readouterr()
    run(*given, "--image-groups", file)
    assert "images in" not in capsys.readouterr().out
    result = json.loads((out / "results.json").read_text())
    assert [found["deep_images"] for found in result["groups"].values()] == [9, 2]
    assert list(result["methods"]["training mean"]["groups"]) == ["first", "last"]


def test_bad_input_is_one_sentence_and_exit_code_2(
    tmp_path: Path, model: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    save(VDVAE(preset("tiny")), tmp_path / "vae.safetensors")
    rival = baseline_file(tmp_path, "ce", size=16)
    out = tmp_path / "out"
    given = ("--data", FACES, "--out", out, "--device", "cpu")
    pixels = ("--metrics", "pixels")  # they need no network
    groups, unnamed = tmp_path / "groups.json", ("--data", tmp_path / "a.npy", *given[2:])
    groups.write_text('{"children": ["age-1_*"]}')
    np.save(tmp_path / "a.npy", np.zeros((40, 32, 32, 3), np.uint8))
    for arguments, message in (
        (
            (
                "--model",
                "none",
            ),
            "no data was given",
        ),
        (("--model", "none", *given), "condvae fetch"),
        (("--model", "none", *given, "--metrics", "inception"), "condvae fetch"),
        (("--model", "none", *given, *pixels, "-n", "0"), "is 0, expected a whole number, at least 1"),
        (
            ("--model", "none", *given, *pixels, "--images", "10", "--deep-images", "11"),
            "at most as many --deep-images",
        ),
        (("--model", "none", *given, *pixels, "--baselines"), "nothing to measure"),
        (("--model", "none", *given, "--metrics", "bounds"), "nothing to measure"),
        (("--model", model, *given, *pixels, "--temperature", "--baselines"), "nothing to measure"),
        (("--model", "none", *given, *pixels, "--completions", "mine"), "expected NAME=FOLDER"),
        (
            ("--model", "none", *given, *pixels, "--completions", f"mine={tmp_path / 'no'}"),
            "is not a folder of completions",
        ),
        (("--model", "none", *given, *pixels, "--shard", "3/2"), "expected I/N"),
        (("--model", "none", "--data", tmp_path / "no", *given[2:], *pixels), "does not exist"),
        (("--model", tmp_path / "no.safetensors", *given, *pixels), "does not exist"),
        (("--model", tmp_path / "vae.safetensors", *given, *pixels), "is an unconditional VAE"),
        (("--model", model, *given, *pixels, "--size", "16"), "run makes 32 x 32 x 3"),
        (("--model", model, *given, *pixels, "--against", rival), "ce makes 16 x 16 x 3: give data of this size, or"),
        (("--model", model, *given, *pixels, "--against", tmp_path / "vae.safetensors"), "is an unconditional VAE"),
        (("--model", "none", *given, *pixels, "--against", tmp_path / "no.safetensors"), "does not exist"),
        (("--model", model, *given, *pixels, "--temperature", "hot"), "the temperature 'hot' cannot be read"),
        (("--model", "none", *given, *pixels, "--image-groups", tmp_path / "no"), "the groups in"),
        (("--model", "none", *given, *pixels, "--image-groups", groups), "matches none of the 32 test images"),
        (("--model", "none", *unnamed, *pixels, "--image-groups", groups), "the test images have no names"),
        (("--model", "none", "--redraw", tmp_path / "no"), "holds no results.json"),
    ):
        assert message in failure(capsys, "evaluate", *arguments)
        assert not out.exists()
