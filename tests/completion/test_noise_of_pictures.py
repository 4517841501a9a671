"""The random numbers of a picture depend on the seed and on what the model sees of it, and on nothing else."""

import json
from pathlib import Path

import numpy as np
import pytest
from helpers.models import small_conditional, small_vae
from helpers.pictures_to_complete import levels, model_file, photo
from PIL import Image

import condvae
from condvae import load
from condvae.cli import main
from condvae.completion import CompletionSettings
from condvae.completion.picture_completer import PictureCompleter, seed_for
from condvae.conditional import ConditionalVAE, PartialConfig
from condvae.images.holes import Hole
from condvae.images.model_view import ModelView
from condvae.images.reading import read_picture
from condvae.observe import Edges
from condvae.sampling.sampler import Sampler

MODEL = small_conditional()
LEFT = Hole(half="left")


def view(array: np.ndarray, hole: Hole = LEFT, model: ConditionalVAE = MODEL) -> ModelView:
    return PictureCompleter(model, CompletionSettings()).view(read_picture(array), hole)


def test_the_seed_of_a_picture_depends_on_what_the_model_sees() -> None:
    array, seeds = levels(8, 8), []
    for seed in (0, 1, 2**64 - 1):
        seeds.append(seed_for(view(array), seed))
    other = array.copy()
    other[3, 5, 1] ^= 1  # one grey level of one known pixel
    seeds.append(seed_for(view(other), 0))
    for hole in (Hole(half="right"), Hole(box=(0, 0, 4, 7)), Hole(hole=np.ones((8, 8), dtype=bool))):
        seeds.append(seed_for(view(array, hole), 0))
    black = np.zeros((8, 8, 3), dtype=np.uint8)  # known and black is not the same as hidden
    seeds += [seed_for(view(black, hole), 0) for hole in (LEFT, Hole(half="right"))]
    assert len(set(seeds)) == len(seeds) and all(0 <= seed < 2**64 for seed in seeds)
    # Hidden colours have no influence, and pictures that look the same to the model have the same seed.
    hidden = array.copy()
    hidden[:, :4] = 255 - hidden[:, :4]
    assert seed_for(view(hidden), 0) == seeds[0]
    everything = Hole(hole=np.ones((8, 8), dtype=bool))
    assert seed_for(view(levels(8, 8, seed=5), everything), 0) == seed_for(view(array, everything), 0)


def test_the_seed_of_edges_depends_on_the_edges() -> None:
    edges = ConditionalVAE(small_vae(), PartialConfig(channels=3), process=Edges())
    step, other = np.zeros((2, 8, 8, 3), dtype=np.uint8)
    step[:, 4:] = 255
    other[:, 2:] = 255
    brighter = np.maximum(step, 1)
    seeds = [seed_for(view(array, Hole(), edges), 0) for array in (step, other, brighter)]
    assert len({seed_for(view(step, Hole(), edges), 1), *seeds}) == 3 and seeds[0] == seeds[2]


@pytest.mark.parametrize("share", [None, 4])
def test_noise_differs_between_pictures_unless_asked_otherwise(share: int | None) -> None:
    array = levels(8, 8)
    seen, sampler = view(array).observation, Sampler(MODEL)
    for same_noise, seed in ((True, 3), (False, seed_for(view(array), 3))):
        result = condvae.complete(array, half="left", model=MODEL, n=4, seed=3, same_noise=same_noise, share=share)
        expected = sampler(seen, 4, seed=seed, share=share)[0].permute(0, 2, 3, 1)
        assert np.array_equal(result.images, expected.numpy())
        assert len({image.tobytes() for image in result.images}) == 4
    with pytest.raises(ValueError, match="same_noise is 'no'"):
        condvae.complete(array, half="left", model=MODEL, same_noise="no")  # type: ignore[call-overload]


def outputs(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted(folder.glob("0*.png"))]


def test_records_of_older_versions_are_repeated_as_they_were_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, model = photo(tmp_path / "x.png", 20, 26), model_file(tmp_path)
    words = [
        "complete",
        str(path),
        "--box",
        "6,4,9,9",
        "--model",
        str(model),
        "-n",
        "2",
        "--keep-size",
        "--device",
        "cpu",
    ]
    main([*words, "-o", str(tmp_path / "new")])
    record = tmp_path / "new" / "record.json"
    plain = json.loads(record.read_text())
    assert plain["same_noise"] is plain["hard_edges"] is False
    main(["complete", "--repeat", str(record), "-o", str(tmp_path / "again")])
    assert outputs(tmp_path / "again") == outputs(tmp_path / "new")
    assert "older condvae" not in capsys.readouterr().out
    del plain["same_noise"], plain["hard_edges"]  # as in the records of older versions
    record.write_text(json.dumps(plain))
    main(["complete", "--repeat", str(record), "-o", str(tmp_path / "old")])
    assert "record.json is from an older condvae" in capsys.readouterr().out
    repeated = json.loads((tmp_path / "old" / "record.json").read_text())
    assert repeated["same_noise"] is repeated["hard_edges"] is True
    # What older versions computed: the seed of the call for every picture, and no blending.
    opened = load(model)
    assert isinstance(opened, ConditionalVAE)
    seen = view(levels(20, 26), Hole(box=(6, 4, 9, 9)), opened)
    drawn = Sampler(opened)(seen.observation, 2, seed=0)[0].permute(0, 2, 3, 1).numpy()
    for k, image in enumerate(drawn):
        square = Image.fromarray(image).resize((20, 20), Image.Resampling.BICUBIC)
        expected = levels(20, 26).copy()
        expected[4:13, 6:15] = np.asarray(square)[4:13, 3:12]
        with Image.open(tmp_path / "old" / f"001-x-{k + 1}.png") as written:
            assert np.array_equal(np.asarray(written), expected)
    assert outputs(tmp_path / "old") != outputs(tmp_path / "new")
