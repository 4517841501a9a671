"""The run folder: files of the user in it stay, and its own are written completely or not at all."""

from pathlib import Path

import pytest
from PIL import Image

from condvae.training.options import PretrainOptions
from condvae.training.run_folder import RunFolder


def test_temporary_files_of_killed_runs_are_removed_and_files_of_the_user_stay(tmp_path: Path) -> None:
    ours = (".model.safetensors.1-0123abcd.part", "sheets/.step-000000004.png.01234567-1-0123abcd.part")
    users = (".holiday.part", "sheets/.notes.part", "notes.txt")
    (tmp_path / "sheets").mkdir()
    for name in (*ours, *users):
        (tmp_path / name).write_text("half")
    folder = RunFolder(tmp_path)
    folder.claim(PretrainOptions(data=(Path("data"),), out=tmp_path, steps=1), data="data", resume=False)
    folder.release()
    assert not any((tmp_path / name).exists() for name in ours)
    assert all((tmp_path / name).exists() for name in users)


def test_a_sheet_is_replaced_only_by_a_whole_one(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.write_sheet(4, Image.new("RGB", (3, 2)))
    before = (tmp_path / "sheets" / "step-000000004.png").read_bytes()
    with pytest.raises(OSError, match="CMYK"):
        folder.write_sheet(4, Image.new("CMYK", (3, 2)))  # Pillow fails after it has opened the file
    assert [path.name for path in (tmp_path / "sheets").iterdir()] == ["step-000000004.png"]
    assert (tmp_path / "sheets" / "step-000000004.png").read_bytes() == before


def test_a_new_run_replaces_no_files_of_the_user(tmp_path: Path) -> None:
    options = PretrainOptions(data=(Path("data"),), out=tmp_path / "out", steps=1)
    names = ("log.jsonl", "options.json", "sheets/step-000000000.png", "init.safetensors", "artifact.safetensors")
    for name in (*names, "best.safetensors", "model.safetensors", "snapshots/step-000000004.safetensors"):
        file = tmp_path / name.replace("/", "-") / name
        file.parent.mkdir(parents=True)
        file.write_text('{"verb": "speak"}')
        for resume in (False, True):
            folder = RunFolder(tmp_path / name.replace("/", "-"))
            with pytest.raises(ValueError, match=f"contains {name} but no checkpoint to resume from: choose another"):
                folder.check_same_run(options, resume=resume)
        assert [path for path in folder.path.rglob("*") if path.is_file()] == [file]
        assert file.read_text() == '{"verb": "speak"}'


@pytest.mark.parametrize("log", [None, "", '{"eve', '{"event": "start", "step": 0}\n{"event"'])
def test_a_run_killed_before_its_first_checkpoint_can_be_started_again(tmp_path: Path, log: str | None) -> None:
    options = PretrainOptions(data=(Path("data"),), out=tmp_path, steps=1)
    killed = RunFolder(tmp_path)
    killed.claim(options, data="data", resume=False)
    killed.release()
    (tmp_path / "init.safetensors").write_text("a copy")
    if log is not None:
        (tmp_path / "log.jsonl").write_text(log)
    for resume in (False, True):
        RunFolder(tmp_path).check_same_run(options, resume=resume)
    (tmp_path / "log.jsonl").write_text('{"mine": 1}')
    with pytest.raises(ValueError, match=r"contains log\.jsonl but no checkpoint"):
        RunFolder(tmp_path).check_same_run(options, resume=True)
