"""One question, one answer: these pixels are known, where should one look next?"""

from dataclasses import dataclass

import torch
from torch import Tensor

from condvae.completers.interface import Completer
from condvae.completers.model_completer import ModelCompleter
from condvae.conditional import ConditionalVAE
from condvae.design.candidates import Candidates
from condvae.design.classifier import Classifier, variable_of
from condvae.design.lookahead import ask, check_probabilities
from condvae.design.policies import Estimator, Greedy, check_seed
from condvae.design.sources import Completions, check_completes
from condvae.observe import Observation
from condvae.observe.observation import observe_pixels
from condvae.runtime.pixels import check_images
from condvae.sampling.plain import PixelChoice
from condvae.sampling.sampler import Sampler
from condvae.vdvae.temperature import TemperatureLike


@dataclass(frozen=True, kw_only=True, eq=False)
class Location:
    """Where to look next, and why."""

    index: int
    """Into the candidates."""
    corner: tuple[int, int] | None
    """Row and column of its upper left pixel, where candidates are squares."""
    window: Tensor
    """[1, H, W] bool: the pixels that it shows."""
    eig: Tensor
    """[L] nats: expected information gain of every candidate."""
    scores: Tensor
    """[L]: what was maximised: the EIG, or minus the expected posterior entropy."""
    gains: Tensor
    """[N, L] nats: what each completion would tell at each candidate; their mean is the EIG."""
    completions: Tensor
    """[N, C, H, W] uint8."""
    posterior: Tensor
    """[K] float32: the probabilities of v as g sees them now."""


@torch.no_grad()
def next_location(
    observation: Observation,
    model: ConditionalVAE | Sampler | Completer,
    classifier: Classifier,
    candidates: Candidates,
    *,
    variable: str | int = 0,
    n: int = 10,
    estimator: Estimator = "eig",
    seed: int = 0,
    temperature: TemperatureLike = 1.0,
    pixels: PixelChoice = "mean",
) -> Location:
    """The candidate that is expected to tell most about a variable of the classifier's, as n completions show.

    Give a `Sampler` rather than a model to ask many times on a GPU: it keeps what it has compiled. temperature and
    pixels are how a model draws; another completer has its own ways.
    """
    _check_kinds(observation, model, classifier, candidates)
    check_seed(seed)
    number = variable_of(classifier, variable)
    observation = _checked(observation, candidates)
    completer, device = _completer(model, observation, temperature, pixels)
    observation = observation.to(device)
    candidates = candidates.to(device)
    assert observation.known is not None and observation.pixels is not None
    if not candidates.new(observation.known).any():
        raise ValueError(
            "nothing is left to scan: "
            + ("the whole image is known" if observation.known.all() else "every candidate shows only known pixels")
        )
    policy = Greedy(
        name="next location",
        classifier=classifier,
        candidates=candidates,
        variable=number,
        source=Completions(completer=completer),
        n=n,
        estimator=estimator,
    )
    choice = policy.choose(observation, 0, seed=seed, places=[0])
    assert choice.scores is not None and choice.gains is not None and choice.images is not None
    index = int(choice.index)
    corner = None if candidates.corners is None else candidates.corners[index].tolist()
    now = ask(classifier, observation.pixels, observation.known)[0, number]
    check_probabilities(now)
    return Location(
        index=index,
        corner=None if corner is None else (corner[0], corner[1]),
        window=candidates.windows[index],
        eig=choice.gains[0].mean(dim=0),
        scores=choice.scores[0],
        gains=choice.gains[0],
        completions=choice.images[0],
        posterior=now.exp(),
    )


def _check_kinds(observation: object, model: object, classifier: object, candidates: object) -> None:
    """Raise a ValueError for what was meant for something else, such as the name of a model."""
    completes = isinstance(model, ConditionalVAE | Sampler) or hasattr(model, "complete")
    for good, value, name, expected in (
        (isinstance(observation, Observation), observation, "the observation", "what model.observe(x, known) gives"),
        (completes, model, "the model", "a conditional model, as load gives it, a Sampler, or a completer"),
        (hasattr(classifier, "log_posterior"), classifier, "the classifier", "one as load_classifier gives it"),
        (isinstance(candidates, Candidates), candidates, "the candidates", "Candidates, such as Candidates.grid(...)"),
    ):
        if not good:
            raise ValueError(f"a {type(value).__name__} was given for {name}, expected {expected}")


def _checked(observation: Observation, candidates: Candidates) -> Observation:
    """The observation as every completer is given it, with nothing in it but what is known."""
    if observation.known is None or observation.pixels is None:
        raise ValueError("the observation does not say which pixels are known: observe known pixels to scan others")
    if len(observation) != 1:
        raise ValueError(f"{len(observation)} observations were given, expected one: ask for each, or use a policy")
    channels = observation.pixels.shape[1]
    clean = torch.where(observation.known, observation.pixels, 0.0)
    check_images(clean, channels=channels, size=candidates.size, name="the observed image")
    return observe_pixels(clean, observation.known, lambda images: images)


def _completer(
    model: ConditionalVAE | Sampler | Completer,
    observation: Observation,
    temperature: TemperatureLike,
    pixels: PixelChoice,
) -> tuple[Completer, torch.device]:
    """What completes, and where it computes."""
    if not isinstance(model, ConditionalVAE | Sampler):
        return model, observation.y.device
    network = model.model if isinstance(model, Sampler) else model
    config = network.artifact.config
    check_completes(network)
    assert observation.pixels is not None
    check_images(observation.pixels, channels=config.channels, size=config.image_size, name="the observed image")
    completer = ModelCompleter.of(model, name="the model", temperature=temperature, pixels=pixels)
    return completer, completer.sampler.device
