"""`condvae complete`: completing files and folders, and repeating a call byte for byte from its record."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.models import small_conditional, small_vae
from helpers.pictures_to_complete import levels, model_file, photo
from helpers.processes import CONDVAE, started, to_the_end
from PIL import Image

from condvae import save
from condvae.cli import main
from condvae.completion.folder import CompletionFolder
from condvae.conditional import ConditionalVAE, PartialConfig
from condvae.images.reading import Picture, read_picture
from condvae.observe import Edges


@pytest.fixture
def model(tmp_path: Path) -> list[str]:
    return ["--model", str(model_file(tmp_path))]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix == ".png"}


def refused(words: list[str], out: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Run a call that must fail, check that it writes nothing, and return its error message, which is one line."""
    capsys.readouterr()
    before = sorted(path.name for path in out.parent.iterdir())
    with pytest.raises(SystemExit) as stopped:
        main(["complete", *words, "-o", str(out)])
    assert stopped.value.code == 2
    error = capsys.readouterr().err.strip()
    assert error.startswith("condvae: ") and len(error.splitlines()) == 1
    assert sorted(path.name for path in out.parent.iterdir()) == before
    return error


def test_files_of_the_same_name_get_different_outputs(
    tmp_path: Path, model: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    words = [str(photo(tmp_path / folder / "x.png", seed=i)) for i, folder in enumerate(("a", "b"))]
    main(["complete", *words, *model, "--box", "2,3,9,8", "-n", "2", "-o", str(tmp_path / "out")])
    pictures = contents(tmp_path / "out")
    assert sorted(pictures) == ["001-x-1.png", "001-x-2.png", "002-x-1.png", "002-x-2.png", "sheet.png"]
    assert len(set(pictures.values())) == 5
    printed = capsys.readouterr().out
    assert "x.png is 20 x 20: it is resized to 8 x 8" in printed
    # A picture's completions do not depend on the other pictures of the call.
    main(["complete", words[1], *model, "--box", "2,3,9,8", "-n", "1", "-o", str(tmp_path / "one")])
    assert contents(tmp_path / "one")["001-x-1.png"] == pictures["002-x-1.png"]


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


def test_sixteen_bit_images_are_completed_at_their_bit_depth_or_the_given_one(
    tmp_path: Path, model: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    grey = levels(8, 8)[:, :, 0]
    Image.fromarray(grey).save(tmp_path / "8.png")
    Image.fromarray(np.round(grey * (4095 / 255)).astype(np.uint16)).save(tmp_path / "12.png")
    made = {}
    for name, words in (("8", []), ("12", []), ("12", ["--white", "65535"])):
        out = tmp_path / f"out-{name}{len(words)}"
        main(["complete", str(tmp_path / f"{name}.png"), "--half", "left", *model, "-n", "1", *words, "-o", str(out)])
        noted = capsys.readouterr().out.startswith(f"{tmp_path / '12.png'} has 16-bit pixels")
        made[out.name] = noted, contents(out)[f"001-{name}-1.png"]
    assert [noted for noted, _ in made.values()] == [False, True, False]
    assert made["out-80"][1] == made["out-120"][1] != made["out-122"][1]
    # The record says what was white, and repeating the call uses it.
    assert json.loads((tmp_path / "out-122" / "record.json").read_text())["white"] == 65_535
    main(["complete", "--repeat", str(tmp_path / "out-122"), "-o", str(tmp_path / "again")])
    assert contents(tmp_path / "again") == contents(tmp_path / "out-122")
    words = [str(tmp_path / "12.png"), "--half", "left", *model, "--white", "0"]
    assert "the level of white is 0, expected a whole number, at least 1" in refused(words, tmp_path / "none", capsys)


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


def test_pipes_are_rejected_without_waiting(
    tmp_path: Path, model: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    out, pipe = tmp_path / "out", tmp_path / "out" / "record.json"
    out.mkdir()
    os.mkfifo(pipe)
    good = str(photo(tmp_path / "x.png"))
    assert "record.json is not a regular file" in refused(["--repeat", str(pipe)], tmp_path / "never", capsys)
    assert "record.json already exists" in refused([good, *model, "--half", "left"], out, capsys)
    for words in ([str(pipe), "--half", "left"], [good, "--hole", str(pipe)]):
        assert "record.json is not a regular file" in refused([*words, *model], tmp_path / "never", capsys)


def test_circular_links_are_skipped_or_rejected(
    tmp_path: Path, model: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "photos"
    folder.mkdir()
    circle = folder / "circle.png"
    circle.symlink_to(circle.name)
    (folder / "up").symlink_to("..")
    photo(folder / "x.png")
    words = [*model, "--half", "left", "-n", "1"]
    assert "symbolic links" in refused([str(circle), *words], tmp_path / "never", capsys)
    main(["complete", str(folder), *words, "-o", str(tmp_path / "out")])
    assert sorted(contents(tmp_path / "out")) == ["001-x-1.png", "sheet.png"]
    assert "cannot be written to" in refused([str(folder / "x.png"), *words], circle, capsys)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_leaves_no_files_behind(tmp_path: Path, model: list[str], number: int, code: int) -> None:
    words = [
        str(photo(tmp_path / "x.png")),
        *model,
        "--half",
        "left",
        "-n",
        "10000",
        "-o",
        str(tmp_path / "deep" / "out"),
    ]
    with started(CONDVAE, "complete", *words, said=tmp_path / "said") as process:
        while not list(tmp_path.glob("deep/out/.unfinished-*")) and process.is_alive():
            time.sleep(0.01)
        assert process.pid is not None
        os.kill(process.pid, number)
        assert to_the_end(process, tmp_path / "said", expect=code).endswith("condvae: interrupted\n")
    assert not (tmp_path / "deep").exists()


def test_the_output_folder_is_not_read_as_input(
    tmp_path: Path, model: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "photos"
    folder.mkdir()
    photo(folder / "x.png")
    message = refused([str(folder), *model, "--half", "left"], folder, capsys)
    assert "photos are in the --out folder, which is not read: give another --out" in message


def test_a_folder_with_bad_files(tmp_path: Path, model: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "photos"
    (folder / "inside").mkdir(parents=True)
    for i in range(26):
        photo(folder / "inside" / f"{i:02}.png", 8, 8, seed=i)
    (folder / "bad.png").write_text("no picture")
    (folder / "empty.jpg").touch()
    words = ["complete", str(folder), *model, "--half", "left", "-n", "1"]
    out = folder / "out"
    main([*words, "-o", str(out)])
    printed = capsys.readouterr().out
    assert "skipped 2 of 28 files:" in printed and "bad.png is not an image" in printed and "empty.jpg" in printed
    assert len(contents(out)) == 26 + 2 and "sheet-2.png" in contents(out)
    first = contents(out)
    main([*words, "-o", str(out)])  # the output folder is not read as input
    assert contents(out) == first
    only = tmp_path / "only"
    only.mkdir()
    assert "only holds no images" in refused([str(only), *model, "--half", "left"], tmp_path / "never", capsys)
    shutil.copy(folder / "bad.png", only)
    message = refused([str(only), *model, "--half", "left"], tmp_path / "never", capsys)
    assert "the only image could not be completed" in message and "bad.png is not an image" in message


def test_many_notes_are_counted_and_a_file_is_completed_once(
    tmp_path: Path, model: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    words = [str(photo(tmp_path / f"{i}.png", seed=i)) for i in range(8)]
    main(["complete", *words, words[0], *model, "--half", "left", "-n", "1", "-o", str(tmp_path / "out")])
    printed = capsys.readouterr().out
    assert printed.count("is resized to") == 5 and "similar notes apply to 3 more images" in printed
    assert "0.png was named twice: it is completed once" in printed
    assert len(contents(tmp_path / "out")) == 9


def test_an_edge_model_needs_no_hole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "edges.safetensors"
    save(ConditionalVAE(small_vae(), PartialConfig(channels=3), process=Edges()), path)
    words = [str(photo(tmp_path / "x.png")), "--model", str(path), "-n", "2"]
    main(["complete", *words, "-o", str(tmp_path / "out")])
    assert len(contents(tmp_path / "out")) == 3
    assert "does not complete holes" in refused([*words, "--half", "left"], tmp_path / "never", capsys)


def test_wrong_input_is_reported_in_one_sentence_and_nothing_is_written(
    tmp_path: Path, model: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    save(small_vae(), tmp_path / "vae.safetensors")
    good, half = str(photo(tmp_path / "x.png")), ["--half", "left"]
    (tmp_path / "text.png").write_text("no picture")
    text = str(tmp_path / "text.png")
    small = str(photo(tmp_path / "small.png", 8, 8))
    out = tmp_path / "out"
    for words, message in (
        ([*model, *half], "no images were given"),
        ([good, *model], "has no transparent pixels, so specify which are hidden"),
        ([good, *half, "--model", str(tmp_path / "vae.safetensors")], "unconditional VAE"),
        ([good, *half, "--model", "nonsense"], "unknown model 'nonsense'"),
        ([good, *model, "--box", "1,2,3"], "four whole numbers"),
        ([good, *model, "--box", "1,2,3,19"], "does not lie in"),
        ([good, *model, "--box", "1,2,3,4", *half], "2 ways, box and half"),
        ([good, *model, "--random", "--hole", small], "2 ways, hole and random"),
        ([good, *model, "--hole", small], "small.png is 8 x 8 but"),
        ([good, *model, "--known", text], "text.png is not an image"),
        ([text, *model, *half], "text.png is not an image"),
        ([good, text, *model, *half], "text.png is not an image"),
        ([str(tmp_path / "none.png"), *model, *half], "none.png does not exist"),
        ([good, *model, *half, "-n", "0"], "number of completions is 0"),
        ([good, *model, *half, "-n", "99999999"], "at most 10000"),
        ([good, *model, *half, "--seed", "-1"], "the seed is -1"),
        ([good, *model, *half, "--temperature", "nan"], "temperature"),
        ([good, *model, *half, "--temperature", "warm"], "temperature 'warm' cannot be read"),
        ([good, *model, *half, "--temperature", "5:1"], "for resolution 5, but this model has 4 latent groups"),
        ([good, *model, *half, "--share", "2"], "no latents at resolution 2"),
        ([good, *model, *half, "--chunk", "0"], "the chunk is 0"),
    ):
        assert message in refused(words, out, capsys)
    if not torch.cuda.is_available():
        assert "no GPU" in refused([good, *model, *half, "--device", "cuda"], out, capsys)
    in_the_way = tmp_path / "file"
    in_the_way.touch()
    assert "cannot be written to" in refused([good, *model, *half], in_the_way, capsys)
    with pytest.raises(SystemExit) as stopped:
        main(["complete", good, *model, *half, "-o", str(in_the_way / "below")])
    assert stopped.value.code == 2 and "cannot be written to" in capsys.readouterr().err


SCRIPT = """
import json, resource, sys
from condvae.cli import main
results = []
for words in json.loads(sys.argv[1]):
    before, code = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, None
    try:
        main(["complete", *words])
    except SystemExit as stop:
        code = stop.code
    more = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    results.append([code, more // 1024, "torch" in sys.modules])
print(json.dumps(results))
"""


def test_help_does_not_import_torch_and_a_decompression_bomb_does_not_fill_the_memory(
    tmp_path: Path, model: list[str]
) -> None:
    from helpers.pictures_to_complete import bomb

    (tmp_path / "bomb.png").write_bytes(bomb(30_000, 4_000))
    good = str(photo(tmp_path / "x.png"))
    calls = [["bomb.png", "--half", "left", *model, "-o", "out"], [good, "--hole", "bomb.png", *model, "-o", "out"]]
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps([["--help"], *calls])],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        timeout=100,
        cwd=tmp_path,
    )
    helped, *refusals = json.loads(run.stdout.splitlines()[-1])
    assert (helped[0], helped[2]) == (0, False) and "--keep-size" in run.stdout
    assert [code for code, _, _ in refusals] == [2, 2]
    assert all(mebibytes < 600 for _, mebibytes, _ in refusals)  # enough for torch and a small model
    lines = run.stderr.strip().splitlines()
    assert len(lines) == 2 and all("bomb.png" in line and "100 million" in line for line in lines)
    assert not (tmp_path / "out").exists()


def test_every_picture_is_read_once(tmp_path: Path, model: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def counted(source: Path, **named: Any) -> Picture:
        read.append(Path(source).name)
        return read_picture(source, **named)

    for module in ("selection", "holes"):
        monkeypatch.setattr(f"condvae.images.{module}.read_picture", counted)
    words = [str(photo(tmp_path / f"{name}.png", seed=i)) for i, name in enumerate("abc")]
    (tmp_path / "holes").mkdir()
    for name in "abc":
        Image.fromarray((levels(20, 20, 1)[:, :, 0] > 99).astype(np.uint8) * 255).save(
            tmp_path / "holes" / f"{name}.png"
        )
    call = ["complete", *words, "--hole", str(tmp_path / "holes"), "--keep-size", *model, "-n", "2"]
    main([*call, "-o", str(tmp_path / "out")])
    assert sorted(read) == sorted(["a.png", "b.png", "c.png"] * 2)
    # If they do not fit into memory, pictures are read again when their turn comes, with the same result.
    monkeypatch.setattr("condvae.images.selection._MOST_BYTES_WAITING", 0)
    main([*call, "-o", str(tmp_path / "short")])
    assert len(read) == 6 + 12 and contents(tmp_path / "short") == contents(tmp_path / "out")


def test_a_bad_file_is_reported_before_anything_is_drawn(
    tmp_path: Path, model: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*given: object, **named: object) -> None:
        raise AssertionError("drawn")

    monkeypatch.setattr("condvae.sampling.sampler.Sampler.draw", fail)
    words = [str(photo(tmp_path / f"{i}.png", seed=i)) for i in range(6)]
    whole = photo(tmp_path / "cut.png").read_bytes()
    (tmp_path / "cut.png").write_bytes(whole[: len(whole) // 2])  # its header is intact
    words.append(str(tmp_path / "cut.png"))
    assert "cut.png is damaged" in refused([*words, *model, "--half", "left"], tmp_path / "out", capsys)
