"""Give damaged files to every reader of condvae. Each must be read, or refused in one sentence, quickly and cheaply.

    python tests/campaigns/mutations.py --inputs 1000000 --seed 0 --processes 16 --out mutations.json

Input number i depends only on the seed and on i: `--only i` repeats it and prints its traceback. What is neither read
nor refused by a ValueError of one printable line is a find: it is saved in the folder `--finds` with its reason. Each
input may take 5 seconds and 3 GiB of memory. A process that dies or hangs is replaced.
"""

import argparse
import contextlib
import faulthandler
import json
import multiprocessing
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
from helpers.file_readers import READERS, damaged

SECONDS = 5.0
"""An input that takes longer is a find."""
BYTES = 3 * 2**30
"""Address space that a process may use in addition to what it has at its start."""
LONGEST_SENTENCE = 500
_CHUNK = 500


class TooSlow(BaseException):
    """Raised in the input that takes too long. No reader catches it."""


@dataclass
class Tally:
    """Counts of some inputs. finds: index, reader and reason of each find."""

    counts: Counter[str] = field(default_factory=Counter)
    seconds: Counter[str] = field(default_factory=Counter)
    slowest: tuple[float, int, str] = (0.0, -1, "")
    finds: list[tuple[int, str, str]] = field(default_factory=list)
    mebibytes: int = 0

    def add(self, other: "Tally") -> None:
        self.counts += other.counts
        self.seconds += other.seconds
        self.slowest = max(self.slowest, other.slowest)
        self.finds += other.finds
        self.mebibytes = max(self.mebibytes, other.mebibytes)


def outcome(name: str, content: bytes, folder: Path) -> tuple[str, str]:
    """Give an input to its reader. Return "read" or "refused", or "find" and the reason."""
    signal.signal(signal.SIGALRM, _stop)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        READERS[name].read(folder, content)
    except ValueError as error:
        signal.setitimer(signal.ITIMER_REAL, 0)
        sentence = str(error)
        if type(error) is not ValueError or not sentence.isprintable() or len(sentence) > LONGEST_SENTENCE:
            return "find", f"not one printable sentence: {traceback.format_exc()[-5000:]}"
        return "refused", sentence
    except TooSlow:
        return "find", f"took longer than {SECONDS:g} seconds: {traceback.format_exc()[-5000:]}"
    except Exception:
        return "find", traceback.format_exc()[-5000:]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return "read", ""


def _stop(number: int, frame: object) -> None:
    raise TooSlow


def tally_of(seed: int, indices: range, folder: Path, begin: Any = None) -> Tally:
    """Try some inputs. begin: an array that receives the index of the current input, and the time when it began."""
    made = Tally()
    for index in indices:
        name, content = damaged(seed, index)
        start = time.monotonic()
        if begin is not None:
            begin[:] = (index, start)
        what, reason = outcome(name, content, folder)
        took = time.monotonic() - start
        made.counts[f"{name}: {what}"] += 1
        made.seconds[name] += took  # type: ignore[assignment]
        made.slowest = max(made.slowest, (took, index, name))
        if what == "find":
            made.finds.append((index, name, reason))
    made.mebibytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 2**10
    return made


def _work(seed: int, tasks: Connection, begin: Any, errors: str) -> None:
    """Try the ranges of inputs that arrive, until None arrives."""
    with open(errors, "wb") as file:
        os.dup2(file.fileno(), 2)  # for messages of libraries, and for the traceback of a crash
    faulthandler.enable()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + BYTES, used + BYTES))
    with temporary_folder() as folder:
        while (indices := tasks.recv()) is not None:
            tasks.send(tally_of(seed, indices, folder, begin))


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    """Make a folder in memory, where the system has one, so that the disk does not limit the speed."""
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(dir=memory if os.access(memory, os.W_OK) else None))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Worker:
    """A process that tries inputs. `poll` returns its results, and replaces it if it has died or hangs."""

    def __init__(self, seed: int, folder: Path, number: int) -> None:
        self.seed, self.errors = seed, str(folder / f"{number}.err")
        self.indices: range | None = None
        self._start()

    def _start(self) -> None:
        fork = multiprocessing.get_context("fork")
        self.begin = fork.Array("d", (-1, 0), lock=False)
        self.tasks, theirs = fork.Pipe()
        self.process = fork.Process(target=_work, args=(self.seed, theirs, self.begin, self.errors), daemon=True)
        self.process.start()
        theirs.close()

    def give(self, indices: range | None) -> None:
        self.indices, self.begin[1] = indices, time.monotonic()
        self.tasks.send(indices)

    def poll(self, waiting: deque[range]) -> Tally | None:
        """Return the tally of the last task if there is one. After a death, put the rest of the task back."""
        indices = self.indices
        assert indices is not None
        with contextlib.suppress(EOFError, ConnectionResetError):
            if self.tasks.poll():
                made: Tally = self.tasks.recv()
                self.indices = None
                return made
        hangs = time.monotonic() - self.begin[1] > 3 * SECONDS
        if self.process.is_alive() and not hangs:
            return None
        self.process.kill()
        self.process.join()
        index = max(int(self.begin[0]), indices.start)
        waiting.extend(part for part in (range(indices.start, index), range(index + 1, indices.stop)) if part)
        name = damaged(self.seed, index)[0]
        text = Path(self.errors).read_text(errors="replace")[-3000:]
        reason = f"{'hung, and was killed' if hangs else f'died, exit code {self.process.exitcode}'}: {text}"
        self.indices = None
        self._start()
        return Tally(counts=Counter({f"{name}: find": 1}), finds=[(index, name, reason)])


def campaign(seed: int, inputs: range, processes: int, finds: Path) -> Tally:
    """Try all inputs in several processes, print the progress, and save the finds."""
    total, done, start = Tally(), 0, time.monotonic()
    waiting = deque(range(i, min(i + _CHUNK, inputs.stop)) for i in range(inputs.start, inputs.stop, _CHUNK))
    for reader in READERS.values():
        reader.seeds()  # made once, before the processes are started
    with tempfile.TemporaryDirectory() as errors:
        workers = [Worker(seed, Path(errors), number) for number in range(processes)]
        said = start
        while waiting or any(worker.indices for worker in workers):
            for worker in workers:
                if worker.indices is None and waiting:
                    worker.give(waiting.popleft())
            wait([worker.tasks for worker in workers if worker.indices], timeout=0.5)
            for worker in workers:
                if worker.indices and (made := worker.poll(waiting)) is not None:
                    total.add(made)
                    done += sum(made.counts.values())
                    for index, name, reason in made.finds:
                        _save(finds, index, *damaged(seed, index), reason)
                        print(f"find {index} ({name}): {reason.strip().splitlines()[-1][:200]}", flush=True)
            if time.monotonic() - said > 10:
                said = time.monotonic()
                print(
                    f"{done:,} of {len(inputs):,} inputs, {done / (said - start):,.0f} per second, "
                    f"{len(total.finds)} finds",
                    flush=True,
                )
        for worker in workers:
            worker.give(None)
            worker.process.join()
    return total


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0, help="index of the first input")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--only", type=int, help="repeat this input alone, and save it in --finds")
    parser.add_argument("--finds", type=Path, default=Path("out/mutations"), help="folder for finds")
    parser.add_argument("--out", type=Path, help="JSON file for the summary")
    options = parser.parse_args()
    if options.only is not None:
        return repeat(options.seed, options.only, options.finds)
    start = time.monotonic()
    inputs = range(options.first, options.first + options.inputs)
    total = campaign(options.seed, inputs, options.processes, options.finds)
    seconds = time.monotonic() - start
    rows = {name: {what: total.counts[f"{name}: {what}"] for what in ("read", "refused", "find")} for name in READERS}
    print(f"{'reader':14}{'inputs':>10}{'read':>10}{'refused':>10}{'finds':>7}{'ms each':>9}")
    for name, row in rows.items():
        count = sum(row.values())
        each = 1000 * total.seconds[name] / max(1, count)
        print(f"{name:14}{count:10,}{row['read']:10,}{row['refused']:10,}{row['find']:7,}{each:9.2f}")
    took, index, slow = total.slowest
    summary = (
        f"{options.inputs:,} inputs, {len(total.finds)} finds, {seconds:,.0f} s on {options.processes} processes "
        f"({options.inputs / seconds:,.0f} per second), slowest {took:.2f} s (input {index}, {slow}), peak memory "
        f"{total.mebibytes:,} MiB"
    )
    print(summary)
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        plain = {
            "summary": summary,
            "inputs": options.inputs,
            "first": options.first,
            "seed": options.seed,
            "processes": options.processes,
            "seconds": seconds,
            "readers": {name: {**row, "seconds": total.seconds[name]} for name, row in rows.items()},
            "slowest": {"seconds": took, "input": index, "reader": slow},
            "peak_mebibytes": total.mebibytes,
            "finds": [{"input": index, "reader": name, "reason": reason} for index, name, reason in total.finds],
        }
        options.out.write_text(json.dumps(plain, indent=1) + "\n")
    return 1 if total.finds else 0


def repeat(seed: int, index: int, finds: Path) -> int:
    """Try one input in this process, and print what happens."""
    name, content = damaged(seed, index)
    with temporary_folder() as folder:
        what, reason = outcome(name, content, folder)
    path = _save(finds, index, name, content, reason)
    print(f"input {index}, {len(content):,} bytes for the reader {name!r}, saved as {path}: {what}\n{reason}")
    return 1 if what == "find" else 0


def _save(finds: Path, index: int, name: str, content: bytes, reason: str) -> Path:
    finds.mkdir(parents=True, exist_ok=True)
    path = finds / f"{index}-{name.replace(' ', '-')}"
    path.write_bytes(content)
    path.with_name(path.name + ".txt").write_text(reason, encoding="utf-8", errors="replace")
    return path


if __name__ == "__main__":
    sys.exit(main())
