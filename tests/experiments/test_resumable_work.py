"""Shared work is done once, and files on disk are complete and identified by their content."""

import shutil
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from condvae.data import ImageSet
from condvae.data.digests import digest_of_set
from condvae.experiments.resumable_work import (
    ImageRange,
    ResultStore,
    Shard,
    WorkUnit,
    _Pace,
    image_ranges,
    work,
    work_together,
)
from condvae.runtime.atomic import write_text
from condvae.runtime.fingerprints import digest_of, fingerprint, slug_of
from condvae.runtime.folders import check_folder, make_folder, read_json
from condvae.runtime.messages import silent
from condvae.runtime.progress import Display, showing
from condvae.runtime.ranks import World


def work_units(folder: Path, done: list[int]) -> list[WorkUnit]:
    """Twelve units with two descriptions, six each; each appends its number to `done`."""

    def measure(number: int) -> dict[str, Tensor]:
        done.append(number)
        return {"number": torch.full((2,), number)}

    stores = [ResultStore(folder / name, kind="test part") for name in "ab"]
    return [
        WorkUnit(what="ab"[i // 6], store=stores[i // 6], unit=f"{i:02}", images=2, measure=partial(measure, i))
        for i in range(12)
    ]


def test_shards_are_parsed() -> None:
    assert Shard.parse("2/8") == (2, 8)
    for text in ("", "2", "0/3", "4/3", "-1/3", "1/x", "1/3/4"):
        with pytest.raises(ValueError, match="expected I/N with I from 1 to N"):
            Shard.parse(text)


def test_ranges_cover_everything_once() -> None:
    assert list(image_ranges(10, 4)) == [(0, 4), (4, 8), (8, 10)]
    assert str(ImageRange(128, 256)) == "000128-000256"


def test_every_unit_is_done_by_exactly_one_shard(tmp_path: Path) -> None:
    done: list[int] = []
    for number in (2, 3, 1):
        work(work_units(tmp_path, done), Shard(number, 3), silent)
    assert sorted(done) == list(range(12))
    said: list[str] = []
    work(work_units(tmp_path, done), Shard(1, 1), said.append)
    assert len(done) == 12 and said == ["12 of 12 units of work are done already"]
    numbers, seconds = work_units(tmp_path, [])[6].store.get([f"{i:02}" for i in (7, 6)])
    assert numbers["number"].tolist() == [7, 7, 6, 6] and seconds >= 0


@pytest.mark.parametrize("shards", range(1, 9))
def test_units_that_belong_together_are_done_by_one_shard_in_their_order(tmp_path: Path, shards: int) -> None:
    groups = ["", "x", "", "y", "x", "y", "", "z", "x", "", "", "z"]
    done: list[list[int]] = []
    for number in range(1, shards + 1):
        done.append([])
        units = [replace(one, together=name) for one, name in zip(work_units(tmp_path, done[-1]), groups, strict=True)]
        work(units, Shard(number, shards), silent)
    assert sorted(i for mine in done for i in mine) == list(range(12))
    homes = {i: number for number, mine in enumerate(done) for i in mine}
    members = {name: [i for i in range(12) if groups[i] == name] for name in "xyz"}
    for mine in members.values():
        assert len({homes[i] for i in mine}) == 1
        assert [i for i in done[homes[mine[0]]] if i in mine] == mine
    # A group counts as one unit, at the place of its first.
    places = [i for i in range(12) if groups[i] == "" or i == members[groups[i]][0]]
    assert [homes[i] for i in places] == [place % shards for place in range(len(places))]


@pytest.mark.parametrize("shards", [1, 2, 5, 12, 13])
def test_units_without_a_group_are_dealt_out_in_turn(tmp_path: Path, shards: int) -> None:
    for number in range(1, shards + 1):
        done: list[int] = []
        work(work_units(tmp_path, done), Shard(number, shards), silent)
        assert done == list(range(12))[number - 1 :: shards]


def test_one_line_is_logged_for_each_description(tmp_path: Path) -> None:
    said: list[str] = []
    work(work_units(tmp_path, []), Shard(1, 2), said.append)
    assert [line.partition(" in ")[0] for line in said] == ["a: 6 images", "b: 6 images"]


def test_only_rank_zero_without_a_shard_writes_the_report(tmp_path: Path) -> None:
    done: list[int] = []
    said: list[str] = []
    alone = World(0, 1, torch.device("cpu"))
    for number in (1, 2):
        assert not work_together(work_units(tmp_path, done), alone, Shard(number, 2), said.append)
        assert said[-1].startswith(f"shard {number} of 2 is done: when all shards are done, run the command without")
    assert sorted(done) == list(range(12))
    assert work_together(work_units(tmp_path, done), alone, None, said.append) and len(done) == 12


def test_jobs_with_different_values_have_different_folders(tmp_path: Path) -> None:
    name = "eig/ipa, " + 60 * "x"
    first, same, other = (ResultStore.of_job(tmp_path, name, {"seed": seed}, kind="test") for seed in (0, 0, 1))
    assert first.folder == same.folder != other.folder
    assert first.folder.parent == tmp_path / "runs"
    assert first.folder.name.startswith("eig-ipa-xxx") and len(first.folder.name) == 50 + 1 + 24


def test_prepare_runs_first_and_only_if_needed(tmp_path: Path) -> None:
    order: list[str] = []

    def measure() -> dict[str, Tensor]:
        order.append("measured")
        return {"x": torch.zeros(1)}

    store = ResultStore(tmp_path / "a", kind="test part")
    one = WorkUnit(what="a", store=store, unit="1", images=1, measure=measure, prepare=lambda: order.append("prepared"))
    for _ in range(2):
        work([one], Shard(1, 1), silent)
    assert order == ["prepared", "measured"]


def test_missing_damaged_and_misplaced_parts_are_detected(tmp_path: Path) -> None:
    store = ResultStore(tmp_path / "a", kind="test part")
    store.put("1", {"x": torch.ones(2)}, seconds=1.0)
    with pytest.raises(
        ValueError, match="has no results for 1 of 2 units of work, such as 2: let all processes write to one"
    ):
        store.check_whole(["1", "2"])
    shutil.copy(tmp_path / "a" / "1.safetensors", tmp_path / "a" / "2.safetensors")
    with pytest.raises(ValueError, match="contains the result of another unit, a/1: delete the file"):
        store.get(["2"])
    with pytest.raises(ValueError, match="expected a other file: delete the file"):
        ResultStore(tmp_path / "a", kind="other").get(["1"])
    part = tmp_path / "a" / "1.safetensors"
    part.write_bytes(part.read_bytes()[:-1])
    with pytest.raises(ValueError, match="delete the file and run the same command again"):
        store.get(["1"])


def test_folders_with_other_files_are_rejected(tmp_path: Path) -> None:
    def check(folder: Path) -> None:
        check_folder(folder, folders=("runs",), report=("results.json",), what="a test", ours=lambda path: False)

    check(tmp_path / "not there")
    check(tmp_path)
    (tmp_path / ".hidden").touch()
    check(tmp_path)
    for name, words in (
        ("runs", "runs is a file but should be a folder"),
        ("notes", "contains notes, which was not written by a test"),
        ("results.json", "results.json was not written by a test"),
    ):
        (tmp_path / name).touch()
        with pytest.raises(ValueError, match=words):
            check(tmp_path)
        (tmp_path / name).unlink()
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="is a file: choose a folder"):
        check(tmp_path / "file")
    with pytest.raises(ValueError, match="cannot be written to"):
        make_folder(tmp_path / "file" / "below")


def test_json_is_read_only_if_its_format_matches(tmp_path: Path) -> None:
    path = tmp_path / "new" / "a.json"
    write_text(path, '{"format": "mine", "x": 1}')
    assert read_json(path, format="mine") == {"format": "mine", "x": 1}
    assert read_json(path, format="yours") is None and read_json(tmp_path / "no", format="mine") is None
    assert [entry.name for entry in path.parent.iterdir()] == ["a.json"]


def test_fingerprints_follow_their_content() -> None:
    assert fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1}) != fingerprint({"a": 1, "b": 3})
    layer = nn.Linear(2, 2)
    before = digest_of(layer)
    assert before == digest_of(layer) != digest_of(layer, {"a": 1})
    with torch.no_grad():
        layer.weight[0, 0] += 1e-3
    assert digest_of(layer) != before
    images = np.zeros((5, 4, 4, 1), dtype=np.uint8)
    some = ImageSet(images=images, rows=np.arange(4))
    first = digest_of_set(some)
    assert first != digest_of_set(ImageSet(images=images, rows=np.arange(5)))
    images[4] = 1
    assert digest_of_set(some) == first  # not in the set
    images[3, 0, 0] = 1
    assert digest_of_set(some) != first
    assert slug_of("eig-ipa, no finding") == "eig-ipa-no-finding"


def test_the_total_is_known_at_the_start_and_the_time_left_by_kind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    units = work_units(tmp_path, [])
    work(units[:2], Shard(1, 1), silent)
    said: list[str] = []
    with showing(Display()):
        work(units, Shard(1, 1), said.append)
    assert said[0] == "2 of 12 units of work are done already"
    assert capsys.readouterr().err == "measuring: 0 of 10 units\n"
    pace = _Pace(units)
    assert pace.left() is None
    pace.finish(units[0], 10.0)
    assert pace.left() == pytest.approx(11 * 10.0)
    pace.finish(units[6], 1.0)
    pace.finish(units[7], None)  # another process has computed it
    assert pace.left() == pytest.approx(5 * 10.0 + 4 * 1.0)
    slow = _Pace(units)
    slow.finish(units[0], 1e-6)
    slow.begin(units[6])
    time.sleep(0.01)
    assert (slow.left() or 0) >= 6 * 0.01  # the first unit of another kind takes longer than expected


def test_python_shows_progress_unless_it_gets_a_function_for_messages(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    alone = World(0, 1, torch.device("cpu"))
    work_together(work_units(tmp_path / "a", []), alone, None, silent)
    assert capsys.readouterr().err == ""
    work_together(work_units(tmp_path / "b", []), alone, None, print)
    assert capsys.readouterr().err == "measuring: 0 of 12 units\n"
