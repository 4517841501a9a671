"""The campaign of kills, with few kills. The whole campaign is `python tests/campaigns/kills.py --kills 1000`."""

import json
from pathlib import Path

import pytest
from campaigns import kills
from campaigns.kill_contract import Expected, after_kill, after_repetition, contents
from campaigns.kill_scenarios import SCENARIOS, Scenario
from helpers.pictures_to_complete import photo
from helpers.processes import say

from condvae.cli import VERBS

FEW = ("complete over an earlier call", "export", "pretrain")
SCENARIO = Scenario(name="a verb", words=["complete"], record="record.json", guests=("out/holiday.png",))


def test_killed_calls_lose_nothing(tmp_path: Path) -> None:
    words = ("--kills", "8", "--work", tmp_path / "work", "--out", tmp_path / "summary.json", "--scenarios", *FEW)
    say(Path(kills.__file__), *words, said=tmp_path / "said")
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert list(summary["scenarios"]) == [one.name for one in SCENARIOS if one.name in FEW]
    assert summary["all"]["kills"] >= 8 and summary["lost"] == []


def test_all_verbs_that_write_are_killed() -> None:
    groups = {"design": ("scan", "train", "experiment"), "ood": ("fit", "score", "experiment")}
    killed = {" ".join(one.words[: 2 if one.words[0] in groups else 1]) for one in SCENARIOS}
    wanted = {f"{verb} {job}" for verb, jobs in groups.items() for job in jobs}
    assert killed == wanted | (VERBS.keys() - groups.keys() - {"info"})


def test_a_trial_depends_only_on_the_seed_and_its_number() -> None:
    plans = [kills.plan(3, trial, SCENARIOS) for trial in range(300)]
    assert plans == [kills.plan(3, trial, SCENARIOS) for trial in range(300)]
    assert plans != [kills.plan(4, trial, SCENARIOS) for trial in range(300)]
    kinds = [strike.kind for _, strikes in plans for strike in strikes]
    assert kinds.count("moment") > len(kinds) / 3 < kinds.count("before") + kinds.count("after")
    assert {len(strikes) for scenario, strikes in plans if scenario.resumable} == {1, 2, 3, 4, 5}


@pytest.fixture
def expected(tmp_path: Path) -> Expected:
    """A folder with two pictures and a record, in place of an earlier call with one picture."""
    for folder, seeds in (("start", (5,)), ("whole", (1, 2))):
        (tmp_path / folder / "out").mkdir(parents=True)
        for name in SCENARIO.sentinels:
            (tmp_path / folder / name).write_text("of the user")
        for i, seed in enumerate(seeds):
            photo(tmp_path / folder / "out" / f"{i}.png", seed=seed)
        record = {"outputs": [f"{i}.png" for i in range(len(seeds))], "seconds": len(seeds)}
        (tmp_path / folder / "out" / "record.json").write_text(json.dumps(record))
    return Expected(start=contents(tmp_path / "start"), whole=contents(tmp_path / "whole"))


def lost(expected: Expected, folder: Path, *, polite: bool = False) -> str:
    return "\n".join(after_kill(SCENARIO, expected, folder, polite=polite))


def test_the_contract_holds_of_every_state_between_two_calls(tmp_path: Path, expected: Expected) -> None:
    start, whole = tmp_path / "start", tmp_path / "whole"
    assert lost(expected, start) == lost(expected, whole) == ""
    assert list(after_repetition(SCENARIO, expected, whole)) == []
    (start / "out" / ".unfinished-1").mkdir()
    (start / "out" / ".unfinished-1" / "1.png").write_text("half")
    assert lost(expected, start) == "" and "can be handled: out/.unfinished-1" in lost(expected, start, polite=True)
    (start / "out" / "record.json").unlink()
    assert lost(expected, start) == ""
    (whole / "out" / "0.png").replace(start / "out" / "0.png")
    assert lost(expected, start) == ""
    assert "missing: out/1.png, out/record.json" in "\n".join(after_repetition(SCENARIO, expected, start))


def test_losses_are_noticed(tmp_path: Path, expected: Expected) -> None:
    out = tmp_path / "start" / "out"
    picture = (out / "0.png").read_bytes()
    (out / "0.png").write_bytes(picture[:-30])
    assert "0.png is not whole" in lost(expected, tmp_path / "start")
    photo(out / "0.png", seed=7)
    assert "neither from the new call nor from the earlier one" in lost(expected, tmp_path / "start")
    (out / "0.png").write_bytes((tmp_path / "whole" / "out" / "0.png").read_bytes())
    assert "the files are not those of its call: different: out/0.png" in lost(expected, tmp_path / "start")
    (out / "0.png").write_bytes(picture)
    (out / "holiday.png").unlink()
    assert "out/holiday.png, a file of the user, was removed" in lost(expected, tmp_path / "start")
    (tmp_path / "whole" / "out" / ".unfinished-1").mkdir()
    assert list(after_repetition(SCENARIO, expected, tmp_path / "whole")) == [
        "temporary files remain after the command was repeated: out/.unfinished-1"
    ]
