"""The page of results says what the raw numbers beside it say."""

import importlib.util
import json
import shutil
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "results.md"


@pytest.fixture
def results() -> ModuleType:
    spec = importlib.util.spec_from_file_location("results_recipe", ROOT / "recipes" / "results.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["results_recipe"] = module
    spec.loader.exec_module(module)
    return module


def test_the_tables_are_those_of_the_raw_numbers(results: ModuleType) -> None:
    assert results.filled(PAGE.read_text(), PAGE.with_suffix("")) == PAGE.read_text()


def test_new_numbers_are_taken_in_and_shown(results: ModuleType, tmp_path: Path) -> None:
    shutil.copytree(PAGE.with_suffix(""), tmp_path / "results")
    shutil.copy(PAGE, tmp_path)
    raw = json.loads((tmp_path / "results" / "cifar10.json").read_text())
    raw["methods"]["harmonic fill"]["metrics"]["fid"]["0.4-0.6"]["mean"] = 12.34
    new = tmp_path / "new.json"
    new.write_text(json.dumps(raw))
    results.main(results.Options(cifar10=new, page=tmp_path / "results.md"))
    row = next(line for line in (tmp_path / "results.md").read_text().splitlines() if "12.3" in line)
    assert row.split(" | ")[0] == "| harmonic fill" and "**12.3**" in row  # and the best, now
    assert json.loads((tmp_path / "results" / "cifar10.json").read_text()) == raw


def test_raw_numbers_lie_there_as_the_recipe_writes_them(results: ModuleType) -> None:
    for path in PAGE.with_suffix("").glob("*.json"):
        raw = json.loads(path.read_text())
        assert path.read_text() == results.compact(raw) + "\n", path.name
    assert results.compact({}) == "{\n}" and json.loads(results.compact({"a": {}, "b": [{"c": 0.1}]}))["b"] == [
        {"c": 0.1}
    ]


def test_a_page_without_a_table_is_refused(results: ModuleType) -> None:
    page = PAGE.read_text().replace("<!-- table curve -->", "")
    with pytest.raises(ValueError, match="disagree about the tables curve"):
        results.filled(page, PAGE.with_suffix(""))


def test_every_training_took_what_the_page_says() -> None:
    for name in ("cifar10", "faces64"):
        (model,) = json.loads((PAGE.with_suffix("") / f"{name}.json").read_text())["models"].values()
        minutes = " + ".join(f"{model['training_minutes'][part]:.2f}" for part in ("VAE", "partial encoder"))
        assert f"{minutes} minutes" in PAGE.read_text()
