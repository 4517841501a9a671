import pytest
import torch
import torch.nn.functional as F

pytest.importorskip("triton")
from condvae.kernels.resample import enlarge, mean_pool

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


@pytest.mark.parametrize(("factor", "size"), [(2, 8), (4, 4), (2, 2)])
def test_pooling_and_enlarging_equal_torch_and_are_each_others_gradient(factor: int, size: int) -> None:
    x = torch.randn(2, 5, size, size, device=DEVICE).to(memory_format=torch.channels_last).requires_grad_()
    pairs = (
        (mean_pool(x, factor), F.avg_pool2d(x, factor)),
        (enlarge(x, factor), F.interpolate(x, scale_factor=factor, mode="nearest")),
    )
    for mine, theirs in pairs:
        torch.testing.assert_close(mine, theirs)
        dy = torch.randn_like(theirs)
        torch.testing.assert_close(*(torch.autograd.grad(y, x, dy)[0] for y in (mine, theirs)))
