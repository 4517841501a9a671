"""Option names of earlier versions, each with its new name."""

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
"""How many values without an option may follow a verb, and the option that the next one now needs."""


def check_spelling(arguments: list[str]) -> None:
    """Raise a ValueError that gives the new form, if the arguments use an old one."""
    options = [word.partition("=")[0] for word in arguments]
    for verb, names in _OPTIONS.items():
        for old, new in names.items():
            if tuple(arguments[: len(verb)]) == verb and old in options:
                raise ValueError(f"the option {old} of condvae {' '.join(verb)} is now called {new}: use {new} instead")
    for verb, (allowed, option) in _POSITIONALS.items():
        after = arguments[len(verb) :]
        words = next((i for i, word in enumerate(after) if word.startswith("-")), len(after))
        if tuple(arguments[: len(verb)]) == verb and words > allowed:
            raise ValueError(
                f"condvae {' '.join(verb)} needs an option before {after[allowed]}: write {option} {after[allowed]}"
            )
