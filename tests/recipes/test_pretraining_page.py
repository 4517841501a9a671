"""The sentences of docs/results/pretraining.md state the numbers beside them."""

import re
from typing import Any

import numpy as np
import pytest

from condvae import weights
from condvae.experiments.pretraining.plan import PretrainingSettings
from condvae.experiments.pretraining.summary import settings_of
from recipes import pretraining_results
from recipes.pages import short
from recipes.pretraining_statements import against_time, ahead_until, statements
from recipes.statements import REFUTED, REPRODUCED

PAGE = pretraining_results.page_at()
WORDS = re.sub(r"\s+", " ", PAGE.path.read_text())


@pytest.fixture(scope="module")
def result() -> dict[str, Any]:
    found: dict[str, Any] = PAGE.raw()["results"]
    return found


def fid(result: dict[str, Any], arm: str, point: int) -> str:
    return short(result["arms"][arm]["points"][point]["fid"]["mean"], 2)


def apart(result: dict[str, Any], arm: str, key: str) -> Any:
    """The bound of an arm minus that of training from scratch, for each seed."""
    ours, theirs = (np.array(result["arms"][name]["held_out"][key]["values"]) for name in (arm, "scratch"))
    return ours - theirs


def test_the_figure_has_three_seeds_and_enough_points(result: dict[str, Any]) -> None:
    assert {"condition": "completion", **result["settings"]} == settings_of(PretrainingSettings())
    assert result["settings"]["seeds"] == 3
    assert list(result["arms"]) == ["scratch", "ipa", "transfer", "ipa-short"]
    for name, arm in result["arms"].items():
        minutes = [point["minutes"] for point in arm["points"]]
        assert len(minutes) >= 6 and 60 * minutes[0] == pytest.approx(10, abs=0.5)
        assert minutes[-1] == pytest.approx(3.0 if name == "scratch" else 1.5, abs=0.05)


def test_sentences_about_completions(result: dict[str, Any]) -> None:
    last = {name: arm["points"][-1] for name, arm in result["arms"].items()}
    ends = {name: short(point["minutes"], 2) for name, point in last.items()}
    for words in (
        f"Its FID after 10 seconds, {fid(result, 'ipa', 0)}, is better than that from scratch after {ends['scratch']} "
        f"minutes, {fid(result, 'scratch', -1)}. After {ends['ipa']} minutes it is {fid(result, 'ipa', -1)}.",
        f"Transfer reaches {fid(result, 'transfer', -1)} in that time",
        f"P-IDS and LPIPS-GT of IPA after {ends['ipa']} minutes are better than those from scratch after "
        f"{ends['scratch']} minutes, too",
    ):
        assert words in WORDS
    assert ends["transfer"] == ends["ipa"] and float(fid(result, "ipa", 0)) < float(fid(result, "scratch", -1))
    assert min(last["ipa"]["p_ids"]["values"]) > max(last["scratch"]["p_ids"]["values"])
    assert max(last["ipa"]["lpips_gt"]["values"]) < min(last["scratch"]["lpips_gt"]["values"])


def test_sentences_about_statements(result: dict[str, Any]) -> None:
    found = [one for one in statements(result) if one.rule != "F"]
    verdicts = [one.verdict for one in found]
    counts = (len(found), verdicts.count(REPRODUCED), verdicts.count(REFUTED))
    words = "Of {} statements that the paper makes or implies, {} were reproduced in this small setting and {} refuted"
    assert words.format(*counts) in WORDS and sum(counts[1:]) == counts[0]
    ipa, scratch = (against_time(result, name, "bits_per_dim") for name in ("ipa", "scratch"))
    until = ahead_until(ipa, scratch)
    (minutes,) = re.findall(r"ahead until ([\d.]+) minutes", until)
    assert f"training from scratch overtakes it after {minutes} minutes" in WORDS
    ratios = [re.findall(r"FID from scratch is ([\d.]+ to [\d.]+) times", one.numbers) for one in found]
    (of_ipa,), (of_transfer,) = (one for one in ratios if one)
    assert f"from scratch is {of_ipa} times that of IPA, and {of_transfer} times that of transfer" in WORDS
    (varies,) = (one.numbers for one in found if one.text.startswith("the FID of IPA varies less"))
    ours, theirs = re.findall(r"standard deviation ([\d.]+) against ([\d.]+) ", varies)[0]
    assert f"the standard deviation of FID is {ours}, from scratch {theirs}" in WORDS


def test_sentences_about_the_cost_of_pretraining(result: dict[str, Any]) -> None:
    (numbers,) = (one.numbers for one in statements(result) if one.rule == "F" and "FID" in one.text)
    short_fid, scratch = re.findall(r"([\d.]+) ±", numbers)
    assert f"FID is {short_fid}, and {scratch} after the same time from scratch" in WORDS
    assert "after 3.01 minutes" in numbers and float(short_fid) > float(scratch)
    whole = short(result["arms"]["ipa"]["points"][-1]["total_minutes"], 2)
    assert f"as long as pretraining and IPA together, {whole} minutes" in WORDS


def test_sentences_about_hidden_and_known_pixels(result: dict[str, Any]) -> None:
    hidden, whole = (apart(result, "ipa", key) for key in ("hidden_nats", "whole_nats"))
    assert f"In the ELBO of the hidden pixels, IPA leads by {-hidden.mean():.1f} nats per image" in WORDS
    known = np.array(result["arms"]["ipa"]["held_out"]["whole_nats"]["values"]) - np.array(
        result["arms"]["ipa"]["held_out"]["hidden_nats"]["values"]
    )
    assert (
        f"{known.mean():.1f} nats, more than the {whole.mean():.1f} by which training from scratch leads" in WORDS
        and known.mean() > whole.mean()
    )
    for arm in ("ipa", "transfer"):
        assert (apart(result, arm, "hidden_nats") < 0).all() and (apart(result, arm, "whole_nats") > 0).all()
    assert f"on {result['settings']['validation']:,} held-out training images" in WORDS


def test_fid_has_the_order_of_the_hidden_pixels(result: dict[str, Any]) -> None:
    arms = result["arms"]
    by_hidden = sorted(arms, key=lambda name: float(arms[name]["held_out"]["hidden_nats"]["mean"]))
    assert by_hidden == sorted(arms, key=lambda name: float(arms[name]["points"][-1]["fid"]["mean"]))
    assert by_hidden[1:] == ["transfer", "scratch", "ipa-short"]
    before, scratch, after = (fid(result, name, -1) for name in by_hidden[1:])
    assert (
        f"the FID from scratch ({scratch}) is between those of the two arms next to it ({before} and {after})" in WORDS
    )


def test_sentences_about_the_time_of_a_step(result: dict[str, Any]) -> None:
    both = [1000 * result["arms"][name]["seconds_per_step"] for name in ("scratch", "ipa")]
    last = [[arm[-1] for arm in one["arms"].values()] for one in result["conditions"].values()]
    other = np.mean([[60_000 * point["minutes"] / point["steps"] for point in one] for one in last], axis=0)
    scratch, ipa = both - other
    assert f"takes {scratch:.1f} ms (from scratch) and {ipa:.1f} ms (IPA) longer" in WORDS
    assert f"would take {other[0] / other[1]:.1f} times as long as one with an artifact, instead of" in WORDS
    assert f"instead of {both[0] / both[1]:.1f} times" in WORDS


def test_sentences_about_other_conditions(result: dict[str, Any]) -> None:
    found = result["conditions"]
    grey, small, label = (one["ipa_minus_scratch_nats"]["mean"] for one in found.values())
    assert list(found) == ["grey", "low-resolution,factor=4", "label,classes=10"] and label < 0 < small < grey
    for words in (
        f"IPA leads by {-label:.1f} nats per image if y is the class; training from scratch leads by {grey:.1f} if y "
        f"is the luminance, and by {small:.1f} if y is a small version of the image",
        f"there is one, of {grey:.1f} nats",
        f"there is one, of {small:.1f} nats",
        f"It leads by {-label:.1f} nats.",
    ):
        assert words in WORDS
    of_grey = [found["grey"]["information_nats"][key]["mean"] for key in ("measured", "calibrated")]
    assert f"less than I\\* measured ({of_grey[0]:.1f}) and more than I\\* calibrated ({of_grey[1]:.1f})" in WORDS
    assert (
        of_grey[1] < grey < of_grey[0]
        and small < found["low-resolution,factor=4"]["information_nats"]["calibrated"]["mean"]
    )
    gains = {
        arm: [
            points[-2]["nats"]["mean"] - points[-1]["nats"]["mean"]
            for points in (one["arms"][arm] for one in found.values())
        ]
        for arm in ("scratch", "ipa")
    }
    scratch, ipa = (f"{min(gain):.0f} to {max(gain):.0f}" for gain in gains.values())
    assert f"in the last half minute, training from scratch gained {scratch} nats, and IPA {ipa}" in WORDS
    for one in found.values():
        ends = [points[-1]["minutes"] for points in one["arms"].values()]
        assert ends == pytest.approx([1, 1], abs=0.05)


def test_the_setting_is_that_of_the_experiment(result: dict[str, Any]) -> None:
    settings, training = result["settings"], result["images"]["training"]
    assert f"Training used {training:,} images; {settings['validation']:,} were held out" in WORDS
    assert f"in the paper's figure, on {settings['bound_images']:,} test images" in WORDS
    assert f"FID and P-IDS are of {settings['images']:,} completed test images" in WORDS
    assert f"best of {settings['n']} completions, on {settings['deep_images']} test images" in WORDS
    model = weights.load_conditional("cifar10")
    partial, both = (sum(w.numel() for w in one.parameters()) / 1e6 for one in (model.partial, model))
    assert f"IPA trains {short(partial, 1)} million weights, and training from scratch {both:.1f} million" in WORDS
    minutes = result["arms"]["ipa"]["pretraining_minutes"]
    assert f"the embedded model `cifar10`, which was trained for {minutes:.0f} minutes" in WORDS
