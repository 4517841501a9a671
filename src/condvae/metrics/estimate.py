"""A mean with its standard error."""

import math
from typing import NamedTuple

from torch import Tensor


class Estimate(NamedTuple):
    """A mean over images with its standard error."""

    mean: float
    standard_error: float
    """Standard deviation over images divided by the square root of their number; NaN for fewer than two images."""

    @staticmethod
    def of(values: Tensor) -> "Estimate":
        values = values.double()
        return Estimate(
            mean=float(values.mean()),
            standard_error=float(values.std() / math.sqrt(len(values))) if len(values) > 1 else math.nan,
        )

    @staticmethod
    def of_ratio(values: Tensor, weights: Tensor) -> "Estimate":
        """Return sum(values) / sum(weights), both [N], with a standard error by the delta method."""
        values, weights = values.double(), weights.double()
        ratio = values.sum() / weights.sum()
        # To first order the ratio's error is the mean of (value - ratio * weight) / mean weight.
        error = Estimate.of((values - ratio * weights) / weights.mean()).standard_error
        return Estimate(mean=float(ratio), standard_error=error)
