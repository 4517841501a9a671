"""A number and how sure it is."""

import math
from typing import NamedTuple

from torch import Tensor


class Estimate(NamedTuple):
    """A mean over images, and how sure it is."""

    mean: float
    standard_error: float
    """Of the mean: the spread of images over the root of their number; NaN for fewer than two."""

    @staticmethod
    def of(values: Tensor) -> "Estimate":
        values = values.double()
        return Estimate(
            mean=float(values.mean()),
            standard_error=float(values.std() / math.sqrt(len(values))) if len(values) > 1 else math.nan,
        )

    @staticmethod
    def of_ratio(values: Tensor, weights: Tensor) -> "Estimate":
        """The sum of values over the sum of weights, image by image; its error by the delta method."""
        values, weights = values.double(), weights.double()
        ratio = values.sum() / weights.sum()
        # To first order the ratio's error is the mean of (value - ratio * weight) / mean weight.
        error = Estimate.of((values - ratio * weights) / weights.mean()).standard_error
        return Estimate(mean=float(ratio), standard_error=error)
