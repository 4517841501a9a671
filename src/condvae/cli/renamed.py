"""Spellings of earlier versions, each with the one that took its place."""

_OPTIONS: dict[tuple[str, ...], dict[str, str]] = {
    ("evaluate",): {"--k": "-n", "--against": "--baselines"},
    ("ood", "fit"): {"--images": "--fit-images"},
    ("import",): {"--preset": "--network", "--half": "--half-precision"},
    ("export",): {"--half": "--half-precision"},
}
_POSITIONALS: dict[tuple[str, ...], tuple[int, str]] = {
    ("evaluate",): (0, "--model"),
    ("ood", "experiment"): (0, "--model"),
    ("import",): (1, "--out"),
    ("export",): (1, "--out"),
}
"""How many words may stand after a verb, and the option that takes the next one."""


def check_spelling(arguments: list[str]) -> None:
    """Raise a ValueError that names the new spelling of an old one."""
    options = [word.partition("=")[0] for word in arguments]
    for verb, names in _OPTIONS.items():
        for old, new in names.items():
            if tuple(arguments[: len(verb)]) == verb and old in options:
                raise ValueError(f"{old} of condvae {' '.join(verb)} is now called {new}: give that instead")
    for verb, (allowed, option) in _POSITIONALS.items():
        after = arguments[len(verb) :]
        words = next((i for i, word in enumerate(after) if word.startswith("-")), len(after))
        if tuple(arguments[: len(verb)]) == verb and words > allowed:
            raise ValueError(
                f"condvae {' '.join(verb)} takes {after[allowed]} as an option now: {option} {after[allowed]}"
            )
