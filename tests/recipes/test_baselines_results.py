"""The recipe fills a page from the numbers of a comparison, which it joins from one or more files."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from helpers.baseline_reports import LATER, NEW_METRICS, later_report, report, speed_report
from helpers.recipe_calls import run
from PIL import Image

from condvae.experiments import reporting
from condvae.experiments.evaluation import figures
from recipes import baselines_figures, baselines_results
from recipes.baselines import TITLES
from recipes.baselines_joining import joined
from recipes.baselines_results import (
    PAGE,
    Options,
    all_tables,
    best_of_table,
    main,
    page_at,
    random_table,
    shown_methods,
    winners,
)
from recipes.baselines_statements import RULES, leaders
from recipes.pages import DIGITS, TABLE, rounded, short

MIXTURE = "mixture"
OPTIONAL = ("speed", "equal-time", *(f"bins-{name}" for name in NEW_METRICS))
"""Tables of numbers that the first comparison did not have."""


@pytest.fixture
def result() -> dict[str, Any]:
    return report()


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """The published page without its numbers, and without the tables that not all numbers fill."""
    path = tmp_path / "page.md"
    path.write_text(TABLE.sub(lambda match: "" if match[2] in OPTIONAL else match[0], PAGE.read_text()))
    return path


def written(folder: Path, result: dict[str, Any], name: str = "run/baselines.json") -> Path:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(result))
    return path


def cells_of(table: str) -> dict[str, list[str]]:
    """The cells of a table by the first cell of their row."""
    rows = [row.removeprefix("| ").removesuffix(" |").split(" | ") for row in table.splitlines()[2:]]
    return {first: cells for first, *cells in rows}


def test_the_tables_show_the_numbers(tmp_path: Path, page: Path, result: dict[str, Any]) -> None:
    main(Options(baselines=(written(tmp_path, result),), page=page))
    lines = page.read_text().splitlines()
    fid = result["methods"]["pic"]["metrics"]["fid"]
    (row,) = [line for line in lines if line.startswith(f"| PIC | {fid[MIXTURE]['mean']:.1f} ± ") and "75 %" in line]
    assert row.endswith("| .030, .040 | 75 %, 74 % | 3.95 | 5.50 |")
    cells = [f"{cell['mean']:.1f}" for cell in fid.values()]
    assert f"| PIC | {' | '.join(cells)} |" in lines
    assert "| IPA: VAE | 2.78 | 16,000 | 2.05 | 12,346 | 166 | 128 | 0.001 | 3.10 | NVIDIA H200 |" in lines
    unlogged = "| IPA, embedded: VAE | 8.96 | 53,943 | 6.90 | not logged | not logged | 128 |"
    assert any(line.startswith(unlogged) for line in lines)
    (quoted,) = [line for line in lines if line.startswith("| RFR | ") and "*44.35*" in line]
    for words in ("*2.76*", "*.0883*", "| 3.95 GPU-minutes | *450 GPU-hours* | 5.50 | *31* |"):
        assert words in quoted
    assert not any(line.startswith("| CoModGAN |") for line in lines)  # it is not in these numbers
    assert all(f"| {rule} | {words} |" in lines for rule, words in RULES.items())
    (row,) = [line for line in lines if line.startswith("| nearest training images | ") and "71 %" in line]
    assert row.endswith("| none | none |")


def test_refilling_changes_nothing(tmp_path: Path, page: Path, result: dict[str, Any]) -> None:
    main(Options(baselines=(written(tmp_path, result),), page=page))
    text, numbers = page.read_text(), (tmp_path / "page" / "baselines.json").read_text()
    main(Options(page=page))
    assert page.read_text() == text == page_at(page).filled()
    assert (tmp_path / "page" / "baselines.json").read_text() == numbers


def test_winners_are_those_that_do_not_differ(result: dict[str, Any]) -> None:
    methods = shown_methods(result)
    cells = {name: methods[name]["metrics"]["p_ids"][MIXTURE] for name in ("IPA", "CE", "ANP", "PIC", "RFR")}
    for name, mean in (("IPA", 0.10), ("CE", 0.11), ("ANP", 0.109), ("PIC", 0.0), ("RFR", 0.107)):
        cells[name] |= {"mean": mean, "standard_error": 0.001}
    # Twice the standard error of a difference is .0028.
    assert leaders(methods, tuple(cells), "p_ids") == ["CE", "ANP"]
    assert winners(methods, "p_ids", MIXTURE) == "**CE** (not different: ANP)"
    assert leaders(methods, tuple(cells), "fid") == ["IPA"]
    for cell in cells.values():
        cell["mean"] = 0.0
    assert winners(methods, "p_ids", MIXTURE) == "all equal"


def test_random_training_images_are_a_yardstick(result: dict[str, Any]) -> None:
    methods = shown_methods(result)
    random = methods["random training image"]["metrics"]
    for name, factor in (("CE", 1.5), ("ANP", 1.0), ("PIC", 0.5)):
        for metric in ("lpips_gt", "lpips_gt@1"):
            for column, cell in random[metric].items():
                methods[name]["metrics"][metric][column] = {**cell, "mean": factor * cell["mean"]}
    methods["CE"]["metrics"]["lpips_gt@1"][MIXTURE]["mean"] = 0.0
    rows = {row.split(" | ")[0].removeprefix("| "): row for row in random_table(methods).splitlines()}
    assert rows["CE"] == f"| CE | {' | '.join(['worse'] * 6)} | better |"
    assert rows["ANP"] == f"| ANP | {' | '.join(['not different'] * 7)} |"
    assert rows["PIC"] == f"| PIC | {' | '.join(['better'] * 7)} |"


def test_the_best_of_each_number_of_completions_is_bold(result: dict[str, Any]) -> None:
    methods = shown_methods(result)
    methods["RFR"]["metrics"]["lpips_gt@1"][MIXTURE]["mean"] = 0.00123
    head, _, *rows = best_of_table(methods).splitlines()
    assert head == "| K | 1 | 2 | 5 | 10 | 20 | 50 | 100 |"
    cells = {row.split(" | ")[0].removeprefix("| "): row.strip("| ").split(" | ")[1:] for row in rows}
    assert cells["RFR"][0] == "**.0012**" and list(cells) == list(methods)
    assert [sum(row[k].startswith("**") for row in cells.values()) for k in (0, 3)] == [1, 2]  # IPA is a copy of ours
    assert cells["PIC"][3] == f"{methods['PIC']['metrics']['lpips_gt@10'][MIXTURE]['mean']:.4f}"[1:]


def test_a_method_has_the_same_colour_in_all_figures(result: dict[str, Any]) -> None:
    pytest.importorskip("matplotlib")
    drawn = baselines_results.drawn_methods(result)
    assert list(drawn) == ["IPA", "CE", "ANP", "PIC", "RFR", "IPA, embedded", "nearest training images"]
    metrics = figures.metrics_figure({"methods": drawn})
    assert metrics is not None
    columns = baselines_figures.PANELS
    fwv = reporting.panel_for_each(columns, lambda axis, column: baselines_figures.fwv_panel(drawn, axis, column))

    def styles(figure: Any) -> list[dict[str, Any]]:
        found = []
        for axis in figure.axes:
            handles, names = axis.get_legend_handles_labels()
            lines = [handle.lines[0] if hasattr(handle, "lines") else handle for handle in handles]
            found.append({n: (one.get_color(), one.get_marker()) for n, one in zip(names, lines, strict=True)})
        return found

    first, *others = [*styles(metrics), *styles(fwv)]
    assert len(set(first.values())) == len(first) == 7
    assert all(style.items() <= first.items() for style in others)
    varying = [name for name in drawn if name not in ("CE", "RFR")]
    assert [list(style) for style in others[3:]] == [varying] * len(columns)


def test_figures_are_drawn_and_the_sheets_of_each_file_are_copied(
    tmp_path: Path, page: Path, result: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(reporting, "DPI", 20)  # lossless WebP takes its time per pixel, and a layout per panel
    monkeypatch.setattr(figures, "PANELS", {"fid": figures.PANELS["fid"]})
    monkeypatch.setattr(baselines_figures, "PANELS", (MIXTURE,))
    paths = [written(tmp_path, result, f"{name}/baselines.json") for name in ("first", "second", "third")]
    for path, size in zip(paths[:2], ((3, 4), (9, 5)), strict=True):
        for name in ("sheet.png", "large_holes.png"):
            Image.new("RGB", size, "red").save(path.with_name(name))
    collapse = written(tmp_path, {"format": "condvae mode collapse", "n": 20}, "run/mode_collapse.json")
    Image.new("RGB", (7, 6), "red").save(collapse.with_suffix(".png"))
    main(Options(baselines=tuple(paths), mode_collapse=collapse, page=page, figures=True))
    assert json.loads((tmp_path / "page" / "mode_collapse.json").read_text())["n"] == 20
    pictures = sorted(path.name for path in (tmp_path / "page").glob("*.webp"))
    sheets = {"sheet.webp": (3, 4), "large_holes.webp": (3, 4), "sheet_2.webp": (9, 5), "large_holes_2.webp": (9, 5)}
    sheets["mode_collapse.webp"] = (7, 6)
    assert pictures == sorted(["fwv.webp", "metrics.webp", *sheets])
    for name in pictures:
        with Image.open(tmp_path / "page" / name) as picture:
            assert picture.size == sheets[name] if name in sheets else picture.width > 50
    text = page.read_text()
    assert all(f"baselines/{name}" in text for name in pictures)


def test_all_methods_have_their_rows() -> None:
    tables = all_tables({"baselines": report(later=True), "speed": speed_report()})
    for name in ("main", "speed", "best-of", "bins-cfid", "bins-crps_pixels"):
        assert list(cells_of(tables[name]))[: len(TITLES)] == list(TITLES.values()), name
    assert "CRPS of pixels" in cells_of(tables["winners"])
    assert "long" not in tables["winners"]  # they had another budget
    assert "| CoModGAN | " in tables["paper"] and "*268 GPU-hours*" in tables["paper"] and "VQ" not in tables["paper"]


def test_speeds_are_those_of_their_file() -> None:
    numbers, speed = report(later=True), speed_report()
    tables = all_tables({"baselines": numbers, "speed": speed})
    timed = cells_of(tables["equal-time"])
    # Of IPA and ANP, there was no trained model. CE and RFR do not vary.
    assert list(timed) == [title for title in TITLES.values() if title not in ("IPA", "ANP", "CE", "RFR")]
    distance = numbers["methods"]["diffusion"]["metrics"]["lpips_gt"][MIXTURE]
    assert timed["Diffusion"][0] == "5" and timed["Diffusion"][1].startswith(f"{short(distance['mean'], 4)} ± ")
    assert timed["CoModGAN"][0] == "400 (the limit)" and timed["IPA, embedded"][0] == "100"
    assert timed["IPA, embedded"][2:] == ["70.0 %, 70.0 %", "90.0 %"]
    rows, main_rows = cells_of(tables["speed"]), cells_of(tables["main"])
    assert rows["Diffusion"] == ["500", "2.000", "20.00", "20"]
    assert main_rows["Diffusion"][-3:] == ["2.000", "3.95", "5.50"]
    assert main_rows["nearest training images"][-3:] == ["not measured", "none", "none"]
    # IPA has the network of the embedded model, whose speed it gets if it has none of its own.
    speed["methods"]["cifar10"] |= {"milliseconds": 0.125, "completions_per_second": 8000.0}
    tables = all_tables({"baselines": numbers, "speed": speed})
    assert (
        cells_of(tables["speed"])["IPA"]
        == cells_of(tables["speed"])["IPA, embedded"]
        == ["8,000", "0.125", "1.00", "1"]
    )
    assert cells_of(tables["main"])["IPA"][-3] == "0.125"
    speed["methods"]["ipa"] = {**speed["methods"]["cifar10"], "milliseconds": 0.25, "completions_per_second": 4000.0}
    tables = all_tables({"baselines": numbers, "speed": speed})
    assert cells_of(tables["speed"])["IPA"] == ["4,000", "0.250", "2.00", "1"]
    assert cells_of(tables["main"])["IPA"][-3] == "0.250"


def test_methods_without_speeds_are_left_out_of_their_tables(result: dict[str, Any]) -> None:
    speed = speed_report()  # also of methods that the page does not show
    del speed["methods"]["pic"], speed["equal_time"]["methods"]["pic"]
    tables = all_tables({"baselines": result, "speed": speed})
    assert list(cells_of(tables["speed"])) == ["IPA", "CE", "ANP", "RFR", "IPA, embedded"]
    assert list(cells_of(tables["equal-time"])) == ["IPA, embedded"]
    assert cells_of(tables["main"])["PIC"][-3] == "not measured"
    without = all_tables({"baselines": result})
    assert not {"speed", "equal-time"} & without.keys() and "milliseconds" not in without["main"]


def test_several_files_are_joined_and_stored_as_one(tmp_path: Path, page: Path, result: dict[str, Any]) -> None:
    first, second = written(tmp_path, result, "a/1.json"), written(tmp_path, later_report(), "b/2.json")
    speed = written(tmp_path, speed_report(), "b/speed.json")
    tables = all_tables(rounded({"baselines": joined([result, later_report()]), "speed": speed_report()}, DIGITS))
    marks = "".join(f"<!-- table {name} -->\n<!-- end -->\n" for name in OPTIONAL)
    page.write_text(page.read_text() + marks)
    main(Options(baselines=(first, second), speed=speed, page=page))
    folder = page.with_suffix("")
    assert sorted(path.name for path in folder.iterdir()) == ["baselines.json", "speed.json"]
    text = page.read_text()
    assert all(table in text for table in tables.values()) and page_at(page).filled() == text
    # Numbers can also be added to those of the page.
    shutil.rmtree(folder)
    written(tmp_path, result, "page/baselines.json")
    written(tmp_path, speed_report(), "page/speed.json")
    main(Options(baselines=(folder / "baselines.json", second), page=page))
    assert page.read_text() == text


def test_metrics_that_some_methods_lack() -> None:
    result = joined([report(), later_report()])
    result["methods"]["comodgan"]["metrics"]["cfid"][MIXTURE]["mean"] = 0.5
    tables = all_tables({"baselines": result})
    shown = [title for model, title in TITLES.items() if model in (*LATER, "cifar10")]
    for metric in NEW_METRICS:
        assert list(cells_of(tables[f"bins-{metric}"])) == [*shown, "*largest standard error*"]
    assert {*TITLES.values()} <= cells_of(tables["bins-fid"]).keys()
    assert list(cells_of(tables["bins-sharpness"])) == [*TITLES.values(), "*largest standard error*"]
    rows = cells_of(tables["winners"])
    named = ", only CoModGAN, VQ-VAE and Diffusion"
    assert [row for row in rows if "only" in row] == [
        f"{title}{named}" for title in ("CFID", "CRPS of pixels", "CRPS of LPIPS features")
    ]
    assert rows[f"CFID{named}"] == [*["**Diffusion**"] * 5, "**CoModGAN**"]
    for name in ("comodgan", "vqvae"):
        del result["methods"][name]["metrics"]["cfid"]
    rows = cells_of(all_tables({"baselines": result})["winners"])  # the best of one is not the winner
    assert not any(row.startswith("CFID") for row in rows) and f"CRPS of pixels{named}" in rows


def test_bad_input_is_one_line_and_changes_nothing(tmp_path: Path, page: Path, result: dict[str, Any]) -> None:
    before = page.read_text()
    done = run("baselines_results.py", "--page", page)
    assert (done.returncode, done.stderr) == (
        2, "baselines_results: there are no numbers: give the JSON file of recipes/baselines.py with --baselines\n",
    )  # fmt: skip
    training = {"other" if name == "cifar10" else name: found for name, found in result["training"].items()}
    for change, said in (
        ({"format": "condvae evaluation"}, "baselines.json has no results of recipes/baselines.py: give the JSON file"),
        ({"training": training}, "the page shows the model cifar10: run recipes/baselines.py without --model"),
        (later_report(), "the page shows IPA, CE, ANP, PIC, RFR and random training image, which the numbers do not"),
    ):
        path = written(tmp_path, {**result, **change})
        done = run("baselines_results.py", "--page", page, "--baselines", path)
        assert done.returncode == 2 and done.stderr.count("\n") == 1
        assert said in done.stderr
    good, speed = written(tmp_path, result), speed_report()
    other = {**speed, "equal_time": {**speed["equal_time"], "reference": "mine"}}
    for words, said in (
        ((good, "--speed", good), "baselines.json has no results of recipes/baselines_speed.py: give the JSON file"),
        ((good, written(tmp_path, {**result, "device": "abacus"}, "2.json")), "in one result and abacus in another"),
        ((good, "--speed", written(tmp_path, other, "3.json")), "the speeds are relative to mine, expected cifar10:"),
    ):
        done = run("baselines_results.py", "--page", page, "--baselines", *words)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1) and said in done.stderr
    assert page.read_text() == before and not page.with_suffix("").exists()
