"""The names of the scores and of the sets of strange images. Torch is not imported, so `--help` is quick."""

DEFAULT_SCORE = "parts-4"
"""The default score: the two terms of the temperature gradient as separate features, averaged over four passes."""

SCORE_MEANINGS = {
    "gradient": "the temperature gradient of each latent group, as in the paper",
    "parts": "the two terms of the temperature gradient as separate features",
    "channels": "the temperature gradient of each channel of the latents, which makes the fit file larger",
    "likelihood": "the bound on the log-likelihood",
    "regret": "how much the bound grows when the latents are optimised for this one image",
    "ratio": "how much the bound falls when only the coarse latents are inferred",
    "complexity": "the bound compared with the size of the image as a PNG file",
}
"""What each score measures, by its name, for help texts. `condvae.ood.scores.SCORES` makes the scores."""

SET_MEANINGS = {
    "noise": "random grey levels",
    "constant": "images of one colour",
    "flip": "test images upside down",
    "rotate": "test images turned by 90 degrees",
    "crop": "test images enlarged by half and cropped",
    "translate": "test images cropped at a corner and enlarged",
}
"""What each set of strange images contains, for help texts. `ood.strange_sets.GENERATED_SETS` makes the sets."""
