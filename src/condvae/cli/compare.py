"""The verb `condvae compare`."""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from condvae.cli import shared
from condvae.cli.help_text import explained
from condvae.metrics.metric_names import METRICS, FeaturePrecision, FolderMetric, Trunk
from condvae.runtime.atomic import write_text
from condvae.runtime.folders import check_replaceable, read_json

if TYPE_CHECKING:
    from condvae.metrics.compare_folders import Comparison

_FORMAT, _VERSION = "condvae comparison", 1
_ROWS = {
    "fid": ("FID", "lower is better; only compare sets with the same number of images"),
    "kid": ("KID", "lower is better; ± is the spread over subsets"),
    "p_ids": ("P-IDS", "higher is better; 0.5 if the two sets cannot be told apart; pairs of equal images count 0"),
    "u_ids": ("U-IDS", "higher is better; 0.5 if the two sets cannot be told apart"),
    "lpips": ("LPIPS", "lower is better"),
    "psnr": ("PSNR, dB", "higher is better; identical images count as 100"),
    "ssim": ("SSIM", "higher is better, at most 1"),
}
"""For each metric, its name in the printed table and a remark on how to read it."""


@explained(metrics=f"The metrics to compute: all, or some of {', '.join(METRICS)}. ids stands for P-IDS and U-IDS.")
@dataclass(frozen=True, kw_only=True)
class Compare:
    """Compare two folders or zips of images, such as real images and completions.

    Images with the same name are compared with each other, so both folders must contain the same names, unless
    --unpaired is given. `condvae fetch metrics` downloads the networks that the metrics need.
    """

    real: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="REAL")]
    """A folder or zip of real images."""
    fake: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FAKE")]
    """A folder or zip of completions or samples."""
    metrics: tuple[Literal["all"] | FolderMetric, ...] = ("all",)
    unpaired: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Compare the two sets of images as a whole instead of image by image. The names may then differ, and only FID and
    KID are computed."""
    lpips: Trunk = "alex"
    """The network that LPIPS uses: AlexNet (alex) or VGG16 (vgg)."""
    precision: FeaturePrecision = "exact"
    """Precision in which Inception features are computed on a GPU: single (exact) or half (fast)."""
    device: shared.Device = "auto"
    out: shared.OutFile = None
    """Also write the numbers to this .json file. An existing file is replaced only if `condvae compare` wrote it."""
    quiet: shared.Quiet = False

    def run(self) -> None:
        if self.out is not None:
            _check_free(self.out)
        from condvae.metrics.compare_folders import OF_INCEPTION, OF_SETS, check_folders, compare
        from condvae.metrics.feature_networks import FeatureNetworks
        from condvae.runtime.devices import resolve_device

        every = OF_SETS if self.unpaired else METRICS
        chosen: Any = every if "all" in self.metrics else tuple(dict.fromkeys(self.metrics))
        if self.unpaired and (paired := [name for name in chosen if name not in OF_SETS]):
            raise ValueError(f"the metric {paired[0]} needs pairs of images: leave it out, or leave out --unpaired")
        check_folders(self.real, self.fake, metrics=chosen, paired=not self.unpaired)
        device = resolve_device(self.device)
        needs_inception = bool(set(chosen) & set(OF_INCEPTION))
        found = compare(
            self.real,
            self.fake,
            FeatureNetworks.load(
                device,
                lpips=self.lpips if "lpips" in chosen else None,
                inception=self.precision if needs_inception else None,
            ),
            metrics=chosen,
            paired=not self.unpaired,
        )
        self._print(found)
        if self.out is not None:
            self._write(found, self.out)

    def _print(self, found: "Comparison") -> None:
        sets = (
            f"{found.real_images:,} and {found.fake_images:,} images"
            if self.unpaired
            else f"{found.real_images:,} pairs of images"
        )
        shared.result(f"{self.real} and {self.fake}: {sets}")
        for key, (mean, error) in found.values.items():
            name, remark = _ROWS[key]
            name += f" ({self.lpips})" if key == "lpips" else ""
            shared.result(f"{name:13} {mean:10.5g} ± {error:<9.2g} {remark}")

    def _write(self, found: "Comparison", out: Path) -> None:
        def number(value: float) -> float | None:
            return value if math.isfinite(value) else None

        plain = {
            "format": _FORMAT,
            "format_version": _VERSION,
            "real": str(self.real),
            "fake": str(self.fake),
            "paired": not self.unpaired,
            "real_images": found.real_images,
            "fake_images": found.fake_images,
            "lpips_network": self.lpips,
            "inception_precision": self.precision,
            "metrics": {
                key: {"mean": number(mean), "standard_error": number(error)}
                for key, (mean, error) in found.values.items()
            },
        }
        write_text(out, json.dumps(plain, indent=1) + "\n")
        shared.say(f"wrote {out}")


def _check_free(out: Path) -> None:
    """Raise a ValueError if `out` cannot be written, or exists and is not an earlier result."""
    if out.suffix.lower() != ".json":
        raise ValueError(f"{out} does not end in .json: give --out a name that does")
    if out.is_dir() or not out.parent.is_dir():
        raise ValueError(f"{out} cannot be written: give --out the name of a file in a folder that exists")
    check_replaceable(
        out, what="a result of condvae compare", ours=lambda path: read_json(path, format=_FORMAT) is not None
    )
