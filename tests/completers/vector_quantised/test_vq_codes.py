import pytest
import torch
from helpers.models import generator, images
from helpers.tiny_vq import SIZE, count, paper, smooth_images, tiny

from condvae.completers.vector_quantised import CodesLoss
from condvae.completers.vector_quantised.vq_codes import Codebook, perplexity, straight_through
from condvae.noise import GeneratorNoise, SeededNoise
from condvae.training.flat_parameters import FlatBuffers


def book(codes: int = 5, width: int = 3) -> Codebook:
    torch.manual_seed(0)
    return Codebook(codes, width)


def test_the_paper_s_autoencoder_has_the_paper_s_number_of_parameters() -> None:
    network = paper().completer.codes
    assert count(network) == 1_716_803
    # The paper's 1.85 million include the codebooks and their moving averages.
    everything = sum(value.numel() for value in network.state_dict().values())
    assert everything == 1_716_803 + 2 * 512 * (64 + 1 + 64) == 1_848_899


@pytest.mark.parametrize(("size", "halvings", "top"), [(16, 1, 4), (32, 1, 8), (64, 2, 8), (48, 2, 6)])
def test_the_sizes_of_both_maps(size: int, halvings: int, top: int) -> None:
    model = tiny(image_size=size, bottom_halvings=halvings)
    assert model.config.top_size == top
    with torch.no_grad():
        coded = model.codes.encode(images(2, size=size))
        image = model.codes.decode(*(part.quantised for part in coded))
    assert [tuple(part.codes.shape) for part in coded] == [(2, top, top), (2, 2 * top, 2 * top)]
    assert image.shape == (2, 3, size, size)


def test_the_nearest_code_is_found() -> None:
    codes, z = book(7, 4), torch.randn(2, 4, 3, 5, generator=generator())
    brute = torch.stack([(z - vector.view(1, 4, 1, 1)).square().sum(dim=1) for vector in codes.vectors], dim=-1)
    torch.testing.assert_close(codes.squared_distances(z), brute)
    nearest = codes.nearest(z)
    assert torch.equal(nearest, brute.argmin(dim=-1)) and len(nearest.unique()) > 3
    for b, y, x in ((0, 0, 0), (1, 2, 4), (0, 1, 3)):
        assert torch.equal(codes.look_up(nearest)[b, :, y, x], codes.vectors[nearest[b, y, x]])
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(codes.squared_distances(z), codes.squared_distances(z).float())
        torch.testing.assert_close(codes.squared_distances(z), brute)


def test_gradients_pass_straight_through_quantisation() -> None:
    z, quantised = torch.randn(2, 3, requires_grad=True), torch.randn(2, 3, requires_grad=True)
    direct = quantised.detach().clone().requires_grad_()
    straight_through(z, quantised).sin().sum().backward()
    direct.sin().sum().backward()
    assert z.grad is not None and direct.grad is not None
    torch.testing.assert_close(z.grad, direct.grad)
    assert quantised.grad is None

    # In the network: the gradient of the output with respect to z and to the quantised map.
    network, x = tiny().codes, images(2, size=SIZE)
    top, bottom = network.encode(x)
    made = network.decode(top.quantised, bottom.quantised).square().sum()
    of_z, of_quantised = torch.autograd.grad(made, (bottom.z, bottom.quantised))
    assert torch.equal(of_z, of_quantised) and bool(of_z.any())
    torch.testing.assert_close(bottom.quantised, network.bottom.look_up(bottom.codes))


def test_the_update_of_the_codebook_by_hand() -> None:
    codes = book(2, 1)
    codes.vectors.copy_(torch.tensor([[0.0], [10.0]]))
    codes.sizes.copy_(torch.tensor([0.5, 1.5]))
    codes.sums.copy_(torch.tensor([[0.2], [15.0]]))
    z = torch.tensor([1.0, 2.0, 3.0, 9.0]).view(1, 1, 2, 2)
    codes.learn(z, codes.nearest(z), SeededNoise([0]), 0)
    # The codes stand for 3 and 1 of 4 vectors: K n / N = 1.5 and 0.5, and the sums are 2 / 4 (6, 9).
    sizes = [0.99 * 0.5 + 0.01 * 1.5, 0.99 * 1.5 + 0.01 * 0.5]
    sums = [0.99 * 0.2 + 0.01 * 3.0, 0.99 * 15.0 + 0.01 * 4.5]
    total = sum(sizes)
    smooth = [(size + 1e-5) / (total + 2e-5) * total for size in sizes]
    torch.testing.assert_close(codes.sizes, torch.tensor(sizes))
    torch.testing.assert_close(codes.sums[:, 0], torch.tensor(sums))
    torch.testing.assert_close(codes.vectors[:, 0], torch.tensor([s / n for s, n in zip(sums, smooth, strict=True)]))


def test_codes_approach_the_means_of_their_vectors() -> None:
    codes, noise = book(2, 2), SeededNoise([0])
    codes.vectors.copy_(torch.tensor([[1.0, 0.0], [-1.0, 0.0]]))
    z = torch.cat((torch.full((1, 2, 1, 6), 3.0), torch.full((1, 2, 1, 3), -5.0)), dim=3)
    for _ in range(250):
        codes.learn(z, codes.nearest(z), noise, 0)
    torch.testing.assert_close(codes.vectors, torch.tensor([[3.0, 3.0], [-5.0, -5.0]]), rtol=1e-4, atol=0)
    torch.testing.assert_close(codes.sizes, torch.tensor([4 / 3, 2 / 3]), rtol=0.1, atol=0)


def test_dead_codes_restart_at_vectors_of_the_batch() -> None:
    codes = book(6, 2)
    codes.sizes.copy_(torch.tensor([1.0, 2.0, 1e-3, 1.0, 0.0, 2.0]))
    codes.sums.copy_(codes.vectors * codes.sizes[:, None])
    before = codes.vectors.clone()
    z = torch.randn(3, 2, 4, 4, generator=generator()) + 100
    codes.learn(z, torch.zeros(3, 4, 4, dtype=torch.long), SeededNoise([4, 5, 6]), 0)
    rows = z.movedim(1, -1).reshape(-1, 2)
    fresh = [bool((rows == vector).all(dim=1).any()) for vector in codes.vectors]
    assert fresh == [False, False, True, False, True, False]
    torch.testing.assert_close(codes.vectors[[1, 3, 5]], before[[1, 3, 5]], rtol=1e-3, atol=0)
    # A restarted code has the mean size, and its sum fits it.
    assert float(codes.sizes[2]) == float(codes.sizes[4]) == pytest.approx(1, abs=0.1)
    torch.testing.assert_close(codes.sums[2], codes.vectors[2] * codes.sizes[2])
    other = book(6, 2)
    other.learn(z, torch.zeros(3, 4, 4, dtype=torch.long), SeededNoise([1, 2, 3]), 0)
    same = book(6, 2)
    same.learn(z, torch.zeros(3, 4, 4, dtype=torch.long), SeededNoise([1, 2, 3]), 0)
    assert torch.equal(other.vectors, same.vectors) and len(other.vectors.unique(dim=0)) > 3


def test_the_codebook_is_updated_in_place() -> None:
    """The trainer makes all buffers views of one vector, which must see the updates."""
    codes = book(4, 2)
    carrier = torch.nn.Linear(1, 1).requires_grad_(False)
    flat = FlatBuffers(torch.nn.ModuleList([carrier, codes]))
    before = flat.values.clone()
    z = torch.randn(2, 2, 3, 3, generator=generator())
    codes.learn(z, codes.nearest(z), GeneratorNoise(generator()), 0)
    assert torch.equal(flat.values, torch.cat([b.flatten() for b in (codes.vectors, codes.sizes, codes.sums)]))
    assert not torch.equal(flat.values, before)


def test_perplexity_of_known_counts() -> None:
    assert perplexity(torch.tensor([3, 3, 3, 3]), 5).item() == pytest.approx(1)
    assert perplexity(torch.arange(8).view(2, 4), 8).item() == pytest.approx(8)
    assert perplexity(torch.tensor([0, 0, 1, 2]), 9).item() == pytest.approx(2**1.5)


def test_many_codes_are_used_after_a_short_training() -> None:
    torch.manual_seed(0)
    model = tiny(codes=64)
    loss = CodesLoss(model).train()
    optimiser = torch.optim.Adam(model.codes.parameters(), 3e-3)
    noise, x = GeneratorNoise(generator()), smooth_images(16)
    known = torch.ones(16, 1, SIZE, SIZE, dtype=torch.bool)
    first = loss(x, known, noise)
    for step in range(40):
        optimiser.zero_grad()
        found = loss(smooth_images(16, seed=step), known, noise)
        found.total.backward()
        optimiser.step()
    last = loss.eval()(x, known, noise)
    assert last.parts["squared_error"] < 0.5 * first.parts["squared_error"]
    for name in ("top_perplexity", "bottom_perplexity"):
        assert float(last.parts[name]) > 6.4
