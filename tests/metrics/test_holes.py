import pytest
import torch

from condvae.metrics import HOLE_BINS, HoleBin, known_in_bin


def test_the_five_bins_tile_all_shares() -> None:
    assert [str(hole) for hole in HOLE_BINS] == ["0-0.2", "0.2-0.4", "0.4-0.6", "0.6-0.8", "0.8-1"]


@pytest.mark.parametrize("hole", HOLE_BINS, ids=str)
def test_holes_lie_in_their_range_and_repeat(hole: HoleBin) -> None:
    known = known_in_bin(hole, 12, 64, seed=3)
    hidden = 1 - known.float().mean(dim=(1, 2, 3))
    assert known.shape == (12, 1, 64, 64)
    assert known.dtype == torch.bool
    assert ((hidden > hole.low) & (hidden < hole.high)).all()
    assert torch.equal(known, known_in_bin(hole, 12, 64, seed=3))
    assert not torch.equal(known, known_in_bin(hole, 12, 64, seed=4))
