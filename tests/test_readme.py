import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def test_the_library_example_runs_as_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
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
