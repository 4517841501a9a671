from typing import Any

import pytest
from helpers.pretraining_runs import small_settings

from condvae.experiments.pretraining import PretrainingSettings
from condvae.experiments.pretraining.plan import both_presets


def test_presets_exist_for_both_stages_and_name_the_network() -> None:
    assert "ipa-cifar10" not in both_presets() and "imagenet32" not in both_presets()
    assert PretrainingSettings(preset="demo").network == "demo32"
    assert PretrainingSettings().preset in both_presets()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"preset": "cifar11"}, r"unknown preset 'cifar11', expected one of small32, .*demo"),
        ({"preset": "ipa-cifar10"}, "unknown preset 'ipa-cifar10'"),
        ({"steps": ()}, r"--steps is \(\), expected numbers of steps in rising order"),
        ({"steps": (4, 2)}, r"--steps is \(4, 2\), expected numbers of steps in rising order"),
        ({"scratch_steps": (2, 2)}, "--scratch-steps is .* in rising order"),
        ({"condition_steps": (0, 2)}, "--condition-steps is 0, expected a whole number, at least 1"),
        ({"scratch_condition_steps": (1.5, 2)}, "--scratch-condition-steps is 1.5, expected a whole number"),
        ({"conditions": ("grey", "grey")}, "--conditions is grey, grey: give each condition once"),
        ({"seeds": 0}, "--seeds is 0, expected a whole number, at least 1"),
        ({"images": 4}, "--images is 4, expected a whole number, at least 5"),
        ({"deep_images": 13}, "--deep-images is 13, but --images is only 12: give fewer"),
        ({"bound_images": 13}, "--bound-images is 13, but --images is only 12"),
        ({"seed": -1}, "the seed is -1"),
    ],
)
def test_refusals(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        small_settings(**change)
