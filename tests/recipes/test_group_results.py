"""Groups of the faces64 packs, and tables of results by group."""

import json
from pathlib import Path
from typing import Any

import pytest

from condvae.experiments.evaluation.groups import matching, read_groups
from recipes import evaluation_results, faces_groups
from recipes.faces_groups import AGES, GENDERS, ORIGINS, SOURCES, groups_of
from recipes.group_results import by_group

NAMES = [
    "test/celeba-00024.webp",
    "test/lfw-Jean-Marc_Olive_0001.webp",
    *(
        f"test/utk-{age}_{gender}_{origin}_2017011{age}.webp"
        for age in (1, 9, 10, 19, 20, 39, 40, 59, 60, 99, 100, 116)
        for gender in range(2)
        for origin in range(5)
    ),
]


def members(group: str) -> list[str]:
    patterns = groups_of(NAMES)[group]
    return [name for name in NAMES if any(matching(one, [name])[0] for one in patterns)]


def test_every_face_is_in_one_group_of_each_kind() -> None:
    assert members("CelebA") == NAMES[:1] and members("LFW") == NAMES[1:2] and members("UTKFace") == NAMES[2:]
    assert list(groups_of(NAMES)) == [*SOURCES, *AGES, *ORIGINS, *GENDERS]
    for group, ages in zip(AGES, ([1, 9], [10, 19], [20, 39], [40, 59], [60, 99, 100, 116]), strict=True):
        assert {int(name.split("-")[1].split("_")[0]) for name in members(group)} == set(ages)
        assert len(members(group)) == 10 * len(ages)
    for number, group in enumerate(ORIGINS):
        assert {name.split("_")[2] for name in members(group)} == {str(number)} and len(members(group)) == 24
    for number, group in enumerate(GENDERS):
        assert {name.split("_")[1] for name in members(group)} == {str(number)} and len(members(group)) == 60


def test_patterns_without_an_image_are_left_out() -> None:
    """`condvae evaluate` takes such a pattern for a mistake."""
    younger = [name for name in NAMES if not any(f"utk-{age}_" in name for age in (1, 9, 100, 116))]
    found = groups_of(younger)
    assert found["UTKFace, age 60 and over"] == ["utk-[6-9][0-9]_*"] and "UTKFace, age 0-9" not in found
    assert all(any(matching(one, younger)) for patterns in found.values() for one in patterns)


@pytest.mark.parametrize(
    "name", ["utk-61_1_20170109.webp", "utk-20_0_5_2017.webp", "utk-x_0_1_2017.webp", "flower.png"]
)
def test_a_face_of_no_group_is_an_error(name: str) -> None:
    with pytest.raises(ValueError, match=rf"{name} is in 0 of the groups"):
        groups_of([*NAMES, f"test/{name}"])


def test_the_file_can_be_read_by_the_evaluation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Opened:
        test = type("Test", (), {"names": NAMES})

    monkeypatch.setattr(faces_groups, "open_data", lambda paths: Opened)
    faces_groups.main(faces_groups.Options(data=(Path("faces.zip"),), out=tmp_path / "groups.json"))
    assert read_groups(tmp_path / "groups.json") == groups_of(NAMES)
    assert "UTKFace, age 60 and over: 40 test images" in capsys.readouterr().out


def result() -> dict[str, Any]:
    """Made-up numbers of a model and a baseline, for two groups."""

    def part(distance: float, error: float) -> dict[str, Any]:
        coverage = {"error": error, "error_by_chance": 0.01, "verdict": "overconfident"}
        return {
            "metrics": {"lpips_gt": {"mixture": {"mean": distance, "standard_error": 0.0012}}},
            "coverage": {"smooth": {"mixture": coverage}},
        }

    groups = {"young": {"deep_images": 70}, "old": {"deep_images": 1541}}
    return {
        "settings": {"deep_images": 2759},
        "groups": groups,
        "methods": {
            "faces64, t 1": {
                "temperature": "1",
                **part(0.05, 0.1),
                "groups": {"young": part(0.06, 0.2), "old": part(0.04, 0.3)},
            },
            "training mean": {**part(0.5, 0.4), "groups": {"young": part(0.6, 0.4), "old": part(0.4, 0.4)}},
        },
    }


def test_the_table_has_a_row_for_each_group() -> None:
    assert by_group(result()) == (
        "|  | images | LPIPS-GT, faces64, t 1 | LPIPS-GT, training mean "
        "| calibration error (by chance), faces64, t 1 |\n"
        "| --- | --- | --- | --- | --- |\n"
        "| all test images | 2,759 | .0500 ± .0012 | .5000 ± .0012 | .100 (.010) overconfident |\n"
        "| young | 70 | .0600 ± .0012 | .6000 ± .0012 | .200 (.010) overconfident |\n"
        "| old | 1,541 | .0400 ± .0012 | .4000 ± .0012 | .300 (.010) overconfident |\n"
    )
    assert "training mean" not in by_group(result(), ["faces64, t 1"])


def test_the_evaluation_page_keeps_only_the_mixture_of_each_group() -> None:
    raw = evaluation_results.page_at().raw()
    given = json.loads(json.dumps(raw["groups"]))
    for found in given["methods"].values():
        for part in found["groups"].values():
            part["metrics"]["lpips_gt"]["0-0.2"] = {"mean": 0.1, "standard_error": 0.1}
            part["metrics"]["lpips_gt"]["mixture"]["mean"] = 0.123456789
    kept = evaluation_results.in_the_mixture(given)
    for name, found in kept["methods"].items():
        assert found["metrics"] == raw["groups"]["methods"][name]["metrics"]  # of all test images: every bin
        for part in found["groups"].values():
            assert all(list(columns) == ["mixture"] for kind in part.values() for columns in kind.values())
            assert part["metrics"]["lpips_gt"]["mixture"]["mean"] == 0.1234568
    table = evaluation_results.all_tables({**raw, "groups": kept})["faces64-groups"].splitlines()
    assert len(table) == 3 + len(given["groups"]) and all("| .1235 ± " in line for line in table[3:])


def test_sentences_about_groups() -> None:
    raw = evaluation_results.page_at().raw()["groups"]
    page = " ".join(evaluation_results.PAGE.read_text().split())
    ours, nearest = (
        {
            group: part["metrics"]["lpips_gt"]["mixture"]["mean"]
            for group, part in raw["methods"][name]["groups"].items()
        }
        for name in ("faces64, t 1", "nearest training images")
    )
    below = [100 * (1 - ours[group] / nearest[group]) for group in ours]
    assert f"In every group it is {min(below):.0f} to {max(below):.0f} % below that of the nearest training" in page
    lowest, highest = min(ours, key=ours.__getitem__), max(ours, key=ours.__getitem__)
    assert (lowest, highest) == ("UTKFace, age 10-19", "UTKFace, Black")
    more_of_nearest = []
    for one, other in (("Black", "White"), ("male", "female")):
        more = ours[f"UTKFace, {one}"] / ours[f"UTKFace, {other}"] - 1
        assert f"{100 * more:.0f} % higher for people labelled {one} than {other}" in page
        more_of_nearest.append(100 * (nearest[f"UTKFace, {one}"] / nearest[f"UTKFace, {other}"] - 1))
    assert "for the nearest training images, these differences are {:.0f} and {:.0f} %".format(*more_of_nearest) in page
