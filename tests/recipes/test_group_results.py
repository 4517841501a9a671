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


def test_the_evaluation_page_gets_a_table_if_there_are_groups() -> None:
    raw = json.loads(json.dumps(evaluation_results.page_at().raw()))
    assert "faces64-groups" not in evaluation_results.all_tables(raw)
    for found in raw["faces64"]["methods"].values():
        found["groups"] = {"LFW": {key: found[key] for key in ("metrics", "coverage")}}
    raw["faces64"]["groups"] = {"LFW": {"deep_images": 300}}
    table = evaluation_results.all_tables(raw)["faces64-groups"].splitlines()
    assert table[2].replace("all test images", "LFW") == table[3]
