"""Packages that can be used without training do not import the training step, nor models the baselines' networks."""

import subprocess
import sys
from pathlib import Path

from helpers.models import small_conditional

from condvae import save

ROOMS = ("ood", "design", "metrics", "completers", "completion", "experiments.design", "experiments.ood")
TRAINING = {f"condvae.training.{name}" for name in ("step", "loop", "entry_points")}


def test_rooms_and_all_their_public_names_do_not_import_the_training_step() -> None:
    code = f"""
import importlib, sys
for name in {ROOMS}:
    room = importlib.import_module(f"condvae.{{name}}")
    for public in room.__all__: getattr(room, public)
    if found := {TRAINING} & sys.modules.keys(): sys.exit(f"{{name}} loads {{sorted(found)}}")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_saving_and_reading_a_vae_does_not_import_the_baselines(tmp_path: Path) -> None:
    save(small_conditional(), tmp_path / "model.safetensors")
    code = f"""
import sys, condvae, condvae.completion.many_files
model = condvae.load({str(tmp_path / "model.safetensors")!r})
condvae.save(model, {str(tmp_path / "again.safetensors")!r})
sys.exit("condvae.completers.learned_baselines" in sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
