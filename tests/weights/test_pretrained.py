"""Shared folders and the hub: the real client talks to a small hub on localhost; folders work without the client."""

import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.hub_server import Hub, commit_of, local_hub
from helpers.models import images, small_conditional, small_vae, some_known
from helpers.processes import CONDVAE, say
from helpers.training import call

import condvae
from condvae import weights
from condvae.conditional import ConditionalVAE
from condvae.observe import Boxes
from condvae.sampling.plain import sample_conditional, seeds_from
from condvae.vdvae import VDVAE


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("HF_HUB_DISABLE_TELEMETRY", "1")
    with local_hub() as server:
        yield server


@pytest.fixture
def model() -> ConditionalVAE:
    model = small_conditional()
    model.process = Boxes()
    return model


def stored(tmp_path: Path, *, seed: int = 0) -> bytes:
    weights.save(small_vae(seed=seed), tmp_path / "stored.safetensors", record={"seed": seed})
    return (tmp_path / "stored.safetensors").read_bytes()


def assert_same_weights(one: torch.nn.Module, other: torch.nn.Module) -> None:
    mine, theirs = one.state_dict(), other.state_dict()
    assert mine.keys() == theirs.keys()
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)


def test_a_folder_contains_the_model_and_a_card(tmp_path: Path, model: ConditionalVAE) -> None:
    folder = condvae.save_pretrained(model, tmp_path / "deep" / "boxes8", record={"bits_per_dim": 4.5})
    assert sorted(path.name for path in folder.iterdir()) == ["README.md", "model.safetensors"]
    card = (folder / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: condvae\n")
    for fact in ("# boxes8", "3 channels, 8 x 8 pixels", "LogisticMixture", "boxes", "4.5", "condvae.from_pretrained("):
        assert fact in card
    loaded = condvae.from_pretrained(folder)
    assert isinstance(loaded, ConditionalVAE)
    assert_same_weights(loaded, model)
    assert loaded.process == Boxes()
    observation = model.observe(images(1), some_known(1))
    drawn = [sample_conditional(m, observation, noise=seeds_from(0, 1)).images for m in (model, loaded)]
    assert torch.equal(*drawn)


def test_a_named_model_keeps_its_record_and_an_existing_card_is_kept(tmp_path: Path) -> None:
    weights.save(small_vae(), tmp_path / "vae.safetensors", record={"steps": 7})
    folder = condvae.save_pretrained(tmp_path / "vae.safetensors", tmp_path / "out", name="A title", bits=16)
    assert weights.describe(folder).record == {"steps": 7}
    assert "# A title" in (folder / "README.md").read_text()
    assert (folder / "model.safetensors").stat().st_size < 0.7 * (tmp_path / "vae.safetensors").stat().st_size
    (folder / "README.md").write_text("my own words")
    condvae.save_pretrained(small_vae(), folder)
    assert (folder / "README.md").read_text() == "my own words"


def test_nothing_is_written_if_the_model_cannot_be_saved_or_uploaded(tmp_path: Path) -> None:
    vae = small_vae()
    vae.decoder.gain.data.fill_(1e6)
    with pytest.raises(ValueError, match="too large for half precision"):
        condvae.save_pretrained(vae, tmp_path / "out", bits=16)
    for bad in ("faces", "a/b/c", "owner/name@main", "https://hub/x"):
        with pytest.raises(ValueError, match="expected a repository as owner/name"):
            condvae.save_pretrained(small_vae(), tmp_path / "out", push_to=bad)
    assert not (tmp_path / "out").exists()


def test_a_model_is_downloaded_from_the_hub_only_once(tmp_path: Path, hub: Hub) -> None:
    hub.repositories["owner/vae"] = {
        "main": {"model.safetensors": stored(tmp_path)},
        "v2": {"model.safetensors": stored(tmp_path, seed=2)},
    }
    for _ in range(2):
        model = condvae.from_pretrained("owner/vae", cache=tmp_path / "cache", endpoint=hub.endpoint)
        assert isinstance(model, VDVAE)
        assert_same_weights(model, small_vae())
    assert hub.requests.count("GET /owner/vae/resolve/main/model.safetensors") == 1
    # A revision can be given in two ways.
    other = condvae.from_pretrained("owner/vae@v2", cache=tmp_path / "cache", endpoint=hub.endpoint)
    same = condvae.from_pretrained("owner/vae", revision="v2", cache=tmp_path / "cache", endpoint=hub.endpoint)
    for model in (other, same):
        assert_same_weights(model, small_vae(seed=2))
    # A commit that is in the cache needs no request to the hub.
    asked = len(hub.requests)
    again = condvae.from_pretrained(
        "owner/vae", revision=commit_of("v2"), cache=tmp_path / "cache", endpoint=hub.endpoint
    )
    assert_same_weights(again, small_vae(seed=2))
    assert len(hub.requests) == asked


def test_a_gated_model_needs_a_token(tmp_path: Path, hub: Hub) -> None:
    hub.repositories["owner/secret"] = {"main": {"model.safetensors": stored(tmp_path)}}
    hub.closed = "owner/secret"
    with pytest.raises(ValueError, match="only for users who were given access: pass a token"):
        condvae.from_pretrained("owner/secret", cache=tmp_path / "cache", endpoint=hub.endpoint)
    model = condvae.from_pretrained("owner/secret", cache=tmp_path / "cache", token="sesame", endpoint=hub.endpoint)
    assert_same_weights(model, small_vae())


def test_errors_of_the_hub_are_one_sentence(tmp_path: Path, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.repositories["owner/empty"] = {"main": {"other.bin": b"x"}}
    hub.repositories["owner/odd"] = {"main": {"model.safetensors": b"no such file"}}
    for name, message in (
        ("owner/none", "owner/none is not a local file, and the hub has no owner/none, or it is private"),
        ("owner/empty@v9", "owner/empty on the hub has no revision 'v9'"),
        ("owner/empty", r"owner/empty on the hub has no model\.safetensors"),
        ("owner/odd", r"not a complete \.safetensors file"),
    ):
        with pytest.raises(ValueError, match=message) as caught:
            condvae.from_pretrained(name, cache=tmp_path / "cache", endpoint=hub.endpoint)
        assert "\n" not in str(caught.value)
    monkeypatch.setattr("time.sleep", lambda seconds: None)  # the client waits longer and longer between attempts
    said: list[logging.LogRecord] = []
    handler = logging.Handler()
    monkeypatch.setattr(handler, "emit", said.append)
    logging.getLogger("huggingface_hub").addHandler(handler)
    with pytest.raises(ValueError, match="the hub cannot be reached, and the model is not in the cache"):
        condvae.from_pretrained("owner/vae", cache=tmp_path / "cache", endpoint="http://127.0.0.1:9")
    logging.getLogger("huggingface_hub").removeHandler(handler)
    assert said == []


def test_a_revision_needs_a_hub_model_and_is_given_only_once(tmp_path: Path) -> None:
    condvae.save_pretrained(small_vae(), tmp_path / "vae")
    with pytest.raises(ValueError, match="is not a model on the hub"):
        condvae.from_pretrained(tmp_path / "vae", revision="main")
    with pytest.raises(ValueError, match="leave out one"):
        condvae.from_pretrained("owner/name@a", revision="b")


def test_an_uploaded_model_can_be_downloaded(tmp_path: Path, hub: Hub, model: ConditionalVAE) -> None:
    folder = tmp_path / "boxes8"
    folder.mkdir()
    (folder / "notes.txt").write_text("not for others")
    for _ in range(2):  # the second time, the repository already exists
        condvae.save_pretrained(model, folder, push_to="owner/boxes8", token="sesame", endpoint=hub.endpoint)
    assert sorted(hub.repositories["owner/boxes8"]["main"]) == ["README.md", "model.safetensors"]
    assert hub.tokens == {"Bearer sesame"}
    assert 'condvae.from_pretrained("owner/boxes8")' in (folder / "README.md").read_text()
    back = condvae.from_pretrained("owner/boxes8", cache=tmp_path / "cache", endpoint=hub.endpoint)
    assert_same_weights(back, model)


def test_a_failed_upload_keeps_the_folder_and_says_so(tmp_path: Path, hub: Hub) -> None:
    with pytest.raises(ValueError, match="was written but not uploaded to owner/x") as caught:
        condvae.save_pretrained(
            small_vae(), tmp_path / "x", push_to="owner/x", token="t", endpoint=hub.endpoint + "/no"
        )
    assert "\n" not in str(caught.value)
    assert isinstance(condvae.from_pretrained(tmp_path / "x"), VDVAE)


def test_commands_accept_models_on_the_hub(tmp_path: Path, hub: Hub) -> None:
    hub.repositories["owner/vae"] = {"main": {"model.safetensors": stored(tmp_path)}}
    # The hub's client reads its settings when it is imported, so each call needs a new process.
    settings = {"HF_ENDPOINT": hub.endpoint, "HF_HOME": tmp_path / "home", "HF_HUB_DISABLE_PROGRESS_BARS": 1}
    given: dict[str, Any] = {"said": tmp_path / "said", "NO_PROXY": "127.0.0.1", **settings}
    assert "owner/vae: unconditional VAE" in say(CONDVAE, "info", "owner/vae", **given)
    offline = say(CONDVAE, "info", "owner/other", expect=2, HF_HUB_OFFLINE=1, **given)
    assert len(offline.strip().splitlines()) == 1 and "owner/other is not a local file" in offline


def test_without_huggingface_hub_one_sentence_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    condvae.save_pretrained(small_vae(), tmp_path / "vae")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    call("info", tmp_path / "vae")
    missing = call("info", "owner/name", expect=2)
    assert "pip install 'condvae[hub]'" in missing
    assert len(missing.strip().splitlines()) == 1
