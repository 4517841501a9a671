"""Contact sheets and figures that condvae has written are not counted as images of a data set."""

import json
import shutil
import zipfile
from pathlib import Path

import pytest
from helpers.pictures_to_complete import photo

from condvae.data import open_data
from condvae.images.archive import opened
from condvae.images.recorded_files import COMPLETIONS, KINDS, REPORT_FIGURES, SAMPLES, SCANS, read_recorded
from condvae.metrics.compare_folders import check_folders


def images_in(path: Path) -> list[str]:
    with opened(path) as files:
        return list(files.images())


def written(folder: Path, names: str, *, mark: str = "record.json", **record: object) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for i, name in enumerate(names.split()):
        (folder / name).parent.mkdir(exist_ok=True)
        photo(folder / name, 8, 8, seed=i)
    (folder / mark).write_text(json.dumps(record))
    return folder


def outputs(*names: str) -> list[dict[str, list[str]]]:
    return [{"outputs": [name]} for name in names]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of a user, with the outputs of several commands in it."""
    top = tmp_path / "top"
    written(
        top / "samples",
        "0001.png 0002.png sheet.png mine.png sheet-9.png",
        format="condvae samples",
        images=outputs("0001.png", "0002.png"),
        sheets=["sheet.png", "../mine.png"],
    )
    written(
        top / "scans",
        "a.png a.gif x.png",
        mark="design.json",
        format="condvae design",
        images=outputs("a.png", "a.gif"),
    )
    written(
        top / "run",
        "sheets/step-000000050.png sheets/b.png",
        mark="options.json",
        verb="pretrain",
        data_summary="photos",
    )
    written(top / "report", "coverage.png photo.png", mark="results.json", format="condvae evaluation")
    written(top / "foreign", "sheet.png coverage.png", format="another program", images=[], sheets=["sheet.png"])
    photo(top / "mine.png", 8, 8)
    return top


COUNTED = [
    "foreign/coverage.png",
    "foreign/sheet.png",
    "mine.png",
    "report/photo.png",
    "run/sheets/b.png",
    "samples/0001.png",
    "samples/0002.png",
    "samples/mine.png",
    "samples/sheet-9.png",
    "scans/x.png",
]


def test_sheets_and_figures_are_left_out_of_folders_and_zips(folder: Path, tmp_path: Path) -> None:
    assert images_in(folder) == COUNTED
    for name in ("samples", "scans", "run", "report", "foreign"):
        inside = [one.removeprefix(f"{name}/") for one in COUNTED if one.startswith(f"{name}/")]
        assert images_in(folder / name) == inside
    shutil.make_archive(str(tmp_path / "packed"), "zip", folder)
    assert images_in(tmp_path / "packed.zip") == COUNTED
    shutil.make_archive(str(tmp_path / "with top"), "zip", tmp_path, "top")
    assert images_in(tmp_path / "with top.zip") == [f"top/{name}" for name in COUNTED]


def test_training_data_and_comparisons_count_the_same_images(folder: Path) -> None:
    data = open_data(folder)
    assert len(data.train) + len(data.validation) + len(data.test) == len(COUNTED)
    (folder / "scans" / "x.png").unlink()
    with pytest.raises(ValueError, match="contains no images except for contact sheets and figures of condvae, which"):
        open_data(folder / "scans")
    with pytest.raises(ValueError, match="contains no images except for contact sheets and figures of condvae, which"):
        check_folders(folder / "samples", folder / "scans")


def test_a_damaged_record_counts_as_none(tmp_path: Path) -> None:
    photo(tmp_path / "sheet.png", 8, 8)
    good = {"format": "condvae samples", "images": [], "sheets": ["sheet.png"]}
    for bad in (b"", b"[" * 100_000, b"\xff", b"5", json.dumps({**good, "images": 5}).encode()):
        (tmp_path / "record.json").write_bytes(bad)
        assert images_in(tmp_path) == ["sheet.png"]
        assert read_recorded(tmp_path / "record.json") is None
    (tmp_path / "record.json").write_text(json.dumps(good))
    assert images_in(tmp_path) == []
    archive = tmp_path / "zip.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for name in ("record.json", "sheet.png"):
            file.write(tmp_path / name, name)
    content = archive.read_bytes()
    archive.write_bytes(content.replace(b'"sheets"', b'"sheetz"', 1))  # its checksum is now wrong
    assert images_in(archive) == ["sheet.png"]


def test_records_list_only_pictures_in_their_own_folder(tmp_path: Path) -> None:
    names = ["1.png", "2.JPG", "3.txt", "../4.png", "a/5.png", 6]
    for kind in (COMPLETIONS, SAMPLES, SCANS):
        plain = {"format": kind.format, "images": [{"outputs": names}], "sheets": ["sheet.png", None]}
        (tmp_path / kind.file).write_text(json.dumps(plain))
        found = read_recorded(tmp_path / kind.file)
        assert found is not None and found.kind == kind
        assert sorted(found.names) == ["1.png", "2.JPG", "sheet.png"]
        assert found.images == (() if kind is SCANS else ("1.png", "2.JPG"))
    assert len({(kind.file, kind.format) for kind in KINDS}) == len(KINDS)


def test_figures_are_those_that_experiments_draw() -> None:
    from condvae.experiments.design import report as design
    from condvae.experiments.evaluation import report as evaluation
    from condvae.experiments.ood import report as ood

    drawn = {name for one in (design, evaluation, ood) for name in one.REPORT.pictures}
    assert drawn == REPORT_FIGURES
    assert all(one.REPORT.format.startswith("condvae ") for one in (design, evaluation, ood))


@pytest.mark.parametrize("spoilt", [{"images": [{"outputs": "a.png" * 20_000}]}, {"sheets": "sheet.png" * 20_000}])
def test_a_text_in_place_of_names_is_no_record(tmp_path: Path, spoilt: dict[str, object]) -> None:
    """Its letters once were names: a record of 1 MB took 4 seconds, and one of 60 MB minutes."""
    record = {"format": SAMPLES.format, "images": outputs("a.png"), "sheets": [], **spoilt}
    (tmp_path / "record.json").write_text(json.dumps(record))
    assert read_recorded(tmp_path / "record.json") is None
