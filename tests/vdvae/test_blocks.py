import torch
import torch.nn.functional as F
from torch import nn

from condvae.vdvae.blocks import Block, fit_channels, recompute_activations


def test_block_is_four_convolutions_with_gelu_before_each() -> None:
    block = Block(3, 5, 7, resolution=4)
    x = torch.randn(2, 3, 4, 4)
    y = x
    for layer in (block.c1, block.c2, block.c3, block.c4):
        y = F.conv2d(F.gelu(y), layer.weight, layer.bias, padding=layer.kernel_size[0] // 2)
    torch.testing.assert_close(block(x), y)
    assert [layer.kernel_size for layer in (block.c1, block.c2, block.c3, block.c4)] == [(1, 1), (3, 3), (3, 3), (1, 1)]
    assert all(not layer.bias.any() for layer in (block.c1, block.c2, block.c3, block.c4) if layer.bias is not None)


def test_blocks_at_resolutions_up_to_2_have_only_1x1_convolutions() -> None:
    for resolution in (1, 2):
        assert Block(3, 5, 3, resolution=resolution).c2.kernel_size == (1, 1)


def test_residual_sum_comes_before_pooling() -> None:
    x = torch.randn(1, 3, 8, 8)
    plain = Block(3, 5, 3, resolution=8)
    both = Block(3, 5, 3, resolution=8, adds_input=True, pool=2)
    both.load_state_dict(plain.state_dict())
    torch.testing.assert_close(both(x), F.avg_pool2d(x + plain(x), 2))


def test_channels_are_dropped_or_padded_with_zeros() -> None:
    x = torch.randn(1, 3, 2, 2)
    assert torch.equal(fit_channels(x, 2), x[:, :2])
    assert torch.equal(fit_channels(x, 3), x)
    assert torch.equal(fit_channels(x, 5), torch.cat((x, torch.zeros(1, 2, 2, 2)), 1))


def test_recomputed_activations_give_the_same_gradients_from_less_memory() -> None:
    torch.manual_seed(0)
    block = Block(4, 6, 4, resolution=8, adds_input=True, pool=2)
    x = torch.randn(2, 4, 8, 8, requires_grad=True)
    results = []
    for on in (False, True):
        recompute_activations(nn.Sequential(block), on)
        kept: list[int] = []

        def pack(tensor: torch.Tensor, kept: list[int] = kept) -> torch.Tensor:
            kept.append(tensor.numel())
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            y = block(x)
        gradients = torch.autograd.grad(y.square().sum(), [x, *block.parameters()])
        results.append((y, gradients, sum(kept)))
    (y, plain, much), (same, again, little) = results
    assert torch.equal(y, same)
    for one, other in zip(plain, again, strict=True):
        torch.testing.assert_close(one, other)
    assert little < much / 2
