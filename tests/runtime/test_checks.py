import pytest

from condvae.runtime.checks import check_choice, check_whole, first_few


def test_whole_numbers() -> None:
    check_whole(0, "it")
    check_whole(1, "it", least=1)
    for wrong in (-1, 2.0, "1", None, True):
        with pytest.raises(ValueError, match=r"it is .*, expected a whole number, at least 0"):
            check_whole(wrong, "it")
    with pytest.raises(ValueError, match="it is 2147483648, expected a whole number below 2147483648"):
        check_whole(2**31, "it")
    with pytest.raises(ValueError, match="it is 0, expected a whole number, at least 1"):
        check_whole(0, "it", least=1)


def test_choices() -> None:
    check_choice("a", "it", ("a", "b"))
    with pytest.raises(ValueError, match="it is 'c', expected 'a' or 'b'"):
        check_choice("c", "it", ("a", "b"))
    with pytest.raises(ValueError, match=r"channels is 1\.0, expected 1 or 3"):
        check_choice(1.0, "channels", (1, 3))
    with pytest.raises(ValueError, match="it is 7, expected 5 or 8"):
        check_choice(7, "it", (5, 8))


def test_long_lists_are_cut() -> None:
    assert first_few(list("abcde")) == "a, b, c, d, e"
    assert first_few(list("abcdefg")) == "a, b, c, d, e and 2 more"
