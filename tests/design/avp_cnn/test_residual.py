import pytest
import torch

from condvae.design.avp_cnn.residual import Residual


def test_each_width_halves_the_image() -> None:
    trunk = Residual(2, widths=(4, 8, 16), blocks=3).eval()
    assert trunk(torch.zeros(2, 2, 32, 32)).shape == (2, 16, 2, 2)
    assert len(trunk.blocks) == 9 and trunk.width == 16
    assert Residual(2, widths=(4,), blocks=1, stem_stride=1).eval()(torch.zeros(1, 2, 8, 8)).shape == (1, 4, 4, 4)


def test_invalid_networks_are_refused() -> None:
    with pytest.raises(ValueError, match="has no widths"):
        Residual(2, widths=(), blocks=1)
    with pytest.raises(ValueError, match="a width of the plain trunk is 0"):
        Residual(2, widths=(4, 0), blocks=1)
    with pytest.raises(ValueError, match="stem_stride is 3"):
        Residual(2, widths=(4,), blocks=1, stem_stride=3)
