import struct
import warnings
import zipfile
from pathlib import Path

import pytest

from condvae.runtime.zip_members import opened_zip, read_member


def zipped(path: Path, *names: str, content: bytes = b"content", method: int = zipfile.ZIP_DEFLATED) -> Path:
    with warnings.catch_warnings(), zipfile.ZipFile(path, "w", method) as archive:
        warnings.simplefilter("ignore")  # zipfile warns about equal names
        for name in names:
            archive.writestr(name, content)
    return path


def with_field(path: Path, at: int, value: bytes) -> Path:
    """Change a field of the first entry in the directory of a zip file."""
    content = bytearray(path.read_bytes())
    start = content.index(b"PK\x01\x02") + at
    content[start : start + len(value)] = value
    path.write_bytes(content)
    return path


def refusal(path: Path, most: int = 2**20) -> str:
    with pytest.raises(ValueError, match=r"it|CRC") as refused, opened_zip(path) as archive:
        read_member(archive, "a", most=most)
    return str(refused.value)


def test_a_member_is_read(tmp_path: Path) -> None:
    with opened_zip(zipped(tmp_path / "a.zip", "a", "b")) as archive:
        assert read_member(archive, "a", most=7) == b"content"
        with pytest.raises(ValueError, match="it has 7 bytes, expected at most 6"):
            read_member(archive, "b", most=6)


def test_a_name_that_occurs_twice_is_refused(tmp_path: Path) -> None:
    assert refusal(zipped(tmp_path / "a.zip", "a", "b", "a")) == "it contains two files named a"


def test_bombs_are_refused_without_inflating_them(tmp_path: Path) -> None:
    path = with_field(zipped(tmp_path / "a.zip", "a"), 24, struct.pack("<I", 3 * 10**9))
    assert "it has 3,000,000,000 bytes, expected at most" in refusal(path)
    assert "it would inflate to 3,000,000,000 bytes" in refusal(path, most=2**40)
    # The directory states 10 bytes, but there are ten million.
    path = with_field(zipped(tmp_path / "b.zip", "a", content=bytes(10**7)), 24, struct.pack("<I", 10))
    assert "CRC" in refusal(path)


def test_members_that_cannot_be_read_are_refused_in_words(tmp_path: Path) -> None:
    assert refusal(with_field(zipped(tmp_path / "a.zip", "a"), 8, b"\x01\x00")) == "it is encrypted"
    assert "another method than deflate" in refusal(zipped(tmp_path / "b.zip", "a", method=zipfile.ZIP_LZMA))
    with pytest.raises(ValueError, match="not a zip file"), opened_zip(Path(__file__)):
        pass
