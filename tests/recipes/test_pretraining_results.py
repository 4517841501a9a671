"""The recipe fills a page about pretraining from results.json, and keeps its numbers, figures and sheets."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from helpers.pretraining_results import arm_of, condition_of, falling, result_of
from helpers.recipe_calls import run
from PIL import Image

from condvae.experiments.pretraining import figures
from recipes.pretraining_results import Options, main, page_at, seen
from recipes.pretraining_statements import RULES

TABLES = ("curves", "statements", "rules", "targets", "conditions", "arms")
SHORT, LONG = (0.25, 0.5, 1.5), (0.25, 1.0, 3.0)


@pytest.fixture
def result() -> dict[str, Any]:
    arms = {
        "scratch": arm_of(LONG, falling(LONG, 0.71, 0.1), falling(LONG, 50, 5, 1.5)),
        "ipa": arm_of(SHORT, falling(SHORT, 0.61, 0.01), falling(SHORT, 25, 0.5, 0.25), 8.96, (660.0, 550.0, 440.0)),
        "transfer": arm_of(SHORT, falling(SHORT, 0.66, 0.01), falling(SHORT, 35, 0.5), 4.0),
        "ipa-short": arm_of(SHORT, falling(SHORT, 0.65, 0.01), falling(SHORT, 30, 0.5), 1.5),
    }
    conditions = {
        "grey": condition_of(1300.25, 1250.0, 2.0, measured=(310.5, 3.0), calibrated=(290.25, 2.0)),
        "label,classes=10": condition_of(1400.0, 1500.0, 2.0, most=(2.302585093, 0.0)),
    }
    return result_of(arms, conditions)


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "page.md"
    path.write_text("Words.\n" + "".join(f"<!-- table {name} -->\n<!-- end -->\n" for name in TABLES))
    return path


def stored(result: Mapping[str, Any], folder: Path) -> Path:
    path = folder / "experiment" / "results.json"
    path.parent.mkdir()
    path.write_text(json.dumps(result))
    return path


def fill(result: Mapping[str, Any], page: Path, folder: Path) -> list[str]:
    main(Options(results=stored(result, folder), page=page))
    return page.read_text().splitlines()


def test_the_tables_show_the_numbers(result: dict[str, Any], page: Path, tmp_path: Path) -> None:
    lines = fill(result, page, tmp_path)
    assert lines[0] == "Words."
    for row in (
        "| from scratch | 1,000 | 1.00 | 1.00 | .7100 ±.0100 | 50.00 ±1.50 | 2.00 ±1.00 | .1000 ±.0000 |",
        "| `grey` | 1,300.2 after .75 minutes | 1,250.0 after .75 minutes | +50.2 ±2.0 | 310.5 ±3.0 | 290.2 ±2.0 | "
        "0 to 290.2, if the artifact were perfect | from scratch is ahead, by no more than I* |",
        "| `label,classes=10` | 1,400.0 after .75 minutes | 1,500.0 after .75 minutes | -100.0 ±2.0 | at most 2.30 | "
        " | 0 to 2.30 | IPA is ahead, so joint training is not at its best yet |",
        "| from scratch | none |  |  |  | 16.00 ms | 8,000 |",
        "| IPA | `cifar10`, the VAE of the embedded model | npz: 7 training images | 8.96 | 1,234 | 6.40 ms | 20,000 |",
        f"| B | {RULES['B']} |",
        "| from scratch | 3.00 | 600.0 ±100.0 | 900.0 ±100.0 | 300.0 ±0.0 |  |  |",
        "| IPA | 1.50 | 550.0 ±110.0 | 850.0 ±110.0 | 300.0 ±0.0 | -50.0 ±10.0 | -50.0 ±10.0 |",
    ):
        assert row in lines, row
    (ipa,) = [line for line in lines if line.startswith("| IPA has a better FID than training from scratch for longer")]
    assert " | B | **reproduced** | FID: 24.80 ±.25 after 1.50 minutes (IPA) against 44.51 ±1.50 after 3.00 " in ipa
    assert len([line for line in lines if line.startswith("| transfer | ")]) == 2 + len(SHORT)


def test_numbers_are_rounded_and_refilling_changes_nothing(result: dict[str, Any], page: Path, tmp_path: Path) -> None:
    fill(result, page, tmp_path)
    kept, text = (page.with_suffix("") / "results.json").read_text(), page.read_text()
    assert json.loads(kept)["conditions"]["label,classes=10"]["information_nats"]["most"]["mean"] == 2.302585
    main(Options(page=page))
    assert page.read_text() == text and page_at(page).filled() == text
    assert (page.with_suffix("") / "results.json").read_text() == kept


def test_figures_are_drawn_and_sheets_copied(
    result: dict[str, Any], page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def draw(found: Mapping[str, Any], folder: Path) -> list[Path]:
        Image.new("RGB", (4, len(found["arms"]))).save(folder / "curves.png")
        return [folder / "curves.png"]

    monkeypatch.setattr(figures, "draw", draw)
    results = stored(result, tmp_path)
    Image.new("RGB", (9, 5), "red").save(results.parent / "sheet-grey.png")
    main(Options(results=results, page=page, figures=True))
    sizes = {}
    for path in page.with_suffix("").glob("*.webp"):
        with Image.open(path) as picture:
            sizes[path.name] = picture.size
    assert sizes == {"curves.webp": (4, 4), "sheet-grey.webp": (9, 5)}
    main(Options(page=page, figures=True))  # without --results there are no sheets to copy


@pytest.mark.parametrize(
    ("ipa", "information", "text"),
    [
        (103.0, {"most": (2.0, 0.0)}, "no clear difference"),
        (90.0, {"most": (2.0, 0.0)}, "IPA is ahead, so joint training is not at its best yet"),
        (105.0, {"most": (2.0, 0.0)}, "from scratch is ahead, by no more than I*"),
        (107.0, {"most": (2.0, 0.0)}, "from scratch is ahead, by more than the largest possible I*"),
        (110.0, {"calibrated": (5.0, 2.0), "measured": (4.0, 1.0)}, "from scratch is ahead, by more than I* measured"),
        (
            120.0,
            {"calibrated": (5.0, 2.0), "measured": (4.0, 1.0)},
            "from scratch is ahead, by more than I* measured and I* calibrated",
        ),
    ],
)
def test_what_was_seen_counts_beyond_two_standard_errors(
    ipa: float, information: dict[str, tuple[float, float]], text: str
) -> None:
    assert seen(condition_of(ipa, 100.0, 2.0, **information)) == text


def test_other_results_are_refused_and_change_nothing(result: dict[str, Any], page: Path, tmp_path: Path) -> None:
    before = page.read_text()
    with pytest.raises(ValueError, match=r"has no results of recipes/pretraining\.py"):
        fill({**result, "format": "condvae evaluation"}, page, tmp_path)
    assert page.read_text() == before and not page.with_suffix("").exists()


def test_a_missing_page_gives_one_line(tmp_path: Path) -> None:
    done = run("pretraining_results.py", "--page", tmp_path / "gone.md")
    assert done.returncode == 2 and done.stderr.startswith("pretraining_results: ") and "gone.md" in done.stderr
