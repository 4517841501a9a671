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
