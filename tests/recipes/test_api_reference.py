"""The API reference is refused if it names things that do not exist. `make docs` builds the whole of it."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from recipes import api_reference

SOURCE = '''
"""See `Box.area`, `Box.side`, `condvae.load`, `torch.nn.Module`, `file.json`, `word` and `Gone`."""

class Box:
    """Its `side` and `Box.gone`; `condvae.gone` too."""

    side: int
    """Not a `Bax`."""

    def area(self, other: "Box") -> int:
        """Uses `other.side` and `self.side`, but not `condvae.observe.Gone`."""
        return self.side * other.side
'''


@pytest.fixture
def module(tmp_path: Path) -> ModuleType:
    path = tmp_path / "boxes.py"
    path.write_text(SOURCE)
    spec = importlib.util.spec_from_file_location("boxes", path)
    assert spec and spec.loader
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def test_names_that_do_not_exist_are_found_and_others_are_not(module: ModuleType) -> None:
    found = list(api_reference.unresolved_names(module))
    assert found == [
        "boxes: `Gone`",
        "boxes.Box: `Box.gone`",
        "boxes.Box: `condvae.gone`",
        "boxes.Box: `Bax`",
        "boxes.Box.area: `condvae.observe.Gone`",
    ]


def test_docstrings_of_the_package_name_only_things_that_exist() -> None:
    modules = list(api_reference.public_modules())
    assert [name for module in modules for name in api_reference.unresolved_names(module)] == []


def test_links_without_a_target_are_found(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "a.html").write_text(
        '<h1 id="top">A</h1> <a href="#top"></a> <a href="inner/b.html#b"></a> <a href="#gone"></a>'
        '<a href="https://example.org/x#y"></a> <script>"<a href="${url}">"</script> <a class="x" href="gone.html"></a>'
    )
    (tmp_path / "inner" / "b.html").write_text('<p id="b"><a href="../a.html#top"></a><a href="../a.html#b"></a></p>')
    assert api_reference.dead_links(tmp_path) == [
        "a.html: #gone",
        "a.html: gone.html",
        "inner/b.html: ../a.html#b",
    ]


def test_a_folder_with_other_files_is_kept(tmp_path: Path) -> None:
    (tmp_path / "holiday.png").write_bytes(b"")
    with pytest.raises(ValueError, match="contains files that are not an API reference"):
        api_reference.main(api_reference.Options(out=tmp_path))
    assert (tmp_path / "holiday.png").exists()


def test_modules_have_their_lazy_names_and_leave_out_the_command_line() -> None:
    modules = {module.__name__: module for module in api_reference.public_modules()}
    assert {"condvae", "condvae.observe.freeform", "condvae.objectives"} <= set(modules)
    assert not any("cli" in name or "._" in name for name in modules)
    assert "complete" in vars(modules["condvae"])
