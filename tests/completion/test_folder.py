"""The output folder of `condvae complete`: what it replaces, what it keeps, and in which formats it writes."""

import json
import shutil
from pathlib import Path

import pytest
from helpers.commands import refused
from helpers.pictures_to_complete import contents, photo
from PIL import Image

from condvae.cli import main
from condvae.completion.folder import CompletionFolder


def test_the_files_of_an_earlier_call_are_replaced_and_other_files_stay(tmp_path: Path, model: list[str]) -> None:
    out = tmp_path / "out"
    words = ["complete", str(photo(tmp_path / "x.png")), *model, "--half", "left", "-o", str(out)]
    main([*words, "-n", "5"])
    (out / "mine.png").write_bytes(b"mine")
    plain = json.loads((out / "record.json").read_text())
    plain["sheets"] += ["../x.png", "mine.txt", 5]  # files outside the folder must not be removed
    (out / "record.json").write_text(json.dumps(plain))
    main([*words, "-n", "2"])
    assert sorted(contents(out)) == ["001-x-1.png", "001-x-2.png", "mine.png", "sheet.png"]
    assert (tmp_path / "x.png").is_file()


def test_without_out_every_call_writes_to_a_new_folder(
    tmp_path: Path, model: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["complete", ".", *model, "--half", "left", "-n", "1"]
    photo(tmp_path / "x.png")
    for seed in ("0", "1"):
        main([*words, "--seed", seed])  # what the first call has written is not completed by the second
    assert capsys.readouterr().out.endswith("wrote completions-2/sheet.png\n")
    assert sorted(contents(tmp_path / "completions")) == ["001-x-1.png", "sheet.png"]
    assert sorted(contents(tmp_path / "completions-2")) == ["001-x-1.png", "sheet.png"]
    assert contents(tmp_path / "completions") != contents(tmp_path / "completions-2")
    main(["complete", "completions", *model, "--half", "left", "-n", "1"])
    assert sorted(contents(tmp_path / "completions-3")) == ["001-001-x-1-1.png", "sheet.png"]  # not of the sheet
    main(["complete", "x.png", *model, "--half", "left", "-n", "1", "-o", "completions"])
    assert "replaced the 3 files of an earlier call in completions\n" in capsys.readouterr().out


def test_pictures_can_be_written_in_other_formats(
    tmp_path: Path, model: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    words = [str(photo(tmp_path / "x.png", 20, 26)), *model, "--half", "left", "-n", "1"]
    for name in ("png", "webp"):
        main(["complete", *words, "--keep-size", "--format", name, "-o", str(tmp_path / name)])
    with Image.open(tmp_path / "png" / "001-x-1.png") as png, Image.open(tmp_path / "webp" / "001-x-1.webp") as webp:
        assert webp.format == "WEBP" and webp.convert("RGB").tobytes() == png.tobytes()
    main(["complete", *words, "--format", "jpg", "-o", str(tmp_path / "jpg")])
    main(["complete", "--repeat", str(tmp_path / "jpg"), "-o", str(tmp_path / "again")])
    first, again = ((tmp_path / name / "001-x-1.jpg").read_bytes() for name in ("jpg", "again"))
    assert first == again and first[:2] == b"\xff\xd8"
    error = refused([*words, "--keep-size", "--format", "jpg"], tmp_path / "never", capsys)
    assert "jpg changes all pixels a little" in error and "choose the format png or webp" in error
    record = tmp_path / "png" / "record.json"
    plain = json.loads(record.read_text())
    assert plain.pop("picture_format") == "png"
    record.write_text(json.dumps(plain))  # as an earlier version wrote it
    main(["complete", "--repeat", str(record), "-o", str(tmp_path / "old")])
    assert contents(tmp_path / "old") == contents(tmp_path / "png")


def test_all_contact_sheets_are_reported(
    tmp_path: Path, model: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("condvae.completion.folder._ROWS", 1)
    words = [str(photo(tmp_path / f"{i}.png", seed=i)) for i in range(4)]
    out = tmp_path / "out"
    main(["complete", *words[:2], *model, "--half", "left", "-n", "1", "-o", str(out)])
    assert f"wrote {out}/sheet.png and {out}/sheet-2.png\n" in capsys.readouterr().out
    main(["complete", *words, *model, "--half", "left", "-n", "1", "-o", str(out)])
    assert f"wrote {out}/sheet.png to {out}/sheet-4.png\n" in capsys.readouterr().out


def test_a_folder_in_use_is_refused_before_anything_is_computed(
    tmp_path: Path, model: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("condvae.sampling.sampler.Sampler.draw", lambda *given, **named: pytest.fail("drawn"))
    words = [str(photo(tmp_path / "x.png")), *model, "--half", "left"]
    with CompletionFolder(tmp_path / "out"):
        message = refused(words, tmp_path / "out", capsys)
    assert f"another condvae call is writing to {tmp_path / 'out'}: wait for it, or give another folder" in message


def test_other_files_are_not_overwritten(tmp_path: Path, model: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    words = [str(photo(tmp_path / "x.png")), *model, "--half", "left", "-n", "2"]
    for name in ("sheet.png", "001-x-2.png", "record.json"):
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        (out / name).write_text("mine")
        message = refused(words, out, capsys)
        assert f"{name} already exists and is not from an earlier call: give another folder" in message
        assert [(path.name, path.read_text()) for path in out.iterdir()] == [(name, "mine")]
