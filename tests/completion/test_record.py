"""`condvae complete --repeat`: a record repeats its call byte for byte, or says why it cannot."""

import json
from pathlib import Path

import numpy as np
import pytest
from helpers.commands import refused
from helpers.models import small_conditional
from helpers.pictures_to_complete import contents, levels, photo
from PIL import Image

from condvae import save
from condvae.cli import main


@pytest.mark.parametrize(
    "how",
    [
        ["--random", "--seed", "3"],
        ["--half", "top", "--temperature", "8:0.7", "--share", "1"],
        ["--hole", "masks", "--pixels", "sample", "--keep-size"],
        ["--known", "masks/x.png", "--temperature", "1,0.9,0.8,0.7"],
    ],
)
def test_a_record_repeats_the_call(
    tmp_path: Path, model: list[str], how: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("masks").mkdir()
    words = []
    for i, name in enumerate(("x", "y")):
        words.append(str(photo(Path(f"{name}.png"), 20, 26, seed=i)))
        Image.fromarray((levels(20, 26, 1, seed=i)[:, :, 0] > 100).astype(np.uint8) * 255).save(f"masks/{name}.png")
    main(["complete", *words, *model, *how, "-n", "3", "-o", "out"])
    elsewhere = tmp_path / "deep" / "down"
    elsewhere.mkdir(parents=True)
    monkeypatch.chdir(elsewhere)  # paths in a record do not depend on the current folder
    main(["complete", "--repeat", "../../out/record.json", "-o", "again", "--chunk", "1"])
    assert contents(elsewhere / "again") == contents(tmp_path / "out") != {}
    main(["complete", "--repeat", "again", "-o", "thrice"])
    assert contents(elsewhere / "thrice") == contents(tmp_path / "out")


def test_a_record_is_not_repeated_with_other_files(
    tmp_path: Path, model: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    path, mask = photo(tmp_path / "x.png"), tmp_path / "mask.png"
    Image.fromarray(levels(20, 20, 1)[:, :, 0]).point(lambda level: 255 * (level > 99)).save(mask)
    main(["complete", str(path), "--hole", str(mask), *model, "-n", "1", "-o", str(tmp_path / "out")])
    record, again = tmp_path / "out" / "record.json", tmp_path / "again"
    words = ["--repeat", str(record)]
    for changed in (path, mask, Path(model[1])):
        kept = changed.read_bytes()
        if changed.suffix == ".png":
            photo(changed, seed=5)
        else:
            save(small_conditional(), changed)
        assert f"{changed.name} is not the file that the record was made with" in refused(words, again, capsys)
        changed.write_bytes(kept)
    path.rename(tmp_path / "y.png")
    assert "x.png does not exist: check the path" in refused(words, again, capsys)
    (tmp_path / "y.png").rename(path)
    # Other versions are reported, but the call is repeated.
    plain = json.loads(record.read_text())
    plain["versions"]["torch"] = "1.0"
    record.write_text(json.dumps(plain))
    main(["complete", *words, "-o", str(again)])
    assert "was made with torch 1.0 (here" in capsys.readouterr().out
    for damage, message in (
        ({"format": "x"}, "not a record of completions"),
        ({"format_version": 9}, "format version 9, but this version of condvae reads only format versions up to 2"),
        ({"n": 0}, "number of completions is 0"),
        ({"temperature": "x"}, "damaged"),
        ({"hidden": 5}, "damaged"),
        ({"model": None}, "as Python objects"),
        ({"images": [{}]}, "damaged"),
        ({"images": []}, "lists no images"),
        ({"model": {"name": 5, "sha256": ""}}, "damaged (TypeError: found 5 where text was expected)"),
        ({"model": {**plain["model"], "sha256": None}}, "None where text was expected"),
        (
            {"images": [{**plain["images"][0], "image": {"path": "../x.png", "sha256": None}}]},
            "None where text was expected",
        ),
        ({"images": [{**plain["images"][0], "hidden_by": None}]}, "were given as Python objects"),
        ({"hidden": {"way": "half", "half": "left"}}, "contradict each other about how the hidden pixels"),
        ({"hidden": {"way": "hole", "half": "left"}}, "2 ways, hole and half"),
        ({"hidden": {"way": "nonsense"}}, "contradict each other about how the hidden pixels"),
    ):
        record.write_text(json.dumps({**plain, **damage}))
        assert message in refused(words, tmp_path / "never", capsys)
    record.write_text("{")
    assert "not valid JSON" in refused(words, tmp_path / "never", capsys)
    record.unlink()
    assert "record.json cannot be read" in refused(words, tmp_path / "never", capsys)
    assert "--half was given with --repeat" in refused([*words, "--half", "left"], tmp_path / "never", capsys)
    assert "images were given with --repeat" in refused([str(path), *words], tmp_path / "never", capsys)
