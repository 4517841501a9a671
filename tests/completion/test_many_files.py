"""`condvae complete`: completing files and folders."""

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
from helpers.commands import refused
from helpers.models import small_vae
from helpers.pictures_to_complete import contents, levels, photo
from helpers.processes import CONDVAE, started, to_the_end
from PIL import Image

from condvae import save
from condvae.cli import main
from condvae.conditional import ConditionalVAE, PartialConfig
from condvae.images.reading import Picture, read_picture
from condvae.observe import Edges


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
    words = [str(photo(tmp_path / "x.png", 8, 8)), "--model", str(path), "-n", "2"]
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
