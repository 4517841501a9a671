"""Which encoder is used, what it observes, and how models are identified."""

import copy

import pytest
import torch
from helpers.models import generator, images, small_conditional, small_vae, some_known
from helpers.ood_models import observing

from condvae.conditional import ConditionalVAE, PartialConfig
from condvae.observe import Freeform, Label, Nothing, Observation
from condvae.observe.batch import Batch
from condvae.ood.inference import Inference


def test_the_kind_follows_the_model() -> None:
    model, vae = observing(), small_vae()
    assert [Inference.of(one).kind for one in (model, vae)] == ["partial", "whole"]
    assert Inference.of(model, "whole").vae is model.artifact is Inference.of(model).vae
    assert Inference.of(vae).groups == len(vae.config.group_stages)
    with pytest.raises(ValueError, match="only takes whole images"):
        Inference.of(vae, "partial")
    with pytest.raises(ValueError, match="kind of inference is 'half'"):
        Inference.of(vae, "half")  # type: ignore[arg-type]


def test_each_kind_uses_its_encoder() -> None:
    model, x, known = observing(), images(2), some_known(2)
    partial, whole = Inference.of(model), Inference.of(model, "whole")
    assert partial.source(partial.observe(x, known)).encoder is model.partial
    assert whole.source(whole.observe(x)).encoder is model.artifact.encoder


def test_what_is_observed() -> None:
    model, x, known = observing(), images(2), some_known(2)
    seen, expected = Inference.of(model).observe(x, known), model.observe(x, known)
    assert torch.equal(seen.y, expected.y)
    otherwise = x.to(memory_format=torch.channels_last)
    assert Inference.of(model).observe(otherwise, known).y.stride() == seen.y.stride()
    for kind in ("partial", "whole"):
        everything = Inference.of(model, kind).observe(x)
        assert everything.known is not None and everything.known.all()
        assert everything.pixels is not None and torch.equal(everything.pixels, x)
    assert Inference.of(model.double()).observe(x, known).y.dtype == torch.float64
    whole = Inference.of(observing(), "whole")
    with pytest.raises(ValueError, match="some pixels are hidden"):
        whole.observe(x, known)
    with pytest.raises(ValueError, match="some pixels are hidden"):
        whole.source(seen)
    with pytest.raises(ValueError, match="needs the pixels"):
        whole.source(Observation(y=seen.y))
    with pytest.raises(ValueError, match="has 1 channel,"):
        Inference.of(model).observe(images(2, channels=1), known)


def test_observations_are_drawn_as_in_training() -> None:
    model, batch = observing(process=Freeform(low=0.3, high=0.7)), Batch(x=images(4))
    assert model.process is not None
    drawn = Inference.of(model).draw(batch, generator(5))
    expected = model.process.observe(batch, normalise=model.artifact.normalise, generator=generator(5))
    assert torch.equal(drawn.y, expected.y)
    whole = Inference.of(model, "whole").draw(batch, generator(5))
    assert whole.known is not None and whole.known.all()
    model.process = None
    with pytest.raises(ValueError, match="this model has no observation process"):
        Inference.of(model).draw(batch, generator(5))


def test_whether_pixels_can_be_hidden() -> None:
    label = ConditionalVAE(small_vae(), PartialConfig(channels=4), process=Label(classes=4))
    for model in (observing(), small_conditional()):
        assert not Inference.of(model).observe(images(1), some_known(1)).known.all()  # type: ignore[union-attr]
    with pytest.raises(ValueError, match="observes label"):
        Inference.of(label).observe(images(1), some_known(1))


def test_different_models_have_different_identities() -> None:
    model = observing()
    same, other, trained_otherwise = copy.deepcopy(model), copy.deepcopy(model), copy.deepcopy(model)
    with torch.no_grad():
        next(other.partial.parameters()).add_(1e-3)
    trained_otherwise.process = Nothing()
    partials = [Inference.of(one).identity for one in (model, same, other, trained_otherwise)]
    assert partials[0] == partials[1] and len(set(partials)) == 3
    # q and the decoder do not depend on the partial encoder.
    wholes = {Inference.of(one, "whole").identity for one in (model, other, trained_otherwise)}
    assert wholes == {Inference.of(model.artifact).identity} and not wholes & set(partials)
    with torch.no_grad():
        next(same.artifact.parameters()).add_(1e-3)
    assert Inference.of(same).identity not in partials and Inference.of(same, "whole").identity not in wholes


def test_identity_does_not_depend_on_the_memory_layout() -> None:
    model = observing()
    before = Inference.of(model).identity
    assert Inference.of(model.to(memory_format=torch.channels_last)).identity == before  # type: ignore[call-overload]
