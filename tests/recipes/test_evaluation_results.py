"""The page of results says what the raw numbers beside it say."""

import copy
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from recipes import evaluation_results

PAGE = evaluation_results.page_at()


def test_new_numbers_are_taken_in_and_shown(tmp_path: Path) -> None:
    page = page_in(tmp_path)
    raw = PAGE.raw()["cifar10"]
    raw["methods"]["harmonic fill"]["metrics"]["fid"]["0.4-0.6"]["mean"] = 12.34
    new = tmp_path / "new.json"
    new.write_text(json.dumps(raw))
    evaluation_results.main(evaluation_results.Options(cifar10=new, page=page))
    row = next(line for line in page.read_text().splitlines() if "12.3" in line)
    assert row.split(" | ")[0] == "| harmonic fill" and "**12.3**" in row  # and the best, now
    assert json.loads((tmp_path / PAGE.folder.name / "cifar10.json").read_text()) == raw


def page_in(folder: Path) -> Path:
    shutil.copytree(PAGE.folder, folder / PAGE.folder.name)
    return Path(shutil.copy(PAGE.path, folder))


def test_bounds_that_were_measured_again_replace_bounds_alone(tmp_path: Path) -> None:
    before = PAGE.raw()["faces64"]
    new = copy.deepcopy(before)
    new["settings"]["metrics"], new["methods"], new["device"] = ["bounds"], {}, "another device"
    column = {hole: {"mean": 1.23456, "standard_error": 0.1} for hole in (*evaluation_results.BINS, "mixture")}
    new["models"]["faces64"]["metrics"] = {"hidden_bits_per_dim": column}
    page, file = page_in(tmp_path), tmp_path / "new.json"
    file.write_text(json.dumps(new))
    evaluation_results.main(evaluation_results.Options(faces64=file, page=page))
    after = json.loads((tmp_path / PAGE.folder.name / "faces64.json").read_text())
    assert after["methods"] == before["methods"] and after["device"] == before["device"]
    model = after["models"]["faces64"]
    assert model["metrics"] == new["models"]["faces64"]["metrics"] and model["record"]
    assert model["bounds_measured"]["device"] == "another device"
    assert "| bits per hidden dimension of 8-bit images, ELBO | 1.235 | 1.235 |" in page.read_text()
    text = page.read_text()
    changes: list[dict[str, Any]] = [
        {"settings": {**new["settings"], "deep_images": 500}},
        {"models": {"other": {}}},
    ]
    for change in changes:
        file.write_text(json.dumps({**new, **change}))
        with pytest.raises(ValueError, match="the bounds "):
            evaluation_results.main(evaluation_results.Options(faces64=file, page=page))
    assert page.read_text() == text


def test_every_training_took_what_the_page_says() -> None:
    for name in ("cifar10", "faces64"):
        (model,) = PAGE.raw()[name]["models"].values()
        minutes = " + ".join(f"{model['training_minutes'][part]:.2f}" for part in ("VAE", "partial encoder"))
        assert f"{minutes} minutes" in PAGE.path.read_text()
