"""Learning rates follow their formula, and a wall-clock budget ends on time."""

import math

import pytest

from condvae.training.schedule import Budget, Schedule


def test_warm_up_then_decay() -> None:
    cosine = Schedule(decay="cosine", warm_up=10, final=0.1)
    assert cosine.factor(0, 0.0) == pytest.approx(0.1)
    assert cosine.factor(9, 0.0) == pytest.approx(1.0)
    assert cosine.factor(50, 0.5) == pytest.approx(0.1 + 0.9 * 0.5)
    assert cosine.factor(100, 1.0) == pytest.approx(0.1)
    assert cosine.factor(100, 1.2) == pytest.approx(0.1)
    linear = Schedule(decay="linear", warm_up=0, final=0.0)
    assert [linear.factor(0, p) for p in (0.0, 0.25, 1.0)] == pytest.approx([1.0, 0.75, 0.0])
    assert Schedule(decay="constant", warm_up=0).factor(10**6, 0.99) == 1.0


def test_a_budget_of_steps() -> None:
    budget = Budget(steps=4, minutes=None)
    assert [budget.over(step) for step in range(6)] == [False, False, False, False, True, True]
    assert budget.progress(1) == 0.25


def test_a_budget_of_minutes_is_kept_when_the_pace_changes() -> None:
    budget = Budget(steps=None, minutes=1.0)
    budget.record_time(0, 4.0, reserve=6.0)  # reading data took four seconds
    now, step = 4.0, 0
    while not budget.over(step):
        now += 0.5 if step < 30 else 0.1
        step += 1
        if step % 10 == 0 or step in (1, 2, 4, 8):
            budget.record_time(step, now)
    assert 53.0 < now <= 54.0  # a minute minus the reserve of 6 seconds
    assert budget.progress(step) == pytest.approx(1.0, abs=0.02)


def test_at_least_one_step_is_made() -> None:
    budget = Budget(steps=None, minutes=0.01)
    budget.record_time(0, 5.0)
    assert not budget.over(0)
    budget.record_time(1, 6.0)
    assert budget.over(1)


def test_training_ends_when_steps_or_minutes_are_used_up() -> None:
    budget = Budget(steps=1000, minutes=1.0)
    budget.record_time(10, 30.0)
    assert budget.progress(10) == 0.5
    assert budget.seconds_left(10) == pytest.approx(30.0)
    assert not budget.over(19)
    assert budget.over(20)


@pytest.mark.parametrize(("steps", "minutes"), [(None, None), (0, None), (None, 0.0), (None, -1.0), (None, math.nan)])
def test_invalid_budgets_are_rejected(steps: int | None, minutes: float | None) -> None:
    with pytest.raises(ValueError, match=r"steps|minutes"):
        Budget(steps=steps, minutes=minutes)


def test_invalid_schedules_are_rejected() -> None:
    with pytest.raises(ValueError, match="schedule"):
        Schedule(decay="square")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="warm_up"):
        Schedule(warm_up=-1)
    with pytest.raises(ValueError, match="final"):
        Schedule(final=1.5)


def test_slow_first_steps_do_not_count_for_the_pace() -> None:
    budget = Budget(steps=None, minutes=2)
    budget.record_time(0, 5.0)
    budget.record_time(1, 65.0, settling=True)  # kernels were compiled
    assert not budget.over(1)
    budget.record_time(2, 66.0, settling=True)
    budget.record_time(4, 66.2)
    assert budget.pace == pytest.approx(0.1)
    assert budget.elapsed(14) == pytest.approx(67.2)
