"""All forms of a temperature become one number per latent group; everything else is an error."""

from typing import Any

import numpy as np
import pytest
import torch

from condvae.vdvae import preset, temperature

TINY = preset("tiny")  # latent groups at the resolutions 1, 4, 4, 8


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (0.5, [0.5] * 4),
        (0, [0.0] * 4),
        (np.float32(0.5), [0.5] * 4),
        ([1, 2, 3, 4], [1.0, 2.0, 3.0, 4.0]),
        ((0.0, 0.5, 1.0, 1.5), [0.0, 0.5, 1.0, 1.5]),
        (np.array([1, 2, 3, 4]), [1.0, 2.0, 3.0, 4.0]),
        ({4: 0.5}, [1.0, 0.5, 0.5, 1.0]),
        ({8: 0.1, 1: 0.9}, [0.9, 1.0, 1.0, 0.1]),
        ({}, [1.0] * 4),
        ("0.7", [0.7] * 4),
        (" 1e-1 ", [0.1] * 4),
        ("1,0.5,0.25,0", [1.0, 0.5, 0.25, 0.0]),
        ("1:1,4:0.9,8:0.8", [1.0, 0.9, 0.9, 0.8]),
        ("8:0.8, 1: 0.5", [0.5, 1.0, 1.0, 0.8]),
    ],
)
def test_all_forms_are_accepted(given: Any, expected: list[float]) -> None:
    values = temperature.per_group(given, TINY)
    assert values == pytest.approx(expected)
    assert all(type(value) is float for value in values)
    if isinstance(given, str):
        assert temperature.parse(given, TINY) == values


@pytest.mark.parametrize(
    "given",
    [
        -1,
        float("nan"),
        float("inf"),
        pytest.param(10**400, id="beyond floats"),
        None,
        "",
        ",",
        "warm",
        "1:",
        ":1",
        "1:1,0.5",
        "4:0.5,,8:1",
        "x:1",
        "-1:1",
        "1:2:3",
    ],
)
def test_other_values_are_errors(given: Any) -> None:
    with pytest.raises(ValueError, match="temperature"):
        temperature.per_group(given, TINY)


@pytest.mark.parametrize("given", ["nan", "-0.5", "1:inf", "4:-1", "inf,1,1,1"])
def test_negative_and_infinite_numbers_are_errors(given: str) -> None:
    with pytest.raises(ValueError, match="expected a number >= 0"):
        temperature.parse(given, TINY)


@pytest.mark.parametrize("given", [{2: 0.5}, "2:0.5", {"4": 0.5}, [1, 1], "1,1", "warm"])
def test_the_error_lists_the_latent_groups_of_the_model(given: Any) -> None:
    with pytest.raises(ValueError, match=r"4 latent groups \(1 at resolution 1, 2 at resolution 4, 1 at .* 8\)"):
        temperature.per_group(given, TINY)


@pytest.mark.parametrize("given", [np.array(0.5), torch.tensor(0.5)])
def test_an_array_of_one_number_is_one_number(given: Any) -> None:
    assert temperature.per_group(given, TINY) == [0.5] * 4


def test_a_resolution_that_is_given_twice_is_an_error() -> None:
    with pytest.raises(ValueError, match="contains resolution 4 twice"):
        temperature.parse("4:1,4:0.5", TINY)
