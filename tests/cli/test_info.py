import itertools
import json
from pathlib import Path

import pytest
from helpers.commands import failure
from helpers.models import SMALLEST, small_translator, small_vae
from safetensors.torch import save_file

from condvae import weights
from condvae.cli import main
from condvae.observe import Boxes, Edges, Grey, Label, LowResolution, Paired, Process
from condvae.observe.process_names import PROCESS_INPUTS, PROCESS_MEANINGS
from condvae.weights import sealed_file
from condvae.weights.model_cards import card_at


def test_info_describes_the_default_model_names_files_and_folders(
    models: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    weights.save(small_vae(), "shared/model.safetensors", record={"steps": 3})
    for words, start in (
        ([], "faces64: conditional VAE"),
        (["faces64"], "faces64: conditional VAE"),
        ([str(models / "faces64.safetensors")], f"{models / 'faces64.safetensors'}: conditional VAE"),
        (["shared"], "shared: unconditional VAE"),
        (["shared/model.safetensors"], "shared/model.safetensors: unconditional VAE"),
    ):
        main(["info", *words])
        assert capsys.readouterr().out.startswith(start)
    main(["info", "--json"])
    assert json.loads(capsys.readouterr().out)["record"] == {"steps": 7, "artifact": {"steps": 9}}
    main(["info"])
    assert "Training of the artifact\nsteps           9\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("process", "words"),
    [
        (Boxes(), "give it a photo, and which of its pixels are hidden (--hole, --box, --half, --random, ...)"),
        (Edges(), "give it a drawing, with dark lines on white or the reverse; or a photo, whose edges are then found"),
        (Grey(), "give it a grey photo; or one in colour, whose colours are then left out"),
        (LowResolution(factor=2), "give it a small picture of 4 x 4 pixels; or a larger one, which is then reduced"),
        (Label(), "give it a class label or findings, which condvae complete cannot read from a picture"),
        (Paired(), "give it the left picture of a pix2pix pair"),
    ],
    ids=lambda value: value.name if isinstance(value, Process) else "",
)
def test_info_says_what_a_model_wants_to_see(
    process: Process, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "model.safetensors"
    weights.save(small_translator(process, SMALLEST), path)
    main(["info", str(path)])
    assert words in " ".join(capsys.readouterr().out.split())
    assert PROCESS_INPUTS.keys() == PROCESS_MEANINGS.keys()


def test_info_lists_embedded_models(models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    weights.save(small_vae(), models / "digits.safetensors")
    main(["info", "--list"])
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("digits ") and "unconditional, 8 x 8 pixels" in first
    assert second.startswith("faces64 ") and second.endswith(" MiB, conditional, 8 x 8 pixels, the default")
    main(["info", "--list", "--json"])
    sizes = {name: (models / f"{name}.safetensors").stat().st_size for name in ("digits", "faces64")}
    expected = {name: {"bytes": size, "summary": None} for name, size in sizes.items()}
    assert json.loads(capsys.readouterr().out) == expected


def test_info_prints_the_cards_of_embedded_models(capsys: pytest.CaptureFixture[str]) -> None:
    for name in weights.embedded_names():
        card = card_at(weights.locate(name))
        assert card is not None
        main(["info", name])
        printed = " ".join(capsys.readouterr().out.split())
        for text in (card.summary, card.data, card.limits, card.use, card.page, card.subject):
            assert text in printed
        assert ("--face finds faces in photos" in printed) == (card.framing is not None)
        main(["info", name, "--json"])
        assert json.loads(capsys.readouterr().out)["card"] == card._asdict()
        main(["info", "--list"])
        assert card.summary in " ".join(capsys.readouterr().out.split())
        main(["info", "--list", "--json"])
        assert json.loads(capsys.readouterr().out)[name]["summary"] == card.summary


@pytest.mark.usefixtures("models")
def test_a_model_without_a_card_has_none(capsys: pytest.CaptureFixture[str]) -> None:
    main(["info", "faces64", "--json"])
    assert json.loads(capsys.readouterr().out)["card"] is None


@pytest.mark.usefixtures("models")
def test_bad_input_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    for word, message in (
        ("FACES64", "unknown model 'FACES64': did you mean faces64?"),
        ("models/two\nlines", "models/two lines does not exist"),
        ("faces46", "unknown model 'faces46': did you mean faces64?"),
    ):
        assert message in failure(capsys, "info", word)


def test_info_says_first_what_a_model_is_and_fits_into_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for columns in (80, 100):
        monkeypatch.setenv("COLUMNS", str(columns))
        for name in weights.embedded_names():
            main(["info", name])
            lines = capsys.readouterr().out.splitlines()
            assert lines[0] == f"{name}: conditional VAE"
            assert lines[1].startswith("what it is      ")
            assert all(len(line) <= columns for line in lines if not line.endswith(".safetensors"))
            sections = [line for before, line in itertools.pairwise(lines) if not before]
            assert sections == ["Before you use it", "Network", "Training", "Training of the artifact", "Origin"]
            for line, after in itertools.pairwise([*lines[1:], ""]):
                # Labels are in one column, and texts in another. A wide label has a line of its own.
                alone = len(line) >= 16 and after.startswith(" " * 16)
                assert not line or line in sections or alone or line[15] == " " != line[16]


def test_info_describes_fits(capsys: pytest.CaptureFixture[str]) -> None:
    path = weights.locate("xray").with_name("xray.ood.safetensors")
    main(["info", str(path)])
    printed = capsys.readouterr().out
    assert "Partly hidden images\nscore           parts-4\nscores          5,000 of held-out images\n" in printed
    main(["info", str(path), "--json"])
    assert json.loads(capsys.readouterr().out)["whole"]["record"]["held_out"] == 300


@pytest.mark.parametrize("deep", [900, 30])
def test_info_on_a_nested_record(tmp_path: Path, capsys: pytest.CaptureFixture[str], deep: int) -> None:
    path, record = tmp_path / "model.safetensors", "[" * deep + "]" * deep
    vae = small_vae(SMALLEST)
    plain = {"config": vae.config.to_dict(), "partial": None, "record": {"x": "@"}}
    description = json.dumps(plain).replace('"@"', record)
    tensors = dict(vae.state_dict())
    sealed = {"format": "condvae", "format_version": "1", "model": description}
    save_file(tensors, path, {**sealed, "sha256": sealed_file._digest(description, tensors)})
    if deep == 30:
        main(["info", str(path)])
        main(["info", str(path), "--json"])
    else:
        assert "nested more than 40 levels deep" in failure(capsys, "info", path)


def test_info_on_a_run_folder_with_hostile_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "options.json").write_text('{"verb": "train\\u001b[2J", "observe": ["boxes", "halves"]}')
    (folder / "log.jsonl").write_text("[" * 10**5 + '\n{"event": "e\\u001b", "step": 3, "loss": 2.5}\n{"event": []}\n')
    main(["info", str(folder)])
    printed = capsys.readouterr().out
    assert "e?              step 3, loss 2.5" in printed and "\x1b" not in printed
    (folder / "options.json").write_text("[" * 10**5)
    assert "cannot be read (its lists and mappings are nested" in failure(capsys, "info", folder)
