"""Progress is shown by time, on a terminal and in a log, and never after the end of a job."""

import io
import os
import sys
import threading
import time

import pytest

from condvae.runtime.progress import Display, result, say, showing, track, warn, with_display

Captured = pytest.CaptureFixture[str]


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now, self.reads = 100.0, 0

    def __call__(self) -> float:
        self.reads += 1
        return self.now


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock() -> Clock:
    return Clock()


def display(clock: Clock, first: float | None = None) -> Display:
    """A display whose thread does nothing, so that the test calls `beat`."""
    return Display(clock=clock, tick=3600, first=first)


def lines_after(seconds: float, clock: Clock, shown_on: Display, capsys: Captured) -> list[str]:
    """Let time pass in steps of half a second, as the thread does, and return the lines on stderr."""
    for _ in range(round(2 * seconds)):
        clock.now += 0.5
        shown_on.beat()
    return capsys.readouterr().err.splitlines()


def test_a_log_gets_a_line_at_least_every_ten_seconds_even_in_one_long_unit(clock: Clock, capsys: Captured) -> None:
    with showing(display(clock, first=0.5)) as one, track("opening a", unit=""):
        assert lines_after(0.5, clock, one, capsys) == ["opening a ..."]
        with track("drawing", total=40) as job:
            assert lines_after(8.5, clock, one, capsys) == []
            assert lines_after(0.5, clock, one, capsys) == ["drawing: 0 of 40 images, 9 s so far"]
            job.update(3)
            # The first estimate does not wait.
            told = lines_after(0.5, clock, one, capsys)
            assert told == ["drawing: 3 of 40 images, 10 s so far, about 2 min left"]
            stamps = [lines_after(0.5, clock, one, capsys) for _ in range(120)]
            assert [i for i, some in enumerate(stamps) if some] == [17, 35, 53, 71, 89, 107]  # every nine seconds
        # What was opened is open by now.
        assert lines_after(9, clock, one, capsys) == ["still working: 1 min 13 s so far"]
    one.beat()
    assert capsys.readouterr().err == ""


def test_early_estimates_are_not_wild(clock: Clock) -> None:
    with showing(display(clock)), track("drawing", total=1000) as job:
        job.update()
        clock.now += 4
        assert job.seconds_left is None  # one unit may have been slow because of compilation
        clock.now += 2
        assert job.seconds_left == pytest.approx(6 * 999)
        job.update(2)
        assert job.seconds_left == pytest.approx(2 * 997)
        job.update(997)
        assert job.seconds_left == 0


def test_a_hint_at_a_gpu_comes_once_and_from_measured_units(clock: Clock, capsys: Captured) -> None:
    hint = "training takes about 50 min in all on this CPU; a GPU is much faster: see docs/guides/train.md"
    for guide, pace, expected in (
        ("docs/guides/train.md", 3, [hint]),
        ("docs/guides/train.md", 0.5, []),
        (None, 3, []),
    ):
        with showing(display(clock)) as one, track("training", total=1000, unit="step", gpu_guide=guide) as job:
            found = []
            for _ in range(20):
                clock.now += pace
                job.update()
                found += lines_after(0, clock, one, capsys)
                one.beat()
            found += capsys.readouterr().err.splitlines()
        assert [line for line in found if "GPU" in line] == expected


def test_a_terminal_gets_a_bar_that_messages_do_not_break(
    clock: Clock, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", "60")
    with showing(display(clock)) as one:
        with track("drawing", total=8) as job:
            job.update(4)
            clock.now += 20
            one.beat()
            bar = "\r\x1b[K[#####-----] drawing: 4 of 8 images, 20 s so far, about 20 s left"
            assert terminal.getvalue() == bar[: 4 + 59]
            say("a note")
            assert terminal.getvalue().endswith("\r\x1b[K") and capsys.readouterr().out == "a note\n"
            one.beat()
        assert terminal.getvalue().endswith("\r\x1b[K")  # nothing stays
        length = len(terminal.getvalue())
    assert len(terminal.getvalue()) == length


def test_a_real_terminal_shows_the_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.openpty()
    with os.fdopen(writing, "w") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        with showing(Display(tick=0.01)), track("drawing", total=8) as job:
            job.update(4)
            assert b"[#####-----] drawing: 4 of 8 images" in os.read(reading, 1000)
    os.close(reading)


def test_the_thread_reports_during_a_long_unit_and_stops_with_a_job_that_fails(capsys: Captured) -> None:
    def fail() -> None:
        with showing(Display(first=0, every=0.05, tick=0.01)), track("drawing", total=8):
            time.sleep(0.3)
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        fail()
    found = capsys.readouterr().err.splitlines()
    assert len(found) >= 3 and set(found) == {"drawing: 0 of 8 images"}
    assert not any(thread.name == "condvae progress" for thread in threading.enumerate())
    time.sleep(0.06)
    assert capsys.readouterr().err == ""


def test_only_the_outer_of_two_counts_is_shown_if_the_other_is_inner(clock: Clock, capsys: Captured) -> None:
    with showing(display(clock, first=0)) as one:
        for total, what in ((5, "completing"), (1, "drawing")):
            with track("completing", total=total), track("drawing", total=64, unit="completion", inner=True):
                assert lines_after(9, clock, one, capsys)[0].startswith(what)
        with track("training", total=9, unit="step"), track("evaluating", total=3):
            assert lines_after(9, clock, one, capsys)[0].startswith("evaluating: 0 of 3 images")


def test_bytes_are_measured_and_have_a_speed(clock: Clock, capsys: Captured) -> None:
    def size() -> float:
        if clock.now < 105:
            raise FileNotFoundError  # a file that was moved while it was measured
        return 5 * (clock.now - 100)

    with showing(display(clock)) as one, track("downloading", total=139, unit="MB", measured=size):
        found = lines_after(10, clock, one, capsys)
        assert found == ["downloading: 25 of 139 MB, 5.0 MB/s, 5 s so far, about 25 s left"]
        assert lines_after(40, clock, one, capsys)[-1].startswith("downloading: 139 of 139 MB")  # never above


def test_counting_reads_no_clock(clock: Clock) -> None:
    with showing(display(clock)), track("training", total=9, unit="step") as job:
        before = clock.reads
        for _ in range(100):
            job.update()
        assert clock.reads == before
        assert [job.note_due(), job.note_due()] == [True, False]
        clock.now += 9
        assert [job.note_due(), job.note_due()] == [True, False]


def test_without_a_display_and_in_other_ranks_nothing_is_shown(
    clock: Clock, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    with track("drawing", total=2, announce=True) as job:
        job.update()
    assert job.done == 1
    with with_display(), track("drawing", total=2, announce=True):  # as in `condvae.pretrain`
        pass
    assert capsys.readouterr().err == "drawing: 0 of 2 images\n"
    monkeypatch.setenv("RANK", "1")
    with showing(display(clock, first=0)) as one, track("drawing", total=2, announce=True):
        assert lines_after(20, clock, one, capsys) == []


@pytest.mark.parametrize("closed", [False, True])
def test_a_job_works_without_stderr(clock: Clock, monkeypatch: pytest.MonkeyPatch, closed: bool) -> None:
    stream = io.StringIO()
    stream.close()
    monkeypatch.setattr(sys, "stderr", stream if closed else None)
    for quiet in (False, True):
        with showing(Display(clock=clock, tick=3600, first=0, quiet=quiet)) as one, track("drawing", total=2) as job:
            warn("strange")
            job.update()
            one.beat()
        assert job.done == 1


def test_quiet_keeps_results_on_stdout_and_warnings_on_stderr(clock: Clock, capsys: Captured) -> None:
    for quiet, out, err in ((True, "2\n", "strange\n"), (False, "wrote a\n2\nstrange\n", "drawing: 0 of 2 images\n")):
        with showing(Display(clock=clock, tick=3600, first=0, quiet=quiet)) as one:
            with track("drawing", total=2, announce=True):
                one.beat() if quiet else None
            say("wrote a")
            result("2")
            warn("strange")
        captured = capsys.readouterr()
        assert (captured.out, captured.err) == (out, err)


def test_names_cannot_send_codes_to_the_terminal(clock: Clock, capsys: Captured) -> None:
    with showing(display(clock, first=0)) as one, track("opening \x1b[31m\na", unit=""):
        assert lines_after(0.5, clock, one, capsys) == ["opening ?[31m?a ..."]
