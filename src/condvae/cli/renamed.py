"""Check for option names of earlier versions, and tell the user the new name."""

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
"""For each verb, how many values without an option name it takes, and the option name that a further value needs."""


def check_spelling(arguments: list[str]) -> None:
    """Raise a ValueError with the new spelling if the arguments use a spelling of an earlier version."""
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
