from condvae.runtime.messages import counted, listed


def test_lists_read_as_english() -> None:
    assert listed(["a"]) == "a"
    assert listed(["a", "b", "c"]) == "a, b and c"
    assert listed(iter(["a", "b"]), last="or") == "a or b"


def test_numbers_agree_with_their_nouns() -> None:
    numbers = [counted(number, "image") for number in (0, 1, 2, 1234)]
    assert numbers == ["0 images", "1 image", "2 images", "1,234 images"]
