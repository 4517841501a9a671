from condvae.runtime.messages import counted, listed, printable, reason_of, short, shown


def test_lists_read_as_english() -> None:
    assert listed(["a"]) == "a"
    assert listed(["a", "b", "c"]) == "a, b and c"
    assert listed(iter(["a", "b"]), last="or") == "a or b"


def test_numbers_agree_with_their_nouns() -> None:
    numbers = [counted(number, "image") for number in (0, 1, 2, 1234)]
    assert numbers == ["0 images", "1 image", "2 images", "1,234 images"]


def test_foreign_text_is_printable_and_short() -> None:
    assert printable("a\x1b[31mb\nc") == "a?[31mb?c"
    assert short("x" * 80) == "x" * 80
    assert len(short("x" * 10**7)) == 80
    assert short("first" + "x" * 100 + "last").startswith("first") and short("x" * 100 + "last").endswith("last")
    values: list[object] = ["x" * 10**7, ["x" * 10**6] * 10**4, {"a\x1b": {"b": [[[[]]]]}}, 10**4000, 10**5000]
    for value in values:
        assert shown(value).isprintable() and len(shown(value)) <= 80
    assert (shown(3), shown("3"), shown(None)) == ("3", "'3'", "None")


def test_a_reason_is_one_line() -> None:
    assert reason_of(ValueError("two\nlines\x1b[2J")) == "two lines?[2J"
    assert reason_of(MemoryError()) == "MemoryError"
    assert len(reason_of(ValueError("x" * 10**6))) <= 300
