"""Run a training, and write the final state of every rank: python dumped_ranks.py FOLDER condvae-arguments..."""

import sys
from pathlib import Path

from safetensors.torch import save_file

from condvae import cli
from condvae.training.checkpoint import pack
from condvae.training.loop import Loop


def main() -> None:
    folder, *arguments = sys.argv[1:]
    finish = Loop._finish

    def dumped(self: Loop) -> None:
        path = Path(folder) / f"rank-{self.world.rank}.safetensors"
        path.parent.mkdir(exist_ok=True)
        save_file(pack(self.step), path)
        finish(self)

    Loop._finish = dumped  # type: ignore[method-assign]
    cli.main(arguments)


if __name__ == "__main__":
    main()
