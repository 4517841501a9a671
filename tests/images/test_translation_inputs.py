"""What translation models see: the given picture itself, or one that is made from a photo."""

from typing import Any

import numpy as np
import pytest
import torch
from helpers.drawings import FOLDER, SNEAKER, drawn
from helpers.models import SMALL_64, SMALLEST, small_conditional, small_translator
from helpers.pictures_to_complete import levels
from PIL import Image

from condvae.conditional import ConditionalVAE
from condvae.images.holes import Hole
from condvae.images.model_levels import as_batch
from condvae.images.model_sheets import visible
from condvae.images.model_view import ModelView, make_view
from condvae.images.reading import PictureLike, read_picture
from condvae.images.translation_inputs import check_suits
from condvae.observe import Edges, Grey, Label, LowResolution, Paired, Process
from condvae.runtime.pixels import to_uint8
from condvae.vdvae import preset


def model_of(process: Process, *, channels: int = 3, size: int = 8) -> ConditionalVAE:
    stages = (SMALL_64 if size == 64 else SMALLEST).stages
    return small_translator(process, preset("tiny", channels=channels, stages=stages))


EDGES = model_of(Edges(gaps=3), size=64)


def seen(picture: PictureLike, model: ConditionalVAE, **options: Any) -> ModelView:
    return make_view(model, read_picture(picture), Hole(), seed=0, keep_size=False, **options)


def shoe(side: int = 64) -> np.ndarray:
    """A colourful photo with clear outlines."""
    y, x = np.mgrid[0:side, 0:side] / side
    photo = np.full((side, side, 3), 250, dtype=np.uint8)
    photo[(abs(x - 0.5) < 0.35) & (abs(y - 0.5) < 0.2 + 0.15 * x)] = (160, 60, 40)
    photo[(x - 0.6) ** 2 + (y - 0.5) ** 2 < 0.02] = (30, 60, 200)
    return photo


def test_edges_of_a_photo_are_shown_without_gaps() -> None:
    view = seen(shoe(), EDGES, image_is="auto")
    expected = Edges().pictures_of(as_batch(shoe()))
    assert torch.equal(view.observation.y, EDGES.artifact.normalise(expected))
    assert view.notes == (
        "the image is taken for a photo: its edges are found; give --image-is drawing if it is a drawing",
    )
    assert seen(shoe(), EDGES, image_is="photo").notes == () and view.nothing_shown is None
    assert np.array_equal(view.levels, shoe()) and not view.known.any()


@pytest.mark.parametrize("image_is", ["auto", "drawing"])
def test_a_saved_edge_picture_gives_exactly_what_the_photo_gave(image_is: str) -> None:
    of_photo = seen(shoe(), EDGES, image_is="photo").observation
    picture = to_uint8(visible(of_photo, EDGES.artifact.config))[0].permute(1, 2, 0).numpy()
    for shown in (picture, picture.repeat(2, axis=0).repeat(2, axis=1), 255 - picture):
        assert torch.equal(seen(shown, EDGES, image_is=image_is).observation.y, of_photo.y)


def test_a_drawing_is_shown_as_its_lines() -> None:
    view = seen(FOLDER / "sneaker.png", EDGES, image_is="auto")
    (note,) = view.notes
    assert note.endswith(
        "sneaker.png is taken for a drawing: its lines are used as they are; give --image-is photo if it is a photo"
    )
    levels = to_uint8(visible(view.observation, EDGES.artifact.config))
    assert set(levels.unique().tolist()) == {0, 255}
    assert torch.equal(levels[:, :1].expand(-1, 3, -1, -1), levels)
    assert view.levels.shape == (64, 64, 3) and (view.levels[:10] == 255).all()  # a wide drawing, on more paper
    as_photo = seen(FOLDER / "sneaker.png", EDGES, image_is="photo")
    assert not torch.equal(as_photo.observation.y, view.observation.y)
    grey = model_of(Edges(), channels=1, size=64)
    assert seen(FOLDER / "handbag.png", grey, image_is="drawing").observation.y.shape == (1, 1, 64, 64)


def test_pictures_without_edges_are_noticed() -> None:
    for level in (0, 90, 255):
        flat = np.full((70, 64, 3), level, dtype=np.uint8)
        for image_is in ("auto", "photo"):
            assert seen(flat, EDGES, image_is=image_is).nothing_shown == (
                "the image has no edges: give a drawing with clear lines, or a photo with clear outlines"
            )
        with pytest.raises(ValueError, match="the image has no lines: give a drawing with"):
            seen(flat, EDGES, image_is="drawing")


def test_a_small_picture_is_what_a_low_resolution_model_sees() -> None:
    model = model_of(LowResolution(factor=4), size=64)
    small = levels(16, 16)
    view = seen(small, model)
    enlarged = small.repeat(4, axis=0).repeat(4, axis=1)
    assert torch.equal(view.observation.y, model.artifact.normalise(as_batch(enlarged).x))
    assert np.array_equal(view.levels, enlarged) and view.notes == ()
    assert torch.allclose(seen(enlarged, model).observation.y, view.observation.y, atol=1e-5)
    larger = seen(levels(100, 90), model)
    assert larger.observation.y.shape == (1, 3, 64, 64) and "its middle 90 x 90 is resized" in larger.notes[0]
    blocks = larger.observation.y[..., ::4, ::4].repeat_interleave(4, 2).repeat_interleave(4, 3)
    assert torch.equal(larger.observation.y, blocks)


def test_grey_models_take_grey_and_colour() -> None:
    model = model_of(Grey())
    colour = levels(8, 8)
    assert torch.allclose(
        seen(colour, model).observation.y,
        model.artifact.normalise(Grey().pictures_of(as_batch(colour))),
    )
    grey = levels(8, 8, 1)[:, :, 0]
    expected = model.artifact.normalise(as_batch(grey[:, :, None]).x)
    assert torch.allclose(seen(grey, model).observation.y, expected, atol=1e-5)


@pytest.mark.parametrize("channels", [1, 3])
def test_a_paired_model_sees_the_given_picture(channels: int) -> None:
    model = model_of(Paired(channels_of_pair=channels))
    picture = levels(8, 8, channels)
    assert torch.equal(seen(picture, model).observation.y, model.artifact.normalise(as_batch(picture).x))
    odd = model_of(Paired(channels_of_pair=4))
    with pytest.raises(ValueError, match="pictures with 4 channels, but pictures that can be read have 1 or 3"):
        seen(picture, odd)


def test_settings_that_do_not_suit_the_model_are_refused() -> None:
    holes = small_conditional(SMALLEST)
    for model, observes in ((holes, "known pixels"), (model_of(Grey()), "grey"), (model_of(Paired()), "paired")):
        check_suits(model, image_is="auto", keep_size=False)
        check_suits(model, image_is="photo", keep_size=False)
        with pytest.raises(ValueError, match=f"this model observes {observes}, and only models that observe edges"):
            check_suits(model, image_is="drawing", keep_size=False)
    check_suits(holes, image_is="auto", keep_size=True)
    check_suits(EDGES, image_is="drawing", keep_size=False)
    for model, observes in ((EDGES, "edges"), (model_of(LowResolution(factor=2)), "low-resolution")):
        with pytest.raises(ValueError, match=f"this model observes {observes} and draws the whole image"):
            check_suits(model, image_is="auto", keep_size=True)
    with pytest.raises(ValueError, match="needs a class label or findings, which cannot be read from a picture"):
        check_suits(model_of(Label()), image_is="auto", keep_size=False)


def test_colours_of_a_drawing_do_not_matter() -> None:
    page = drawn(SNEAKER, sheet=(300, 300), side=260, corner=(20, 20), pen=5)
    blue = Image.merge("RGB", (page, page, Image.new("L", page.size, 255)))
    found = [seen(one, EDGES, image_is="drawing").observation.y for one in (page, blue)]
    assert torch.equal(*found)
