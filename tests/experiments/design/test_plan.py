from typing import Any

import pytest

from condvae.experiments.design import DesignSettings
from condvae.experiments.design.plan import PolicySpec


def test_policies_by_name() -> None:
    settings = DesignSettings(n=7)
    assert settings.way("eig-ipa") == PolicySpec("eig-ipa", "completions", "eig", "ipa", 7)
    assert settings.way("epe-my-gan") == PolicySpec("epe-my-gan", "completions", "epe", "my-gan", 7)
    assert settings.way("uncond").n == 7 and settings.way("uncond-1000").n == 1000
    assert settings.way("non-greedy").kind == "non-greedy"
    assert [name for name in settings.policies if not settings.way(name).asks] == ["random", "full"]


def test_only_what_hangs_on_a_few_draws_is_repeated() -> None:
    settings = DesignSettings(repeats=4)
    tries = {name: settings.tries(settings.way(name)) for name in settings.policies}
    assert tries == dict.fromkeys(settings.policies, 1) | {"random": 4, "uncond": 4, "non-greedy": 4}
    assert [settings.tries(settings.way(name)) for name in ("uncond-10", "uncond-99", "uncond-100")] == [4, 4, 1]
    many = DesignSettings(repeats=4, n=100)
    assert many.tries(many.way("uncond")) == 1 and many.tries(many.way("non-greedy")) == 4


@pytest.mark.parametrize(
    "name", ["eig", "eig-", "uncond-", "uncond-0", "uncond-x", "uncond-01", "uncond-1000000", "greedy", "", "random-2"]
)
def test_unknown_policies_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="unknown policy"):
        DesignSettings(policies=(name,))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"steps": 0}, "scans is 0"),
        ({"points": 2}, "5 scans of 4 locations"),
        ({"side": 1.5}, "side of a window is 1.5"),
        ({"resamples": 10**6}, "1,000,000 resamples"),
        ({"policies": ()}, "no policies"),
        ({"policies": ("random", "random")}, "policy was given twice"),
    ],
)
def test_refusals(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        DesignSettings(**change)
