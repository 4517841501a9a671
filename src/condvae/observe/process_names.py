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

PROCESS_INPUTS = {
    **dict.fromkeys(
        PIXEL_PROCESS_MEANINGS, "a photo, and which of its pixels are hidden (--hole, --box, --half, --random, ...)"
    ),
    "edges": "a drawing, with dark lines on white or the reverse; or a photo, whose edges are then found",
    "grey": "a grey photo; or one in colour, whose colours are then left out",
    "low-resolution": "a small picture of {small} x {small} pixels; or a larger one, which is then reduced",
    "label": "a class label or findings, which condvae complete cannot read from a picture",
    "paired": "the left picture of a pix2pix pair",
}
"""What to give to `condvae complete` for a model of each process; {small} is the side of an image in low resolution."""
