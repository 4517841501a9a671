"""A small evaluation in one call, with which other runs are compared."""

import functools
from pathlib import Path
from typing import Any

import pytest
from helpers.evaluation_runs import FACES, small_evaluation, small_subject
from helpers.resumed_runs import computed_once

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
def computed(tmp_path_factory: pytest.TempPathFactory, data: Dataset, subject: Subject) -> tuple[Path, dict[str, Any]]:
    run = functools.partial(small_evaluation, data, subject, say=silent)
    return computed_once(tmp_path_factory, "evaluation", run)
