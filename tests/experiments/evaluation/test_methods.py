from dataclasses import replace

import numpy as np
import pytest
import torch
from helpers.evaluation_runs import FACES, small_model, small_subject
from helpers.models import small_conditional

from condvae import VDVAE, ConditionalVAE, PartialConfig
from condvae.data import open_data
from condvae.experiments.evaluation import Method, baselines, methods_of, subject_of
from condvae.experiments.evaluation.methods import check_names, even_chunk
from condvae.experiments.evaluation.plan import EvaluationSettings
from condvae.likelihood import GaussianPixels
from condvae.observe import Observation
from condvae.observe.observation import observe_levels
from condvae.runtime.fingerprints import slug_of
from condvae.vdvae.config import Normalisation


@pytest.mark.parametrize("k", [1, 3, 50, 64, 65, 100, 200])
def test_chunks_are_full(k: int) -> None:
    chunk = even_chunk(k, 64)
    assert chunk <= 64
    assert chunk % k == 0 if k <= chunk else -(-k // chunk) * chunk - k < -(-k // chunk)


def test_a_completion_depends_on_its_place_and_not_on_the_batch() -> None:
    data, subject = open_data(FACES), small_subject()
    truth = data.test.take(np.arange(6)).images
    known = torch.rand(6, 1, 32, 32, generator=torch.Generator().manual_seed(0)) < 0.5
    for method in (*methods_of(subject, ["1"], ["mean"], k=3), *baselines(["random"], data)):
        everything = method.complete(observe_levels(truth, known), 3, seed=0, hole=1, places=np.arange(10, 16))
        some = method.complete(
            observe_levels(truth[[4, 1]], known[[4, 1]]), 3, seed=0, hole=1, places=np.array([14, 11])
        )
        assert (some.int() - everything[[4, 1]].int()).abs().max() <= 1  # rounding
        for seed, hole, places in ((1, 1, [14, 11]), (0, 2, [14, 11]), (0, 1, [4, 1])):
            other = method.complete(
                observe_levels(truth[[4, 1]], known[[4, 1]]), 3, seed=seed, hole=hole, places=np.array(places)
            )
            assert (some != other).float().mean() > 0.1


def test_identities_depend_on_settings_and_data() -> None:
    data, subject = open_data(FACES), small_subject()
    ours = methods_of(subject, ["1", "0.5", "1"], ["mean", "sample"], k=3)
    assert [method.name for method in ours] == [
        *("small, t 1", "small, t 1, sample pixels", "small, t 0.5", "small, t 0.5, sample pixels")
    ]
    simple = baselines(["mean", "random", "nearest", "harmonic", "mean"], data)
    assert len(simple) == 4
    assert len({method.identity for method in (*ours, *simple)}) == 8
    with torch.no_grad():
        next(subject.model.partial.parameters())[0] += 1e-6
    assert subject_of(subject.model, "small").identity != subject.identity
    fewer = open_data(FACES, validation=30)
    assert baselines(["mean"], fewer)[0].identity != simple[0].identity


def test_several_spellings_of_a_temperature_are_measured_once() -> None:
    texts = ["1.0", "1", "1e0", "8:1", " 1 ", "0.50", "8:0.5", "8:0.50,1:1", "0.5", "0.123456789"]
    names = [method.name for method in methods_of(small_subject(), texts, ["mean", "mean"], k=3)]
    assert names == ["small, t 1", "small, t 0.5", "small, t 8:0.5", "small, t 0.123456789"]


def test_metrics_that_are_named_twice_are_measured_once() -> None:
    assert EvaluationSettings(metrics=("pixels", "bounds", "pixels")).metrics == ("pixels", "bounds")


def test_identities_depend_on_the_configuration_of_equal_weights() -> None:
    model = small_model()
    config, partial = model.artifact.config, model.partial_config
    assert isinstance(config.likelihood, GaussianPixels)
    found = [subject_of(model, "small").identity]
    for other, form in (
        (replace(config, likelihood=replace(config.likelihood, noise_floor=0.02)), partial.form),
        (replace(config, normalisation=Normalisation(shift=-100.0)), partial.form),
        (config, "relative"),
    ):
        alike = ConditionalVAE(VDVAE(other), replace(partial, form=form))
        alike.load_state_dict(model.state_dict())
        found.append(subject_of(alike, "small").identity)
    again = ConditionalVAE(VDVAE(config), partial)
    again.load_state_dict(model.state_dict())
    assert len(set(found)) == 4 and subject_of(again, "small").identity == found[0]


def test_unsuitable_models_and_unknown_baselines_are_rejected() -> None:
    model = small_conditional()
    assert subject_of(model, "tiny").notes["training_minutes"] == {}
    edges = ConditionalVAE(model.artifact, PartialConfig(channels=1))
    with pytest.raises(ValueError, match="tiny was not trained to complete images"):
        subject_of(edges, "tiny")
    with pytest.raises(ValueError, match="unknown baseline 'median'"):
        baselines(["median"], open_data(FACES))


class Named:
    varies = False

    def __init__(self, name: str) -> None:
        self.name = name

    def complete(self, observation: Observation, k: int, seed: int) -> torch.Tensor:
        raise AssertionError("complete must not be called")


def test_names_must_be_distinct_as_file_names() -> None:
    assert slug_of("faces64, t 8:0.9,16:0.7") == "faces64-t-8-0.9-16-0.7"
    assert slug_of("../x") == "x"
    check_names([Method.of(Named("a")), Method.of(Named("b"))])
    for name in ("", " ", "two\nlines", "x" * 300):
        with pytest.raises(ValueError, match="give one printable line of at most 150 bytes"):
            check_names([Method.of(Named(name))])
    one, other = (Method(completer=Named(n), identity=n, notes={"made_of": {"small": n}}) for n in ("a", "b"))
    with pytest.raises(ValueError, match="two different models or image sets are both named 'small'"):
        check_names([one, other])
    with pytest.raises(ValueError, match="the method names 'a b' and 'A, b' are too similar"):
        check_names([Method.of(Named("a b")), Method.of(Named("A, b"))])
