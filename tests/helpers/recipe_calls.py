"""Run recipes and benchmarks as scripts, but in this process, because starting a process would take longer."""

import contextlib
import io
import runpy
import sys
from typing import NamedTuple
from unittest import mock

from helpers.fixtures import ROOT

RECIPES = ROOT / "recipes"


class Call(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def run(script: str, *arguments: object) -> Call:
    """Run `python recipes/SCRIPT ARGUMENTS`. A script in another folder is given with its folder."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    with (
        mock.patch.object(sys, "argv", [script, *map(str, arguments)]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            runpy.run_path(str(ROOT / script if "/" in script else RECIPES / script), run_name="__main__")
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 1
    return Call(code, out.getvalue(), err.getvalue())
