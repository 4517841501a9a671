"""Data and random numbers depend only on the seed, the step and the position in the batch."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.models import generator, small_conditional
from helpers.training import SMALL, call

from condvae.cli import main
from condvae.data import ImageSet
from condvae.observe import Freeform
from condvae.runtime.ranks import World
from condvae.training.logs import RunLog
from condvae.training.loop import Loop
from condvae.training.optimiser import Rule
from condvae.training.options import TrainOptions
from condvae.training.run_folder import RunFolder
from condvae.training.schedule import Stopwatch
from condvae.training.step import MicroBatch, TrainingStep
from condvae.training.task import ConditionalTraining


def make_loop(rank: int, ranks: int, folder: Path, **changes: Any) -> Loop:
    """Make the loop of one rank; the tests call no method that communicates with other ranks."""
    world = World(rank, ranks, torch.device("cpu"))
    task = ConditionalTraining(small_conditional(), Freeform())
    pixels = torch.randint(256, (40, 8, 8, 3), dtype=torch.uint8, generator=generator()).numpy()
    images = ImageSet(images=pixels, rows=np.arange(40))
    options = TrainOptions(**{"data": (folder,), "out": folder, "steps": 5, "batch": 8, **changes})
    return Loop(
        options,
        TrainingStep(task, Rule(), world, precision="fp32", flip=False),
        train=images,
        held_out=images,
        held_out_name="held-out",
        folder=RunFolder(folder),
        log=RunLog(folder, enabled=False),
        stopwatch=Stopwatch(),
        draw_sheet=pytest.fail,
        save_model=lambda path, record: pytest.fail(str(path)),
    )


def first_steps(loop: Loop, steps: int) -> list[list[MicroBatch]]:
    batches = loop._batches()
    # Each generator is copied, because the loop reuses it in the next step.
    return [[MicroBatch(micro.levels, micro.generator.clone_state()) for micro in next(batches)] for _ in range(steps)]


def test_two_ranks_together_draw_what_one_process_draws(tmp_path: Path) -> None:
    together = first_steps(make_loop(0, 1, tmp_path, micro_batch=4), 5)
    apart = [first_steps(make_loop(rank, 2, tmp_path), 5) for rank in (0, 1)]
    drawn = []
    for step in range(5):
        for rank in (0, 1):
            (mine,), alone = apart[rank][step], together[step][rank]
            assert torch.equal(mine.levels.images, alone.levels.images)
            known = [Freeform().draw(4, 8, micro.generator) for micro in (mine, alone)]
            assert torch.equal(*known)
            drawn.append(known[0])
    # 5 steps x 2 ranks x 4 images have 40 different observations.
    assert len(torch.unique(torch.cat(drawn).flatten(1), dim=0)) == 40
    # An epoch has 40 images, and every image occurs once.
    seen = torch.cat([mine.levels.images for rank in (0, 1) for (mine,) in apart[rank]])
    assert len(torch.unique(seen.flatten(1), dim=0)) == 40


def test_a_run_folder_is_described(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    call("pretrain", *SMALL, "--network", "tiny", "--steps", "6", "--checkpoint-every", "2", "--out", folder)
    newest = folder / "checkpoints" / "step-000000006.safetensors"
    newest.write_bytes(newest.read_bytes()[:-1])
    main(["info", str(folder)])
    text = capsys.readouterr().out
    assert "step 4 after" in text and "finished" in text
    assert re.search(r"step 4 +intact", text) and re.search(r"step 6 +damaged", text)
    assert "bits_per_dim" in text and "batch 8" in text
    main(["info", str(folder), "--json"])
    import json

    assert json.loads(capsys.readouterr().out)["options"]["network"] == "tiny"
    with pytest.raises(SystemExit):
        main(["info", str(tmp_path)])
    assert "is not a run folder of condvae" in capsys.readouterr().err
