"""`next_location`: given the known pixels of one image, choose the location to scan next."""

from dataclasses import dataclass

import torch
from torch import Tensor

from condvae.completers.interface import Completer
from condvae.completers.model_completer import ModelCompleter
from condvae.conditional import ConditionalVAE
from condvae.design.candidates import Candidates
from condvae.design.classifier import Classifier, variable_of
from condvae.design.lookahead import check_probabilities, predict
from condvae.design.policies import Greedy, check_seed
from condvae.design.scan_settings import Estimator
from condvae.design.sources import Completions, check_completes
from condvae.observe import Observation
from condvae.observe.observation import observe_pixels
from condvae.runtime.pixels import check_images
from condvae.sampling.plain import PixelChoice
from condvae.sampling.sampler import Sampler
from condvae.vdvae.temperature import TemperatureLike


@dataclass(frozen=True, kw_only=True, eq=False)
class Location:
    """The location to scan next, and the estimates that led to this choice."""

    index: int
    """Index of the chosen window among the candidates."""
    corner: tuple[int, int] | None
    """Row and column of the window's upper left pixel. None if the candidates have no corners."""
    window: Tensor
    """[1, H, W] bool: the pixels of the chosen window."""
    eig: Tensor
    """[L] nats: expected information gain of scanning each candidate."""
    scores: Tensor
    """[L]: the quantity that was maximised over candidates: the EIG, or minus the expected posterior entropy."""
    gains: Tensor
    """[N, L] nats: information gain of each candidate if completion n were the true image. The mean over the N
    completions is the EIG."""
    completions: Tensor
    """[N, C, H, W] uint8: the completions that were used for the estimates."""
    posterior: Tensor
    """[K] float32: the classifier's probabilities of the K outcomes of v before the scan."""


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
    """Choose the candidate with the highest expected information gain about one variable, using n completions.

    With the estimator "epe", choose the candidate with the lowest expected posterior entropy instead.
    model: for many calls on a GPU, give a `Sampler` instead of a model, because it keeps its compiled code.
    temperature, pixels: these apply to a model or a `Sampler`; other completers ignore them.
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
            + ("the whole image is known" if observation.known.all() else "all pixels of every candidate are known")
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
    now = predict(classifier, observation.pixels, observation.known)[0, number]
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
    """Raise a ValueError if an argument has the wrong type, such as a model's name instead of the model."""
    completes = isinstance(model, ConditionalVAE | Sampler) or hasattr(model, "complete")
    for good, value, name, expected in (
        (isinstance(observation, Observation), observation, "observation", "the result of model.observe(x, known)"),
        (completes, model, "model", "a conditional model from condvae.load, a Sampler, or a completer"),
        (hasattr(classifier, "log_posterior"), classifier, "classifier", "the result of load_classifier"),
        (isinstance(candidates, Candidates), candidates, "candidates", "Candidates, such as Candidates.grid(...)"),
    ):
        if not good:
            raise ValueError(f"the argument {name} has type {type(value).__name__}, expected {expected}")


def _checked(observation: Observation, candidates: Candidates) -> Observation:
    """Check an observation and set its hidden pixels to 0, so that no completer can use them."""
    if observation.known is None or observation.pixels is None:
        raise ValueError("the observation does not state which pixels are known: make it with model.observe(x, known)")
    if len(observation) != 1:
        raise ValueError(
            f"{len(observation)} observations were given, expected one: call next_location once per "
            "observation, or use a policy"
        )
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
    """Return a completer that uses the model, and the device on which it computes."""
    if not isinstance(model, ConditionalVAE | Sampler):
        return model, observation.y.device
    network = model.model if isinstance(model, Sampler) else model
    config = network.artifact.config
    check_completes(network)
    assert observation.pixels is not None
    check_images(observation.pixels, channels=config.channels, size=config.image_size, name="the observed image")
    completer = ModelCompleter.of(model, name="the model", temperature=temperature, pixels=pixels)
    return completer, completer.sampler.device
