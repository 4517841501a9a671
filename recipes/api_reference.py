"""Build the reference of the Python API from the docstrings, as HTML, and check its references.

    make docs
    python recipes/api_reference.py --out out/docs

Nothing is written if a docstring names something that does not exist, or if a link leads nowhere.
"""

import ast
import html
import importlib
import inspect
import pkgutil
import re
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import condvae
from condvae.runtime.scripts import run_script

REFERENCE = re.compile(r"`(~?(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*)(?:\([^`]*\))?`")
"""A name in backticks, with or without arguments."""
NAMESPACES = (
    "builtins",
    "pathlib",
    "torch",
    "torch.nn",
    "torch.nn.functional",
    "torch.utils.data",
    "numpy",
    "collections.abc",
)
"""Modules outside condvae whose names docstrings may use."""
INTERNAL = ("cli", "kernels")
"""Packages that are not part of the Python API: `condvae --help` documents cli, and kernels is used only by other
packages."""
FILE_NAME = re.compile(r".*\.(py|json|jsonl|txt|npy|npz|mat|zip|png|safetensors)")


@dataclass(frozen=True, kw_only=True)
class Options:
    """Build the API reference."""

    out: Path = Path("out/docs")
    """Folder for the HTML files. A folder of an earlier build is replaced."""


def main(options: Options) -> None:
    if options.out.exists() and not (options.out / "condvae.html").exists() and any(options.out.iterdir()):
        raise ValueError(f"{options.out} contains files that are not an API reference: choose another --out folder")
    modules = list(public_modules())
    broken = [problem for module in modules for problem in unresolved_names(module)]
    if broken:
        raise ValueError("docstrings name things that do not exist:\n  " + "\n  ".join(broken))
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "docs"
        try:
            render(modules, folder)
        except UserWarning as warning:
            raise ValueError(str(warning)) from warning
        if dead := dead_links(folder):
            raise ValueError("links of the reference lead nowhere:\n  " + "\n  ".join(dead))
        shutil.rmtree(options.out, ignore_errors=True)
        options.out.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(folder, options.out)
    print(f"wrote {options.out / 'index.html'} with {len(modules)} modules; all references resolve")


def public_modules() -> Iterator[ModuleType]:
    """Yield every module of the package except private and internal ones, with its lazily imported names resolved."""
    names = (found.name for found in pkgutil.walk_packages(condvae.__path__, "condvae."))
    for name in ("condvae", *names):
        if any(part.startswith("_") or part in INTERNAL for part in name.split(".")):
            continue
        module = importlib.import_module(name)
        for public in getattr(module, "__all__", ()):
            module.__dict__.setdefault(public, getattr(module, public))  # pdoc does not call `__getattr__` of modules
        yield module


def render(modules: list[ModuleType], folder: Path) -> None:
    """Write one page per module, an index and a search file; raise UserWarning if a type hint cannot be resolved."""
    import pdoc

    warnings.filterwarnings("error", module="pdoc")
    pdoc.render.configure(docformat="markdown", math=False, show_source=False, search=True)
    pages = {module.__name__: pdoc.doc.Module(module) for module in modules}
    for name, page in pages.items():
        path = folder.joinpath(*name.split(".")).with_suffix(".html")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(without_private_bases(pdoc.render.html_module(page, pages)))
    (folder / "index.html").write_text(pdoc.render.html_index(pages))
    (folder / "search.js").write_text(pdoc.render.search_index(pages))


def without_private_bases(text: str) -> str:
    """Turn links to members of private base classes, which have no entry on the page, into plain text."""
    anchors = set(re.findall(r'\bid="([^"]+)"', text))
    inherited = re.compile(r'(<(?:d[td]|span)[^>]*>)<a href="#([^"]+)">([^<]*)</a>')
    return inherited.sub(lambda link: link[0] if link[2] in anchors else f"{link[1]}{link[3]}", text)


def unresolved_names(module: ModuleType) -> Iterator[str]:
    """Yield the names in backticks, in a module's docstrings, that do not exist.

    Only dotted names and names in CamelCase are checked: a lowercase word may be a parameter or plain code.
    """
    tree = ast.parse(Path(str(module.__file__)).read_text())
    for node, owners in documented(tree):
        for name in REFERENCE.findall("\n".join(docstrings(node))):
            is_class = name[:1].isupper() and not name.isupper() and len(name) > 1
            if FILE_NAME.fullmatch(name) or not ("." in name or is_class):
                continue
            if not resolves(name.lstrip("~"), module, owners):
                yield f"{module.__name__}{''.join(f'.{owner}' for owner in owners)}: `{name}`"


def documented(node: ast.AST, owners: tuple[str, ...] = ()) -> Iterator[tuple[Any, tuple[str, ...]]]:
    """Yield every node that can have a docstring, with the names of the classes and functions that contain it."""
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        yield node, owners
    for child in ast.iter_child_nodes(node):
        name = (child.name,) if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) else ()
        yield from documented(child, owners + name)


def docstrings(node: Any) -> list[str]:
    """Return a node's docstring and those of its attributes, which are the bare strings in its body."""
    return [
        line.value.value
        for line in node.body
        if isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant) and isinstance(line.value.value, str)
    ]


def resolves(name: str, module: ModuleType, owners: tuple[str, ...]) -> bool:
    """Return whether a name in a docstring exists: as a parameter's attribute, a member, a global name or a module."""
    first, *rest = name.split(".")
    scopes: list[Mapping[str, Any]] = [vars(module)]
    current: Any = module
    for owner in owners:
        current = inspect.getattr_static(current, owner, None)
        if current is None:
            break
        if inspect.isclass(current):
            scopes.append({key: inspect.getattr_static(current, key) for key in dir(current)})
            scopes.append(dict.fromkeys(fields_of(current)))
        else:
            function = inspect.unwrap(getattr(current, "__func__", current))
            if callable(function) and first in inspect.signature(function).parameters:
                return True  # an attribute of an argument: its type decides, which mypy checks where it is used
    if any(first in scope and reachable(scope[first], rest) for scope in scopes):
        return True
    if first in sys.modules and reachable(sys.modules[first], rest):
        return True
    homes = ("condvae", *(f"condvae.{room.name}" for room in pkgutil.iter_modules(condvae.__path__)), *NAMESPACES)
    return any(reachable(importlib.import_module(home), [first, *rest]) for home in homes if home != "condvae.__main__")


def fields_of(kind: type) -> list[str]:
    """Return the names that a class and its bases annotate, such as the fields of a dataclass."""
    return [name for base in kind.__mro__ for name in getattr(base, "__annotations__", {})]


def reachable(start: Any, path: list[str]) -> bool:
    for name in path:
        if inspect.isclass(start) and name in fields_of(start):
            return True
        try:
            start = getattr(start, name)
        except AttributeError:
            try:
                start = importlib.import_module(f"{start.__name__}.{name}")
            except (ImportError, AttributeError):
                return False
    return True


def dead_links(folder: Path) -> list[str]:
    """Return the links between pages whose target file or anchor does not exist."""
    script = re.compile(r"<script.*?</script>", re.DOTALL)
    pages = {path.resolve(): script.sub("", path.read_text()) for path in folder.rglob("*.html")}
    anchors = {path: set(re.findall(r'\bid="([^"]+)"', text)) for path, text in pages.items()}
    found = []
    for path, text in pages.items():
        for link in set(re.findall(r'<a[^>]*\bhref="([^"]+)"', text)):
            target, _, anchor = html.unescape(link).partition("#")
            if ":" in target:  # another site
                continue
            page = (path.parent / target).resolve() if target else path
            if page not in pages or (anchor and anchor not in anchors[page]):
                found.append(f"{path.relative_to(folder.resolve())}: {link}")
    return sorted(found)


if __name__ == "__main__":
    run_script(main, Options, __doc__)
