"""A script gets its options from the command line, and bad input ends it with one sentence and exit code 2."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
from dataclasses import dataclass
from condvae.runtime.scripts import run_script

@dataclass(frozen=True, kw_only=True)
class Options:
    '''Words of the options.'''

    number: int = 1

def main(options):
    if options.number < 0:
        raise {error}
    print(options.number)

run_script(main, Options{description})
"""
ERROR = "ValueError('the number is -1')"


@pytest.fixture
def script(tmp_path: Path) -> Path:
    return tmp_path / "measure.py"


def call(script: Path, *words: str, error: str = ERROR, description: str = "") -> tuple[int, str, str]:
    script.write_text(SCRIPT.format(error=error, description=description))
    done = subprocess.run([sys.executable, str(script), *words], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def test_options(script: Path) -> None:
    assert call(script, "--number", "3") == (0, "3\n", "")


@pytest.mark.parametrize("error", [ERROR, "FileNotFoundError('the number is -1')"])
def test_bad_input_is_one_line_with_the_name_of_the_script(script: Path, error: str) -> None:
    assert call(script, "--number", "-1", error=error) == (2, "", "measure: the number is -1\n")


def test_a_bug_shows_where_it_is(script: Path) -> None:
    code, _, said = call(script, "--number", "-1", error="KeyError('number')")
    assert code == 1 and "Traceback" in said and "in main" in said


@pytest.mark.parametrize(("description", "words"), [("", "Words of the options."), (", 'More words.'", "More words.")])
def test_help(script: Path, description: str, words: str) -> None:
    code, text, _ = call(script, "--help", description=description)
    assert code == 0 and words in text and "--number" in text
