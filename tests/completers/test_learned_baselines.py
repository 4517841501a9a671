"""The learned baselines are made from names, JSON files and plain data, and their losses report what they promise."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from helpers.baseline_models import CONFIGS, small_baseline
from helpers.models import generator, images, some_known
from torch import Tensor

from condvae.completers.context_encoder import ContextEncoderConfig
from condvae.completers.feature_reasoning import FeatureReasoningConfig
from condvae.completers.learned_baselines import (
    config_from,
    config_to_dict,
    kind_of_config,
    make_completer,
    make_loss,
    named_config,
    stages_of,
)
from condvae.completers.learned_completer import BaselineConfig
from condvae.completers.learned_names import (
    LARGER_IMAGES,
    LEARNED_MEANINGS,
    LEARNED_PRESETS,
    LEARNED_TITLES,
    SIZES_OF_PAPER,
    STAGES,
)
from condvae.completers.neural_process import NeuralProcessConfig

PRESETS = [
    (name, size)
    for name in LEARNED_PRESETS
    for size in ([SIZES_OF_PAPER[name]] if name in SIZES_OF_PAPER else [32, 64])
]


def features(x: Tensor) -> Sequence[Tensor]:
    """Stands for VGG16: feature maps of two resolutions."""
    return [F.avg_pool2d(x, 2).sin(), F.avg_pool2d(x, 4).square()]


@pytest.mark.parametrize(("name", "size"), PRESETS)
def test_presets_can_be_built_and_stored_as_json(name: str, size: int) -> None:
    for channels in (1, 3):
        config = named_config(name, image_size=size, channels=channels)
        assert (config.image_size, config.channels) == (size, channels)
        kind = name.removesuffix("-paper")
        assert kind_of_config(config) == kind
        plain = config_to_dict(config)
        assert plain["kind"] == kind
        assert {**LEARNED_PRESETS[name], **(LARGER_IMAGES.get(kind, {}) if size > 32 else {})}.items() <= plain.items()
        again = config_from(json.loads(json.dumps(plain)))
        assert again == config and type(again) is type(config) and hash(again) == hash(config)
    with torch.device("meta"):
        model = make_completer(config)
    assert (model.kind, model.title, model.name) == (kind, LEARNED_TITLES[kind], LEARNED_TITLES[kind])
    assert (model.image_size, model.channels, model.completes_holes) == (size, 3, True)
    assert all(value.is_floating_point() for value in model.state_dict().values())


def test_presets_of_the_paper_differ_from_the_others() -> None:
    in_paper = [kind for kind in LEARNED_TITLES if kind != "diffusion"]
    for kind in in_paper:
        size = SIZES_OF_PAPER.get(f"{kind}-paper", 64)
        assert config_to_dict(named_config(f"{kind}-paper", image_size=size, channels=3)) != config_to_dict(
            config_from({**LEARNED_PRESETS[kind], **LARGER_IMAGES.get(kind, {}), "image_size": size})
        )
    assert set(LEARNED_MEANINGS) == set(LEARNED_TITLES)
    assert set(LEARNED_PRESETS) == {*LEARNED_TITLES, *(f"{kind}-paper" for kind in in_paper)}


def test_the_limit_on_points_depends_on_the_size_of_images() -> None:
    small, large = (named_config("anp", image_size=size, channels=3) for size in (32, 64))
    assert isinstance(small, NeuralProcessConfig) and isinstance(large, NeuralProcessConfig)
    assert (small.most_context, small.most_targets) == (256, 512)
    assert (large.most_context, large.most_targets) == (512, 1024)


@pytest.mark.parametrize("kind", CONFIGS)
def test_a_json_file_configures_a_baseline(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(CONFIGS[kind]))
    config = named_config(str(path), image_size=16, channels=1)
    assert config == config_from({**CONFIGS[kind], "image_size": 16, "channels": 1})
    assert make_completer(config).kind == kind
    stored = json.loads(json.dumps(config_to_dict(config)))
    assert {key: stored[key] for key in CONFIGS[kind]} == CONFIGS[kind]


def test_bad_names_and_files_are_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "folder.json").mkdir()
    file, mistake = tmp_path / "mine.json", "mine.json is not a valid configuration of a baseline: "
    cases: list[tuple[str, str, int, str]] = [
        ("gan", "", 32, "unknown baseline 'gan', expected one of ce, anp, pic, rfr, comodgan, "),
        ("", "", 32, "unknown baseline '', expected one of ce"),
        (str(tmp_path / "no.json"), "", 32, "no.json cannot be read: No such file or directory"),
        (str(tmp_path / "folder.json"), "", 32, "folder.json cannot be read: Is a directory"),
        (str(file), "{", 32, f"{mistake}"),
        (str(file), "[1]", 32, f"{mistake}it contains [1], expected a mapping of keys to values"),
        (str(file), "{}", 32, f"{mistake}the kind of the baseline is None, expected 'ce' or 'anp' or 'pic' or 'rfr'"),
        (str(file), '{"kind": "gan"}', 32, f"{mistake}the kind of the baseline is 'gan', expected 'ce' or"),
        (str(file), '{"kind": ["ce"]}', 32, f"{mistake}the kind of the baseline is ['ce'], expected 'ce' or"),
        (str(file), '{"kind": "ce", "depth": 3}', 32, f"{mistake}unknown key in configuration of ce: depth; expected"),
        (str(file), '{"kind": "ce", "width": "4"}', 32, f"{mistake}the width is '4', expected a whole number"),
        (str(file), '{"kind": "ce", "adversarial": []}', 32, f"{mistake}the adversarial weight is"),
        (str(file), '{"kind": "rfr", "widths": 4}', 32, f"{mistake}widths is 4, expected 4 whole numbers"),
        (str(file), '{"kind": "ce"}', 48, f"{mistake}the image size is 48, expected a power of two"),
        ("ce", "", 48, "the image size is 48, expected a power of two"),
        ("pic", "", 48, "the latent size is 4 and the image size is 48"),
        ("pic-paper", "", 64, "is for images of 256 x 256 pixels, but these have 64 x 64: give --size 256"),
        ("rfr-paper", "", 64, "to resize them, or use rfr"),
    ]
    for name, content, size, message in cases:
        file.write_text(content)
        with pytest.raises(ValueError) as error:  # noqa: PT011 - each message is compared below
            named_config(name, image_size=size, channels=3)
        assert message in str(error.value) and "\n" not in str(error.value)


def test_a_missing_size_and_foreign_configurations_are_refused() -> None:
    with pytest.raises(ValueError, match="missing key in configuration of ce: image_size"):
        config_from({"kind": "ce"})
    with pytest.raises(ValueError, match="BaselineConfig is not the configuration of a learned baseline"):
        make_completer(BaselineConfig(image_size=32))


def test_only_losses_with_perceptual_terms_need_features() -> None:
    for name, size in PRESETS:
        assert named_config(name, image_size=size, channels=3).needs_features == name.startswith("rfr")
    for perceptual, style in ((0, 0), (0, 1), (0.1, 0)):
        config = FeatureReasoningConfig(image_size=32, perceptual_weight=perceptual, style_weight=style)
        assert config.needs_features == bool(perceptual or style)
        if config.needs_features:
            model = small_baseline("rfr", perceptual_weight=perceptual, style_weight=style)
            with pytest.raises(ValueError, match="need a feature network: give one, or set perceptual_weight"):
                make_loss(model)
    assert not ContextEncoderConfig(image_size=32).needs_features


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("ce", {}),
        ("anp", {}),
        ("anp", {"context_points": 100, "target_points": 200}),
        ("pic", {}),
        ("pic", {"adversarial": False}),
        ("rfr", {}),
        ("rfr", {"perceptual_weight": 0.1, "style_weight": 180.0}),
        ("rfr", {"style_weight": 1.0}),
        ("comodgan", {}),
        ("comodgan", {"r1_weight": 0.0}),
        ("vqvae", {"stage": "codes"}),
        ("vqvae", {"stage": "structure"}),
        ("vqvae", {"stage": "texture"}),
        ("diffusion", {}),
    ],
)
def test_losses_report_the_promised_figures(kind: str, changes: dict[str, Any], channels: int) -> None:
    stage = changes.get("stage")
    model = small_baseline(
        kind, size=32, channels=channels, **{key: value for key, value in changes.items() if key != "stage"}
    )
    loss = make_loss(model, features if model.config.needs_features else None, stage).train()
    assert loss.completer is model
    x, known = images(2, size=32, channels=channels), some_known(2, size=32)
    found = [(loss.of_batch(x, known, generator()), loss.figures)]
    with_critic = kind in ("ce", "pic", "comodgan") or stage == "texture"
    assert (loss.critic is not None) == (with_critic and changes.get("adversarial", True))
    if loss.critic is not None:
        found.append((loss.of_batch(x, known, generator(), critic=True), loss.critic_figures))
    for losses, figures in found:
        assert tuple(losses.parts) == figures and len(set(figures)) == len(figures)
        for part in losses.parts.values():
            assert part.shape == () and not part.requires_grad and bool(part.isfinite())
        assert losses.total.shape == () and losses.total.dtype == torch.float32 and losses.total.requires_grad
        assert bool(losses.total.isfinite())
    parts = found[0][0].parts
    if kind == "rfr":
        compared = model.config.needs_features
        assert (float(parts["perceptual"]) > 0, float(parts["style"]) > 0) == (compared, compared)
    found[0][0].total.backward()
    trained = {name for name, weight in model.named_parameters() if stage is None or name.startswith(f"{stage}.")}
    assert {name for name, weight in model.named_parameters() if weight.grad is not None} == trained


@pytest.mark.parametrize("kind", CONFIGS)
def test_the_value_of_a_loss_depends_on_the_generator_alone(kind: str) -> None:
    *_, last = STAGES.get(kind, (None,))
    loss = make_loss(small_baseline(kind), stage=last).eval()
    x, known = images(2, size=16), some_known(2, size=16)
    one, same, other = (loss.of_batch(x, known, generator(seed)).total.item() for seed in (0, 0, 1))
    assert one == same
    assert (one == other) == (kind in ("ce", "rfr", "vqvae"))


def test_methods_with_stages(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(CONFIGS["vqvae"]))
    for name in ("vqvae", "vqvae-paper", str(path)):
        assert list(stages_of(name)) == ["codes", "structure", "texture"]
        assert sum(stages_of(name).values()) == pytest.approx(1)
    path.write_text("[]")
    for name in ("ce", "diffusion", "gan", "", str(path), str(tmp_path / "none.json")):
        assert stages_of(name) == {}
    with pytest.raises(ValueError, match="the stage of vqvae is None, expected 'codes' or 'structure' or 'texture'"):
        make_loss(small_baseline("vqvae"))
    with pytest.raises(ValueError, match="the stage of ce is 'codes', expected None"):
        make_loss(small_baseline("ce"), stage="codes")
