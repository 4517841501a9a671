"""Contact sheets of test images: which images, what is hidden, numbered pages, and two models side by side."""

import json
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers.evaluation_runs import FACES, small_model
from PIL import Image

from condvae import weights
from condvae.data import ImageSet, open_data
from condvae.faces import Framing
from condvae.weights.model_cards import card_at
from recipes import sheets, sheets_side_by_side
from recipes.sheet_pages import chosen
from recipes.sheet_regions import FRAMINGS, regions
from recipes.sheets_side_by_side import same_people


@pytest.fixture
def test_set() -> ImageSet:
    return open_data(FACES).test


@pytest.fixture
def model(tmp_path: Path) -> Path:
    weights.save(small_model(), tmp_path / "model.safetensors", record={})
    return tmp_path / "model.safetensors"


def test_the_framing_of_faces64_is_that_of_its_card() -> None:
    card = card_at(weights.locate("faces64"))
    assert card is not None and card.framing == FRAMINGS["faces64"]._asdict()
    assert sheets.Options(data=()).framing == "faces64"


@pytest.mark.parametrize("framing", [*FRAMINGS.values(), Framing(eyes=0.3, x=0.45, y=0.5)])
@pytest.mark.parametrize("size", [32, 64, 128])
def test_boxes_follow_the_framing(framing: Framing, size: int) -> None:
    known = regions(3, size, 0, framing)
    eyes, mouth, unit = known["eyes"][0, 0], known["mouth"][0, 0], framing.eyes
    for side in (-0.5, 0.5):
        x, y = int(size * (framing.x + side * unit)), int(size * framing.y)
        assert not eyes[y, x] and mouth[y, x]
        corner = int(size * (framing.x + 0.86 * side * unit)), int(size * (framing.y + 1.1 * unit))
        assert eyes[corner[::-1]] and not mouth[corner[::-1]]
    tip_of_nose = int(size * (framing.y + 0.6 * unit)), int(size * framing.x)
    assert eyes[tip_of_nose] and mouth[tip_of_nose] and eyes[0, 0] and mouth[-1, -1]
    assert (~eyes & ~mouth).sum() == 0
    assert np.array_equal(known["boxes"][0], known["eyes"][0]) and np.array_equal(known["boxes"][1], known["mouth"][1])


def test_four_halves_and_images_without_a_known_pixel() -> None:
    known = regions(8, 32, 0, FRAMINGS["faces64"])
    halves = known["halves"].flatten(1)
    assert (halves.sum(dim=1) == 512).all() and len({tuple(half.tolist()) for half in halves}) == 4
    assert not known["sides"][2, ..., :16].any() and known["sides"][2, ..., 16:].all()
    assert (known["sides"][2] ^ known["sides"][3]).all()
    assert known["nothing"].shape[0] == 4 and not known["nothing"].any()
    shares = (~known["freeform"]).flatten(1).double().mean(dim=1)
    assert all(i % 5 / 5 <= share <= (i % 5 + 1) / 5 for i, share in enumerate(shares))


def test_images_show_different_people_or_are_spread_by_name(test_set: ImageSet) -> None:
    n = len(test_set)
    people = replace(test_set, labels=np.arange(len(test_set.images)) // 2)
    assert people.labels is not None
    positions = chosen(people, 10)
    assert len(set(people.labels[people.rows[positions]])) == 10 and max(positions) > n - 6
    sources = replace(test_set, labels=np.arange(len(test_set.images)) % 3)  # fewer labels than images
    assert len(set(chosen(sources, 10))) == 10 and max(chosen(sources, 10)) > n - 6
    names = test_set.names
    assert names is not None
    found = [names[i].removeprefix("test/")[0] for i in chosen(test_set, 5, ["[A-C]*", "test/[J-Z]*"])]
    assert [letter < "D" for letter in found] == [True, True, True, False, False]
    with pytest.raises(ValueError, match=r"the pattern lfw-\* matches none of the test images, such as test/Andrew"):
        chosen(test_set, 5, ["lfw-*"])
    with pytest.raises(ValueError, match="the test images have no names"):
        chosen(replace(test_set, files=None), 5, ["*"])


def renamed(path: Path, *, without: str) -> Path:
    """Write the test faces to another zip, with a prefix, another extension, and in reverse order."""
    with zipfile.ZipFile(FACES) as source, zipfile.ZipFile(path, "w") as target:
        for name in reversed(source.namelist()):
            folder, _, own = name.partition("/")
            if own.endswith(".jpg") and not own.startswith(without):
                target.writestr(f"{folder}/lfw-{own.removesuffix('.jpg')}.jpeg", source.read(name))
    return path


def test_the_same_people_are_found_by_name(tmp_path: Path, test_set: ImageSet) -> None:
    other = open_data(renamed(tmp_path / "other.zip", without="Andrew")).test
    people, (first, second) = same_people([test_set, other], prefix="lfw-", names="[A-C]*_0001", count=4)
    assert len(people) == 4 and people[0].startswith("Barry")
    assert np.array_equal(test_set.take(first).images, other.take(second).images)
    with pytest.raises(ValueError, match="no name that matches Andrew"):
        same_people([test_set, other], prefix="lfw-", names="Andrew*", count=4)
    with pytest.raises(ValueError, match=r"of 0 that are: check --names and --prefix"):
        same_people([test_set, other], prefix="", names="*", count=4)


def test_equal_models_and_images_give_equal_rows(tmp_path: Path, model: Path) -> None:
    """Holes, seeds and people are the same for both models, also if the images have another order."""
    other = renamed(tmp_path / "other.zip", without="Andrew")
    options = sheets_side_by_side.Options(
        model=str(model),
        data=(FACES,),
        against=str(model),
        against_data=(other,),
        framing="faces64",
        against_framing="faces64",
        labels=("a", "a"),
        images=3,
        hide=("freeform", "mouth"),
        n=2,
        out=tmp_path / "out",
        per_page=2,
        tile=64,
    )
    sheets_side_by_side.main(options)
    assert sorted(path.name for path in options.out.iterdir()) == [
        f"{name}-{page}.png" for name in ("freeform", "mouth") for page in (1, 2)
    ]
    for path in options.out.iterdir():
        with Image.open(path) as page:
            pixels = np.asarray(page)
        rows = [pixels[22 + 68 * i : 86 + 68 * i] for i in range(2 if path.stem.endswith("2") else 4)]
        assert all(np.array_equal(old, new) for old, new in zip(rows[::2], rows[1::2], strict=True))
        assert len(rows) == 2 or not np.array_equal(rows[0], rows[2])
    sheets_side_by_side.main(replace(options, against_framing="lfw64", out=tmp_path / "framed"))
    for name, same in (("freeform-1.png", True), ("mouth-1.png", False)):
        with Image.open(options.out / name) as one, Image.open(tmp_path / "framed" / name) as two:
            assert (one.tobytes() == two.tobytes()) == same
    sheets_side_by_side.main(replace(options, temperature="0", against_temperature="1", out=tmp_path / "temperatures"))
    with Image.open(tmp_path / "temperatures" / "freeform-1.png") as page:
        cold, warm = (np.asarray(page)[22 + 68 * i : 86 + 68 * i, -136:] for i in range(2))
    assert np.array_equal(cold[:, :64], cold[:, 68:132]) and not np.array_equal(warm[:, :64], warm[:, 68:132])


def test_blind_pages_show_the_rows_of_both_models_in_random_order(tmp_path: Path, model: Path) -> None:
    options = sheets_side_by_side.Options(
        model=str(model), data=(FACES,), against=str(model), against_data=(FACES,), framing="faces64", images=4, n=1,
        hide=("mouth", "sides"), out=tmp_path / "out", per_page=8, tile=64, blind=True,
    )  # fmt: skip
    sheets_side_by_side.main(options)
    key = json.loads((options.out / "key.json").read_text())
    assert list(key) == [str(i + 1) for i in range(16)]
    seen = [(row["person"], row["hidden"], row["model"]) for row in key.values()]
    assert len(set(seen)) == 16 and seen != sorted(seen)
    assert sorted({model for *_, model in seen}) == ["new", "old"] and len({person for person, *_ in seen}) == 4
    with Image.open(options.out / "page-1.png") as page:
        tiles = [np.asarray(page)[22 + 68 * i : 86 + 68 * i, -68:] for i in range(16)]
    # The same model twice: rows are equal if they differ only in the model's name.
    for (person, hidden, _), tile in zip(seen, tiles, strict=True):
        same = [other[:2] == (person, hidden) for other in seen]
        assert [np.array_equal(tile, one) for one in tiles] == same
    sheets_side_by_side.main(replace(options, out=tmp_path / "again"))
    assert json.loads((tmp_path / "again" / "key.json").read_text()) == key


def test_numbered_pages_show_enlarged_completions(tmp_path: Path, model: Path) -> None:
    options = sheets.Options(data=(FACES,), model=str(model), out=tmp_path / "out", images=5, n=3, hide=("eyes",))
    sheets.main(replace(options, per_page=2, tile=96))
    heights = []
    for number in (1, 2, 3):
        with Image.open(tmp_path / "out" / f"eyes-{number}.png") as page:
            assert 5 * 100 < page.width < 5 * 100 + 30  # five columns, and the numbers of the rows
            heights.append(page.height)
    assert heights == [222, 222, 122]
    sheets.main(replace(options, hide=("freeform", "nothing")))
    assert {path.name for path in options.out.glob("*g.png")} == {"nothing.png"}
    assert (options.out / "freeform.png").is_file()


def test_pages_of_photos_show_other_test_images(tmp_path: Path, model: Path, test_set: ImageSet) -> None:
    options = sheets.Options(data=(FACES,), model=str(model), out=tmp_path / "out", images=3, n=2, hide=("mouth",))
    with pytest.raises(ValueError, match="--photos needs --per-page"):
        sheets.main(replace(options, photos=True))
    assert not options.out.exists()
    sheets.main(replace(options, photos=True, per_page=2, tile=32))
    shown = []
    for number, rows in ((1, 2), (2, 1)):
        with Image.open(options.out / f"photos-{number}.png") as page:
            pixels = np.asarray(page)[22:, -72:]
        places = [(36 * row, 36 * column) for row in range(rows) for column in range(2)]
        shown += [pixels[y : y + 32, x : x + 32] for y, x in places]
    expected = test_set.take(chosen(test_set, 6)).images.permute(0, 2, 3, 1).numpy()
    assert len(shown) == len(expected) == 6
    assert all(np.array_equal(tile, image) for tile, image in zip(shown, expected, strict=True))
