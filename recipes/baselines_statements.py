"""Decide what the paper says about IPA and its baselines, from the numbers of the comparison. `RULES` says how."""

from collections.abc import Mapping, Sequence
from itertools import permutations
from typing import Any, NamedTuple

from condvae.experiments.evaluation.plan import MIXTURE
from condvae.metrics import FWV_SIGMAS, HOLE_BINS
from recipes.pages import short
from recipes.statements import REFUTED, REPRODUCED, UNDECIDED, Statement, verdict_of

IPA, CE, ANP, PIC, RFR = "IPA", "CE", "ANP", "PIC", "RFR"
BASELINES = (CE, ANP, PIC, RFR)
LEARNED = (IPA, *BASELINES)
"""The methods that were trained with the same budget."""
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
    "B": "As rule A, in each of the five bins, or for each sigma. Reproduced if the first method is better everywhere; "
    "refuted if it is worse somewhere.",
    "C": "As rule A, for all pairs of methods in the stated order. Reproduced if each method is better than all that "
    "follow it; refuted if one is worse than one that follows it.",
    "D": "Spearman's rank correlation over the five methods, in the mixture of bins. p is the probability of a value "
    "that is as low or lower, if the order of the methods were random. Reproduced if p is below .05; refuted if the "
    "probability of a value that is as high or higher is below .05; else undecided.",
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
    "sharpness": Shown("sharpness", 2, True),
    **{name: Shown(f"FWV, sigma {short(sigma, 2)}", 3, True) for name, sigma in zip(SIGMAS, FWV_SIGMAS, strict=True)},
}

Methods = Mapping[str, Any]
"""The methods of the report, by their names on the page."""


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


def correlated(methods: Methods, first: str, second: str) -> tuple[str, str]:
    """Rule D."""
    ranks = []
    for metric in (first, second):
        means = [mean(methods, name, metric) for name in LEARNED]
        ranks.append([sum(other < m for other in means) + (means.count(m) - 1) / 2 for m in means])
    middle = (len(LEARNED) - 1) / 2
    a, b = ([rank - middle for rank in one] for one in ranks)
    scale = (sum(x * x for x in a) * sum(y * y for y in b)) ** 0.5
    product, *_ = products = [sum(x * y for x, y in zip(a, order, strict=True)) for order in permutations(b)]
    as_low = sum(other <= product for other in products) / len(products)
    as_high = sum(other >= product for other in products) / len(products)
    verdict = REPRODUCED if as_low < 0.05 else REFUTED if as_high < 0.05 else UNDECIDED
    found = product / scale if scale else 0.0
    return verdict, f"rank correlation {short(found, 2)}, p = {short(as_low, 2)}; {_listed(methods, LEARNED, second)}"


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
    """Decide all statements. IPA is the one with the same budget as the baselines."""
    found: list[Statement] = []

    def add(text: str, rule: str, decided: tuple[str, str]) -> None:
        found.append(Statement(text, rule, *decided))

    for metric in ("fid", "p_ids", "lpips_gt"):
        name = METRICS[metric].title
        best = f"IPA has a better {name} than CE, ANP, PIC and RFR"
        add(f"{best}, in the mixture of bins", "A", beats(methods, IPA, BASELINES, metric))
        in_bins = {column: (metric, column) for column in BINS}
        add(f"{best}, in each bin", "B", beats_everywhere(methods, IPA, BASELINES, in_bins))
    for metric, order in (
        ("fid", (PIC, CE, ANP, RFR)), ("p_ids", (PIC, ANP, CE, RFR)), ("lpips_gt", (PIC, ANP, CE, RFR)),
    ):  # fmt: skip
        text = f"by {METRICS[metric].title}, the order of the baselines is {', '.join(order)}, the best first"
        add(text, "C", ordered(methods, order, metric))
    by_sigma = {f"sigma {short(sigma, 2)}": (f"fwv@{sigma:g}", MIXTURE) for sigma in FWV_SIGMAS}
    text = "IPA has a higher FWV than CE, ANP, PIC and RFR, for each sigma"
    add(text, "B", beats_everywhere(methods, IPA, BASELINES, by_sigma))
    add(
        "LPIPS-GT is lower for methods with more LPIPS diversity",
        "D",
        correlated(methods, "lpips_gt", "lpips_diversity"),
    )
    for single in SINGLE:
        for varying in (ANP, PIC):
            text = f"{OWN}does {varying}, which varies, have a better LPIPS-GT than {single}, which does not, if more "
            text += f"than {100 * HOLE_BINS[-1].low:.0f} % is hidden?"
            add(text, "A", answer(beats(methods, varying, (single,), "lpips_gt", BINS[-1])))
    blurred = OWN + "are completions of ANP less sharp than those of {}?"
    for other in (IPA, CE, PIC, RFR):
        add(blurred.format(other), "A", answer(beats(methods, other, (ANP,), "sharpness")))
    for kind in ("white", "smooth"):
        text = f"{OWN}in {kind} projections, does IPA have a smaller calibration error than ANP and PIC?"
        add(text, "E", answer(calibrated(methods, IPA, (ANP, PIC), kind)))
    return found
