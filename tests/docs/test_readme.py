import json
import re
import shutil
from pathlib import Path

import pytest
from helpers.fixtures import FIXTURES, ROOT

from condvae import Completion


def examples(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)


def test_the_first_example_completes_a_photo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(FIXTURES / "faces64" / "Eva_Amurri_0001.jpg", tmp_path / "photo.jpg")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    (example,) = examples(ROOT / "README.md")
    exec(example, names)
    result = names["result"]
    assert isinstance(result, Completion)
    assert result.images.shape == (8, 64, 64, 3)
    assert result.mean.shape == result.std.shape == (64, 64, 3)
    assert {"sheet.png", "record.json"} < {path.name for path in (tmp_path / "out").iterdir()}


def test_the_library_example_runs_as_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _long_work, example = examples(ROOT / "docs" / "guides" / "library.md")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(example, names)
    completions, observation = names["completions"], names["observation"]
    assert completions.shape == (32, 3, 32, 32)  # type: ignore[attr-defined]
    known = observation.known.repeat_interleave(4, 0).expand_as(completions)  # type: ignore[attr-defined]
    x = names["x"].repeat_interleave(4, 0)  # type: ignore[attr-defined]
    assert (completions[known] == x[known]).all()  # type: ignore[index]


def cells(row: str) -> list[str]:
    """Of a row of some table in the README."""
    lines = (ROOT / "README.md").read_text().replace("**", "").splitlines()
    (line,) = (line for line in lines if line.startswith(f"| {row} |"))
    return line.strip("| ").split(" | ")[1:]


def short(value: float, digits: int) -> str:
    return f"{value:.{digits}f}".removeprefix("0")


def test_the_tables_are_what_the_raw_numbers_say() -> None:
    results = ROOT / "docs" / "results" / "evaluation"
    raw = {name: json.loads((results / f"{name}.json").read_text())["methods"] for name in ("cifar10", "faces64")}
    faces = {
        "faces64": "faces64, t 1",
        "faces64, temperature .85": "faces64, t 0.85",
        **{name: name for name in ("random training image", "training mean", "harmonic fill")},
    }
    for row, method in faces.items():
        found = raw["faces64"][method]["metrics"]["lpips_gt"]
        assert cells(row) == [short(cell["mean"], 4) for cell in found.values()], row
    for row, method in (("cifar10, temperature 1", "cifar10, t 1"), ("cifar10, temperature .85", "cifar10, t 0.85")):
        found = {name: columns["mixture"]["mean"] for name, columns in raw["cifar10"][method]["metrics"].items()}
        expected = [short(found["fid"], 1), short(100 * found["p_ids"], 1), short(found["lpips_gt"], 4)]
        assert cells(row) == expected, row


def test_the_table_of_policies_is_what_the_raw_numbers_say() -> None:
    rows = {
        "completions of the model (eig-ipa)": "eig-ipa",
        "random windows": "random",
        "training images instead of completions (uncond)": "uncond",
        "the best of 289 sequences for everybody (non-greedy)": "non-greedy",
        "the nearest training images as completions (eig-nearest)": "eig-nearest",
        "uncond with 1,000 images": "uncond-1000",
        "*whole image*": "full",
    }
    raw = [
        json.loads((ROOT / "docs" / "results" / "design" / f"{name}.json").read_text()) for name in ("xray", "xray_n40")
    ]
    for row, policy in rows.items():
        found = [result["policies"][policy] for result in raw if policy in result["policies"]]
        expected = [short(each["auroc"]["the paper's tasks"][-1]["mean"], 3) for each in found]
        assert cells(row) == expected, row
