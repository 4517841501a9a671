"""One small evaluation in one call, which others are compared with."""

from pathlib import Path
from typing import Any

import pytest
from helpers.evaluation_runs import FACES, small_evaluation, small_subject

from condvae.data import Dataset, open_data
from condvae.experiments.evaluation import Subject
from condvae.runtime.messages import silent


@pytest.fixture(scope="session")
def data() -> Dataset:
    return open_data(FACES)


@pytest.fixture(scope="session")
def subject() -> Subject:
    return small_subject()


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("evaluation") / "whole"


@pytest.fixture(scope="session")
def whole(folder: Path, data: Dataset, subject: Subject) -> dict[str, Any]:
    result = small_evaluation(data, subject, folder, say=silent)
    assert result is not None
    return result


@pytest.fixture(autouse=True)
def quick(undrawn: None) -> None:
    """No figures where nobody asks for them."""
