"""The tree keeps its shape: who may know whom, and how small things stay."""

import ast
from pathlib import Path

import condvae

SOURCE = Path(condvae.__file__).parent

# Each part and the parts it may import; the list is ordered from the bottom up.
MAY_IMPORT: dict[str, set[str]] = {
    "lazy": set(),
    "checks": set(),
    "pixels": set(),
    "graphs": set(),
    "kernels": set(),
    "noise": {"kernels"},
    "gaussian": {"noise"},
    "likelihood": {"checks", "gaussian", "noise", "pixels"},
    "vdvae": {"checks", "gaussian", "kernels", "likelihood", "noise", "pixels"},
    "temperature": {"vdvae"},
    "batch": set(),
    "registry": set(),
    "observe": {"batch", "checks", "kernels", "pixels"},
    "data": {"batch", "checks", "pixels", "registry"},
    "partial": {"checks", "observe", "vdvae"},
    "objectives": {"checks", "gaussian", "noise", "observe", "partial", "vdvae"},
    "sample": {"checks", "noise", "observe", "partial", "vdvae"},
    "sampler": {"checks", "graphs", "kernels", "noise", "observe", "partial", "pixels", "sample", "vdvae"},
    "weights": {"checks", "lazy", "likelihood", "observe", "partial", "vdvae"},
    "networks": {"registry", "weights"},
    "pictures": set(),
    "album": set(),
    "workers": set(),
    "drawing": {"checks", "pixels", "sample", "temperature", "vdvae", "workers"},
    "sheets": {"batch", "observe", "partial", "pictures", "pixels", "sample", "vdvae"},
    "completion": {
        *("album", "batch", "checks", "data", "drawing", "observe", "partial", "pictures", "pixels", "registry"),
        *("sample", "sampler", "sheets", "temperature", "vdvae", "weights", "workers"),
    },
    "train": {
        *("batch", "checks", "completion", "graphs", "kernels", "lazy", "data", "likelihood", "objectives", "observe"),
        *("partial", "sheets", "vdvae", "weights"),
    },
    "metrics": {
        *("checks", "data", "lazy", "likelihood", "networks", "noise", "objectives", "observe", "partial", "pixels"),
        *("registry", "sample", "vdvae", "weights"),
    },
    "baselines": {"checks", "data", "observe", "pixels", "sample"},
    "ranking": {"checks"},
    "workshare": {"data", "registry", "train", "weights"},
    "reporting": {"registry", "workshare"},
    "completers": {
        *("baselines", "observe", "partial", "pixels", "registry", "sample", "sampler", "temperature", "train"),
        "workshare",
    },
    "design": {
        *("album", "baselines", "batch", "checks", "completers", "completion", "data", "kernels", "lazy", "networks"),
        *("observe", "partial", "pictures", "pixels", "ranking", "registry", "reporting", "sample", "sampler"),
        *("temperature", "train", "weights", "workshare"),
    },
    "ood": {
        *(
            "baselines",
            "batch",
            "checks",
            "completers",
            "completion",
            "data",
            "gaussian",
            "lazy",
            "likelihood",
            "noise",
        ),
        *("objectives", "observe", "partial", "pictures", "pixels", "ranking", "registry", "reporting", "sample"),
        *("sampler", "temperature", "train", "vdvae", "weights", "workers", "workshare"),
    },
    "evaluation": {
        *("baselines", "checks", "completers", "data", "lazy", "metrics", "observe", "partial", "pictures", "pixels"),
        *("registry", "reporting", "sample", "sampler", "temperature", "train", "weights", "workshare"),
    },
    "cli": {
        *(
            "album",
            "completion",
            "drawing",
            "observe",
            "partial",
            "pictures",
            "pixels",
            "train",
            "vdvae",
            "weights",
            "workshare",
        ),
        *("data", "design", "evaluation", "metrics", "networks", "ood", "registry"),
    },
    "__main__": {"cli"},
}


def part_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_parts(path: Path) -> set[str]:
    """The parts of condvae that a file imports, anywhere in it."""
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


def test_dependencies_point_downwards() -> None:
    for path in SOURCE.rglob("*.py"):
        part = part_of(path)
        if part == "__init__":
            continue
        assert part in MAY_IMPORT, f"{part} is new: say in MAY_IMPORT and docs/architecture.md what it may know"
        surplus = imported_parts(path) - {part} - MAY_IMPORT[part]
        assert not surplus, f"{path.name} imports {sorted(surplus)}"
    order = list(MAY_IMPORT)
    for part, allowed in MAY_IMPORT.items():
        assert all(order.index(other) < order.index(part) for other in allowed)


def test_public_names_are_found_and_listed() -> None:
    for name in condvae.__all__:
        assert getattr(condvae, name).__module__.startswith("condvae.")
        assert name in dir(condvae)
    assert not hasattr(condvae, "nonsense")


def test_every_file_is_in_the_architecture_page() -> None:
    page = (SOURCE.parents[1] / "docs" / "architecture.md").read_text()
    for path in SOURCE.rglob("*.py"):
        if not path.name.startswith("__"):
            assert f"`{path.relative_to(SOURCE)}`" in page


def test_files_can_be_read_uninterrupted() -> None:
    assert all(len(path.read_text().splitlines()) <= 350 for path in SOURCE.rglob("*.py"))
