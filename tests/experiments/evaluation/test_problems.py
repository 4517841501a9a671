import numpy as np
import pytest
import torch
from helpers.evaluation_runs import FACES

from condvae.data import Dataset, ImageSet, open_data
from condvae.experiments.evaluation import EvaluationSettings, Problems, UnitSizes, problems
from condvae.experiments.evaluation.jobs import units_of
from condvae.experiments.evaluation.plan import MeasurementKind
from condvae.metrics import HOLE_BINS, HoleBin, known_in_bin


def test_images_are_spread_evenly_and_references_are_other_images() -> None:
    data = open_data(FACES)
    chosen = Problems.choose(data, EvaluationSettings(images=20, deep_images=10, n=2))
    assert len(chosen) == 20
    assert np.array_equal(chosen.rows, np.arange(20) * len(data.test) // 20)
    assert set(chosen.deep) < set(range(20))
    assert (chosen.references != chosen.rows[chosen.deep][:, None]).all()
    assert chosen.references.min() >= 0 and chosen.references.max() < len(data.test)
    assert len(np.unique(chosen.references)) > 10
    cpu = torch.device("cpu")
    some = chosen.known(3, np.array([7, 2]), cpu)
    assert torch.equal(some, known_in_bin(HOLE_BINS[3], 20, 32, seed=0)[[7, 2]])
    assert torch.equal(chosen.truth(np.array([4]), cpu), data.test.take(chosen.rows[[4]]).images)
    others = chosen.reference_images(np.array([3, 5]), cpu)
    assert torch.equal(others[1, 0], data.test.take(chosen.references[5, :1]).images[0])


def test_identities_follow_their_content() -> None:
    data = open_data(FACES)

    def identities(**change: int) -> tuple[str, str, str]:
        options: dict[str, int] = {"images": 8, "deep_images": 4, "n": 2, **change}
        chosen = Problems.choose(data, EvaluationSettings(**options))  # type: ignore[arg-type]
        return chosen.identity, chosen.deep_identity, chosen.bits_identity

    assert identities() == identities(n=5)
    for change, value, changed in (("images", 9, 0), ("deep_images", 3, 1), ("seed", 9, 0), ("bits_images", 9, 2)):
        before, after = identities(), identities(**{change: value})
        assert before[changed] != after[changed]
        if change.endswith("_images"):  # the other identities must not change
            assert [i for i in range(3) if before[i] != after[i]] == [changed]


def test_holes_are_drawn_on_first_use_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[str] = []

    def counting(hole: HoleBin, n: int, size: int, *, seed: int) -> torch.Tensor:
        drawn.append(str(hole))
        return known_in_bin(hole, n, size, seed=seed)

    problems.draw_holes.cache_clear()
    monkeypatch.setattr(problems, "known_in_bin", counting)
    chosen = Problems.choose(open_data(FACES), EvaluationSettings(images=8, deep_images=4, n=2))
    first = chosen.identity
    assert not drawn
    threads = torch.get_num_threads()
    for same in (chosen, Problems.choose(open_data(FACES), EvaluationSettings(images=8, deep_images=4, n=2))):
        for i, hole in enumerate(HOLE_BINS):
            assert torch.equal(same.holes(i), known_in_bin(hole, 8, 32, seed=0))
        same.known(3, np.array([2]), torch.device("cpu"))
    assert sorted(drawn) == list(map(str, HOLE_BINS))
    assert torch.get_num_threads() == threads
    monkeypatch.setattr(problems, "HOLES_REVISION", 2)
    assert Problems.choose(open_data(FACES), EvaluationSettings(images=8, deep_images=4, n=2)).identity != first


def test_too_few_test_images_are_rejected() -> None:
    data = open_data(FACES)
    for count, message in ((0, "has no test images"), (1, "has only one test image")):
        few = ImageSet(images=data.test.images, rows=data.test.rows[:count])
        fields = {name: getattr(data, name) for name in ("kind", "train", "validation", "label_names", "flips")}
        with pytest.raises(ValueError, match=message):
            Problems.choose(Dataset(test=few, skipped=(), **fields), EvaluationSettings())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n": 0}, "the number of completions of an image is 0"),
        ({"images": 1}, "the number of images is 1"),
        ({"images": 10, "deep_images": 11}, "at most as many --deep-images as --images"),
        ({"deep_images": 0}, "with n completions each is 0"),
        ({"seed": -1}, "the seed is -1"),
        ({"metrics": ("fid",)}, "unknown group of metrics 'fid'"),
        ({"metrics": ()}, "no metrics were given"),
        ({"images": 3}, "at least 4 --images"),
        ({"deep_images": 1}, "at least 2 --deep-images"),
    ],
)
def test_invalid_settings_are_rejected(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        EvaluationSettings(**options)  # type: ignore[arg-type]
    assert EvaluationSettings(images=100).deep == 100
    assert EvaluationSettings().deep == 500


def test_units_cover_everything_once() -> None:
    for kind, holes in (("deep", 5), ("wide", 5), ("observed", 5), ("bounds", 5), ("truth", 1), ("elbo", 1)):
        named: MeasurementKind = kind  # type: ignore[assignment]
        found = units_of(named, 23, UnitSizes(wide=10, deep=4))
        covered = [(unit.hole, i) for unit in found for i in range(unit.first, unit.stop)]
        assert len(covered) == len(set(covered)) == holes * 23
        assert len({str(unit) for unit in found}) == len(found)
