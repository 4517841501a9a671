import pytest
from helpers.factor_worlds import linear_classifier

from condvae.design import variable_of


def test_variables_are_found_by_name_or_index() -> None:
    g = linear_classifier(names=("Effusion", "Pleural_Thickening", "any finding"))
    assert variable_of(g, "effusion") == variable_of(g, 0) == 0
    assert variable_of(g, "pleural thickening") == variable_of(g, "PLEURAL-thickening") == 1
    assert variable_of(g, "Any_Finding") == 2
    with pytest.raises(ValueError, match=r"does not predict 'any'"):
        variable_of(g, "any")
    with pytest.raises(ValueError, match=r"choose one of Pleural_Thickening, Effusion, any finding"):
        variable_of(g, "pleural thickning")
    for number in (3, -1):
        with pytest.raises(ValueError, match=f"there is no variable {number}: give a name, or a number from 0 to 2"):
            variable_of(g, number)
