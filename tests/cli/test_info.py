import json
from pathlib import Path

import pytest
from helpers.commands import failure
from helpers.models import small_vae

from condvae import weights
from condvae.cli import main
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
        for text in card:
            assert text in printed
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
