from pathlib import Path

import pytest
import torch
from helpers.lpips_networks import real_file
from torch import Tensor

from condvae.cli import main
from condvae.design.avp_cnn.efficientnet import LITE0, STAGES, Lite0, _released_names
from condvae.weights.downloaded_networks import read


def released(seed: int = 0) -> dict[str, Tensor]:
    """Random weights with the names and shapes of the released file."""
    torch.manual_seed(seed)
    trunk = Lite0(3)
    state = trunk.state_dict()
    return {theirs: torch.rand(state[ours].shape) for ours, theirs in _released_names(trunk)}


def test_stages_shrink_and_widen_as_published() -> None:
    x = torch.zeros(1, 3, 64, 64)
    sides = []
    for kept, stage in enumerate(STAGES, start=1):
        features = Lite0(3, stages=kept).eval()(x)
        assert features.shape[1] == stage.channels
        sides.append(features.shape[2])
    assert sides == [32, 16, 8, 4, 4, 2, 2]
    assert Lite0(3, stages=2, stem_stride=1).eval()(x).shape == (1, 24, 32, 32)
    # 4,652,008 weights with the classifier (1280 x 1000 + 1000) and the last convolution with its normalisation.
    weights = sum(parameter.numel() for parameter in Lite0(3).parameters())
    assert weights == 4_652_008 - 1_281_000 - (320 * 1280 + 2 * 1280)


def test_a_grey_trunk_treats_grey_images_like_the_colour_trunk() -> None:
    weights = released()
    colour, grey = Lite0(4, stages=3).eval(), Lite0(2, stages=3).eval()
    colour.start_from(weights, image_channels=3)
    grey.start_from(weights, image_channels=1)
    x = torch.randn(2, 1, 32, 32, generator=torch.Generator().manual_seed(0))
    known = torch.ones(2, 1, 32, 32)
    of_grey = grey(torch.cat((x, known), dim=1))
    torch.testing.assert_close(of_grey, colour(torch.cat((x.expand(-1, 3, -1, -1), known), dim=1)))
    # The weights of `known` start at zero, all others at the released values.
    assert torch.equal(of_grey, grey(torch.cat((x, 0 * known), dim=1)))
    assert torch.equal(colour.stem.conv.weight[:, :3], weights["_conv_stem.weight"])
    assert torch.equal(grey.state_dict()["blocks.3.depthwise.norm.running_var"], weights["_blocks.3._bn1.running_var"])


def test_other_weights_are_refused() -> None:
    weights = released()
    del weights["_blocks.0._bn2.running_mean"]
    with pytest.raises(
        ValueError, match=r"not the weights of EfficientNet-Lite0: they lack _blocks\.0\._bn2\.running_mean"
    ):
        Lite0(2, stages=1).start_from(weights, image_channels=1)
    weights = {**released(), "_blocks.0._bn2.running_mean": torch.zeros(17)}
    with pytest.raises(ValueError, match=r"has shape \(17,\)"):
        Lite0(2, stages=1).start_from(weights, image_channels=1)
    with pytest.raises(ValueError, match="stages is 8"):
        Lite0(2, stages=8)


def test_fetch_refuses_another_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "efficientnet-lite0-57934424.pth"
    torch.save(released(), file)
    with pytest.raises(SystemExit) as stopped:
        main(["fetch", "efficientnet", "--from", str(tmp_path), "--out", str(tmp_path / "cache")])
    assert stopped.value.code == 2
    assert "is not efficientnet-lite0-57934424.pth (its SHA-256 differs)" in capsys.readouterr().err
    assert not (tmp_path / "cache").exists()


def test_all_weights_of_the_real_file_are_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    weights = read(LITE0, real_file(LITE0))
    trunk = Lite0(4)
    taken = {theirs for _, theirs in _released_names(trunk)}
    left = {name for name in weights if not name.endswith("num_batches_tracked")} - taken
    last = {f"_bn1.{kind}" for kind in ("weight", "bias", "running_mean", "running_var")}
    assert left == {"_conv_head.weight", "_fc.weight", "_fc.bias", *last}
    trunk.start_from(weights, image_channels=3)
    main(["fetch", "efficientnet", "--from", str(LITE0.cached), "--out", str(tmp_path)])
    assert capsys.readouterr().out == f"{tmp_path / LITE0.file} is complete\n"
