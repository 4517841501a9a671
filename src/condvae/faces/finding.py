"""Find the faces in a picture with the cascade of MTCNN (Zhang et al., 2016; see `mtcnn.py`).

P-Net proposes squares at all places and sizes, R-Net refuses most of them, and O-Net decides and finds the landmarks.
After each network, overlapping squares are reduced to the best one. At the end, O-Net looks at each face again, turned
upright and mirrored, because it is more accurate there.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

from condvae.faces import boxes as box
from condvae.faces.boxes import Floats
from condvae.faces.crops import CropSource, in_picture, squares_of
from condvae.faces.face import Face, Framing
from condvae.faces.mtcnn import FaceNetworks, OutputNet, ProposalNet, face_networks, normalise

MOST_PIXELS = 1_000_000
"""Larger pictures are reduced to this number of pixels, so that the time is bounded."""
SMALLEST_FACE = 20
"""Side of the box of the smallest face that is looked for, in pixels of the reduced picture."""
FACTOR = 0.709
"""Each size of the picture that P-Net sees is this much smaller than the one before."""
MARGIN = 4
"""How many pixels are added on each side of what P-Net sees, so that it finds faces that reach over the edge.

Less than half of the side of P-Net's square, so that a square is never empty."""
THRESHOLDS = (0.6, 0.7, 0.7)
"""The least probability of a face after each network, as in the paper's code."""
LEAST_SCORE = 0.9
"""The least probability of a face that is turned upright. Of 200 faces on other photos, the lowest score was 0.94."""
UPRIGHT = Framing(eyes=0.40, x=0.50, y=0.38)
"""The framing in which O-Net sees a face again. It is close to the one in which it sees it for the first time."""
_ROUNDS = 2
_MOST_PROPOSALS = 1500
_BATCH = 256


def find_faces(picture: Image.Image) -> tuple[Face, ...]:
    """Find all faces of a picture, in order of size (largest box first), then from left to right.

    picture: upright, of any size, in mode RGB or L.
    """
    reduced = _reduced(picture)
    scale = np.array([picture.width / reduced.width, picture.height / reduced.height])
    x = normalise(torch.from_numpy(np.array(reduced.convert("RGB"))).permute(2, 0, 1).float())
    with torch.inference_mode():
        found = _cascade(face_networks(), x)
    faces = []
    for edges, landmarks, score in zip(found.boxes, found.landmarks, found.scores.tolist(), strict=True):
        corner, far = edges[:2] * scale, edges[2:] * scale
        faces.append(Face((*corner.tolist(), *(far - corner).tolist()), landmarks * scale, score))
    return tuple(sorted(faces, key=lambda face: (-face.box[2] * face.box[3], face.box[:2])))


class _Found(NamedTuple):
    boxes: Floats
    landmarks: Floats
    scores: Floats


def _reduced(picture: Image.Image) -> Image.Image:
    """Return the picture with at most MOST_PIXELS pixels."""
    if picture.mode not in ("L", "RGB"):
        raise ValueError(f"the picture has mode {picture.mode}, expected RGB or L: convert it with convert('RGB')")
    share = (MOST_PIXELS / (picture.width * picture.height)) ** 0.5
    if share >= 1:
        return picture
    size = (max(1, round(picture.width * share)), max(1, round(picture.height * share)))
    return picture.resize(size, Image.Resampling.BOX, reducing_gap=2.0)


def _cascade(networks: FaceNetworks, x: Tensor) -> _Found:
    """x: a normalised picture [3, H, W]."""
    boxes, scores = _proposals(networks.proposal, x)
    source = CropSource(x)

    boxes = box.squared(boxes)
    probability, by = _in_batches(networks.refinement, source, boxes)
    sure = probability > THRESHOLDS[1]
    boxes, scores, by = boxes[sure], probability[sure], by[sure]
    kept = box.distinct(boxes, scores, 0.7)
    boxes = box.squared(box.moved(boxes[kept], by[kept]))

    probability, by, shares = _in_batches(networks.output, source, boxes)
    sure = probability > THRESHOLDS[2]
    boxes, scores, by, shares = boxes[sure], probability[sure], by[sure], shares[sure]
    landmarks = in_picture(torch.from_numpy(shares), squares_of(torch.from_numpy(boxes))).numpy()
    boxes = box.moved(boxes, by)
    kept = box.distinct(boxes, scores, 0.7, "smaller")
    return _upright(networks.output, source, _Found(boxes[kept], landmarks[kept], scores[kept]))


def _upright(network: OutputNet, source: CropSource, found: _Found) -> _Found:
    """Find the landmarks again, in faces that are turned upright by the landmarks found before.

    Each face is also mirrored. The results are the means of both.
    """
    boxes, landmarks, scores = found
    for _ in range(_ROUNDS):
        placements = [Face((0, 0, 0, 0), points, 0).placement(UPRIGHT) for points in landmarks]
        rows = [(x, y, side, math.radians(degrees)) for x, y, side, degrees in placements]
        squares = torch.tensor(rows, dtype=torch.float64).reshape(-1, 4)
        crops = source.cut(squares, network.SIZE)
        probability, _, shares = network(crops)
        probability_mirrored, _, mirrored = network(crops.flip(3))
        mirrored = mirrored[:, [1, 0, 2, 4, 3]] * torch.tensor([-1, 1]) + torch.tensor([1, 0])
        landmarks = in_picture((shares + mirrored).double() / 2, squares).numpy()
        scores = ((probability + probability_mirrored) / 2).double().numpy()
    sure = scores > LEAST_SCORE
    return _Found(boxes[sure], landmarks[sure], scores[sure])


def _proposals(network: ProposalNet, x: Tensor) -> tuple[Floats, Floats]:
    """Return boxes and scores of the squares that P-Net finds at all sizes of the picture."""
    boxes, scores, moves = [np.empty((0, 4))], [np.empty(0)], [np.empty((0, 4))]
    height, width = x.shape[1:]
    for rows, columns in _sizes(height, width):
        small = x[None]
        if (rows, columns) != (height, width):
            small = F.interpolate(small, (rows, columns), mode="bilinear", antialias=True, align_corners=False)
        probability, by = network(F.pad(small, (MARGIN,) * 4, mode="replicate"))
        i, j = (probability[0] > THRESHOLDS[0]).nonzero(as_tuple=True)
        corner = torch.stack([j, i], dim=1).double() * ProposalNet.STEP - MARGIN
        per_pixel = torch.tensor([width / columns, height / rows]).double()
        cells = torch.cat([corner * per_pixel, (corner + ProposalNet.SIZE) * per_pixel], dim=1).numpy()
        score = probability[0, i, j].double().numpy()
        kept = box.distinct(cells, score, 0.5)
        boxes.append(cells[kept])
        scores.append(score[kept])
        moves.append(by[0, :, i, j].T.double().numpy()[kept])
    together = np.concatenate(scores)
    kept = box.distinct(np.concatenate(boxes), together, 0.7)[:_MOST_PROPOSALS]
    return box.moved(np.concatenate(boxes)[kept], np.concatenate(moves)[kept]), together[kept]


def _sizes(height: int, width: int) -> Iterator[tuple[int, int]]:
    """Yield the sizes of the picture that P-Net sees: until a square of its size covers the picture."""
    scale = ProposalNet.SIZE / SMALLEST_FACE
    while min(height, width) * scale + 2 * MARGIN >= ProposalNet.SIZE:
        yield max(1, round(height * scale)), max(1, round(width * scale))
        scale *= FACTOR


def _in_batches(network: torch.nn.Module, source: CropSource, boxes: Floats) -> list[Floats]:
    """Give squares of the picture to a network, and return all that it returns."""
    squares = squares_of(torch.from_numpy(boxes))
    size = int(network.SIZE)  # type: ignore[arg-type]
    # An empty batch has results, too: empty ones.
    parts = [network(source.cut(part, size)) for part in squares.split(_BATCH)]
    return [torch.cat(columns).double().numpy() for columns in zip(*parts, strict=True)]
