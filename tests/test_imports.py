"""What is used without training does not load it."""

import subprocess
import sys

import pytest

TRAINING = {f"condvae.training.{name}" for name in ("step", "loop", "entry_points")}


@pytest.mark.parametrize("room", ["ood", "design", "metrics", "completers", "experiments.design", "experiments.ood"])
def test_a_room_and_all_its_public_names_come_without_the_training_step(room: str) -> None:
    code = (
        f"import sys, condvae.{room} as room\n"
        "for name in room.__all__: getattr(room, name)\n"
        f"print(*sorted({TRAINING} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
