"""Contact sheets show images and observations."""

from helpers.models import generator, images, small_conditional

from condvae.images.model_sheets import conditional_sheet, unconditional_sheet, visible
from condvae.observe import Edges, Freeform
from condvae.observe.batch import Batch
from condvae.sampling.sampler import Sampler


def test_sheets_show_images_and_observations() -> None:
    model, x = small_conditional(), images(2)
    batch = Batch(x=x)
    observation = Freeform().observe(batch, normalise=model.artifact.normalise, generator=generator())
    sheet = conditional_sheet(batch, visible(observation), Sampler(model)(observation, 3))
    assert sheet.width > sheet.height
    assert unconditional_sheet(model.artifact, x).width > 700
    # An edge image is shown as dark lines on white.
    edges = Edges().observe(batch, normalise=model.artifact.normalise, generator=generator())
    shown = visible(edges, model.artifact.config)
    assert set(shown.round(decimals=3).unique().tolist()) <= {-1.0, 1.0}
