"""Observation processes by name, from stored settings and from command-line text."""

import json
from typing import Any

import pytest

from condvae.observe import (
    PROCESSES,
    Boxes,
    Edges,
    Freeform,
    Grey,
    Halves,
    Label,
    LowResolution,
    Mixture,
    Nothing,
    Paired,
    Patches,
    Pixels,
    Process,
    describe,
    from_dict,
    parse,
)

SOME: list[tuple[str, Process]] = [
    ("freeform", Freeform()),
    ("freeform,low=0.2,high=0.8", Freeform(low=0.2, high=0.8)),
    ("patches,most=3,side=0.25", Patches(most=3, side=0.25)),
    ("boxes,hidden=1.0", Boxes(hidden=1.0)),
    ("halves", Halves()),
    ("pixels,least=1e-05", Pixels(least=1e-5)),
    ("nothing", Nothing()),
    ("edges,sigma=1.5", Edges(sigma=1.5)),
    ("grey", Grey()),
    ("low-resolution,factor=8", LowResolution(factor=8)),
    ("label,classes=3", Label(classes=3)),
    ("paired,channels_of_pair=1", Paired(channels_of_pair=1)),
    (
        "freeform,high=0.5,weight=2.0 boxes halves",
        Mixture(parts=((Freeform(high=0.5), 2.0), (Boxes(), 1.0), (Halves(), 1.0))),
    ),
]


def test_every_process_is_among_the_examples() -> None:
    assert {process.name for _, process in SOME} == set(PROCESSES)
    assert all(isinstance(process, PROCESSES[process.name]) for _, process in SOME)


@pytest.mark.parametrize(("text", "process"), SOME, ids=[text for text, _ in SOME])
def test_text_and_plain_data_can_be_read_back(text: str, process: Process) -> None:
    assert parse(text.split()) == process
    assert describe(process) == text
    assert parse(describe(process)) == process
    assert from_dict(json.loads(json.dumps(process.to_dict()))) == process


def test_parameters_that_are_left_out_have_their_defaults() -> None:
    assert from_dict({"name": "patches"}) == Patches()
    assert parse(["patches,most=2"]) == Patches(most=2, side=0.35)
    assert parse(["freeform,low=0"]) == Freeform()


@pytest.mark.parametrize(
    ("specs", "message"),
    [
        ([], "no observation process was given"),
        (["freefrom"], "unknown observation process 'freefrom'"),
        (["freeform,lo=0.2"], "unknown key in observation process freeform: lo; expected keys are low, high, weight"),
        (["freeform,low=much"], "low is 'much' in 'freeform,low=much'"),
        (["patches,most=2.5"], "most is '2.5' .*expected a whole number"),
        (["freeform,low"], "'low' in 'freeform,low' cannot be read"),
        (["freeform,low=0.1,low=0.2"], "low is given twice"),
        (["freeform,low=0.9,high=0.2"], "expected low < high"),
        (["freeform,weight=2"], "sets a weight for the only process"),
        (["freeform", "edges"], "edges cannot be in a mixture"),
        (["freeform", "boxes,weight=0"], "the weight of boxes is 0"),
        (["mixture"], "'mixture' cannot be given by name"),
        (["freeform", "mixture"], "'mixture' cannot be given by name"),
    ],
)
def test_wrong_specs_are_explained(specs: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse(specs)


@pytest.mark.parametrize(
    ("plain", "message"),
    [
        ({"name": "freefrom"}, "unknown observation process 'freefrom'"),
        ({"low": 0.1}, "expected a mapping with the key name"),
        ("freeform", "expected a mapping with the key name"),
        ({"name": ["freeform"]}, "unknown observation process"),
        ({"name": "freeform", "lo": 0.1}, "unknown key in observation process freeform: lo"),
        ({"name": "mixture"}, "missing key in observation process mixture: parts"),
        ({"name": "mixture", "parts": [{"name": "boxes"}]}, "expected a mapping with the keys process and weight"),
        ({"name": "mixture", "parts": 3}, "parts is 3"),
        (
            {"name": "mixture", "parts": [{"process": {"name": "boxes"}, "weight": 1}]},
            "mixture is 1, expected at least 2",
        ),
    ],
)
def test_wrong_plain_data_is_explained(plain: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_dict(plain)
