"""Temperatures as people write them become one number per group, and nothing else does."""

from typing import Any

import numpy as np
import pytest
import torch

from condvae.vdvae import preset, temperature

TINY = preset("tiny")  # groups at 1, 4, 4, 8


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
def test_every_way_to_say_it(given: Any, expected: list[float]) -> None:
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
def test_nonsense_is_refused(given: Any) -> None:
    with pytest.raises(ValueError, match="temperature"):
        temperature.per_group(given, TINY)


@pytest.mark.parametrize("given", ["nan", "-0.5", "1:inf", "4:-1", "inf,1,1,1"])
def test_numbers_that_are_no_temperatures_are_refused(given: str) -> None:
    with pytest.raises(ValueError, match="expected a number from 0"):
        temperature.parse(given, TINY)


@pytest.mark.parametrize("given", [{2: 0.5}, "2:0.5", {"4": 0.5}, [1, 1], "1,1", "warm"])
def test_the_refusal_lists_the_latents_of_the_model(given: Any) -> None:
    with pytest.raises(ValueError, match="4 groups of latents, 1 at 1, 2 at 4, 1 at 8"):
        temperature.per_group(given, TINY)


@pytest.mark.parametrize("given", [np.array(0.5), torch.tensor(0.5)])
def test_an_array_of_one_number_is_one_number(given: Any) -> None:
    assert temperature.per_group(given, TINY) == [0.5] * 4


def test_a_resolution_named_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="names the latents at 4 twice"):
        temperature.parse("4:1,4:0.5", TINY)
