"""Check for option names of earlier versions or of similar verbs, and tell the user the right name."""

_OPTIONS: dict[tuple[str, ...], dict[str, str]] = {
    ("evaluate",): {"--k": "-n"},
    ("ood", "fit"): {"--images": "--fit-images"},
    ("import",): {"--preset": "--network", "--half": "--weight-bits 16", "--half-precision": "--weight-bits 16"},
    ("export",): {"--half": "--weight-bits 16", "--half-precision": "--weight-bits 16"},
}
_ELSEWHERE: dict[tuple[str, ...], dict[str, str]] = {
    ("design", "scan"): {
        "--mask": "give --known PICTURE, in which white marks the known pixels",
        "--hole": "give --known PICTURE, in which white marks the known pixels",
    },
}
"""Options that a verb does not have but similar verbs do, and what to do instead."""
_POSITIONALS: dict[tuple[str, ...], tuple[int, str]] = {
    ("evaluate",): (0, "--model"),
    ("ood", "experiment"): (0, "--model"),
    ("import",): (1, "--out"),
    ("export",): (1, "--out"),
}
"""For each verb, how many values without an option name it takes, and the option name that a further value needs."""


def check_spelling(arguments: list[str]) -> None:
    """Raise a ValueError with the right spelling if the arguments use one of an earlier version or a similar verb."""
    options = [word.partition("=")[0] for word in arguments]
    for verb, names in _OPTIONS.items():
        for old, new in names.items():
            if tuple(arguments[: len(verb)]) == verb and old in options:
                raise ValueError(f"the option {old} of condvae {' '.join(verb)} is now called {new}: use {new} instead")
    for verb, advice in _ELSEWHERE.items():
        for option, instead in advice.items():
            if tuple(arguments[: len(verb)]) == verb and option in options:
                raise ValueError(f"condvae {' '.join(verb)} has no {option}: {instead}")
    for verb, (allowed, option) in _POSITIONALS.items():
        after = arguments[len(verb) :]
        words = next((i for i, word in enumerate(after) if word.startswith("-")), len(after))
        if tuple(arguments[: len(verb)]) == verb and words > allowed:
            raise ValueError(
                f"condvae {' '.join(verb)} needs an option before {after[allowed]}: write {option} {after[allowed]}"
            )
