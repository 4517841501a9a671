import itertools

import pytest
import torch
from helpers.models import generator, images, some_known
from helpers.tiny_vq import SIZE, tiny

from condvae.completers.vector_quantised.code_sampling import StepwisePixelCNN, choose, sample_codes
from condvae.noise import SeededNoise


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"structure_blocks": 4, "structure_attentions": 2, "output_blocks": 0},
        {"structure_blocks": 1, "output_blocks": 2},
        {"image_size": 24, "attention_heads": 1},
    ],
)
def test_stepwise_logits_equal_those_of_the_plain_network(changes: dict[str, int]) -> None:
    model = tiny(**changes).double()
    size = model.config.top_size
    condition = torch.randn(3, 8, size, size, generator=generator(), dtype=torch.float64)
    codes = torch.randint(12, (3, size, size), generator=generator(1))
    with torch.no_grad():
        expected = model.structure.pixel_cnn(model.codes.top.look_up(codes), condition)
        stepwise = StepwisePixelCNN(model.structure.pixel_cnn, condition)
        found = torch.empty_like(expected)
        for y in range(size):
            stepwise.start_row(y)
            for x in range(size):
                found[:, :, y, x] = stepwise.logits(y, x)
                stepwise.put(y, x, model.codes.top.vectors[codes[:, y, x]])
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


def test_sampling_equals_one_plain_pass_per_code() -> None:
    model = tiny()
    x, known = images(5, size=SIZE), some_known(5, size=SIZE)
    uniform = torch.rand(5, 16, generator=generator())
    network, vectors = model.structure.pixel_cnn, model.codes.top.vectors
    with torch.no_grad():
        condition = model.structure.condition(x, known)
        expected = torch.zeros(5, 4, 4, dtype=torch.long)
        for place in range(16):
            logits = network(model.codes.top.look_up(expected), condition).flatten(2)[:, :, place]
            expected.view(5, 16)[:, place] = choose(logits, uniform[:, place])
    found = sample_codes(network, condition, vectors, uniform)
    assert torch.equal(found, expected) and len(found.unique()) > 6
    for row in range(5):
        one = slice(row, row + 1)
        assert torch.equal(sample_codes(network, condition[one], vectors, uniform[one]), expected[one])


def test_a_choice_inverts_the_distribution() -> None:
    logits = torch.tensor([0.2, 0.0, 0.5, 0.3]).log().expand(6, 4)
    uniform = torch.tensor([0.0, 0.19, 0.21, 0.69, 0.71, 1 - 2**-24])
    assert choose(logits, uniform).tolist() == [0, 0, 2, 2, 3, 3]
    # Codes of probability 0 are never chosen, neither the first nor the last one.
    logits = torch.tensor([-torch.inf, 0.0, 0.0, -torch.inf]).expand(3, 4)
    assert choose(logits, torch.tensor([0.0, 0.5, 1 - 2**-24])).tolist() == [1, 2, 2]
    many = torch.rand(20, 512, generator=generator())
    assert int(choose(many, torch.full((20,), 1 - 2**-24)).max()) <= 511
    assert choose(many.bfloat16(), torch.zeros(20)).tolist() == [0] * 20


def test_sampled_maps_follow_the_distribution_of_the_network() -> None:
    """All 81 maps of 2 x 2 codes have the probabilities that the plain network gives them."""
    model = tiny(image_size=8, codes=3, structure_blocks=1)
    maps = torch.tensor(list(itertools.product(range(3), repeat=4))).view(81, 2, 2)
    condition = torch.randn(1, 8, 2, 2, generator=generator(3))
    network = model.structure.pixel_cnn
    with torch.no_grad():
        network.logits.gain.mul_(3.0)
        logits = network(model.codes.top.look_up(maps), condition.expand(81, -1, -1, -1))
    each = logits.log_softmax(dim=1).gather(1, maps[:, None])[:, 0]
    probabilities = each.sum(dim=(1, 2)).exp()
    assert float(probabilities.sum()) == pytest.approx(1, abs=1e-4)
    assert float(probabilities.max()) > 3 / 81
    n = 20_000
    uniform = SeededNoise(range(n)).uniform(0, (n, 4), condition.device)
    drawn = sample_codes(network, condition.expand(n, -1, -1, -1), model.codes.top.vectors, uniform)
    index = (drawn.flatten(1) * torch.tensor([27, 9, 3, 1])).sum(dim=1)
    counts = torch.bincount(index, minlength=81)
    common = probabilities * n >= 5
    expected = torch.cat((probabilities[common], probabilities[~common].sum()[None])) * n
    found = torch.cat((counts[common], counts[~common].sum()[None]))
    chi_square = float(((found - expected).square() / expected.clamp(min=1e-9)).sum())
    degrees = len(expected) - 1
    assert degrees > 10
    assert chi_square < degrees + 4 * (2 * degrees) ** 0.5  # mean and standard deviation of chi-square
