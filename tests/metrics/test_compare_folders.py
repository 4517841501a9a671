import json
import os
import zipfile
from pathlib import Path

import pytest
import torch
from helpers.lpips_networks import random_lpips
from helpers.models import generator
from PIL import Image
from torch import Tensor, nn

from condvae.cli import main
from condvae.metrics import Estimate, psnr, ssim
from condvae.metrics.compare_folders import Comparison, compare
from condvae.metrics.discrimination import ids
from condvae.metrics.feature_networks import FeatureNetworks
from condvae.metrics.frechet import fid
from condvae.metrics.inception import Inception
from condvae.metrics.kernel_distance import kid


class Colours(Inception):
    """Replaces Inception: the features are the mean colours of four quarters, fast and different for every image."""

    def __init__(self) -> None:
        nn.Module.__init__(self)

    def features(self, images: Tensor) -> Tensor:
        return nn.functional.adaptive_avg_pool2d(images.float() / 255, 2).flatten(1)


NETWORKS = FeatureNetworks(inception=Colours(), lpips=random_lpips())


def levels(n: int, *, seed: int = 0, size: int = 32) -> Tensor:
    return torch.randint(256, (n, 3, size, size), generator=generator(seed), dtype=torch.uint8)


def like(images: Tensor, seed: int = 1) -> Tensor:
    noise = 30 * torch.randn(images.shape, generator=generator(seed))
    return (images + noise).clamp(0, 255).to(torch.uint8)


def written(folder: Path, images: Tensor, names: list[str] | None = None) -> Path:
    for i, image in enumerate(images):
        path = folder / (f"{i:03d}.png" if names is None else names[i])
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image.permute(1, 2, 0).numpy()).save(path)
    return folder


def zipped(folder: Path, top: str = "") -> Path:
    path = folder.with_suffix(".zip")
    with zipfile.ZipFile(path, "w") as archive:
        for file in sorted(folder.rglob("*.png"), reverse=True):
            archive.write(file, f"{top}{file.relative_to(folder)}")
    return path


def expected(real: Tensor, fake: Tensor) -> dict[str, Estimate]:
    features = [Colours().features(images) for images in (real, fake)]
    discrimination = ids(features[0], features[1])
    return {
        "fid": fid(features[0], features[1], paired=True),
        "kid": kid(features[0], features[1]),
        "p_ids": discrimination.p_ids,
        "u_ids": discrimination.u_ids,
        "lpips": Estimate.of(random_lpips()(real, fake)),
        "psnr": Estimate.of(psnr(real, fake)),
        "ssim": Estimate.of(ssim(real, fake)),
    }


def same(found: Comparison, wanted: dict[str, Estimate]) -> None:
    assert list(found.values) == list(wanted)
    for name, value in wanted.items():
        assert found.values[name] == pytest.approx(value, rel=1e-4, nan_ok=True), name


def test_folders_have_the_metrics_of_their_images(tmp_path: Path) -> None:
    real = levels(70)  # more than one batch
    fake = like(real)
    one, other = written(tmp_path / "real", real), written(tmp_path / "fake", fake)
    wanted = expected(real, fake)
    found = compare(one, other, NETWORKS)
    assert (found.real_images, found.fake_images) == (70, 70)
    same(found, wanted)
    same(compare(zipped(one, "deep/"), zipped(other), NETWORKS), wanted)
    picked = compare(one, other, FeatureNetworks(), metrics=("ssim", "psnr"))
    assert picked.values.keys() == {"psnr", "ssim"}


def test_pairs_are_matched_by_name_without_extension(tmp_path: Path) -> None:
    real = levels(6)
    fake = like(real)
    names = [f"{part}/{i}" for part in ("a", "b") for i in (1, 2, 10)]
    one = written(tmp_path / "real", real, [f"{name}.png" for name in names])
    other = written(tmp_path / "fake", fake.flip(0), [f"{name}.bmp" for name in reversed(names)])
    same(compare(one, other, NETWORKS), expected(real[[0, 2, 1, 3, 5, 4]], fake[[0, 2, 1, 3, 5, 4]]))


def test_pairs_of_different_sizes_can_be_mixed(tmp_path: Path) -> None:
    small, large = levels(3), levels(2, seed=4, size=40)
    names = [[f"{i}.png" for i in (0, 1, 4)], ["2.png", "3.png"]]
    for folder, change in (("real", lambda x: x), ("fake", like)):
        for images, some in zip((small, large), names, strict=True):
            written(tmp_path / folder, change(images), some)
    found = compare(tmp_path / "real", tmp_path / "fake", NETWORKS, metrics=("psnr",))
    wanted = torch.cat((psnr(small, like(small)), psnr(large, like(large))))
    assert found.values["psnr"] == pytest.approx(Estimate.of(wanted))


def test_sets_without_pairs(tmp_path: Path) -> None:
    real, fake = levels(9), levels(12, seed=1)
    one = written(tmp_path / "real", real)
    other = written(tmp_path / "fake", fake, [f"sample-{i:02d}.png" for i in range(12)])
    found = compare(one, other, NETWORKS, metrics=("fid", "kid"), paired=False)
    features = [Colours().features(images) for images in (real, fake)]
    assert (found.real_images, found.fake_images) == (9, 12)
    assert found.values["fid"] == pytest.approx(fid(features[0], features[1], paired=False))
    with pytest.raises(ValueError, match="metric without pairs is 'psnr'"):
        compare(one, other, NETWORKS, metrics=("psnr",), paired=False)
    with pytest.raises(ValueError, match=r"fake has no image named 000, 001, 002, 003, 004 and 4 more"):
        compare(one, other, NETWORKS)


def test_misaligned_names_are_an_error_and_not_a_wrong_number(tmp_path: Path) -> None:
    images = levels(5)
    real, fake = written(tmp_path / "real", images), written(tmp_path / "fake", like(images))
    (fake / "002.png").rename(fake / "2.png")
    with pytest.raises(ValueError, match="fake has no image named 002:"):
        compare(real, fake, NETWORKS)
    (fake / "2.png").rename(fake / "002.png")
    written(fake, images[:1], ["extra.png"])
    with pytest.raises(ValueError, match="real has no image named extra:"):
        compare(real, fake, NETWORKS)
    (fake / "extra.png").unlink()
    written(fake, images[:1], ["001.bmp"])
    with pytest.raises(ValueError, match=r"contains both 001\.bmp and 001\.png"):
        compare(real, fake, NETWORKS)
    (fake / "001.bmp").unlink()
    written(fake, levels(1, size=16), ["003.png"])
    with pytest.raises(ValueError, match=r"003\.png has two sizes, 32 x 32 in .*real but 16 x 16 in .*fake"):
        compare(real, fake, NETWORKS)
    (fake / "003.png").write_bytes(b"no image")
    with pytest.raises(ValueError, match=r"003\.png cannot be read"):
        compare(real, fake, NETWORKS)


def test_invalid_folders_and_metrics_are_rejected(tmp_path: Path) -> None:
    few = written(tmp_path / "few", levels(3))
    (tmp_path / "empty").mkdir()
    for one, other, words in (
        (tmp_path / "none", few, "does not exist"),
        (few, few / "000.png", "is not a folder or a zip file"),
        (few, tmp_path / "empty", "contains no images"),
        (few, few, "KID needs at least 4 of each"),
    ):
        with pytest.raises(ValueError, match=words):
            compare(one, other, NETWORKS)
    with pytest.raises(ValueError, match="has no network"):
        compare(few, few, FeatureNetworks(), metrics=("lpips",))
    with pytest.raises(ValueError, match="no metric"):
        compare(few, few, NETWORKS, metrics=())


def test_the_verb_prints_a_table_and_writes_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    images = levels(5)
    real, fake = written(tmp_path / "real", images), written(tmp_path / "fake", like(images))
    out = tmp_path / "numbers.json"
    main(["compare", str(real), str(fake), "--metrics", "psnr", "ssim", "--out", str(out)])
    text = capsys.readouterr().out
    assert "5 pairs of images" in text
    assert "PSNR, dB" in text and "SSIM" in text and "FID" not in text
    wanted = Estimate.of(psnr(images, like(images)))
    found = json.loads(out.read_text())
    assert found["metrics"]["psnr"]["mean"] == pytest.approx(wanted.mean)
    assert found["metrics"]["psnr"]["standard_error"] == pytest.approx(wanted.standard_error)
    assert os.listdir(tmp_path).count("numbers.json") == 1 and len(os.listdir(tmp_path)) == 3
    main(["compare", str(real), str(real), "--metrics", "psnr", "--out", str(out)])
    assert "inf" not in capsys.readouterr().out
    assert json.loads(out.read_text())["metrics"]["psnr"] == {"mean": 100.0, "standard_error": 0.0}


def test_the_verb_rejects_invalid_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    real, fake = written(tmp_path / "real", levels(5)), written(tmp_path / "fake", levels(4))

    def error(*options: str) -> str:
        with pytest.raises(SystemExit) as stopped:
            main(["compare", str(real), str(fake), *options])
        assert stopped.value.code == 2
        return capsys.readouterr().err

    assert "fake has no image named 004" in error()
    assert "condvae fetch" in error("--unpaired")
    assert "psnr needs pairs" in error("--unpaired", "--metrics", "psnr")
    assert "cannot be written" in error("--out", str(tmp_path / "none" / "a.json"))
    (tmp_path / "folder.json").mkdir()
    assert "cannot be written" in error("--out", str(tmp_path / "folder.json"))
    before = (real / "000.png").read_bytes()
    assert "does not end in .json" in error("--out", str(real / "000.png"))
    assert (real / "000.png").read_bytes() == before
    (tmp_path / "mine.json").write_text('{"metrics": {}}')
    assert "mine.json already exists and is not a result of" in error("--out", str(tmp_path / "mine.json"))
    assert (tmp_path / "mine.json").read_text() == '{"metrics": {}}'
