"""Paths of the repository, the test helpers and the test files."""

from pathlib import Path

HELPERS = Path(__file__).parent
ROOT = HELPERS.parents[1]
FIXTURES = ROOT / "tests" / "fixtures"
