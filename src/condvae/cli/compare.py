"""condvae compare."""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from condvae.cli import shared
from condvae.runtime.atomic import write_text
from condvae.runtime.folders import check_writable

if TYPE_CHECKING:
    from condvae.metrics.compare_folders import Comparison

_ROWS = {
    "fid": ("FID", "less is better; only between sets of as many images"),
    "kid": ("KID", "less is better; the spread over subsets"),
    "p_ids": ("P-IDS", "more is better, up to a half"),
    "u_ids": ("U-IDS", "more is better, up to a half"),
    "lpips": ("LPIPS", "less is better"),
    "psnr": ("PSNR, dB", "more is better; equal images count 100"),
    "ssim": ("SSIM", "more is better, up to 1"),
}


@dataclass(frozen=True, kw_only=True)
class Compare:
    """Measure two folders or zips of images against each other: FID, KID, P-IDS, U-IDS, LPIPS, PSNR and SSIM.

    Both hold the same names, and images of one name belong together. `condvae fetch metrics` gets the networks.
    """

    real: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="REAL")]
    """Folder or zip of real images."""
    fake: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FAKE")]
    """Folder or zip of completions or samples."""
    metrics: tuple[Literal["all", "fid", "kid", "ids", "lpips", "psnr", "ssim"], ...] = ("all",)
    """ids is P-IDS and U-IDS."""
    unpaired: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """The two have nothing to do with each other image by image: FID and KID alone."""
    lpips: Literal["alex", "vgg"] = "alex"
    """The network of LPIPS."""
    precision: Literal["exact", "fast"] = "exact"
    """Precision of Inception's features on a GPU: fast is half precision."""
    device: shared.Device = "auto"
    out: shared.OutFile = None
    """Write the numbers to this file too, which ends in .json."""

    def run(self) -> None:
        if self.out is not None:
            _check_free(self.out)
        from condvae.metrics import LPIPS, Inception
        from condvae.metrics.compare_folders import METRICS, OF_INCEPTION, OF_SETS, check_folders, compare
        from condvae.metrics.feature_networks import FeatureNetworks
        from condvae.runtime.devices import resolve_device

        every = OF_SETS if self.unpaired else METRICS
        chosen: Any = every if "all" in self.metrics else tuple(dict.fromkeys(self.metrics))
        if self.unpaired and (strange := [name for name in chosen if name not in OF_SETS]):
            raise ValueError(f"{strange[0]} needs pairs: leave it out, or leave out --unpaired")
        check_folders(self.real, self.fake, metrics=chosen, paired=not self.unpaired)
        device = resolve_device(self.device)
        needs_inception = bool(set(chosen) & set(OF_INCEPTION))
        found = compare(
            self.real,
            self.fake,
            FeatureNetworks(
                inception=Inception.load(precision=self.precision).to(device) if needs_inception else None,
                lpips=LPIPS.load(trunk=self.lpips).to(device) if "lpips" in chosen else None,
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
        print(f"{self.real} and {self.fake}: {sets}")
        for key, (mean, error) in found.values.items():
            name, remark = _ROWS[key]
            name += f" ({self.lpips})" if key == "lpips" else ""
            print(f"{name:13} {mean:10.5g} ± {error:<9.2g} {remark}")

    def _write(self, found: "Comparison", out: Path) -> None:
        def number(value: float) -> float | None:
            return value if math.isfinite(value) else None

        plain = {
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
        print(f"wrote {out}")


def _check_free(out: Path) -> None:
    """Refuse what could not be written at the end, or should not be: images that were given by mistake, for one."""
    if out.suffix.lower() != ".json":
        raise ValueError(f"{out} does not end in .json: give a name for the numbers that does")
    if out.is_dir() or not out.parent.is_dir():
        raise ValueError(f"{out} cannot be written: give the name of a file in a folder that exists")
    check_writable(out.parent)
