from condvae.runtime.messages import counted, in_words, listed, printable, reason_of, short, shown, warn_with


def test_lists_read_as_english() -> None:
    assert listed(["a"]) == "a"
    assert listed(["a", "b", "c"]) == "a, b and c"
    assert listed(iter(["a", "b"]), last="or") == "a or b"


def test_numbers_agree_with_their_nouns() -> None:
    numbers = [counted(number, "image") for number in (0, 1, 2, 1234)]
    assert numbers == ["0 images", "1 image", "2 images", "1,234 images"]


def test_times_are_in_plain_words() -> None:
    times = (0.4, 59.6, 61, 130, 3600, 11_100, 180_000)
    exact = ["0 s", "1 min", "1 min 1 s", "2 min 10 s", "1 h", "3 h 5 min", "2 days 2 h"]
    assert [in_words(seconds) for seconds in times] == exact
    # An estimate pretends no precision.
    rough = ["5 s", "1 min", "1 min", "2 min", "1 h", "3 h", "2 days 2 h"]
    assert [in_words(seconds, rough=True) for seconds in times] == rough


def test_warnings_use_the_function_for_warnings_if_there_is_one() -> None:
    class Console:
        def __call__(self, line: str) -> None:
            raise AssertionError(line)

        def warn(self, line: str) -> None:
            said.append(line)

    said: list[str] = []
    warn_with(Console())("a")
    warn_with(said.append)("b")
    assert said == ["a", "b"]


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
