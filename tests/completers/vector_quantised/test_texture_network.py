import pytest
import torch
from helpers.models import generator, images, some_known
from helpers.tiny_vq import SIZE, count, paper, tiny
from torch import Tensor

from condvae.completers.vector_quantised.texture_network import (
    GatedConv,
    TextureDiscriminator,
    paste,
    structure_attention,
)

VECTORS = torch.randn(9, 4, generator=generator(5))
CODES = torch.randint(9, (2, 4, 4), generator=generator(6))
ALL_KNOWN = torch.ones(2, 1, 4, 4)


def test_the_paper_s_generator_and_discriminator_have_the_paper_s_number_of_parameters() -> None:
    loss = paper()
    assert count(loss.completer.texture) == 4_583_971
    assert round(count(loss.completer.texture) / 1e6, 1) == 4.6
    assert count(loss.critic) == 5_946_816
    assert round(count(loss.critic) / 1e6, 1) == 5.9


def reference_attention(codes: Tensor, vectors: Tensor) -> Tensor:
    """The attention of one map of codes, [S, S], computed pair by pair."""
    size = len(codes)
    padded = torch.zeros(size + 2, size + 2, vectors.shape[1])
    padded[1:-1, 1:-1] = vectors[codes]
    patches = torch.stack([padded[y : y + 3, x : x + 3].flatten() for y in range(size) for x in range(size)])
    distances = (patches[:, None] - patches).square().sum(dim=-1)
    mean, std = distances.mean(dim=1, keepdim=True), distances.std(dim=1, keepdim=True, correction=0)
    scores = (-50 * torch.tanh((distances - mean) / std)).view(size, size, size, size)
    for dy, dx in ((0, 1), (1, 0)):
        fused = scores.clone()
        for y, x, v, u in torch.cartesian_prod(*[torch.arange(size)] * 4).tolist():
            for sign in (-1, 1):
                places = (y + sign * dy, x + sign * dx, v + sign * dy, u + sign * dx)
                if all(0 <= place < size for place in places):
                    fused[y, x, v, u] += scores[places]
        scores = fused
    return scores.view(size * size, size * size).softmax(dim=1)


def test_structure_attention_equals_a_computation_pair_by_pair() -> None:
    weights = structure_attention(CODES, VECTORS, ALL_KNOWN)
    for b in range(2):
        torch.testing.assert_close(weights[b], reference_attention(CODES[b], VECTORS), rtol=0, atol=1e-3)


def test_the_weights_of_the_structure_attention_sum_to_1_over_known_positions() -> None:
    known = (torch.rand(2, 1, 4, 4, generator=generator()) < 0.4).float()
    known[1] = 0
    weights = structure_attention(CODES, VECTORS, known)
    assert weights.shape == (2, 16, 16) and weights.dtype == torch.float32
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(2, 16))
    assert not bool(weights[0][:, known[0].flatten() == 0].any())
    # Without a known position, all of them can be copied from.
    assert torch.equal(weights[1], structure_attention(CODES, VECTORS, ALL_KNOWN)[1])


def test_positions_with_the_same_surroundings_share_the_attention() -> None:
    same = torch.full((1, 6, 6), 3)
    weights = structure_attention(same, VECTORS, torch.ones(1, 1, 6, 6)).view(6, 6, 6, 6)
    assert bool(weights.isfinite().all())
    inner = weights[2, 2, 2:4, 2:4]
    torch.testing.assert_close(inner, inner[0, 0].expand(2, 2))
    # Attention of a map without structure and without borders (all vectors are 0) depends on the fusion alone.
    flat = structure_attention(same, torch.zeros(9, 4), torch.ones(1, 1, 6, 6))
    torch.testing.assert_close(flat, torch.full((1, 36, 36), 1 / 36))


def test_different_positions_copy_from_themselves() -> None:
    codes = torch.randperm(16, generator=generator()).view(1, 4, 4)
    vectors = torch.randn(16, 4, generator=generator(1))
    weights = structure_attention(codes, vectors, torch.ones(1, 1, 4, 4))
    torch.testing.assert_close(weights[0], torch.eye(16), rtol=0, atol=1e-3)


@pytest.mark.parametrize("r", [2, 4])
def test_patches_are_pasted_whole(r: int) -> None:
    features = torch.randn(1, 3, 3 * r, 3 * r, generator=generator())
    order = torch.randperm(9, generator=generator(1))
    pasted = paste(torch.eye(9)[order][None], features)
    for to, source in enumerate(order.tolist()):
        (y, x), (v, u) = divmod(to, 3), divmod(source, 3)
        expected = features[..., v * r : v * r + r, u * r : u * r + r]
        assert torch.equal(pasted[..., y * r : y * r + r, x * r : x * r + r], expected)


def test_half_of_a_gated_convolution_is_the_gate() -> None:
    torch.manual_seed(0)
    layer, x = GatedConv(3, 8), torch.randn(1, 3, 4, 4)
    raw = layer.conv(x)
    assert layer(x).shape == (1, 4, 4, 4)
    torch.testing.assert_close(layer(x), torch.nn.functional.elu(raw[:, :4]) * raw[:, 4:].sigmoid())


@pytest.mark.parametrize(("size", "halvings", "channels"), [(16, 1, 3), (32, 2, 1), (40, 2, 3)])
def test_images_have_the_right_size_and_range(size: int, halvings: int, channels: int) -> None:
    model = tiny(image_size=size, bottom_halvings=halvings, channels=channels)
    side = model.config.top_size
    codes = torch.randint(12, (2, side, side), generator=generator())
    with torch.no_grad():
        visible = model.texture.visible(images(2, size=size, channels=channels), some_known(2, size=size))
        image = model.texture(visible, codes, model.codes.top.vectors)
    assert visible.coarse.shape == (2, 16, 2 * side, 2 * side) and visible.fine.shape == (2, 8, 4 * side, 4 * side)
    assert image.shape == (2, channels, size, size) and float(image.abs().max()) <= 1


def test_cells_are_known_if_all_of_their_pixels_are() -> None:
    known = torch.ones(1, 1, SIZE, SIZE, dtype=torch.bool)
    known[0, 0, 5, 6] = False
    cells = tiny().texture.visible(images(1, size=SIZE), known).known_cells
    expected = torch.ones(1, 1, 4, 4)
    expected[0, 0, 1, 1] = 0
    assert torch.equal(cells, expected)


def test_codes_of_hidden_areas_change_the_image_there() -> None:
    model, known = tiny(), torch.ones(1, 1, SIZE, SIZE, dtype=torch.bool)
    known[..., 8:] = False
    codes = torch.randint(12, (1, 4, 4), generator=generator())
    other = codes.clone()
    other[..., 3] = (codes[..., 3] + 5) % 12
    with torch.no_grad():
        visible = model.texture.visible(images(1, size=SIZE), known)
        first, second = (model.texture(visible, c, model.codes.top.vectors) for c in (codes, other))
    assert float((first - second)[..., 12:].abs().mean()) > 1e-4


def test_the_discriminator_sees_the_image_and_the_hole() -> None:
    torch.manual_seed(0)
    critic = TextureDiscriminator(tiny().config).eval()
    x, known = images(2, size=SIZE), some_known(2, size=SIZE)
    with torch.no_grad():
        scores = critic(x, known)
        assert scores.shape == (2, 16, 4, 4) and scores.dtype == torch.float32
        assert not torch.equal(critic(x, ~known), scores) and not torch.equal(critic(-x, known), scores)
        torch.testing.assert_close(critic(x[1:], known[1:]), scores[1:])
