"""Nothing that is printed can fail or control the terminal."""

import io
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.commands import failure
from helpers.models import SMALLEST, small_conditional, small_vae
from PIL import Image

from condvae import save
from condvae.cli import main, terminal
from condvae.cli.terminal import SafeStream


def written(text: str, encoding: str = "utf-8") -> str:
    binary = io.BytesIO()
    stream = io.TextIOWrapper(binary, encoding=encoding, newline="")
    SafeStream(stream).write(text)
    stream.flush()
    return binary.getvalue().decode(encoding)


def test_control_codes_are_replaced_except_those_of_progress_lines() -> None:
    assert written("a\x1b[2Jb\x07\x9b\u202e\ud800\tc\rd\n") == "a?[2Jb????\tc?d\n"
    assert written("\r\x1b[K10 of 20") == "\r\x1b[K10 of 20"
    assert written("\n\x1b[K") == "\n?[K"


def test_text_that_the_encoding_lacks_is_replaced() -> None:
    assert written("1.5 ± 0.2 \u4e2d", "ascii") == "1.5 +- 0.2 ?"
    assert written("1.5 ± 0.2", "latin1") == "1.5 ± 0.2"


def test_compare_prints_all_numbers_in_ascii(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        for i in range(2):
            Image.new("RGB", (8, 8), (i, 2 * i, len(folder))).save(tmp_path / folder / f"{i}.png")
    binary = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(binary, encoding="ascii", write_through=True))
    main(["compare", str(tmp_path / "a"), str(tmp_path / "b"), "--metrics", "psnr"])
    assert b"+-" in binary.getvalue()


def test_closed_streams_are_opened() -> None:
    module = f"import runpy; module = runpy.run_path('{terminal.__file__}')"  # without the imports of the verbs
    code = f"{module}; module['open_closed_streams'](); print(open('{__file__}').fileno())"
    done = subprocess.run(["bash", "-c", f'{sys.executable} -c "{code}" 2>&-'], capture_output=True, check=True)
    assert int(done.stdout) > 2  # the next file does not get the number of stderr


def test_messages_need_no_stderr(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, out = tmp_path / "model.safetensors", tmp_path / "out"
    save(small_conditional(SMALLEST), path)
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    monkeypatch.setattr(sys, "stderr", None)
    main(["complete", str(tmp_path / "a.png"), "--half", "left", "--model", str(path), "-n", "1", "-o", str(out)])
    assert (out / "record.json").is_file()
    with pytest.raises(SystemExit) as stopped:
        main(["info", str(tmp_path / "nothing")])
    assert stopped.value.code == 2 and sys.stderr is None


def test_help_in_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "5")
    with pytest.raises(SystemExit):
        main(["sample", "--help"])
    assert "--temperature" in capsys.readouterr().out


def test_names_and_records_do_not_control_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "m\x1b[31m.safetensors"
    save(small_vae(SMALLEST), path, record={"data": "x\x1b[2Jy", "k\x1b[3J": ["\x9b1m"], "nested": {"a\rb": "\u202e"}})
    for words in (["info", str(path)], ["info", str(path), "--json"]):
        main(words)
        printed = capsys.readouterr().out
        assert all(letter.isprintable() or letter == "\n" for letter in printed)
        assert "x?[2Jy" in printed or "x\\u001b[2Jy" in printed
    message = failure(capsys, "complete", str(tmp_path / "a\x1b[2J.png"), "--model", str(path), "--half", "left")
    assert "\x1b" not in message
