"""Which device a text such as "auto" means."""

import torch


def resolve_device(text: str = "auto") -> torch.device:
    """The device of auto (a GPU if there is one), cpu, cuda or cuda:N; a ValueError for one that cannot be used."""
    if text == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(text)
    except RuntimeError:
        device = torch.device("meta")
    if device.type not in ("cpu", "cuda"):
        raise ValueError(f"device {text!r} cannot be used, expected auto, cpu, cuda or cuda:N")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device {text} was asked for, but torch finds no GPU here: use cpu")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ValueError(f"device {text} was asked for, but there are {torch.cuda.device_count()} GPUs: give a lower N")
    return device
