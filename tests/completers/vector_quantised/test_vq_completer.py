from typing import Any

import pytest
import torch
from helpers.models import images, some_known
from helpers.tiny_vq import SIZE, TINY, count, tiny

from condvae.completers.vector_quantised import VectorQuantised, VectorQuantisedConfig
from condvae.completers.vector_quantised.structure_layers import WeightNormConv
from condvae.noise import SeededNoise
from condvae.runtime.pixels import to_uint8


def test_networks_for_small_images() -> None:
    with torch.device("meta"):
        small = VectorQuantised(VectorQuantisedConfig(image_size=32))
        large = VectorQuantised(VectorQuantisedConfig(image_size=64, bottom_halvings=2))
    assert (small.config.top_size, large.config.top_size) == (8, 8)
    parts = [[count(part) for part in (model.codes, model.structure, model.texture)] for model in (small, large)]
    assert parts == [[1_383_811, 4_918_176, 2_276_379], [1_716_803, 4_919_292, 2_276_379]]
    assert all(value.is_floating_point() for value in small.state_dict().values())
    assert 8 * small.config.blocks <= len(small.state_dict())
    assert (small.kind, small.varies) == ("vqvae", True)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"image_size": 18}, "the image size is 18, expected a multiple of 4"),
        ({"image_size": 20, "bottom_halvings": 2}, "the image size is 20, expected a multiple of 8"),
        ({"bottom_halvings": 3}, "the number of bottom halvings is 3, expected 1 or 2"),
        ({"bottom_halvings": True}, "the number of bottom halvings is True, expected 1 or 2"),
        ({"codes": 1}, "the number of codes is 1, expected a whole number, at least 2"),
        ({"code_width": 0}, "code_width is 0, expected a whole number, at least 1"),
        ({"codes_width": 7}, "codes_width is 7, expected a multiple of 2"),
        ({"condition_width": 6}, "condition_width is 6, expected a multiple of 4"),
        ({"texture_width": 6}, "texture_width is 6, expected a multiple of 4"),
        ({"structure_attentions": 0}, "the number of structure attentions is 0, expected a whole number"),
        ({"structure_blocks": 3, "structure_attentions": 2}, "there are 3 structure blocks and 2 attentions"),
        ({"max_dilation": 3}, "the largest dilation is 3, expected a power of two"),
        ({"max_dilation": 8}, "the number of condition blocks is 2, expected a whole number, at least 3"),
        ({"critic_layers": "4"}, "the number of critic layers is '4', expected a whole number"),
        ({"dropout": 1.0}, "the dropout rate is 1.0, expected a number in"),
        ({"code_weight": -1}, "the code weight is -1, expected a number >= 0"),
        ({"output_blocks": 1.5}, "the number of output blocks is 1.5, expected a whole number"),
    ],
)
def test_a_wrong_value_of_the_configuration_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message.replace(".", r"\.")):
        VectorQuantisedConfig(**(TINY | changes))


@pytest.mark.parametrize("channels", [1, 3])
def test_completions_differ_in_holes_only(channels: int) -> None:
    model = tiny(channels=channels).train()
    x, known = images(2, size=SIZE, channels=channels), some_known(2, size=SIZE)
    known[:, :, 4:12, 4:12] = False
    completions = model.complete(model.observe(x, known), 3, seed=0)
    assert completions.shape == (2, 3, channels, SIZE, SIZE) and completions.dtype == torch.uint8
    whole, levels = known[:, None].expand_as(completions), to_uint8(x)[:, None].expand_as(completions)
    assert torch.equal(completions[whole], levels[whole])
    differ = (completions[:, 0] != completions[:, 1]).any(dim=1, keepdim=True)
    assert not bool((differ & known).any()) and float(differ[~known].float().mean()) > 0.3
    assert model.training


def test_hidden_pixels_never_influence_completions() -> None:
    model, x, known = tiny(), images(2, size=SIZE), some_known(2, size=SIZE)
    other = torch.where(known, x, images(2, size=SIZE, seed=9))
    made = [model.complete(model.observe(image, known), 2, seed=0) for image in (x, other)]
    assert torch.equal(*made)
    # But known pixels do, also through the codes.
    changed = torch.where(known, images(2, size=SIZE, seed=9), x)
    with torch.no_grad():
        for layer in model.structure.condition.halvings:
            assert isinstance(layer, WeightNormConv)
            layer.gain.mul_(5.0)
        codes = [
            model.draw_codes(model.encode(torch.where(known, image, 0.0), known), SeededNoise([0, 1]))
            for image in (x, changed)
        ]
    assert not torch.equal(*codes)


def test_a_completion_depends_only_on_the_seed_the_place_and_its_number() -> None:
    model = tiny()
    x, known = images(3, size=SIZE), some_known(3, size=SIZE)
    observation = model.observe(x, known)
    whole = model.complete(observation, 6, seed=3)
    assert torch.equal(model.complete(observation, 6, seed=3), whole)
    for k in (1, 5):
        assert torch.equal(model.complete(observation, k, seed=3), whole[:, :k])
    for row in range(3):
        alone = model.complete(observation[row : row + 1], 6, seed=3, places=[row])
        assert torch.equal(alone[0], whole[row])
    assert not torch.equal(model.complete(observation, 6, seed=4), whole)


def test_codes_of_a_sample_do_not_depend_on_its_batch() -> None:
    model = tiny()
    x, known = images(3, size=SIZE), some_known(3, size=SIZE)
    with torch.inference_mode():
        together = model.draw_codes(model.encode(x * known, known), SeededNoise([5, 6, 7]))
        alone = model.draw_codes(model.encode(x[1:2] * known[1:2], known[1:2]), SeededNoise([6]))
    assert torch.equal(together[1:2], alone) and not torch.equal(together[0], together[1])


def test_every_value_of_the_state_matters_for_loading() -> None:
    first, second = tiny(seed=0), tiny(seed=1)
    x, known = images(1, size=SIZE), some_known(1, size=SIZE)
    expected = first.complete(first.observe(x, known), 2, 0)
    assert not torch.equal(second.complete(second.observe(x, known), 2, 0), expected)
    second.load_state_dict(first.state_dict())
    assert torch.equal(second.complete(second.observe(x, known), 2, 0), expected)
    assert second.identity == first.identity
