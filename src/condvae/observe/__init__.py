"""p(y | x): what is known of an image, and how it is shown to the partial encoder."""

from condvae.observe.observation import Observation, observe_pixels

__all__ = ["Observation", "observe_pixels"]
