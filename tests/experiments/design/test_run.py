"""Reported numbers come from the stored scans, and each policy's scans are its own."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.design_runs import FINDINGS, SMALL, PatchClassifier, numbers, small_data, small_experiment
from helpers.models import SMALLEST, small_conditional
from helpers.resumed_runs import planned
from safetensors.torch import load_file
from sklearn.metrics import log_loss, roc_auc_score
from torch import Tensor

from condvae.completers import TrainingMean
from condvae.conditional import ConditionalVAE
from condvae.data import Dataset
from condvae.design import Random, scan
from condvae.design.candidates import Candidates
from condvae.observe import Edges, Observation

QUICK: dict[str, Any] = {"policies": ("eig-nearest", "random"), "tasks": ("edema", "effusion")}


def scans_of(folder: Path, name: str) -> dict[str, Tensor]:
    """The stored tensors of a policy and a variable, read without condvae."""
    (place,) = (folder / "runs").glob(f"{name}-" + "[0-9a-f]" * 24)
    parts = [load_file(path) for path in sorted(place.glob("*.safetensors"))]
    return {key: torch.cat([part[key] for part in parts]) for key in parts[0]}


def test_numbers_are_those_of_the_scans(folder: Path, whole: dict[str, Any]) -> None:
    labels = small_data().test.labels
    assert labels is not None
    edema, nothing = labels[:24, 0], labels[:24].sum(axis=1) == 0
    found = whole["policies"]
    log_p = scans_of(folder, "eig-ipa-edema")["log_p"].double()
    assert log_p.shape == (24, 1, 4, 5, 2)
    for t in range(4):
        p = log_p[:, 0, t, 0, 1].exp().numpy()
        assert found["eig-ipa"]["auroc"]["edema"][t]["mean"] == pytest.approx(roc_auc_score(edema, p), abs=1e-6)
        assert found["eig-ipa"]["nll"]["edema"][t]["mean"] == pytest.approx(log_loss(edema, p, labels=[0, 1]), rel=1e-5)
    log_p = scans_of(folder, "random")["log_p"].double()
    assert log_p.shape == (24, 2, 4, 5, 2)
    tries = [roc_auc_score(nothing, log_p[:, r, 2, 4, 0].exp().numpy()) for r in range(2)]
    assert found["random"]["auroc"]["no finding"][2]["mean"] == pytest.approx(np.mean(tries), abs=1e-6)
    assert found["random"]["tries"] == 2 and found["eig-ipa"]["tries"] == 1
    assert scans_of(folder, "full")["log_p"].shape == (24, 1, 1, 5, 2)


def test_the_classifier_is_shown_what_was_chosen_and_nothing_else(folder: Path) -> None:
    data, classifier = small_data(), PatchClassifier()
    found = scans_of(folder, "eig-nearest-effusion")
    windows = Candidates.grid(8, side=2, points=4).windows
    images = data.test.take(np.arange(24)).images / 127.5 - 1
    for t in range(4):
        known = windows[found["chosen"][:, 0, :t].long()].any(dim=1)
        expected = classifier.log_posterior(images, known)
        torch.testing.assert_close(found["log_p"][:, 0, t], expected, rtol=1e-5, atol=1e-6)


def test_policies_that_find_the_right_location_score_well(folder: Path, whole: dict[str, Any]) -> None:
    """A finding shows in one corner: the first scan should always go there and reveal the finding."""
    for policy in ("eig-ipa", "epe-ipa", "eig-nearest", "uncond"):
        for task, corner in (("edema", 0), ("effusion", 3)):
            assert (scans_of(folder, f"{policy}-{task}")["chosen"][..., 0] == corner).all()
            assert whole["policies"][policy]["auroc"][task][1]["mean"] > 0.95
    assert whole["policies"]["random"]["auroc"]["edema"][1]["mean"] < 0.8
    assert whole["policies"]["full"]["auroc"]["edema"][0]["mean"] == 1.0
    difference = whole["differences"]["random"]["auroc"]["all tasks"][1]
    assert 0 < difference["low"] <= difference["mean"] <= difference["high"]


def test_scans_for_another_task_are_worse(whole: dict[str, Any]) -> None:
    assert set(whole["cross_tasks"]) == {"eig-ipa", "epe-ipa", "eig-nearest"}
    matrix = whole["cross_tasks"]["eig-ipa"]
    auroc = whole["policies"]["eig-ipa"]["auroc"]
    for i, task in enumerate(matrix["tasks"]):
        assert matrix["last"][i][i] == auroc[task][3]
        assert matrix["mean"][i][i]["mean"] == pytest.approx(np.mean([auroc[task][t]["mean"] for t in (1, 2, 3)]))
    edema, effusion = (matrix["mean"][i] for i in (0, 1))
    assert edema[0]["mean"] > edema[1]["mean"] and effusion[1]["mean"] > effusion[0]["mean"]


def test_counts_of_scans_by_location(folder: Path, whole: dict[str, Any]) -> None:
    where = whole["policies"]["eig-ipa"]["where"]
    assert list(where) == ["edema", "effusion", "no finding"]
    assert len(where["edema"]) == 16 and sum(where["edema"]) == 24 * 3 and where["edema"][0] == 24
    assert list(whole["policies"]["random"]["where"]) == ["all tasks"]
    assert sum(whole["policies"]["random"]["where"]["all tasks"]) == 2 * 24 * 3
    assert not whole["policies"]["full"]["where"]


def test_policies_independent_of_the_task_run_once(folder: Path) -> None:
    names = [path.name.rpartition("-")[0] for path in (folder / "runs").iterdir()]
    assert sorted(name for name in names if name.startswith(("random", "full"))) == ["full", "random"]
    assert len(names) == 2 + 5 * 3


def test_tries_have_other_draws(folder: Path) -> None:
    chosen = scans_of(folder, "random")["chosen"]
    assert not torch.equal(chosen[:, 0], chosen[:, 1])
    again = scan(
        small_data().test.take(np.arange(24)).images,
        Random(candidates=Candidates.grid(8, side=2, points=4)),
        PatchClassifier(),
        Candidates.grid(8, side=2, points=4),
        steps=3,
        seed=0,
    )
    assert torch.equal(again.chosen, chosen[:, 0].long())  # the first try uses the seed itself


def test_the_seed_decides(tmp_path: Path, folder: Path) -> None:
    small_experiment(tmp_path, change={**QUICK, "seed": 1})
    assert not torch.equal(scans_of(tmp_path, "random")["chosen"], scans_of(folder, "random")["chosen"])


def test_a_subset_of_images_gets_the_same_scans(tmp_path: Path, folder: Path) -> None:
    result = small_experiment(tmp_path, change={**QUICK, "images": 8})
    assert result is not None and result["images"] == 8
    for name in ("random", "eig-nearest-edema"):
        assert torch.equal(scans_of(tmp_path, name)["chosen"], scans_of(folder, name)["chosen"][::3])


def test_patients_are_resampled_whole(whole: dict[str, Any]) -> None:
    assert (whole["images"], whole["patients"], whole["patients_also_in_training"]) == (24, 12, 0)


def test_patients_in_both_splits_cause_a_warning(tmp_path: Path) -> None:
    data, said = small_data(), list[str]()
    assert data.train.groups is not None
    data = replace(data, train=replace(data.train, groups=data.train.groups - 12))
    result = small_experiment(tmp_path, change=QUICK, data=data, say=said.append)
    assert result is not None and result["patients_also_in_training"] == 12
    told = "12 of the 12 test patients also have training images, which makes every result look too good"
    assert (
        told in said[:2]
        and "12 of the test patients also have training images" in (tmp_path / "results.md").read_text()
    )
    few = small_experiment(tmp_path, change={**QUICK, "images": 5}, data=data)
    assert few is not None and few["patients"] == few["patients_also_in_training"] == 5  # only scanned patients count


def test_without_patients_single_images_are_resampled(tmp_path: Path) -> None:
    data, said = small_data(), list[str]()
    unknown = replace(data, test=replace(data.test, groups=None))
    result = small_experiment(tmp_path, change=QUICK, data=unknown, say=said.append)
    assert result is not None and (result["patients"], result["patients_also_in_training"]) == (None, None)
    assert any(line.startswith("the data does not name patients") for line in said)
    text = (tmp_path / "results.md").read_text()
    assert "24 test images of patches;" in text and "60 resamples of the single images" in text


def test_rounding_does_not_break_ties(tmp_path: Path) -> None:
    """Before any scan all predictions are equal, in any blocks, so the AUROC is exactly 1/2."""

    class Rounding(PatchClassifier):
        """Changes the last digits with the batch size, like sums in another order."""

        def log_posterior(self, pixels: Tensor, known: Tensor) -> Tensor:
            return super().log_posterior(pixels, known) * (1 + 1e-6 / len(pixels))

    result = small_experiment(tmp_path, change=QUICK, classifier=Rounding(), block=7)
    assert result is not None
    assert all(result["policies"]["eig-nearest"]["auroc"][task][0]["mean"] == 0.5 for task in ("edema", "effusion"))


def test_a_single_image_per_choice_causes_a_warning(tmp_path: Path) -> None:
    said = list[str]()
    small_experiment(tmp_path, change={**QUICK, "n": 1}, say=said.append)
    assert any("choose at random: give -n 2 or more" in line for line in said)


def test_a_finding_without_positives_is_reported(tmp_path: Path) -> None:
    said = list[str]()
    result = small_experiment(tmp_path, change=QUICK, data=small_data(without=["Edema"]), say=said.append)
    assert result is not None
    told = "edema has no positives among the 24 images, so it has no AUROC and is left out of means"
    assert said.count(told) == 1 and result["tasks"]["edema"] == {"positives": 0, "trouble": told}
    found = result["policies"]["eig-nearest"]
    assert found["auroc"]["edema"][2] == {"mean": None, "low": None, "high": None}
    assert found["nll"]["edema"][2]["mean"] > 0
    assert result["sets"] == {"all tasks": ["effusion"]}
    assert found["auroc"]["all tasks"] == found["auroc"]["effusion"]
    assert told in (tmp_path / "results.md").read_text()
    nobody = small_experiment(tmp_path, change={**QUICK, "tasks": ("edema",)}, data=small_data(without=["Edema"]))
    assert nobody is not None and nobody["sets"] == {}


class Mine:
    """Completes hidden pixels with black."""

    name, varies, identity = "mine", False, "black"

    def complete(self, observation: Observation, k: int, seed: int) -> Tensor:
        assert observation.pixels is not None and observation.known is not None
        levels = ((observation.pixels + 1) * 127.5).round().to(torch.uint8)
        return torch.where(observation.known, levels, 0)[:, None].expand(-1, k, -1, -1, -1)


def test_own_completers_can_be_used(tmp_path: Path) -> None:
    data = small_data()
    change = {"policies": ("eig-mine", "eig-mean"), "tasks": ("edema",)}
    others = {"mine": Mine(), "mean": TrainingMean.fit(data.train)}
    result = small_experiment(tmp_path, change=change, completers=others, model=None)
    assert result is not None and result["policies"]["eig-mine"]["auroc"]["edema"][1]["mean"] > 0.95
    assert result["differences"] == {}


def translator() -> ConditionalVAE:
    model = small_conditional()
    model.process = Edges()
    return model


def without_test(data: Dataset) -> Dataset:
    return replace(data, test=data.test.subset(np.arange(0)))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"model": None}, "eig-ipa needs a model"),
        (
            {"change": {"policies": ("eig-gan",)}},
            "eig-gan needs a completer called gan, but the completers are ipa, nearest",
        ),
        ({"completers": {"ipa": Mine()}}, "the completer name 'ipa' is reserved"),
        ({"data": without_test(small_data())}, "there are no test images to scan"),
        (
            {"data": replace(small_data(), label_names=None)},
            "4 labels of each image have no names: give data that names",
        ),
        ({"data": replace(small_data(), label_names=("a", "b"))}, "4 labels of each image have 2 names"),
        ({"block": 0}, "the number of images scanned together is 0"),
        ({"block": -3}, "the number of images scanned together is -3"),
        ({"change": {"side": 0.5, "steps": 5}}, "but 4 scans of 4 x 4 pixels can cover .*: give at most --steps 4"),
        ({"model": translator()}, "the model was not trained to complete images"),
        ({"change": {"tasks": ("hernia",)}}, "does not predict 'hernia'"),
        ({"classifier": PatchClassifier(FINDINGS)}, "does not predict 'no finding'"),
        ({"change": {"side": 1.0, "points": 3}}, "nothing is left to scan"),
    ],
)
def test_invalid_arguments_are_refused(tmp_path: Path, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        small_experiment(tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_an_image_of_another_size_is_refused(tmp_path: Path) -> None:
    data = small_data()
    train, test = (replace(part, images=np.tile(part.images, (1, 2, 2, 1))) for part in (data.train, data.test))

    class Any16(PatchClassifier):
        def log_posterior(self, pixels: Tensor, known: Tensor) -> Tensor:
            return super().log_posterior(pixels[..., :8, :8], known[..., :8, :8])

    with pytest.raises(ValueError, match="the images are 16 x 16 x 3, but the model makes 8 x 8 x 3"):
        small_experiment(tmp_path / "out", data=replace(data, train=train, test=test), classifier=Any16())


def test_a_classifier_without_identity_is_refused(tmp_path: Path) -> None:
    class Plain:
        names, outcomes = (*FINDINGS, "any finding"), 2

        def log_posterior(self, pixels: Tensor, known: Tensor) -> Tensor:
            return PatchClassifier().log_posterior(pixels, known)

    with pytest.raises(ValueError, match="has neither weights nor an `identity`"):
        small_experiment(tmp_path / "out", classifier=Plain(), change=QUICK)
    named = Plain()
    named.identity = "plain"  # type: ignore[attr-defined]
    assert small_experiment(tmp_path / "out", classifier=named, change=QUICK)


def test_results_with_other_settings_are_kept_apart(tmp_path: Path) -> None:
    policies = ("eig-ipa", "random")
    base: dict[str, Any] = {"policies": policies, "tasks": ("edema",), "repeats": 1}
    seen: set[str] = set()

    def folders(**options: Any) -> set[str]:
        change = {**base, **options.pop("change", {})}
        with planned("condvae.experiments.design.run") as requested:
            small_experiment(tmp_path, change=change, **options)
        new = {name.rpartition("-")[0] for name in requested if name not in seen}
        seen.update(requested)
        return new

    both = {"eig-ipa-edema", "random"}
    assert folders() == both
    assert folders() == set()
    model = small_conditional(SMALLEST).eval()
    with torch.no_grad():
        next(model.partial.parameters())[0] += 1e-3
    assert folders(model=model) == {"eig-ipa-edema"}
    assert folders(temperature=0.5) == {"eig-ipa-edema"}
    assert folders(pixels="sample") == {"eig-ipa-edema"}
    assert folders(change={"n": 4}) == {"eig-ipa-edema"}
    assert folders(change={"first_n": 9}) == {"eig-ipa-edema"}
    assert folders(change={"repeats": 2}) == {"random"}
    assert folders(classifier=PatchClassifier(sharpness=2.0)) == both
    for change in ({"steps": 2}, {"points": 5}, {"side": 0.4}, {"seed": 3}, {"images": 12}):
        assert folders(change=change) == both
    assert folders(change={"resamples": 10}) == set()
    assert folders(change={"tasks": ("edema", "effusion")}) == {"eig-ipa-effusion"}
    assert folders(data=small_data(without=["Atelectasis"])) == both
    first = small_experiment(tmp_path, change=base)
    assert small_experiment(tmp_path, change={**base, "seed": 3}) is not None
    assert numbers(small_experiment(tmp_path, change=base)) == numbers(first)


def test_the_defaults_are_the_papers_settings() -> None:
    defaults = type(SMALL)()
    assert (defaults.steps, defaults.n, defaults.points, defaults.side) == (5, 10, 17, 0.25)
    assert len(defaults.tasks) == 6


def test_a_completer_that_changes_known_pixels_is_refused(tmp_path: Path) -> None:
    class Elsewhere(Mine):
        def complete(self, observation: Observation, k: int, seed: int) -> Tensor:
            return super().complete(observation, k, seed).roll(1, dims=-1)

    with pytest.raises(ValueError, match="mine has changed known pixels"):
        small_experiment(tmp_path, change={"policies": ("eig-mine",)}, completers={"mine": Elsewhere()}, model=None)


def test_names_too_long_for_a_folder_are_cut(tmp_path: Path) -> None:
    long = "m" * 300
    change = {"policies": (f"eig-{long}", f"eig-{long}2"), "tasks": ("edema",)}
    result = small_experiment(tmp_path, change=change, completers={long: Mine(), f"{long}2": Mine()}, model=None)
    assert result is not None and len(result["policies"]) == 2
