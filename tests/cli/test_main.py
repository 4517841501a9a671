import json
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.fixtures import FIXTURES
from helpers.models import small_conditional

from condvae import save
from condvae.cli import main

PARITY = FIXTURES / "parity"
TINY_LAYERS = ["--encoder", "8x2,8d2,4x1,4d4,1x1", "--decoder", "1x1,4m1,4x1,8m4,8x2"]
TINY_LAYERS += ["--bits", "8", "--shift", "-120.63838", "--scale", "0.015584247193588766"]


def failure(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    """What a call that must fail says: one sentence, with exit code 2."""
    with pytest.raises(SystemExit) as stopped:
        main([str(argument) for argument in arguments])
    assert stopped.value.code == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("condvae: ")
    assert len(captured.err.strip().splitlines()) == 1
    assert captured.out == ""
    return captured.err


def test_a_checkpoint_is_imported_and_described(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "deep" / "model.safetensors"
    main(["import", str(PARITY / "tiny8" / "official_ipa.th"), str(out), *TINY_LAYERS])
    assert capsys.readouterr().out == f"wrote {out}\n"
    main(["info", str(out)])
    text = capsys.readouterr().out
    assert "conditional VAE" in text
    assert "3 x 8 x 8" in text
    assert "latent groups 6: 1 at 1, 2 at 4, 3 at 8" in text
    assert "official_ipa.th" in text
    main(["info", str(out), "--json"])
    header = json.loads(capsys.readouterr().out)
    assert header["record"] == {"imported_from": "official_ipa.th"}
    assert header["config"]["normalisation"]["shift"] == -120.63838


def test_bad_input_is_one_sentence_and_exit_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    checkpoint, out = PARITY / "tiny8" / "official_ipa.th", tmp_path / "out.safetensors"
    assert "does not exist" in failure(capsys, "import", tmp_path / "none.th", out)
    assert "name a preset" in failure(capsys, "import", checkpoint, out)
    assert "unknown preset 'cifar'" in failure(capsys, "import", checkpoint, out, "--preset", "cifar")
    assert "lacks artifact." in failure(capsys, "import", checkpoint, out, "--preset", "cifar10")
    for some in (TINY_LAYERS[:2], TINY_LAYERS[:4], TINY_LAYERS[:8], ["--bits", "5", "--preset", "cifar10"]):
        assert "or all of --encoder" in failure(capsys, "import", checkpoint, out, *some)
    assert "end in .safetensors" in failure(capsys, "import", checkpoint, tmp_path / "out.th", *TINY_LAYERS)
    assert "not a whole .safetensors" in failure(capsys, "info", checkpoint)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("in the way")
    message = failure(
        capsys, "import", PARITY / "tiny8" / "official_ipa.th", tmp_path / "file" / "x.safetensors", *TINY_LAYERS
    )
    assert "file" in message


def test_the_installed_command_and_the_module_are_the_same(tmp_path: Path) -> None:
    save(small_conditional(), tmp_path / "model.safetensors")
    command = Path(sys.executable).with_name("condvae")
    outputs = [
        subprocess.run([*program, "info", tmp_path / "model.safetensors"], capture_output=True, check=True).stdout
        for program in ([command], [sys.executable, "-m", "condvae"])
    ]
    assert outputs[0] == outputs[1] != b""


def test_help_is_quick_because_torch_stays_out() -> None:
    program = "import sys, condvae, condvae.cli; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_help_shows_the_defaults_of_the_library() -> None:
    from condvae.cli.complete import Complete
    from condvae.sampling.sampler import DEFAULT_PIXELS, DEFAULT_TEMPERATURE

    assert (float(Complete().temperature), Complete().pixels) == (DEFAULT_TEMPERATURE, DEFAULT_PIXELS)


def test_memory_that_runs_out_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from condvae.cli.complete import Complete
    from condvae.cli.ood_experiment import OODExperiment
    from condvae.cli.ood_score import OODScore

    def run(self: object) -> None:
        raise MemoryError

    monkeypatch.setattr(Complete, "run", run)
    assert "not enough memory: give a smaller -n" in failure(capsys, "complete", "x.png")
    monkeypatch.setattr(OODExperiment, "run", run)
    assert "memory: give a smaller --block, or smaller or" in failure(capsys, "ood", "experiment", "--data", "x")
    monkeypatch.setattr(OODScore, "run", run)  # which has no such option
    assert "not enough memory: give smaller or fewer images" in failure(capsys, "ood", "score", "x.png")


def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    command = f"{sys.executable} -m condvae info --json | head -c 10"
    done = subprocess.run(["bash", "-c", command], capture_output=True, check=True)
    assert (len(done.stdout), done.stderr) == (10, b"")


def test_a_list_that_is_given_twice_loses_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given: list[str | Path] = ["ood", "experiment", "--data", tmp_path, "--against", "a=x", "--against", "b=y"]
    assert "--against was given twice: give it once" in failure(capsys, *given)
