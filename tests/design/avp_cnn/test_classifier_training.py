import math
import resource
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.labelled_images import FINDINGS, classes_file, findings_pack
from helpers.lpips_networks import real_file

from condvae import observe
from condvae.cli import main
from condvae.data import open_data
from condvae.design.avp_cnn import classifier_training as training
from condvae.design.avp_cnn.classifier_file import describe_classifier, load_classifier
from condvae.design.avp_cnn.classifier_options import ClassifierOptions
from condvae.design.avp_cnn.classifier_training import Learner, train_classifier
from condvae.design.avp_cnn.efficientnet import LITE0
from condvae.design.avp_cnn.held_out import HeldOut
from condvae.design.avp_cnn.network import AVPCNN
from condvae.design.avp_cnn.targets import targets_of
from condvae.observe import Mixture
from condvae.observe.process import KnownPixels
from condvae.runtime.messages import silent
from condvae.runtime.pixels import from_uint8
from condvae.training import Diverged
from condvae.weights.downloaded_networks import read

SMALL: dict[str, Any] = {
    "trunk": "plain",
    "widths": (8, 16),
    "blocks": 1,
    "head": 0,
    "batch": 32,
    "steps": 60,
    "warm_up": 5,
    "lr": 0.01,
    "ema": 0.9,
    "evaluate_every": 20,
    "draws": 2,
    "device": "cpu",
}


def options(data: Path, out: Path, **changed: Any) -> ClassifierOptions:
    return ClassifierOptions(**{"data": (data,), "out": out, **SMALL, **changed})


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return findings_pack(tmp_path_factory.mktemp("data") / "pack.zip")


@pytest.fixture(scope="module")
def trained(pack: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    said: list[str] = []
    out = tmp_path_factory.mktemp("trained") / "g.safetensors"
    assert train_classifier(options(pack, out), said.append) == out
    return out, said


def test_it_learns_to_see_a_finding(trained: tuple[Path, list[str]], pack: Path) -> None:
    model = load_classifier(trained[0])
    data = open_data(pack)
    levels = data.test.take(torch.arange(len(data.test)).numpy())
    assert levels.labels is not None
    labels, pixels = levels.labels, from_uint8(levels.images)
    known = torch.zeros(len(labels), 1, 16, 16, dtype=torch.bool)
    known[:, :, 2:6, 2:6] = True  # the corner that shows a mass
    p = model.log_posterior(pixels, known)[..., 1].exp()
    mass = labels[:, 0] > 0
    assert p[mass, 0].min() > p[~mass, 0].max()
    assert p[mass, 0].mean() > 0.6 and p[~mass, 0].mean() < 0.35
    # For findings that cannot be seen there, it predicts their frequency.
    assert p[:, 1].std() < 0.1 and abs(p[:, 1].mean() - 0.4) < 0.2
    assert p[:, 2].max() < 0.1
    assert p[mass, 3].mean() > p[~mass, 3].mean()


def test_evaluations_in_training_compile_no_kernels(
    pack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged, logits = [], HeldOut.logits

    def noted(self: HeldOut, model: AVPCNN) -> dict[str, torch.Tensor]:
        judged.append(model.plain)
        return logits(self, model)

    monkeypatch.setattr(HeldOut, "logits", noted)
    out = train_classifier(options(pack, tmp_path / "g.safetensors", steps=2, evaluate_every=1), silent)
    assert judged == [True] * 4  # twice in training, then once each for held-out and test images
    assert not load_classifier(out).plain


def test_the_record_describes_training_and_quality(trained: tuple[Path, list[str]]) -> None:
    out, said = trained
    header = describe_classifier(out)
    assert header.config.names == (*FINDINGS, "any finding") and header.config.channels == 1
    assert isinstance(header.process, Mixture)
    record = header.record
    assert record["steps"] == 60 and record["best_step"] in (20, 40, 60) and record["seed"] == 0
    assert record["options"]["data"] == ["pack.zip"] and "out" not in record["options"]
    for split in ("validation", "test"):
        report = record[split]
        assert list(report) == ["0", "1", "2", "3", "4", "5", "whole"]
        assert report["0"]["auroc of"]["Mass"] == 0.5 < report["5"]["auroc of"]["Mass"]
        assert report["whole"]["auroc of"]["Mass"] > 0.95
        assert report["whole"]["nll"] < report["0"]["nll"]
        assert 0 <= report["3"]["ece"] < 0.3
    assert "144 training" in said[0]
    assert any("nats on 16 held-out images" in line for line in said) and said[-1].startswith(f"wrote {out}")


def test_training_depends_only_on_data_and_seed(pack: Path, tmp_path: Path) -> None:
    torch.manual_seed(1)
    states = []
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        out = train_classifier(options(pack, tmp_path / f"{name}.safetensors", steps=5, seed=seed), silent)
        states.append(load_classifier(out).state_dict())
        torch.rand(3)  # other random draws have no influence
    assert all(torch.equal(states[1][name], tensor) for name, tensor in states[0].items())
    assert not torch.equal(states[2]["last.weight"], states[0]["last.weight"])


def test_classes_are_learnt_too(tmp_path: Path) -> None:
    data = classes_file(tmp_path / "data.npz", n=300)
    out = train_classifier(options(data, tmp_path / "g.safetensors", contrast=0.0, brightness=0.0), silent)
    record = describe_classifier(out).record
    assert record["test"]["0"]["accuracy"] < 0.7 and record["test"]["whole"]["accuracy"] > 0.9
    log_p = load_classifier(out).log_posterior(torch.full((1, 3, 16, 16), -0.9), torch.ones(1, 1, 16, 16) > 0)
    assert log_p.shape == (1, 1, 3) and log_p.argmax().item() == 0


def test_the_best_weights_are_kept(pack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The held-out losses are prescribed; the second evaluation is the best."""
    given = iter([0.5, 0.2, 0.4])
    seen: list[dict[str, torch.Tensor]] = []

    def nll(self: object, logits: object) -> float:
        return next(given)

    def logits(self: HeldOut, model: AVPCNN) -> dict[str, torch.Tensor]:
        seen.append({name: tensor.clone() for name, tensor in model.state_dict().items()})
        return real(self, model)

    real = HeldOut.logits
    monkeypatch.setattr(HeldOut, "nll", nll)
    monkeypatch.setattr(HeldOut, "logits", logits)
    out = train_classifier(options(pack, tmp_path / "g.safetensors", steps=30, evaluate_every=10), silent)
    assert describe_classifier(out).record["best_step"] == 20
    found = load_classifier(out).state_dict()
    torch.testing.assert_close(found["trunk.stem.norm.running_mean"], seen[1]["trunk.stem.norm.running_mean"])
    assert not torch.equal(seen[1]["last.weight"], seen[2]["last.weight"])


def test_lite0_starts_from_imagenet_or_not(pack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = options(pack, tmp_path / "g.safetensors", trunk="lite0", stages=2, steps=2, draws=1)
    train_classifier(replace(small, start="random"), silent)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(ValueError, match=r"efficientnet_lite0\.safetensors does not exist"):
        train_classifier(small, silent)


def test_lite0_starts_from_the_real_weights(pack: Path, tmp_path: Path) -> None:
    real_file(LITE0)
    small = options(pack, tmp_path / "g.safetensors", trunk="lite0", stages=3, steps=2, lr=1e-9, draws=1)
    found = load_classifier(train_classifier(small, silent)).state_dict()["trunk.blocks.1.project.conv.weight"]
    expected = read(LITE0, LITE0.cached)["_blocks.1._project_conv.weight"]
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)


def test_wrong_data_and_options_are_refused_at_once(pack: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "g.safetensors"
    bare = classes_file(tmp_path / "bare.npz", labelled=False)
    good = options(pack, out)
    (tmp_path / "file").write_text("")
    (tmp_path / "folder.safetensors").mkdir()
    for wrong, message in (
        (replace(good, data=(bare,)), "has no labels, which a classifier needs"),
        (replace(good, data=()), "no data was given"),
        (replace(good, out=tmp_path / "g.pt"), r"does not end in \.safetensors"),
        (replace(good, out=tmp_path / "folder.safetensors"), "is a folder"),
        (replace(good, out=tmp_path / "file" / "g.safetensors"), "cannot be written to"),
        (replace(good, observe=("edges",)), "--observe edges does not make pixels known.* such as patches"),
        (replace(good, start="imagenet"), "--start imagenet only applies to --trunk lite0"),
        (replace(good, steps=0), "--steps is 0"),
        (replace(good, lr=-1.0), "learning rate is -1.0"),
        (replace(good, blur=1.0), "--blur is 1.0"),
        (replace(good, dropout=math.nan), "--dropout is nan"),
        (replace(good, head=-1), "--head is -1"),
        (replace(good, shift=math.inf), "--shift is inf"),
        (replace(good, weight_decay=math.nan), "--weight-decay is nan"),
        (replace(good, weights=tmp_path / "w.safetensors"), "--weights only applies if --trunk lite0"),
        (replace(good, device="abacus"), "device 'abacus' cannot be used"),
    ):
        with pytest.raises(ValueError, match=message):
            train_classifier(wrong, silent)
    assert not out.parent.exists()


def test_other_files_are_kept_and_classifiers_replaced(
    pack: Path, tmp_path: Path, trained: tuple[Path, list[str]]
) -> None:
    out = tmp_path / "g.safetensors"
    out.write_text("mine")
    with pytest.raises(ValueError, match=r"g\.safetensors already exists and is not a classifier"):
        train_classifier(options(pack, out, steps=1), silent)
    assert out.read_text() == "mine"
    out.write_bytes(trained[0].read_bytes())
    assert describe_classifier(train_classifier(options(pack, out, steps=1), silent)).record["steps"] == 1


def test_a_full_disk_gives_one_sentence_and_leaves_the_old_file(
    pack: Path, tmp_path: Path, trained: tuple[Path, list[str]]
) -> None:
    out = tmp_path / "g.safetensors"
    out.write_bytes(trained[0].read_bytes())
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(ValueError, match=r"could not be written \("):
            train_classifier(options(pack, out, steps=1, draws=1), silent)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [trained[0].read_bytes()]


def test_patients_in_training_and_test_images_cause_a_warning(
    pack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = open_data(pack)
    assert data.train.groups is not None
    some, few = data.train.groups % 7, data.train.groups % 5
    mixed = replace(
        data,
        train=replace(data.train, groups=few),
        validation=replace(data.validation, groups=few, labels=None),
        test=replace(data.test, groups=some),
    )
    monkeypatch.setattr(training, "open_data", lambda *args, **options: mixed)
    said: list[str] = []
    train_classifier(options(pack, tmp_path / "g.safetensors", steps=1, draws=1), said.append)
    assert any(line.startswith("5 of the test patients") for line in said)
    assert any("no images are held out" in line for line in said)


def test_a_run_that_diverges_writes_nothing(pack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HeldOut, "nll", lambda self, logits: float("nan"))
    with pytest.raises(Diverged, match="try a smaller --lr"):
        train_classifier(options(pack, tmp_path / "g.safetensors", steps=2), silent)
    assert list(tmp_path.iterdir()) == []


def test_the_data_decides_about_flips(pack: Path, tmp_path: Path) -> None:
    model = load_classifier(train_classifier(options(pack, tmp_path / "g.safetensors", steps=1), silent))
    targets = targets_of(open_data(pack))
    process = observe.parse("patches pixels,least=1")
    assert isinstance(process, KnownPixels)
    for flip, allowed, expected in (("auto", True, True), ("auto", False, False), ("yes", False, True)):
        chosen = options(pack, tmp_path / "g.safetensors", flip=flip)
        learner = Learner(model, chosen, process, targets, flips=allowed)
        assert learner.augment.flips is expected


def test_the_command_trains_and_reports(pack: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "g.safetensors"
    words = ["--trunk", "plain", "--widths", "4", "--steps", "3", "--batch", "8", "--draws", "1", "--device", "cpu"]
    main(["design", "train", "--data", str(pack), "--out", str(out), *words])
    assert "step 3 of 3" in capsys.readouterr().out
    assert describe_classifier(out).config.widths == (4,)
    with pytest.raises(SystemExit) as stopped:
        main(["design", "train", "--data", str(tmp_path / "none"), "--out", str(out), *words])
    assert stopped.value.code == 2
    assert "none does not exist" in capsys.readouterr().err
