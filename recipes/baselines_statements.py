"""Decide what the paper says about IPA and its baselines, from the numbers of the comparison. `RULES` says how."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations
from typing import Any, NamedTuple

from condvae.experiments.evaluation.plan import MIXTURE
from condvae.metrics import FWV_SIGMAS, HOLE_BINS
from condvae.runtime.messages import listed
from recipes.pages import short
from recipes.statements import REFUTED, REPRODUCED, UNDECIDED, Statement, verdict_of

IPA, CE, ANP, PIC, RFR = "IPA", "CE", "ANP", "PIC", "RFR"
COMODGAN, VQVAE, DIFFUSION = "CoModGAN", "VQ-VAE", "Diffusion"
EMBEDDED_TITLE = "IPA, embedded"
BASELINES = (CE, ANP, PIC, RFR, COMODGAN, VQVAE, DIFFUSION)
LEARNED = (IPA, *BASELINES)
"""The methods that may have been trained with the same budget; see `learned_in`."""
OWN = "our own question: "
SINGLE = (CE, RFR)
"""The methods that have one completion of each image."""
BINS = tuple(map(str, HOLE_BINS))
SIGMAS = tuple(f"fwv@{sigma:g}" for sigma in FWV_SIGMAS)

RULES = {
    "A": "Two methods differ if the difference of their means exceeds twice its standard error, which is computed over "
    "images; the two methods are treated as independent, and the variation between trainings is not included. "
    "Reproduced, or yes, if the first method of the sentence is better than each of the others, in the mixture of "
    "bins or in the stated bin; refuted, or no, if it is worse than one of them; else undecided.",
    "B": "As rule A, in each of the five bins, in each of the stated bins, or for each sigma. Reproduced if the first "
    "method is better everywhere; refuted if it is worse somewhere.",
    "C": "As rule A, for all pairs of methods in the stated order. Reproduced if each method is better than all that "
    "follow it; refuted if one is worse than one that follows it.",
    "D": "Spearman's rank correlation over the methods of the sentence, in the mixture of bins. p is the "
    "probability of a value that is as low or lower, if the order of the methods were random. Reproduced if p is below "
    ".05; refuted if the probability of a value that is as high or higher is below .05; else undecided.",
    "E": "The calibration error is compared, in the mixture of bins. Two methods differ if the difference exceeds the "
    "larger of the errors that calibrated completions would have by chance. Yes if the first method has the smaller "
    "error than each of the others; no if it has a larger error than one of them.",
}


class Shown(NamedTuple):
    """How a metric is written, and whether higher or lower values are better."""

    title: str
    digits: int
    higher_is_better: bool = False
    scale: float = 1.0


METRICS: dict[str, Shown] = {
    "fid": Shown("FID", 1),
    "p_ids": Shown("P-IDS", 1, True, 100.0),
    "lpips_gt": Shown("LPIPS-GT", 4),
    "lpips_gt@1": Shown("LPIPS-GT, K = 1", 4),
    "lpips_diversity": Shown("LPIPS diversity", 4, True),
    "cfid": Shown("CFID", 1),
    "crps_lpips": Shown("CRPS of LPIPS features", 3),
    "crps_pixels": Shown("CRPS of pixels", 4),
    "sharpness": Shown("sharpness", 2, True),
    **{name: Shown(f"FWV, sigma {short(sigma, 2)}", 3, True) for name, sigma in zip(SIGMAS, FWV_SIGMAS, strict=True)},
}

Methods = Mapping[str, Any]
"""The methods of the report, by their names on the page."""


def learned_in(methods: Methods, among: Sequence[str] = LEARNED) -> tuple[str, ...]:
    """Return those of the methods with the same budget that are in the report."""
    return tuple(name for name in among if name in methods)


def measured_with(methods: Methods, metric: str) -> dict[str, Any]:
    """Return those of the methods that were measured with a metric. Older results lack some metrics."""
    return {name: found for name, found in methods.items() if metric in found["metrics"]}


def mean(methods: Methods, name: str, metric: str, column: str = MIXTURE) -> float:
    return float(methods[name]["metrics"][metric][column]["mean"])


def lead(methods: Methods, ours: str, theirs: str, metric: str, column: str = MIXTURE) -> int:
    """Return 1 if our method is better in a column, by rule A, -1 if it is worse, and 0 if they do not differ."""
    mine, other = (methods[name]["metrics"][metric][column] for name in (ours, theirs))
    gap = mine["mean"] - other["mean"]
    gap = gap if METRICS[metric].higher_is_better else -gap
    error = 2 * (mine["standard_error"] ** 2 + other["standard_error"] ** 2) ** 0.5
    return int(gap > error) - int(gap < -error)


def value(methods: Methods, name: str, metric: str, column: str = MIXTURE) -> str:
    shown, cell = METRICS[metric], methods[name]["metrics"][metric][column]
    mean, error = (short(shown.scale * cell[key], shown.digits) for key in ("mean", "standard_error"))
    return f"{mean} ± {error}"


def leaders(methods: Methods, names: Sequence[str], metric: str, column: str = MIXTURE) -> list[str]:
    """Return the method with the best mean, and then all methods that do not differ from it by rule A."""
    choose = max if METRICS[metric].higher_is_better else min
    best = choose(names, key=lambda name: mean(methods, name, metric, column))
    return [best, *(name for name in names if name != best and not lead(methods, best, name, metric, column))]


def beats(methods: Methods, ours: str, others: Sequence[str], metric: str, column: str = MIXTURE) -> tuple[str, str]:
    """Rule A."""
    verdict = verdict_of([lead(methods, ours, other, metric, column) for other in others])
    return verdict, _listed(methods, (ours, *others), metric, column)


def _listed(methods: Methods, names: Sequence[str], metric: str, column: str = MIXTURE) -> str:
    return ", ".join(f"{name} {value(methods, name, metric, column)}" for name in names)


def beats_everywhere(methods: Methods, ours: str, others: Sequence[str], cells: Mapping[str, Any]) -> tuple[str, str]:
    """Rule B. cells: a metric and a column by the name of the place, such as a bin or a sigma."""
    numbers, leads = [], []
    for place, (metric, column) in cells.items():
        leads += (found := [lead(methods, ours, other, metric, column) for other in others])
        ahead = [name for name, one in zip(others, found, strict=True) if one < 0]
        equal = [name for name, one in zip(others, found, strict=True) if one == 0]
        said = [f"{', '.join(ahead)} better" if ahead else "", f"{', '.join(equal)} not different" if equal else ""]
        numbers.append(f"{place}: {'; '.join(filter(None, said)) or f'{ours} best'}")
    return verdict_of(leads), "; ".join(numbers)


def ordered(methods: Methods, order: Sequence[str], metric: str) -> tuple[str, str]:
    """Rule C."""
    leads = [lead(methods, first, second, metric) for i, first in enumerate(order) for second in order[i + 1 :]]
    by_value = sorted(
        order,
        key=lambda name: mean(methods, name, metric),
        reverse=METRICS[metric].higher_is_better,
    )
    return verdict_of(leads), f"ours: {_listed(methods, by_value, metric)}"


def correlated(methods: Methods, names: Sequence[str], first: str, second: str) -> tuple[str, str]:
    """Rule D."""
    ranks = []
    for metric in (first, second):
        means = [mean(methods, name, metric) for name in names]
        ranks.append([sum(other < m for other in means) + (means.count(m) - 1) / 2 for m in means])
    middle = (len(names) - 1) / 2
    a, b = ([rank - middle for rank in one] for one in ranks)
    scale = (sum(x * x for x in a) * sum(y * y for y in b)) ** 0.5
    product, *_ = products = [sum(x * y for x, y in zip(a, order, strict=True)) for order in permutations(b)]
    as_low = sum(other <= product for other in products) / len(products)
    as_high = sum(other >= product for other in products) / len(products)
    verdict = REPRODUCED if as_low < 0.05 else REFUTED if as_high < 0.05 else UNDECIDED
    found = product / scale if scale else 0.0
    chance = f"p = {short(as_low, 2)}" if as_low >= 0.005 else "p < .01"
    return verdict, f"rank correlation {short(found, 2)}, {chance}; {_listed(methods, names, second)}"


def calibrated(methods: Methods, ours: str, others: Sequence[str], kind: str) -> tuple[str, str]:
    """Rule E."""
    cells = {name: methods[name]["coverage"][kind][MIXTURE] for name in (ours, *others)}
    leads = []
    for name in others:
        gap = cells[name]["error"] - cells[ours]["error"]
        chance = max(cells[one]["error_by_chance"] for one in (ours, name))
        leads.append(int(gap > chance) - int(gap < -chance))
    return verdict_of(leads), ", ".join(
        f"{name} {short(cell['error'], 3)} ({cell['verdict']})" for name, cell in cells.items()
    )


def answer(decided: tuple[str, str]) -> tuple[str, str]:
    """Return the answer to a question of our own, yes, no or undecided, instead of a verdict on the paper."""
    return {REPRODUCED: "yes", REFUTED: "no"}.get(decided[0], decided[0]), decided[1]


def statements(methods: Methods) -> list[Statement]:
    """Decide all statements about the methods of a report. IPA is the one with the same budget as the baselines."""
    found: list[Statement] = []

    def add(text: str, rule: str, decided: tuple[str, str]) -> None:
        found.append(Statement(text, rule, *decided))

    weaker, published = (learned_in(methods, names) for names in ((CE, ANP, PIC, RFR), (CE, ANP, PIC, RFR, COMODGAN)))
    for metric, others in (("fid", weaker), ("p_ids", published), ("lpips_gt", published)):
        best = f"IPA has a better {METRICS[metric].title} than {listed(others)}"
        add(f"{best}, in the mixture of bins", "A", beats(methods, IPA, others, metric))
        in_bins = {column: (metric, column) for column in BINS}
        if metric != "p_ids" or COMODGAN not in methods:  # above 60 % hidden, the paper does not say this of CoModGAN
            add(f"{best}, in each bin", "B", beats_everywhere(methods, IPA, others, in_bins))
    if COMODGAN in methods:
        text = "CoModGAN has a better FID than IPA, in the mixture of bins"
        add(text, "A", beats(methods, COMODGAN, (IPA,), "fid"))
        for metric in ("fid", "p_ids"):
            best = f"IPA has a better {METRICS[metric].title} than {listed(published)}"
            most = {column: (metric, column) for column in BINS[:3]}  # the paper: over 40 % is observed
            add(f"{best}, in each bin up to 60 % hidden", "B", beats_everywhere(methods, IPA, published, most))
    for metric, order in (
        ("fid", (COMODGAN, PIC, CE, ANP, RFR)),
        ("p_ids", (COMODGAN, PIC, ANP, CE, RFR)),
        ("lpips_gt", (COMODGAN, PIC, ANP, CE, RFR)),
    ):
        names = learned_in(methods, order)
        text = f"by {METRICS[metric].title}, the order of the baselines is {', '.join(names)}, the best first"
        add(text, "C", ordered(methods, names, metric))
    by_sigma = {f"sigma {short(sigma, 2)}": (f"fwv@{sigma:g}", MIXTURE) for sigma in FWV_SIGMAS}
    text = f"IPA has a higher FWV than {listed(published)}, for each sigma"
    add(text, "B", beats_everywhere(methods, IPA, published, by_sigma))
    text = f"over {listed((IPA, *published))}, LPIPS-GT is lower for methods with more LPIPS diversity"
    add(text, "D", correlated(methods, (IPA, *published), "lpips_gt", "lpips_diversity"))
    for text, rule, decided in own_questions(methods):
        add(OWN + text, rule, answer(decided))
    return found


def own_questions(methods: Methods) -> Iterator[tuple[str, str, tuple[str, str]]]:
    """Yield questions that the paper does not ask, with a rule and what it decides."""
    for single in SINGLE:
        for varying in (ANP, PIC):
            text = f"does {varying}, which varies, have a better LPIPS-GT than {single}, which does not, if more than "
            text += f"{100 * HOLE_BINS[-1].low:.0f} % is hidden?"
            yield text, "A", beats(methods, varying, (single,), "lpips_gt", BINS[-1])
    for other in (IPA, CE, PIC, RFR):
        yield (
            f"are completions of ANP less sharp than those of {other}?", "A",
            beats(methods, other, (ANP,), "sharpness"),
        )  # fmt: skip
    others = learned_in(methods, (ANP, PIC, COMODGAN, VQVAE))
    for kind in ("white", "smooth"):
        text = f"in {kind} projections, does IPA have a smaller calibration error than {listed(others)}?"
        yield text, "E", calibrated(methods, IPA, others, kind)
    if DIFFUSION not in methods:
        return
    text = "over all methods with this budget, is LPIPS-GT lower for methods with more LPIPS diversity?"
    yield text, "D", correlated(methods, learned_in(methods), "lpips_gt", "lpips_diversity")
    more = f"the embedded {IPA}, which had about three times the training"
    for other, called, metrics in (
        (IPA, IPA, ("fid", "p_ids", "lpips_gt", "lpips_gt@1", "crps_pixels", "crps_lpips", "cfid")),
        (EMBEDDED_TITLE, more, ("fid", "lpips_gt", "lpips_gt@1", "crps_pixels", "crps_lpips", "cfid")),
    ):
        for metric in metrics:
            if {DIFFUSION, other} <= measured_with(methods, metric).keys():
                text = f"does the diffusion model have a better {METRICS[metric].title} than {called}?"
                yield text, "A", beats(methods, DIFFUSION, (other,), metric)
    for kind in ("white", "smooth"):
        yield (
            f"in {kind} projections, does the diffusion model have a smaller calibration error than IPA?", "E",
            calibrated(methods, DIFFUSION, (IPA,), kind),
        )  # fmt: skip
