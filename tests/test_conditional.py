import pytest
import torch
from helpers.models import generator, images, small_conditional, small_vae, some_known
from torch import Tensor, nn

from condvae import objectives
from condvae.conditional import ConditionalVAE, PartialConfig, frozen
from condvae.observe import Observation
from condvae.vdvae import VDVAE, preset
from condvae.vdvae.decoder import LatentBlock


def train_steps(model: ConditionalVAE, steps: int = 3) -> None:
    optimiser = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    for step in range(steps):
        x = images(4, seed=step)
        bound = objectives.forward(model, x, model.observe(x, some_known(4, seed=step)), noise=generator(step))
        optimiser.zero_grad()
        bound.loss.backward()
        optimiser.step()


def copies(module: nn.Module) -> list[Tensor]:
    return [parameter.detach().clone() for parameter in module.parameters()]


def test_ipa_moves_every_weight_of_the_partial_encoder_and_none_of_the_artifact() -> None:
    model = small_conditional()
    artifact, partial = copies(model.artifact), copies(model.partial)
    train_steps(model)
    assert all(torch.equal(a, b) for a, b in zip(artifact, model.artifact.parameters(), strict=True))
    assert all(parameter.grad is None for parameter in model.artifact.parameters())
    moved = [not torch.equal(a, b) for a, b in zip(partial, model.partial.parameters(), strict=True)]
    assert all(moved)


def test_ipa_builds_no_graph_through_encoder_or_decoder() -> None:
    """No output of the artifact requires a gradient, and the graph has only leaves of the partial encoder."""
    model = small_conditional()
    seen = []

    def no_gradient(module: nn.Module, _inputs: object, output: object) -> None:
        if isinstance(output, Tensor):
            seen.append(module)
            assert not output.requires_grad

    handles = [module.register_forward_hook(no_gradient) for module in model.artifact.modules()]
    x = images(2)
    loss = objectives.forward(model, x, model.observe(x, some_known(2)), noise=generator()).loss
    for handle in handles:
        handle.remove()
    convolutions = {module for module in model.artifact.modules() if isinstance(module, nn.Conv2d)}
    # The last convolution of a prior is applied in parts, so its hook is not called; the residual after it is checked.
    convolutions -= {module.prior.c4 for module in model.artifact.modules() if isinstance(module, LatentBlock)}
    assert convolutions <= set(seen)
    leaves = graph_leaves(loss)
    assert leaves
    assert leaves <= {id(parameter) for parameter in model.partial.parameters()}


def graph_leaves(loss: Tensor) -> set[int]:
    """The ids of the parameters that are leaves of the loss's autograd graph."""
    waiting, visited, leaves = [loss.grad_fn], set(), set()
    while waiting:
        node = waiting.pop()
        if node is None or node in visited:
            continue
        visited.add(node)
        if hasattr(node, "variable"):
            leaves.add(id(node.variable))
        waiting += [following for following, _ in node.next_functions]
    return leaves


def test_from_scratch_the_artifact_learns_too() -> None:
    model = small_conditional(train_artifact=True)
    artifact = copies(model.artifact)
    train_steps(model)
    moved = {
        name
        for (name, new), old in zip(model.artifact.named_parameters(), artifact, strict=True)
        if not torch.equal(new, old)
    }
    assert any(name.startswith("encoder.") for name in moved)
    assert any(name.startswith("decoder.") for name in moved)
    assert len(moved) > 0.9 * len(artifact)


def test_psi_started_from_phi_is_q_if_all_pixels_are_known() -> None:
    """The input weights of the known-pixel channel start at zero, so c(z | x, all known) = q(z | x)."""
    vae = small_vae()
    model = ConditionalVAE(vae, PartialConfig(channels=4)).start_from_encoder()
    x = images(2)
    everything = torch.ones(2, 1, 8, 8, dtype=torch.bool)
    bound = objectives.forward(model, x, model.observe(x, everything), noise=generator())
    assert bound.kl_nats.abs().max() < 1e-5
    nothing = objectives.forward(model, x, model.observe(x, ~everything), noise=generator())
    assert nothing.kl_nats.sum() > 0.1


def test_psi_started_from_phi_in_the_relative_form_is_the_prior_with_copied_inner_weights() -> None:
    model = small_conditional(form="relative").start_from_encoder()
    x = images(2)
    bound = objectives.reverse(model, model.observe(x, some_known(2)), noise=generator())
    assert bound.kl_nats.abs().max() == 0
    source, target = model.artifact.encoder.state_dict(), model.partial.state_dict()
    inner = [name for name in source if "c4" not in name and "input" not in name]
    assert inner
    assert all(torch.equal(source[name], target[name]) for name in inner)
    assert not torch.equal(source["heads.0.c4.weight"], target["heads.0.c4.weight"])


def test_psi_cannot_start_from_phi_if_y_is_not_an_image() -> None:
    model = ConditionalVAE(small_vae(), PartialConfig(channels=1))
    with pytest.raises(ValueError, match="y has 1 channel but images have 3"):
        model.start_from_encoder()


def test_any_number_of_input_channels() -> None:
    for channels in (1, 3, 10):
        model = ConditionalVAE(small_vae(), PartialConfig(channels=channels))
        observation = Observation(y=torch.randn(2, channels, 8, 8))
        bound = objectives.forward(model, images(2), observation, noise=generator())
        assert bound.scored_dims.tolist() == [192, 192]
        assert torch.isfinite(bound.nats).all()


def test_known_pixels_must_be_numbers_in_range_and_hidden_ones_may_be_anything() -> None:
    model, known = small_conditional(), some_known(2)
    for value, message in ((torch.nan, "NaN or infinite"), (torch.inf, "NaN or infinite"), (1.5, "to 1.5, expected")):
        with pytest.raises(ValueError, match=message):
            model.observe(torch.where(known, value, images(2)), known)
        observation = model.observe(torch.where(known, images(2), value), known)
        assert torch.equal(observation.y, model.observe(images(2), known).y)
    model.observe(torch.where(known, 1 + 1e-6, images(2)), known)  # rounding is not an error


def test_unfreezing_the_artifact_later_is_noticed() -> None:
    model = small_conditional()
    assert not model.trains_artifact
    model.artifact.requires_grad_(True)
    assert model.trains_artifact


def test_frozen_returns_its_module() -> None:
    with torch.device("meta"):
        vae = VDVAE(preset("tiny"))
    assert frozen(vae) is vae
    assert not any(parameter.requires_grad for parameter in vae.parameters())


def test_wrong_observations_and_options_are_errors() -> None:
    model = small_conditional()
    with pytest.raises(ValueError, match="y has 3 channels, but this partial encoder expects 4"):
        model.posterior(Observation(y=torch.zeros(1, 3, 8, 8)))
    with pytest.raises(ValueError, match="y is 16 x 16 pixels, but the model needs 8 x 8"):
        model.posterior(Observation(y=torch.zeros(1, 4, 16, 16)))
    with pytest.raises(ValueError, match="known has shape"):
        model.observe(images(1), some_known(2))
    with pytest.raises(ValueError, match="expected 'direct' or 'relative'"):
        PartialConfig(channels=4, form="indirect")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="whole number, at least 1"):
        PartialConfig(channels=0)
