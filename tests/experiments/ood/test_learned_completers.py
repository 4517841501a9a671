"""Images are completed by learned baselines before they are scored, and results of other models are not mixed in."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.baseline_models import small_baseline
from helpers.models import SMALLEST, small_vae
from helpers.ood_models import observing, plain_data
from helpers.ood_runs import TESTS, small_experiment
from helpers.resumed_runs import planned
from safetensors.torch import load_file

from condvae import save
from condvae.completers.by_place import identity_of
from condvae.completers.learned_completer import LearnedCompleter
from condvae.data.order import spread
from condvae.observe.hole_bins import HOLE_BINS, known_in_bin
from condvae.observe.observation import observe_levels
from condvae.ood import Inference, score_of
from condvae.runtime.pixels import from_uint8
from condvae.sampling.plain import seeds_from

ONLY: dict[str, Any] = {"scores": ("likelihood",), "baselines": (), "sets": ("noise",)}


def gan(seed: int = 0) -> LearnedCompleter:
    return small_baseline("anp", size=8, seed=seed)


def run(out: Path, **options: Any) -> dict[str, Any] | None:
    given: dict[str, Any] = {"models": {"ipa": observing()}, "foreign": {}, **options}
    return small_experiment(out, **{**given, "change": {**ONLY, **options.get("change", {})}})


def test_the_score_is_that_of_the_completion_as_a_whole_image(tmp_path: Path) -> None:
    result = run(tmp_path, completers={"gan": gan()}, change={"baselines": ("completed-gan-likelihood",)})
    assert result is not None and list(result["methods"]) == ["ipa likelihood", "ipa completed-gan-likelihood"]
    assert result["completers"] == {"gan": identity_of(gan())}
    (folder,) = (tmp_path / "runs").glob("completed-gan-likelihood-test-images-*")
    truth = plain_data().test.take(spread(20, TESTS)).images
    whole = Inference.of(observing().artifact, "whole")
    seeds = seeds_from(0, 1, observations=range(TESTS)).seeds
    for hole in HOLE_BINS:
        (file,) = folder.glob(f"hole-{hole}-*")
        found = load_file(file)["features"]
        known = known_in_bin(hole, TESTS, 8, seed=0)
        for i in range(TESTS):
            seen = observe_levels(truth[i : i + 1], known[i : i + 1])
            made = gan().complete(seen, 1, seed=0, places=[seeds[i] % 2**32])[:, 0]
            nats = score_of("likelihood").features(whole, whole.observe(from_uint8(made)), seeds[i : i + 1])
            assert torch.allclose(found[i], nats[0].double())
    assert np.ptp(found.numpy()) > 1  # nats: the scores of different images differ


def test_a_completer_adds_its_baseline_once(tmp_path: Path) -> None:
    given = {"gan": gan(), "other": observing()}
    for baselines, expected in (
        ((), ["completed-gan", "completed-other"]),
        (("completed-ipa", "completed-other-parts"), ["completed-ipa", "completed-other-parts", "completed-gan"]),
    ):
        with planned("condvae.experiments.ood.run") as asked:
            assert run(tmp_path, completers=given, change={"baselines": baselines}) is None
        measured = {name.partition("-noise-")[0] for name in asked if "-noise-" in name}
        assert measured == {"walk", *expected}  # walk: for the score likelihood


def test_another_model_of_the_same_name_is_measured_again(tmp_path: Path) -> None:
    seen: set[str] = set()

    def folders(completer: Any, **options: Any) -> set[str]:
        with planned("condvae.experiments.ood.run") as asked:
            run(tmp_path / "out", completers={"gan": completer}, **options)
        new = {name.rpartition("-")[0] for name in asked if name not in seen}
        seen.update(asked)
        return new

    everything = {"completed-gan-test-images", "completed-gan-noise"}
    save(gan(), tmp_path / "gan.safetensors")
    save(gan(seed=1), tmp_path / "other.safetensors")
    of_likelihood = {"walk-test-images", "walk-noise"}
    assert folders(gan()) == everything | of_likelihood | {"walk-training-images"}  # the last one is for the density
    assert folders(gan()) == set()
    assert folders(tmp_path / "gan.safetensors") == set()  # the same weights
    assert folders(str(tmp_path / "other.safetensors")) == everything
    assert folders(gan(), change={"sets": ("noise", "flip")}) == {"completed-gan-flip", "walk-flip"}


def test_unsuitable_completers_are_refused(tmp_path: Path) -> None:
    save(small_vae(SMALLEST), tmp_path / "vae.safetensors")
    given: list[tuple[dict[str, Any], str]] = [
        ({"ipa": gan()}, "a completer cannot be called 'ipa'"),
        ({"nearest": gan()}, "a completer cannot be called 'nearest'"),
        ({"my-gan": gan()}, "a completer cannot be called 'my-gan': give it a name that contains no dash"),
        ({" ": gan()}, "a completer cannot be called ' '"),
        ({"gan": small_baseline("anp", size=16)}, "gan makes images of 16 x 16 x 3, expected 8 x 8 x 3"),
        ({"gan": tmp_path / "vae.safetensors"}, "is an unconditional VAE"),
        ({"gan": tmp_path / "none.safetensors"}, "does not exist"),
    ]
    for completers, words in given:
        with pytest.raises(ValueError, match=words):
            run(tmp_path / "out", completers=completers)
    assert not (tmp_path / "out").exists()
