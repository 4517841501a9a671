import json
import re
import shutil
from pathlib import Path

import pytest

from condvae import Completion

ROOT = Path(__file__).parents[1]


def examples(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)


def test_the_first_example_completes_a_photo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(ROOT / "tests" / "data" / "faces64" / "Eva_Amurri_0001.jpg", tmp_path / "photo.jpg")
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
    (example,) = examples(ROOT / "docs" / "library.md")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(example, names)
    completions, observation = names["completions"], names["observation"]
    assert completions.shape == (32, 3, 32, 32)  # type: ignore[attr-defined]
    known = observation.known.repeat_interleave(4, 0).expand_as(completions)  # type: ignore[attr-defined]
    x = names["x"].repeat_interleave(4, 0)  # type: ignore[attr-defined]
    assert (completions[known] == x[known]).all()  # type: ignore[index]


def test_linked_files_exist() -> None:
    for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), target


def test_the_table_is_what_the_report_says() -> None:
    report = json.loads((ROOT / "docs" / "faces64" / "report.json").read_text())
    methods = report["methods"]
    rows = {
        "faces64": methods["t 1, pixels mean"]["lpips_gt"],
        "faces64, temperature .85": methods["t 0.85, pixels mean"]["lpips_gt"],
        "random training image in the hole": methods["random training image"]["lpips_gt"],
        "harmonic fill from the border": methods["harmonic fill"]["lpips_gt"],
        "training mean in the hole": methods["training mean"]["lpips_gt"],
        "LPIPS diversity of faces64": methods["t 1, pixels mean"]["lpips_diversity"],
        "forward KL, nats per dimension": report["forward_kl_nats_per_dim"],
    }
    lines = (ROOT / "README.md").read_text().replace("**", "").splitlines()
    for name, figures in rows.items():
        (line,) = (line for line in lines if line.startswith(f"| {name} |"))
        assert line.strip("| ").split(" | ")[1:] == [f"{f['mean']:.4f}".lstrip("0") for f in figures.values()], name
