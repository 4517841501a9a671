"""The names of the observation processes, and what is known of an image under each.

This file does not import torch, so that `--help` is quick.
"""

PIXEL_PROCESS_MEANINGS = {
    "freeform": "all pixels except random brush strokes and rectangles",
    "patches": "a few square patches",
    "boxes": "everything except one rectangle, or only that rectangle",
    "halves": "the left, right, top or bottom half",
    "pixels": "random single pixels",
    "nothing": "no pixel",
}
"""What is known of an image under each process with known and hidden pixels. Such processes can be mixed."""

PROCESS_MEANINGS = {
    **PIXEL_PROCESS_MEANINGS,
    "edges": "a drawing of its edges",
    "grey": "the image without its colours",
    "low-resolution": "a smaller version of it",
    "label": "its class label, or which findings it shows",
    "paired": "the other image of a pix2pix pair",
}
"""What is known of an image under each process of `condvae.observe.PROCESSES`, except mixtures of these processes."""
