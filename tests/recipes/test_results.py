"""The page of results says what the raw numbers beside it say."""

import json
import shutil
from pathlib import Path

from recipes import results

PAGE = results.page_at()


def test_new_numbers_are_taken_in_and_shown(tmp_path: Path) -> None:
    shutil.copytree(PAGE.folder, tmp_path / "results")
    shutil.copy(PAGE.path, tmp_path)
    raw = PAGE.raw()["cifar10"]
    raw["methods"]["harmonic fill"]["metrics"]["fid"]["0.4-0.6"]["mean"] = 12.34
    new = tmp_path / "new.json"
    new.write_text(json.dumps(raw))
    results.main(results.Options(cifar10=new, page=tmp_path / "results.md"))
    row = next(line for line in (tmp_path / "results.md").read_text().splitlines() if "12.3" in line)
    assert row.split(" | ")[0] == "| harmonic fill" and "**12.3**" in row  # and the best, now
    assert json.loads((tmp_path / "results" / "cifar10.json").read_text()) == raw


def test_every_training_took_what_the_page_says() -> None:
    for name in ("cifar10", "faces64"):
        (model,) = PAGE.raw()[name]["models"].values()
        minutes = " + ".join(f"{model['training_minutes'][part]:.2f}" for part in ("VAE", "partial encoder"))
        assert f"{minutes} minutes" in PAGE.path.read_text()
