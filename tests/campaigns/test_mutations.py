"""A short version of the campaign: a few hundred inputs, and what the long one has found."""

import json
from pathlib import Path

import pytest
from campaigns.mutations import outcome, tally_of
from helpers.file_readers import READERS, damaged, records, zips

INPUTS = 1_000


def test_the_undamaged_files_are_read(tmp_path: Path) -> None:
    for name, reader in READERS.items():
        for content in reader.seeds():
            assert outcome(name, content, tmp_path) == ("read", ""), name


def test_inputs_depend_only_on_seed_and_index() -> None:
    again = [damaged(3, index) for index in reversed(range(0, 1000, 7))]
    assert [damaged(3, index) for index in range(0, 1000, 7)] == again[::-1]
    assert sum(reader.share for reader in READERS.values()) == 1000
    assert min(reader.share for reader in READERS.values()) >= 20


@pytest.mark.filterwarnings("ignore")  # of Pillow and zipfile, about the damage
def test_damaged_files_are_read_or_refused_in_one_sentence(tmp_path: Path) -> None:
    found = tally_of(7, range(INPUTS), tmp_path)
    assert found.finds == []
    assert sum(found.counts.values()) == INPUTS
    refused = sum(count for what, count in found.counts.items() if what.endswith("refused"))
    assert INPUTS // 4 < refused < INPUTS  # the damage is neither harmless nor noticed at once


def with_box(record: bytes, *box: object) -> bytes:
    return json.dumps({**json.loads(record), "hidden": {"way": "box", "box": box}}).encode()


def test_finds_of_the_campaign(tmp_path: Path) -> None:
    """Each of these was once an exception of another type, or a message of thousands of characters."""
    record, archive = records()[0], bytearray(zips()[1])
    directory = archive.rindex(b"PK\x01\x02")
    archive[directory + 28 : directory + 34] = b"\0\0\0\0\x05\0"  # the name of the last file becomes a comment
    inputs = {
        "a box of many numbers": ("record", with_box(record, *[0, 0, 4, 4] * 40)),
        "a box that contains a record": ("record", with_box(record, 0, json.loads(record), 4, 4)),
        "a box that contains a long text": ("record", with_box(record, 0, 0, "x" * 20_000, 4)),
        "a file without a name in a zip": ("zip", bytes(archive)),
    }
    for what, (reader, content) in inputs.items():
        assert outcome(reader, content, tmp_path)[0] != "find", what
