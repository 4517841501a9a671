"""How metrics are shown in Markdown tables: their titles, their digits, and the text of a cell."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from condvae.experiments.evaluation.summary import BOUNDS


class Metric(NamedTuple):
    """How a metric is shown in a table."""

    title: str
    digits: int = 4
    percent: bool = False


TABLES: dict[str, Metric] = {
    "fid": Metric("FID, lower is better", 2),
    "cfid": Metric("CFID, conditional on the observation, lower is better", 2),
    "kid": Metric("KID, lower is better (± is the standard deviation over subsets)"),
    "p_ids": Metric("P-IDS, higher is better", 1, percent=True),
    "u_ids": Metric("U-IDS, higher is better", 1, percent=True),
    "lpips_gt": Metric("LPIPS-GT, nearest of K completions, lower is better"),
    "lpips_diversity": Metric("LPIPS diversity, mean distance of two completions"),
    "crps_lpips": Metric("CRPS of LPIPS features, lower is better", 3),
    "crps_pixels": Metric("CRPS of hidden pixels (white is 1), lower is better"),
    "best_mse": Metric("MSE of the best of K completions over all pixels (white is 1), lower is better", 5),
    "psnr_of_mean": Metric("PSNR of the mean completion over all pixels, dB, higher is better", 2),
    "ssim_of_mean": Metric("SSIM of the mean completion over all pixels, higher is better"),
    "leaning@white": Metric("Leaning, white projections (above 0: overconfident, below 0: underconfident)", 3),
    "leaning@smooth": Metric("Leaning, smooth projections (above 0: overconfident, below 0: underconfident)", 3),
    "bits_per_dim": Metric("Bits per dimension of 8-bit images, VAE alone (-ELBO)"),
    "bits_per_dim_native": Metric("Bits per dimension under the VAE's own likelihood (-ELBO)"),
    "forward_kl_nats_per_dim": Metric("Forward KL, nats per dimension, lower is better"),
    **{
        name + kind: Metric(f"{title} ({bound})", digits)
        for name, title, digits in (
            ("hidden_bits_per_dim", "Bits per hidden dimension", 4),
            ("hidden_nats", "Nats per image of the hidden pixels", 1),
            ("whole_bits_per_dim", "Bits per dimension of the whole image given y", 4),
            ("whole_nats", "Nats per image of the whole image given y", 1),
        )
        for kind, bound in BOUNDS.items()
    },
}
"""The tables of the report, in this order. Their rows are methods, their columns are the bins and the mixture."""


def cell(estimate: Mapping[str, float | None] | None, metric: Metric) -> str:
    """Format a mean with its standard error, or - if there is none."""
    if estimate is None or estimate["mean"] is None:
        return "-"
    scale = 100 if metric.percent else 1
    error = estimate["standard_error"]
    text = f"{scale * estimate['mean']:.{metric.digits}f}"
    text += "" if error is None else f" ± {scale * error:.{metric.digits}f}"
    return text + (" %" if metric.percent else "")


def calibration_title(kind: str) -> str:
    what = "LPIPS distances to reference images (TARP)" if kind == "reference" else f"{kind} projections"
    return f"Calibration error, {what}, lower is better (in brackets: expected by chance)"


def calibration_cell(found: Mapping[str, Any]) -> str:
    """Format a calibration error, the error that is expected by chance, and the verdict."""
    return f"{found['error']:.3f} ({found['error_by_chance']:.3f}) {found['verdict']}"
