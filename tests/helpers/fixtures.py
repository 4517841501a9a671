"""Where things lie: the repository, the tests' helpers and their files."""

from pathlib import Path

HELPERS = Path(__file__).parent
ROOT = HELPERS.parents[1]
FIXTURES = ROOT / "tests" / "fixtures"
