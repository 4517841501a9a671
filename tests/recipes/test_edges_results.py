"""The recipe fills a page about edges from two results.json, and keeps their numbers, figures and sheets."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from helpers.pretraining_results import arm_of, edges_result_of, falling
from helpers.recipe_calls import run
from PIL import Image

from condvae.experiments.pretraining import figures
from recipes.edges_results import PAGE, Options, main, page_at
from recipes.edges_statements import RULES

TABLES = ("shoes64", "benchmark", "curves-shoes", "curves-bags", "statements", "rules", "protocol", "arms")
TIMES = (0.25, 0.5, 1.0)


def result(start: float) -> dict[str, Any]:
    """A result whose FID from scratch is `start` after a minute."""
    return edges_result_of(
        {
            "scratch": arm_of(TIMES, falling(TIMES, 0.7, 0.1), falling(TIMES, start, 5, 1.5)),
            "transfer": arm_of(TIMES, falling(TIMES, 0.6, 0.01), falling(TIMES, 30, 0.5), 7.25),
            "ipa": arm_of(TIMES, falling(TIMES, 0.5, 0.01), falling(TIMES, 20, 0.5), 3.0),
        }
    )


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "page.md"
    path.write_text("Words.\n" + "".join(f"<!-- table {name} -->\n<!-- end -->\n" for name in TABLES))
    return path


@pytest.fixture
def given(tmp_path: Path) -> dict[str, Any]:
    """The results of both data sets, which differ in the FID from scratch, and the published numbers of the rest."""
    paths = {name: tmp_path / name / "results.json" for name in ("shoes", "bags")}
    for start, path in zip((50.0, 60.0), paths.values(), strict=True):
        path.parent.mkdir()
        path.write_text(json.dumps(result(start)))
    return {**paths, **{name: PAGE.with_suffix("") / f"{name}.json" for name in ("shoes64", "benchmark")}}


def test_the_tables_show_the_numbers_of_each_data_set(given: dict[str, Any], page: Path) -> None:
    main(Options(**given, page=page))
    text = page.read_text()
    lines = text.splitlines()
    for name, fid in (("shoes", "50.00"), ("bags", "60.00")):
        table = text.partition(f"<!-- table curves-{name} -->")[2].partition("<!-- end -->")[0]
        row = f"| from scratch | 1,000 | 1.00 | 1.00 | .7000 ±.0100 | {fid} ±1.50 | {float(fid) / 10:.2f} ±.15 | "
        assert f"{row}.1000 ±.0000 | .2500 ±.0500 |" in table
        assert "| FID | KID x 1,000 | LPIPS-GT | LPIPS diversity |" in table and "P-IDS" not in table
        for words in (
            "| 7,891 | 200 | 847 | 500 | 50 answers for each of 100 images | 3 | `faces64` | 64 | 0.001 |",
            "| transfer | a VAE of Tiny ImageNet | npz: 7 training images | 7.25 | 1,234 | 6.40 ms | 10,000 |",
        ):
            assert f"| {name} {words}" in lines
        (told,) = [
            line for line in lines if line.startswith(f"| {name} | transfer has a better FID than training from")
        ]
        assert f" | A | **reproduced** | FID: 30.00 ±.01 (transfer) against {fid} ±1.50 (from scratch) " in told
    assert all(f"| {rule} | {words} |" in lines for rule, words in RULES.items())


def test_refilling_changes_nothing(given: dict[str, Any], page: Path) -> None:
    main(Options(**given, page=page))
    kept = {path.name: path.read_text() for path in page.with_suffix("").iterdir()}
    text = page.read_text()
    assert kept.keys() == {f"{name}.json" for name in given}
    main(Options(page=page))
    assert page.read_text() == text == page_at(page).filled()
    assert {path.name: path.read_text() for path in page.with_suffix("").iterdir()} == kept


def test_figures_are_drawn_and_sheets_copied(
    given: dict[str, Any], page: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def draw(found: Mapping[str, Any], folder: Path) -> list[Path]:
        last = round(found["arms"]["scratch"]["points"][-1]["fid"]["mean"])
        Image.new("RGB", (4, last)).save(folder / "curves.png")
        return [folder / "curves.png"]

    monkeypatch.setattr(figures, "draw", draw)
    Image.new("RGB", (9, 5), "red").save(given["bags"].parent / "sheet-edges.png")
    main(Options(**given, page=page, figures=True))
    sizes = {}
    for path in page.with_suffix("").glob("*.webp"):
        with Image.open(path) as picture:
            sizes[path.name] = picture.size
    assert sizes == {"shoes-curves.webp": (4, 50), "bags-curves.webp": (4, 60), "bags-sheet-edges.webp": (9, 5)}


def test_bad_input_is_one_line_and_changes_nothing(given: dict[str, Any], page: Path) -> None:
    before = page.read_text()
    done = run("edges_results.py", "--page", page, "--shoes", given["shoes"])
    assert (done.returncode, done.stderr) == (
        2, "edges_results: there are no numbers of bags: give its JSON file with --bags\n",
    )  # fmt: skip
    given["bags"].write_text(json.dumps({**result(1.0), "format": "condvae evaluation"}))
    done = run("edges_results.py", "--page", page, *(word for name in given for word in (f"--{name}", given[name])))
    assert done.returncode == 2 and "bags/results.json has no results of recipes/edges.py: give the" in done.stderr
    assert page.read_text() == before and not page.with_suffix("").exists()
