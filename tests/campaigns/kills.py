"""The campaign of kills: end calls of all verbs that write at random moments, and check that nothing is lost.

    python tests/campaigns/kills.py --kills 1000 --seed 0 --processes 16 --out summary.json

`kill_contract.py` says what must hold. Half of the kills come at a uniformly random moment of the call, a quarter just
before a random change of files, and a quarter shortly after one. A resumable call is killed up to five times before it
may end. One signal in eight is not SIGKILL, but one that can be handled; these do not count as kills. Everything
is drawn from the seed: `--only I` repeats trial I and keeps its folder. The exit code is 1 if anything was lost.
"""

import argparse
import importlib
import json
import os
import pkgutil
import platform
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

for _library in ("OMP", "OPENBLAS", "MKL"):  # a process with threads cannot be forked safely
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")
_TESTS = Path(__file__).resolve().parents[1]
if __name__ == "__main__":
    sys.path[:0] = [str(_TESTS), str(_TESTS.parent / "src")]

import torch  # noqa: E402
from campaigns import kill_contract  # noqa: E402
from campaigns.kill_scenarios import SCENARIOS, Scenario, build_world, start_of  # noqa: E402
from campaigns.killed_calls import Ended, Strike, run  # noqa: E402

import condvae  # noqa: E402

_POLITE = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_MOST_KILLS = 5
"""How often a resumable call is killed at most."""


@dataclass(frozen=True, kw_only=True)
class PlannedStrike:
    """A strike whose time is a fraction of the uninterrupted call."""

    kind: Literal["moment", "before", "after"]
    fraction: float
    delay: float
    number: int


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A scenario with what an uninterrupted call of it takes and writes."""

    scenario: Scenario
    seconds: float
    changes: int
    expected: kill_contract.Expected

    def strike(self, planned: PlannedStrike) -> Strike:
        at = planned.fraction * self.seconds if planned.kind == "moment" else int(planned.fraction * self.changes)
        return Strike(kind=planned.kind, at=at, delay=planned.delay, number=planned.number)


def plan(seed: int, trial: int, scenarios: Sequence[Scenario]) -> tuple[Scenario, list[PlannedStrike]]:
    """Return the scenario and the strikes of a trial."""
    dice = random.Random(f"{seed} {trial}")
    scenario = scenarios[trial % len(scenarios)]
    strikes = []
    for _ in range(dice.randint(1, _MOST_KILLS if scenario.resumable else 2)):
        kind: Any = dice.choice(("moment", "moment", "before", "after"))
        number = dice.choice(_POLITE) if dice.random() < 1 / 8 else signal.SIGKILL
        strikes.append(PlannedStrike(kind=kind, fraction=dice.random(), delay=dice.random() ** 4 * 0.01, number=number))
    return scenario, strikes


def measure(scenario: Scenario, work: Path) -> Measured:
    """Make one uninterrupted call."""
    start, whole = (work / folder / scenario.name.replace(" ", "_") for folder in ("starts", "wholes"))
    start_of(scenario, start)
    shutil.copytree(start, whole)
    ended = run(scenario.words, whole, prepare=scenario.prepare)
    if ended.code != 0 or not ended.changes:
        raise RuntimeError(f"{scenario.name} ended with exit code {ended.code}, {ended.changes} changes:\n{ended.said}")
    expected = kill_contract.Expected(start=kill_contract.contents(start), whole=kill_contract.contents(whole))
    return Measured(scenario=scenario, seconds=ended.seconds, changes=ended.changes, expected=expected)


def attempt(trial: int, one: Measured, strikes: Sequence[PlannedStrike], work: Path, *, keep: bool) -> dict[str, Any]:
    """Make one trial: kill the call, check its files, and repeat it to its end. Return what happened."""
    scenario, expected = one.scenario, one.expected
    folder = work / "trials" / f"{trial:05}"
    shutil.copytree(work / "starts" / scenario.name.replace(" ", "_"), folder)
    hits: list[str] = []
    signals: list[int] = []
    losses: list[str] = []
    ended: Ended | None = None

    def lose(when: str, what: str) -> None:
        losses.append(f"trial {trial}, {scenario.name}, {when}: {what}")

    for planned in strikes:
        left = kill_contract.temporary_files(folder)
        ended = run(scenario.words, folder, strike=one.strike(planned), prepare=scenario.prepare)
        if not ended.struck:
            break
        polite = planned.number != signal.SIGKILL
        when = f"after {signal.Signals(planned.number).name} {planned.kind} {planned.fraction:.4f}"
        signals.append(planned.number)
        if not polite:
            hits.append("before" if not ended.changes else "while" if ended.changes < one.changes else "after")
        elif ended.code not in _codes(planned.number, ended) or "Traceback" in ended.said:
            lose(when, f"exit code {ended.code}: {ended.said[-1500:]}")
        for loss in kill_contract.after_kill(scenario, expected, folder, polite=polite, left_before=left):
            lose(when, loss)
    seconds = 0.0
    finished = not scenario.repeatable and _is_whole(one, folder)
    if (ended is None or ended.struck) and not finished:
        ended = run(scenario.words, folder, prepare=scenario.prepare)
        seconds = ended.seconds
    if ended is not None and ended.code != 0 and not finished:
        lose("repeated", f"exit code {ended.code}: {ended.said[-1500:]}")
    stopped = any(number != signal.SIGKILL for number in signals)
    for loss in kill_contract.after_repetition(scenario, expected, folder, stopped=stopped):
        lose("repeated", loss)
    if not losses and not keep:
        shutil.rmtree(folder)
    return {
        "trial": trial,
        "scenario": scenario.name,
        "hits": hits,
        "signals": signals,
        "losses": losses,
        "seconds": seconds,
    }


def _codes(number: int, ended: Ended) -> set[int]:
    """Return the exit codes that are right after a signal; 130 is that of a stopped training."""
    unprepared = {-number} if not ended.changes else set()  # the signal came before `main` handles signals
    return {128 + number, 130, *unprepared}


def _is_whole(one: Measured, folder: Path) -> bool:
    return not list(kill_contract.after_repetition(one.scenario, one.expected, folder))


def workers(
    trials: Sequence[int], measured: dict[str, Measured], arguments: argparse.Namespace, work: Path
) -> list[dict[str, Any]]:
    """Divide trials among forked processes, and return their results. A process takes every n-th trial."""
    scenarios = [one.scenario for one in measured.values()]
    pipes = []
    for share in range(arguments.processes):
        reader, writer = os.pipe()
        process = os.fork()
        if process == 0:
            os.close(reader)
            with os.fdopen(writer, "w") as out:
                for trial in trials[share :: arguments.processes]:
                    scenario, strikes = plan(arguments.seed, trial, scenarios)
                    keep = arguments.only is not None
                    result = attempt(trial, measured[scenario.name], strikes, work, keep=keep)
                    print(json.dumps(result), file=out, flush=True)
            os._exit(0)
        os.close(writer)
        pipes.append((process, reader))
    results = []
    for process, reader in pipes:
        with os.fdopen(reader) as lines:
            results += [json.loads(line) for line in lines]
        if os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) != 0:
            raise RuntimeError("a process of the campaign has failed: see its message above")
    return results


def summarise(results: Sequence[dict[str, Any]], measured: dict[str, Measured]) -> dict[str, Any]:
    """Return the numbers of each scenario and of all."""
    rows: dict[str, Any] = {}
    for name, one in measured.items():
        mine = [result for result in results if result["scenario"] == name]
        hits = [hit for result in mine for hit in result["hits"]]
        lost = [result for result in mine if result["losses"]]
        rows[name] = {
            "trials": len(mine),
            "kills": len(hits),
            **{f"kills {when} writing": hits.count(when) for when in ("before", "while", "after")},
            "other signals": sum(len(result["signals"]) for result in mine) - len(hits),
            "most kills in one run": max((len(result["hits"]) for result in mine), default=0),
            "equal to an uninterrupted call": len(mine) - len(lost),
            "losses": len(lost),
            "uninterrupted seconds": round(one.seconds, 3),
            "changes of files": one.changes,
            "longest repetition seconds": round(max((result["seconds"] for result in mine), default=0.0), 3),
        }
    keys = ("trials", "kills", "other signals", "equal to an uninterrupted call", "losses")
    return {"all": {key: sum(row[key] for row in rows.values()) for key in keys}, "scenarios": rows}


def campaign(arguments: argparse.Namespace, work: Path) -> int:
    """Run the campaign in a folder; return the exit code."""
    began = time.monotonic()
    scenarios = [one for one in SCENARIOS if not arguments.scenarios or one.name in arguments.scenarios]
    if arguments.only is not None:
        scenarios_all = scenarios
        scenarios = [plan(arguments.seed, arguments.only, scenarios_all)[0]]
    build_world(work, {need for one in scenarios for need in one.needs})
    measured = {one.name: measure(one, work) for one in scenarios}
    print(
        f"{len(measured)} scenarios take {sum(one.seconds for one in measured.values()):.1f} s without kills",
        flush=True,
    )
    if arguments.only is not None:
        scenario, strikes = plan(arguments.seed, arguments.only, scenarios_all)
        results = [attempt(arguments.only, measured[scenario.name], strikes, work, keep=True)]
        print(f"{scenario.name}: {strikes}\n{work / 'trials'} has the files")
    else:
        results, kills, next_trial = [], 0, 0
        while kills < arguments.kills:  # a call may end before its kill, so the number of trials is not known before
            missing = max(arguments.kills - kills, 1)
            count = max(missing // 2, arguments.processes)
            results += workers(range(next_trial, next_trial + count), measured, arguments, work)
            next_trial += count
            kills = sum(len(result["hits"]) for result in results)
            print(f"{kills:,} kills in {time.monotonic() - began:.0f} s", flush=True)
    summary = {
        "command": f"python tests/campaigns/kills.py {' '.join(sys.argv[1:])}",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "condvae": condvae.__version__,
        "seconds": round(time.monotonic() - began, 1),
        **summarise(results, measured),
        "lost": sorted(loss for result in results for loss in result["losses"]),
    }
    if arguments.out:
        arguments.out.write_text(json.dumps(summary, indent=1) + "\n")
    print(json.dumps(summary["all"]))
    for loss in summary["lost"]:
        print(loss)
    return 1 if summary["lost"] else 0


def import_everything() -> None:
    """Import all modules of condvae, so that calls in forked processes need not."""
    torch.set_num_threads(1)
    for module in pkgutil.walk_packages(condvae.__path__, "condvae."):
        if "kernels." not in module.name and not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    for name in ("matplotlib.figure", "matplotlib.backends.backend_agg"):
        try:
            importlib.import_module(name)
        except ImportError:  # reports then have no figures
            break


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--kills", type=int, default=100, help="how many SIGKILLs, at least")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=1, help="how many calls to make at the same time")
    parser.add_argument("--scenarios", nargs="*", help="only these scenarios")
    parser.add_argument("--only", type=int, metavar="I", help="repeat only trial I, and keep its folder")
    parser.add_argument("--work", type=Path, help="an empty folder for the files of the campaign")
    parser.add_argument("--out", type=Path, help="write the summary to this .json file")
    arguments = parser.parse_args()
    import_everything()
    if arguments.work:
        arguments.work.mkdir(parents=True, exist_ok=True)
    work = arguments.work or Path(tempfile.mkdtemp(prefix="condvae-kills-"))
    code = 1
    try:
        code = campaign(arguments, work.resolve())
    finally:
        if not arguments.work and code == 0 and arguments.only is None:
            shutil.rmtree(work)
        else:
            print(f"the files are in {work}")
    return code


if __name__ == "__main__":
    sys.exit(main())
