import os
from pathlib import Path

import pytest

from condvae.runtime.folders import read_json
from condvae.runtime.json_reading import MOST_JSON_BYTES, parse_json, read_json_file


@pytest.mark.parametrize("deep", [60, 900, 300_000])
def test_deep_nesting_is_refused(deep: int) -> None:
    for text in ("[" * deep + "]" * deep, '{"a":' * deep + "0" + "}" * deep):
        with pytest.raises(ValueError, match="nested more than 40 levels deep"):
            parse_json(text)


def test_ordinary_json_is_read() -> None:
    assert parse_json('{"a": [1, [2.5, {"b": null}]], "seed": 18446744073709551615}') == {
        "a": [1, [2.5, {"b": None}]],
        "seed": 2**64 - 1,
    }
    assert parse_json("[" * 40 + "]" * 40) is not None


def test_numbers_that_floats_cannot_hold_are_refused() -> None:
    with pytest.raises(ValueError, match="a whole number of 400 digits") as refused:
        parse_json("[" + "9" * 400 + "]")
    assert len(str(refused.value)) < 200


def test_a_file_is_read_up_to_a_limit(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"format": "x"}')
    assert read_json(path, format="x") == {"format": "x"}
    os.truncate(path, 2**32)  # the end is a hole in the file, which takes no disk space
    with pytest.raises(ValueError, match=f"larger than {MOST_JSON_BYTES // 2**20} MiB"):
        read_json_file(path)
    assert read_json(path, format="x") is None
