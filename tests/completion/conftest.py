from pathlib import Path

import pytest
from helpers.pictures_to_complete import model_file


@pytest.fixture
def model(tmp_path: Path) -> list[str]:
    return ["--model", str(model_file(tmp_path))]
