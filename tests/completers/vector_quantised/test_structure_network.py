import pytest
import torch
from helpers.models import generator, images, randomise, some_known
from helpers.tiny_vq import SIZE, count, paper, tiny
from torch import Tensor

from condvae.completers.vector_quantised.structure_layers import (
    CausalAttention,
    Dropout,
    GatedResidual,
    WeightNormConv,
    around,
    concat_elu,
)
from condvae.completers.vector_quantised.structure_network import observation_input
from condvae.noise import GeneratorNoise, SeededNoise


def influences(outputs: Tensor, inputs: Tensor) -> Tensor:
    """Which positions of the outputs [1, C, S, S] depend on which positions of the inputs: bool [S S, S S].

    Each position of the outputs is reduced to one number with random weights.
    """
    numbers = (outputs * torch.randn(outputs.shape, generator=generator(), dtype=outputs.dtype)).sum(dim=1).flatten()
    rows = [torch.autograd.grad(number, inputs, retain_graph=True)[0].abs().sum(dim=1).flatten() for number in numbers]
    return torch.stack(rows) > 0


def test_the_paper_s_structure_generator_has_the_paper_s_number_of_parameters() -> None:
    network = paper().completer.structure
    assert count(network) == 63_740_304
    assert round(count(network) / 1e6, 1) == 63.7


def test_logits_depend_on_earlier_codes_only_and_on_all_of_them() -> None:
    model = tiny().double()
    vectors = torch.randn(1, 6, 4, 4, generator=generator(), dtype=torch.float64, requires_grad=True)
    condition = torch.randn(1, 8, 4, 4, generator=generator(1), dtype=torch.float64, requires_grad=True)
    logits = model.structure.pixel_cnn(vectors, condition)
    assert logits.shape == (1, 12, 4, 4)
    assert torch.equal(influences(logits, vectors), torch.ones(16, 16, dtype=torch.bool).tril(-1))
    seen = influences(logits, condition)
    assert bool(seen[torch.ones(16, 16, dtype=torch.bool).tril()].all())


def test_convolutions_alone_are_causal_but_see_less() -> None:
    model = tiny(image_size=24, structure_blocks=1).double()
    for attention in model.structure.pixel_cnn.attentions:
        assert isinstance(attention, CausalAttention)
        merge = attention.merge.others[0]
        assert isinstance(merge, WeightNormConv)
        merge.gain.data.zero_()
    vectors = torch.randn(1, 6, 6, 6, generator=generator(), dtype=torch.float64, requires_grad=True)
    condition = torch.randn(1, 8, 6, 6, generator=generator(1), dtype=torch.float64)
    found = influences(model.structure.pixel_cnn(vectors, condition), vectors)
    assert not bool(found.triu().any())
    last = found[35].view(6, 6)
    assert bool(last[5, 2:5].all()) and bool(last[4, 2:].all()) and bool(last[1, 5])
    assert not bool(last[5, :2].any()) and not bool(last[4, :2].all())


def test_attention_is_strictly_causal_in_codes() -> None:
    torch.manual_seed(0)
    layer = CausalAttention(4, 3, 3, heads=2, keys=3, values=5).double()
    randomise(layer, 0)
    x, codes = (torch.randn(1, c, 3, 3, dtype=torch.float64, requires_grad=True) for c in (4, 3))
    out = layer(x, codes)
    assert out.shape == x.shape
    whole = torch.ones(9, 9, dtype=torch.bool)
    assert torch.equal(influences(out, codes)[2:], whole.tril(-1)[2:])
    assert torch.equal(influences(out, x), whole.tril())
    # Position 1 attends to position 0 alone, with weight 1, so the codes matter through the values.
    assert bool(influences(out, codes)[1, 0]) and not bool(influences(out, codes)[:2, 1:].any())


def test_the_logits_of_an_image_do_not_depend_on_its_batch() -> None:
    model = tiny()
    vectors, condition = torch.randn(3, 6, 4, 4), torch.randn(3, 8, 4, 4)
    with torch.no_grad():
        together = model.structure.pixel_cnn(vectors, condition)
        alone = model.structure.pixel_cnn(vectors[1:2], condition[1:2])
    torch.testing.assert_close(together[1:2], alone)


def test_the_condition_sees_known_pixels_and_which_they_are() -> None:
    network, x, known = tiny().structure.condition, images(2, size=SIZE), some_known(2, size=SIZE)
    inputs = observation_input(x, known)
    assert torch.equal(inputs[:, :3], x * known) and bool((inputs[:, 3] == 1).all())
    assert torch.equal(inputs[:, 4:], 1 - known.float())
    with torch.no_grad():
        base = network(x, known)
        assert base.shape == (2, 8, 4, 4)
        assert torch.equal(network(torch.where(known, x, torch.nan), known), base)
        assert not torch.allclose(network(torch.where(known, x, 0.0), torch.ones_like(known)), base)


@pytest.mark.parametrize(
    ("size", "halvings", "blocks", "dilations"),
    [(32, 1, 5, [1, 1, 2, 4, 1]), (64, 2, 2, [2, 4]), (64, 2, 3, [1, 2, 4])],
)
def test_the_dilated_blocks_of_the_condition_are_in_the_middle(
    size: int, halvings: int, blocks: int, dilations: list[int]
) -> None:
    network = tiny(
        image_size=size, bottom_halvings=halvings, condition_blocks=blocks, max_dilation=4
    ).structure.condition
    found = [block for block in network.blocks if isinstance(block, GatedResidual)]
    assert [block.first.dilation for block in found] == dilations
    with torch.no_grad():
        assert network(images(1, size=size), some_known(1, size=size)).shape == (1, 8, 8, 8)


def test_weight_norm_sets_the_length_of_kernels() -> None:
    torch.manual_seed(0)
    layer = WeightNormConv(3, 4, around(3), gain=0.7)
    torch.testing.assert_close(layer.weight().flatten(1).norm(dim=1), torch.full((4,), 0.7))
    x = torch.randn(2, 3, 5, 5)
    with torch.no_grad():
        layer.bias.normal_()
        out, weight = layer(x), layer.weight()
        torch.testing.assert_close(out, torch.nn.functional.conv2d(x, weight, layer.bias, padding=1))
        layer.direction.mul_(3.0)
        torch.testing.assert_close(layer(x), out)


def test_a_gated_residual_block_by_hand() -> None:
    torch.manual_seed(0)
    block = GatedResidual(2, around(1), others=(3,))
    randomise(block, 0)
    x, other = torch.randn(1, 2, 1, 1), torch.randn(1, 3, 1, 1)

    def affine(layer: WeightNormConv, v: Tensor) -> Tensor:
        return layer.weight()[:, :, 0, 0] @ v + layer.bias

    def double_elu(v: Tensor) -> Tensor:
        return torch.nn.functional.elu(torch.cat((v, -v)))

    with torch.no_grad():
        hidden = affine(block.first, double_elu(x.flatten())) + affine(block.others[0], double_elu(other.flatten()))  # type: ignore[arg-type]
        a, b = affine(block.second, double_elu(hidden)).chunk(2)
        torch.testing.assert_close(block(x, concat_elu(other)).flatten(), x.flatten() + a * b.sigmoid())


def test_dropout_is_from_the_noise_and_keeps_the_mean() -> None:
    x = torch.ones(4, 50, 10, 10)
    dropout = Dropout(SeededNoise(range(4)), 0.25, 0)
    first, second = dropout(x), dropout(x)
    assert first.unique().tolist() == pytest.approx([0, 4 / 3])
    assert float(first.mean()) == pytest.approx(1, abs=0.02) and not torch.equal(first, second)
    assert torch.equal(Dropout(SeededNoise(range(4)), 0.25, 0)(x), first)


def test_dropout_acts_in_training_mode_only() -> None:
    network, x, known = tiny(dropout=0.5).structure, images(2, size=SIZE), some_known(2, size=SIZE)
    vectors = torch.randn(2, 6, 4, 4)

    def logits(seed: int) -> Tensor:
        with torch.no_grad():
            found: Tensor = network(x, known, vectors, GeneratorNoise(generator(seed)))
        return found

    assert torch.equal(logits(0), logits(1))
    network.train()
    assert not torch.equal(logits(0), logits(1)) and torch.equal(logits(1), logits(1))
