import math
from collections.abc import Callable

import pytest
import torch
from helpers.models import generator, images, randomise, small_conditional, small_vae, some_known

from condvae import objectives
from condvae.conditional import ConditionalVAE, PartialConfig
from condvae.observe import Observation, observe_pixels
from condvae.sampling.plain import sample_conditional
from condvae.vdvae import VDVAE, preset


def test_forward_of_the_whole_image_with_c_equal_to_the_prior_is_the_elbo() -> None:
    vae = small_vae()
    model = ConditionalVAE(vae, PartialConfig(channels=4, form="relative"))
    x = images(3)
    elbo = objectives.elbo(vae, x, noise=generator(1))
    forward = objectives.forward(model, x, model.observe(x, some_known(3)), noise=generator(1), target="whole")
    torch.testing.assert_close(forward.kl_nats, elbo.kl_nats)
    torch.testing.assert_close(forward.nats, elbo.nats)


def test_known_and_hidden_pixels_add_up_to_the_image() -> None:
    model = small_conditional()
    x, known = images(3), some_known(3)
    observation = model.observe(x, known)
    opposite = Observation(y=observation.y, known=~known)
    unknown = objectives.forward(model, x, observation, noise=generator(1))
    other = objectives.forward(model, x, opposite, noise=generator(1))
    whole = objectives.forward(model, x, observation, noise=generator(1), target="whole")
    assert unknown.log_likelihood_nats is not None
    assert other.log_likelihood_nats is not None
    assert whole.log_likelihood_nats is not None
    torch.testing.assert_close(unknown.log_likelihood_nats + other.log_likelihood_nats, whole.log_likelihood_nats)
    assert torch.equal(unknown.scored_dims + other.scored_dims, whole.scored_dims)
    assert unknown.scored_dims.tolist() == (3 * (~known).sum((1, 2, 3))).tolist()


def test_units_are_consistent() -> None:
    model = small_conditional()
    x = images(3)
    bound = objectives.forward(model, x, model.observe(x, some_known(3)), noise=generator())
    torch.testing.assert_close(bound.bits_per_dim * math.log(2) * 3 * 8 * 8, -bound.nats)
    torch.testing.assert_close(bound.bits_per_scored_dim * math.log(2) * bound.scored_dims, -bound.nats)
    torch.testing.assert_close(bound.loss, -bound.nats.mean() / 192)
    assert bound.kl_nats.shape == (3, 4)
    assert (bound.kl_nats > 0).all()
    tighter = objectives.importance_weighted(model, x, model.observe(x, some_known(3)), samples=2, noise=generator())
    torch.testing.assert_close(tighter.bits_per_scored_dim * math.log(2) * bound.scored_dims, -tighter.nats)


def test_the_gradient_of_psi_does_not_depend_on_the_likelihood() -> None:
    model = small_conditional()
    x = images(2)
    gradients = []
    for likelihood in (True, False):
        bound = objectives.forward(model, x, model.observe(x, some_known(2)), noise=generator(), likelihood=likelihood)
        gradients.append(torch.autograd.grad(bound.loss, list(model.partial.parameters())))
    assert all(torch.equal(a, b) for a, b in zip(*gradients, strict=True))
    with pytest.raises(ValueError, match="does not include the likelihood"):
        _ = bound.nats


def test_sampled_kl_estimates_the_analytic_one() -> None:
    """Over many draws, the two means agree within four standard errors, and the analytic KL varies less."""
    model = small_conditional()
    x = images(1).expand(1500, -1, -1, -1)
    observation = model.observe(x, some_known(1).expand(1500, -1, -1, -1))
    bounds: list[Callable[[objectives.KLEstimate], objectives.Bound]] = [
        lambda kl: objectives.forward(model, x, observation, noise=generator(1), kl=kl),
        lambda kl: objectives.reverse(model, observation, noise=generator(1), kl=kl),
        lambda kl: objectives.elbo(model.artifact, x, noise=generator(1), kl=kl),
    ]
    with torch.no_grad():
        for objective in bounds:
            analytic, sampled = objective("analytic").kl_nats, objective("sampled").kl_nats
            error = (sampled - analytic).mean(0).abs() / ((sampled - analytic).std(0) / 1500**0.5)
            assert error.max() < 4
            assert analytic.sum(1).std() < sampled.sum(1).std()


def test_likelihood_weight_changes_only_the_loss() -> None:
    model = small_conditional()
    x = images(2)
    observation = model.observe(x, some_known(2))
    full, none = (objectives.reverse(model, observation, noise=generator(), likelihood_weight=w) for w in (1.0, 0.0))
    torch.testing.assert_close(full.nats, none.nats)
    torch.testing.assert_close(none.loss, none.kl_nats.sum(1).mean() / 192)
    torch.testing.assert_close(full.loss, -full.nats.mean() / 192)


def test_reverse_uses_only_known_pixels_and_has_gradients_through_the_decoder() -> None:
    model = small_conditional()
    x, known = images(2), some_known(2)
    observation = model.observe(x, known)
    poisoned = Observation(y=observation.y, known=known, pixels=torch.where(known, x, torch.nan))
    clean, other = (objectives.reverse(model, o, noise=generator()) for o in (observation, poisoned))
    torch.testing.assert_close(clean.nats, other.nats)
    assert clean.log_likelihood_nats is not None
    assert other.log_likelihood_nats is not None
    weights = list(model.partial.parameters())
    gradients = torch.autograd.grad(clean.log_likelihood_nats.sum(), weights)
    assert all(gradient.abs().max() > 0 for gradient in gradients)
    for a, b in zip(gradients, torch.autograd.grad(other.log_likelihood_nats.sum(), weights), strict=True):
        torch.testing.assert_close(a, b)


def test_importance_weighting_tightens_the_elbo_and_uses_new_numbers_for_each_sample() -> None:
    vae = small_vae()
    x = images(64)
    elbo = objectives.elbo(vae, x, noise=generator()).nats.detach()
    loose, tight = (objectives.importance_weighted(vae, x, samples=s, noise=generator()).nats for s in (1, 50))
    assert elbo.mean() < tight.mean()
    assert loose.mean() < tight.mean()
    seeds = list(range(64))
    one, many = (objectives.importance_weighted(vae, x, samples=s, noise=seeds).nats for s in (1, 50))
    assert (one != many).all()


def test_bf16_autocast_is_finite_and_within_a_percent_of_float32_on_small32() -> None:
    torch.manual_seed(0)
    model = ConditionalVAE(VDVAE(preset("small32")), PartialConfig(channels=4))
    randomise(model, 0, scale=0.02)
    x, known = images(4, size=32), some_known(4, size=32)
    observation = model.observe(x, known)
    bounds: list[Callable[[], objectives.Bound]] = [
        lambda: objectives.elbo(model.artifact, x, noise=generator()),
        lambda: objectives.forward(model, x, observation, noise=generator()),
        lambda: objectives.reverse(model, observation, noise=generator()),
    ]
    for objective in bounds:
        with torch.no_grad():
            exact = objective()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                fast = objective()
        for fast_value, exact_value in (
            (fast.nats, exact.nats),
            (fast.loss, exact.loss),
            (fast.kl_nats.sum(1), exact.kl_nats.sum(1)),
        ):
            assert fast_value.dtype == torch.float32
            torch.testing.assert_close(fast_value, exact_value, rtol=0.01, atol=0)


def test_training_lowers_the_loss() -> None:
    torch.manual_seed(0)
    vae = VDVAE(preset("tiny"))
    x = images(8).mean((2, 3), keepdim=True).expand(8, 3, 8, 8).contiguous()  # eight images of one colour each
    optimiser = torch.optim.AdamW(vae.parameters(), lr=1e-2)
    losses = []
    for step in range(60):
        loss = objectives.elbo(vae, x, noise=generator(step)).loss
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    assert sum(losses[-5:]) / 5 < 0.7 * losses[0]


@pytest.mark.parametrize("bad", [torch.nan, 7.0])
def test_bad_pixels_are_errors_unless_values_are_not_checked(bad: float) -> None:
    vae = small_vae()
    x = images(1)
    x[0, 0, 0, 0] = bad
    with pytest.raises(ValueError, match=r"expected .*\[-1, 1\]"):
        objectives.elbo(vae, x, noise=generator())
    objectives.elbo(vae, x, noise=generator(), check_values=False)


@pytest.mark.parametrize("bad", [torch.nan, 7.0])
def test_bad_known_pixels_are_errors_and_bad_hidden_pixels_do_not_matter(bad: float) -> None:
    model = small_conditional()
    x, known = images(2), some_known(2)
    # As `model.observe` makes it on a GPU; on a CPU, it rejects bad pixels itself.
    spoilt = observe_pixels(torch.where(known, bad, x), known, model.artifact.normalise)
    for use in (
        lambda: objectives.forward(model, x, spoilt, noise=generator()),
        lambda: objectives.reverse(model, spoilt, noise=generator()),
        lambda: sample_conditional(model, spoilt, noise=generator()),
    ):
        with pytest.raises(ValueError, match="observ"):
            use()
    objectives.forward(model, x, model.observe(torch.where(known, x, bad), known), noise=generator())


def test_wrong_arguments_are_errors() -> None:
    model = small_conditional()
    x = images(2)
    observation = model.observe(x, some_known(2))
    with pytest.raises(ValueError, match="reverse objective needs"):
        objectives.reverse(model, Observation(y=torch.zeros(2, 4, 8, 8)), noise=generator())
    with pytest.raises(ValueError, match="the number of images is 3, expected 2: one image per observation"):
        objectives.forward(model, images(3), observation, noise=generator())
    with pytest.raises(ValueError, match="expected 'hidden' or 'whole'"):
        objectives.forward(model, x, observation, noise=generator(), target="all")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="expected 'analytic' or 'sampled'"):
        objectives.elbo(model.artifact, x, noise=generator(), kl="exact")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"x is torch\.float64 but the model's weights are torch\.float32"):
        objectives.elbo(model.artifact, x.double(), noise=generator())
    with pytest.raises(ValueError, match="empty batch"):
        objectives.elbo(model.artifact, x[:0], noise=generator())
    free = small_conditional(train_artifact=True)
    with pytest.raises(ValueError, match="trains its artifact"):
        objectives.forward(free, x, observation, noise=generator(), likelihood=False)
    with pytest.raises(ValueError, match="samples is 0, expected a whole number, at least 1"):
        objectives.importance_weighted(model, x, observation, samples=0, noise=generator())
    with pytest.raises(ValueError, match="needs an observation"):
        objectives.importance_weighted(model, x, samples=1, noise=generator())
    with pytest.raises(ValueError, match="takes no observation"):
        objectives.importance_weighted(model.artifact, x, observation, samples=1, noise=generator())
    with pytest.raises(ValueError, match="1 channel, expected"):
        objectives.elbo(model.artifact, images(1, channels=1), noise=generator())
