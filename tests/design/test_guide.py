"""The Python example of docs/guides/design.md runs as printed."""

import re

import torch
from helpers.fixtures import ROOT

from condvae.design import Location

PAGE = ROOT / "docs" / "guides" / "design.md"


def test_the_example_for_another_sensor_runs() -> None:
    (example,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    names: dict[str, object] = {}
    exec(example, names)
    answer, x, known = names["answer"], names["x"], names["known"]
    assert isinstance(answer, Location) and isinstance(x, torch.Tensor) and isinstance(known, torch.Tensor)
    assert answer.index not in (4, 20)  # these lines are known
    assert answer.window.sum() == 32
    assert answer.eig.shape == (32,) and answer.gains.shape == (10, 32) and answer.completions.shape == (10, 3, 32, 32)
    assert torch.allclose(answer.gains.mean(dim=0), answer.eig)
    assert answer.eig[[4, 20]].max() == 0 < answer.eig.max()
    assert answer.posterior.shape == (2,)
