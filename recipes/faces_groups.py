r"""Write the groups of test faces by which the results of faces64 are reported: source, age, origin and gender.

The packs faces64-*.zip name their images by source. Those of UTKFace also tell age, gender and origin, as the data set
publishes them: test/utk-AGE_GENDER_ORIGIN_DATE.webp. The results by group in docs/results were made by

    python recipes/faces_groups.py --data faces64-a.zip faces64-b.zip faces64-c.zip --out groups.json
    condvae evaluate --model faces64 --data faces64-a.zip faces64-b.zip faces64-c.zip --images 2759 --deep-images 2759 \
        -n 20 --metrics lpips coverage --baselines nearest --image-groups groups.json --precision fast \
        --out out/faces64-groups
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from condvae.data import open_data
from condvae.experiments.evaluation.groups import matching
from condvae.runtime.atomic import write_text
from condvae.runtime.formats import json_text
from condvae.runtime.scripts import run_script

SOURCES = {"CelebA": ["celeba-*"], "UTKFace": ["utk-*"], "LFW": ["lfw-*"]}
AGES = {
    "UTKFace, age 0-9": ["utk-[0-9]_*"],
    "UTKFace, age 10-19": ["utk-1[0-9]_*"],
    "UTKFace, age 20-39": ["utk-[23][0-9]_*"],
    "UTKFace, age 40-59": ["utk-[45][0-9]_*"],
    "UTKFace, age 60 and over": ["utk-[6-9][0-9]_*", "utk-1[0-9][0-9]_*"],
}
ORIGINS = {
    f"UTKFace, {origin}": [f"utk-*_[01]_{number}_*"]
    for number, origin in enumerate(("White", "Black", "Asian", "Indian", "other origin"))
}
GENDERS = {f"UTKFace, {gender}": [f"utk-*_{number}_[0-4]_*"] for number, gender in enumerate(("male", "female"))}
"""Ages, origins and genders are the labels that UTKFace publishes in its file names."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Write the groups of test faces for `condvae evaluate --image-groups`."""

    data: tuple[Path, ...]
    """The packs faces64-a.zip, faces64-b.zip and faces64-c.zip."""
    out: Path = Path("groups.json")
    """The file to write."""


def main(options: Options) -> None:
    names = open_data(options.data).test.names
    if names is None:
        raise ValueError(f"the images in {options.data[0]} have no names: give the packs faces64-*.zip")
    groups = groups_of(names)
    write_text(options.out, json_text(groups))
    for name, patterns in groups.items():
        print(f"{name}: {sum(map(any, zip(*(matching(one, names) for one in patterns), strict=True))):,} test images")
    print(f"wrote {options.out}")


def groups_of(names: Sequence[str]) -> dict[str, list[str]]:
    """Return the patterns of all groups, without patterns that match no image, such as ages above 99.

    Raise ValueError if an image is in no group of a kind, or in two of them.
    """
    for groups, within in ((SOURCES, "*"), (AGES, "utk-*"), (ORIGINS, "utk-*"), (GENDERS, "utk-*")):
        of_patterns = [matching(pattern, names) for patterns in groups.values() for pattern in patterns]
        counts = map(sum, zip(*of_patterns, strict=True))
        for name, expected, count in zip(names, matching(within, names), counts, strict=True):
            if count != expected:
                raise ValueError(
                    f"{name} is in {count} of the groups {', '.join(groups)}, expected {int(expected)}: "
                    "name images as in the packs faces64-*.zip"
                )
    every = {**SOURCES, **AGES, **ORIGINS, **GENDERS}
    used = {group: [one for one in patterns if any(matching(one, names))] for group, patterns in every.items()}
    return {group: patterns for group, patterns in used.items() if patterns}


if __name__ == "__main__":
    run_script(main, Options, __doc__)
