import pytest

from condvae.experiments.design import DesignSettings
from condvae.experiments.design.plan import PolicySpec


def test_policies_by_name() -> None:
    settings = DesignSettings(n=7)
    assert settings.spec("eig-ipa") == PolicySpec("eig-ipa", "completions", "eig", "ipa", 7)
    assert settings.spec("epe-my-gan") == PolicySpec("epe-my-gan", "completions", "epe", "my-gan", 7)
    assert settings.spec("uncond").n == 7 and settings.spec("uncond-1000").n == 1000
    assert settings.spec("non-greedy").kind == "non-greedy"
    assert [name for name in settings.policies if not settings.spec(name).depends_on_task] == ["random", "full"]


def test_only_policies_with_few_draws_are_repeated() -> None:
    settings = DesignSettings(repeats=4)
    tries = {name: settings.tries(settings.spec(name)) for name in settings.policies}
    assert tries == dict.fromkeys(settings.policies, 1) | {"random": 4, "uncond": 4, "non-greedy": 4}
    assert [settings.tries(settings.spec(name)) for name in ("uncond-10", "uncond-99", "uncond-100")] == [4, 4, 1]
    many = DesignSettings(repeats=4, n=100)
    assert many.tries(many.spec("uncond")) == 1 and many.tries(many.spec("non-greedy")) == 4


@pytest.mark.parametrize(
    "name", ["eig", "eig-", "uncond-", "uncond-0", "uncond-x", "uncond-01", "uncond-1000000", "greedy", "", "random-2"]
)
def test_unknown_policies_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"unknown policy .* choose from eig-ipa"):
        DesignSettings(policies=(name,))


def test_invalid_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="number of scans is 0"):
        DesignSettings(steps=0)
    with pytest.raises(ValueError, match="--steps is 5, but the grid has only 4 locations"):
        DesignSettings(points=2)
    with pytest.raises(ValueError, match=r"side of a window is 1.5, expected a fraction"):
        DesignSettings(side=1.5)
    with pytest.raises(ValueError, match=r"1,000,000 bootstrap resamples are too many .*: give at most 100,000"):
        DesignSettings(resamples=10**6)
    with pytest.raises(ValueError, match="no policies were given"):
        DesignSettings(policies=())
    with pytest.raises(ValueError, match="a policy is repeated"):
        DesignSettings(policies=("random", "random"))
