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
