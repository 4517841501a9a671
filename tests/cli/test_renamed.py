import pytest
from helpers.commands import failure


@pytest.mark.parametrize(
    ("words", "new"),
    [
        ("evaluate cifar10 --data cifar10", "--model cifar10"),
        ("evaluate --model cifar10 --data cifar10 --k 50", "-n"),
        ("evaluate --k=50", "-n"),
        ("ood experiment cifar10 ipa-r=x.safetensors --data cifar10", "--model cifar10"),
        ("ood fit --data cifar10 --images 100", "--fit-images"),
        ("import x.th x.safetensors", "--out x.safetensors"),
        ("import x.th --out x.safetensors --preset cifar10", "--network"),
        ("export faces64 x.safetensors --weight-bits 16", "--out x.safetensors"),
        ("export faces64 --out x.safetensors --half", "--weight-bits 16"),
        ("export faces64 --out x.safetensors --half-precision", "--weight-bits 16"),
        ("import x.th --out x.safetensors --half", "--weight-bits 16"),
        ("import x.th --out x.safetensors --half-precision", "--weight-bits 16"),
    ],
)
def test_an_old_option_gives_one_line_with_the_new_one(
    words: str, new: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert new in failure(capsys, *words.split())
