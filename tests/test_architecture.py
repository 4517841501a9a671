"""Rules for the source tree: which room may import which, the length of files, and unique names."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import condvae

SOURCE = Path(condvae.__file__).parent

# The rooms in the order of docs/architecture.md, each with the rooms that it may import. Every room may use `runtime`.
MAY_IMPORT = {
    "runtime": "",
    "noise": "",
    "gaussian": "noise",
    "likelihood": "noise gaussian",
    "vdvae": "noise gaussian likelihood",
    "observe": "",
    "conditional": "vdvae observe",
    "objectives": "noise gaussian vdvae observe conditional",
    "kernels": "noise gaussian vdvae observe",
    "sampling": "noise likelihood vdvae observe conditional kernels",
    "images": "vdvae observe conditional sampling",
    "data": "observe images",
    "completers": "noise gaussian observe conditional sampling vdvae data",
    "weights": "likelihood vdvae observe conditional completers",
    "faces": "images weights",
    "metrics": "noise gaussian likelihood vdvae observe conditional objectives sampling images weights",
    "training": "likelihood vdvae observe conditional objectives kernels sampling images data completers weights "
    "metrics",
    "completion": "vdvae observe conditional sampling images completers weights faces",
    "design": "observe conditional vdvae kernels sampling images data weights training completion completers metrics",
    "ood": "noise gaussian vdvae observe conditional objectives sampling images data weights completion completers",
    "experiments": "observe conditional vdvae sampling images data weights training completers metrics design ood",
    "cli": "vdvae observe conditional sampling images data weights training completion completers metrics design ood "
    "experiments",
    "__main__": "cli",
}
FILES = [path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py"]

# Names that several modules or classes may share, because they have the same purpose in different places.
_EACH_EXPERIMENT = "each experiment has one, for the same job"
SHARED_MODULES = {
    "plan": _EACH_EXPERIMENT,
    "measure": _EACH_EXPERIMENT,
    "jobs": _EACH_EXPERIMENT,
    "run": _EACH_EXPERIMENT,
    "summary": _EACH_EXPERIMENT,
    "tables": _EACH_EXPERIMENT,
    "figures": _EACH_EXPERIMENT,
    "report": _EACH_EXPERIMENT,
    "presets": "values by name: of networks, and of training options",
    "design": "the room and its verb",
    "ood": "the room and its verb",
}
SHARED_CLASSES: dict[str, str] = {}


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_rooms(path: Path) -> set[str]:
    """The rooms of condvae that a file imports, at the top or inside functions."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "condvae":
            names = [f"condvae.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} uses a relative import"
            names = [node.module or ""]
        else:
            continue
        found |= {name.split(".")[1] for name in names if name.startswith("condvae.")}
    return found


def test_rooms_import_only_rooms_above_them() -> None:
    order = list(MAY_IMPORT)
    known: dict[str, set[str]] = {room: set() for room in order}
    for path in FILES:
        room = room_of(path)
        assert room in MAY_IMPORT, f"{room} is new: add it to MAY_IMPORT and to docs/architecture.md"
        known[room] |= imported_rooms(path) - {room, "runtime"}
    for room, others in known.items():
        allowed = set(MAY_IMPORT[room].split())
        assert others <= allowed, f"{room} imports {sorted(others - allowed)}"
        assert allowed <= others, f"{room} no longer imports {sorted(allowed - others)}: remove them from MAY_IMPORT"
        assert all(order.index(other) < order.index(room) for other in allowed)
        assert len(allowed) <= 12 or room == "cli", f"{room} imports too many rooms"


def test_the_files_of_the_model_contain_no_gpu_code() -> None:
    model = ("noise", "gaussian", "likelihood", "vdvae", "conditional", "objectives")
    for path in FILES:
        if room_of(path) in model:
            text = path.read_text()
            assert not any(word in text for word in ("torch.cuda", "triton", "fused", "stream()")), path


def test_files_are_short() -> None:
    assert [str(path) for path in FILES if len(path.read_text().splitlines()) > 350] == []


def public_classes() -> Iterator[tuple[str, str]]:
    """Yield (name, path) of every public class and type alias."""
    for path in FILES:
        for node in ast.parse(path.read_text()).body:
            name = ""
            if isinstance(node, ast.ClassDef):
                name = node.name
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                name = target.id if isinstance(target, ast.Name) else ""
                if name.isupper() or not name[:1].isupper() or len(name) < 2:  # skip constants and type variables
                    continue
            if name and not name.startswith("_"):
                yield name, str(path.relative_to(SOURCE))


def shared(names: Iterator[tuple[str, str]]) -> dict[str, list[str]]:
    places = defaultdict(list)
    for name, place in names:
        places[name].append(place)
    return {name: where for name, where in places.items() if len(where) > 1}


def test_names_of_modules_and_classes_are_unique() -> None:
    modules = ((path.stem, str(path.relative_to(SOURCE))) for path in FILES if path.stem != "__init__")
    packages = ((path.parent.name, str(path.relative_to(SOURCE))) for path in FILES if path.stem == "__init__")
    found = shared(iter([*modules, *packages]))
    assert {name: where for name, where in found.items() if name not in SHARED_MODULES} == {}
    assert set(SHARED_MODULES) <= set(found), "an exception is no longer needed: remove it"
    found = shared(public_classes())
    assert {name: where for name, where in found.items() if name not in SHARED_CLASSES} == {}
    assert set(SHARED_CLASSES) <= set(found), "an exception is no longer needed: remove it"


def test_every_package_and_room_is_on_the_architecture_page() -> None:
    page = (SOURCE.parents[1] / "docs" / "architecture.md").read_text()
    packages = {path.parent for path in FILES if path.stem == "__init__"}
    for place in [*packages, *(path for path in FILES if path.parent == SOURCE and not path.stem.startswith("_"))]:
        name = str(place.relative_to(SOURCE)) + ("/" if place.is_dir() else "")
        assert f"`{name}`" in page, f"{name} is missing on the page"
    assert len(page.splitlines()) <= 150
