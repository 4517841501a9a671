"""condvae ood experiment."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from condvae.cli import shared
from condvae.cli.model_data import open_as_trained
from condvae.cli.shared import MODEL_HELP
from condvae.experiments.ood.plan import OODSettings
from condvae.weights.model_names import DEFAULT_MODEL

if TYPE_CHECKING:
    from condvae.data import Dataset


@dataclass(frozen=True, kw_only=True)
class OODExperiment(shared.Parsed, OODSettings, shared.ExperimentOptions):
    """Compare scores by how well they tell test images from strange ones, in five ranges of the hidden share.

    AUROC of every model and score against every set, with intervals and differences, as JSON, CSV, Markdown and
    figures. A killed call goes on where it was; models, scores and sets can be added to a folder later; torchrun or
    --shard share the work out.
    """

    model: Annotated[
        tuple[str, ...],
        tyro.conf.arg(
            metavar="MODEL|NAME=MODEL", help=f"{MODEL_HELP} Several are compared; NAME= says what the report calls one."
        ),
    ] = (DEFAULT_MODEL,)
    validation: shared.Validation = None
    split_seed: shared.SplitSeed = None
    against: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=DATA")] = ()
    """Other data as sets of strange images: its test images, then others; resized to the models' size."""
    out: shared.Out = Path("ood-experiment")
    """Folder for the results."""
    block: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Images that are computed together, as one unit of work; as many as suit the device if not given."""

    def run(self) -> None:
        if self.redraw is not None:
            from condvae.experiments.ood import redraw

            print(f"wrote {', '.join(map(str, redraw(self.redraw)))}")
            return
        if self.data is None:
            raise ValueError("no data was given: --data takes what the models were trained on, with test images")
        from condvae import weights
        from condvae.experiments.ood import Shard, experiment
        from condvae.experiments.ood.run import check_models
        from condvae.runtime.folders import check_apart
        from condvae.runtime.ranks import join

        settings = shared.settings_of(OODSettings, self)
        check_apart(self.data, self.out)
        with join(self.device) as world:
            shard = Shard.of_text(self.shard, ranks=world.size)
            paths = self._paths()
            models = {name: weights.load_conditional(path).to(world.device) for name, path in paths.items()}
            check_models(models)
            header = weights.describe(next(iter(paths.values())))
            foreign = self._foreign(header.config.image_size, header.config.channels)
            experiment(
                models,
                open_as_trained(self.data, header, validation=self.validation, split_seed=self.split_seed),
                self.out,
                settings=settings,
                foreign=foreign,
                data_name=Path(self.data).name,
                block=self.block,
                world=world,
                shard=shard,
                say=shared.say,
            )

    def _paths(self) -> dict[str, Path]:
        """The models' files, by what the report calls them."""
        from condvae import weights

        found: dict[str, Path] = {}
        for text in self.model:
            name, equals, model = text.partition("=")
            if not equals or Path(text).exists():
                name, model = "", text
            path = weights.locate(model)
            name = name.strip() or weights.title_of(model, path)
            if name in found:
                raise ValueError(f"two models are called {name}: give one of them another name, as in NAME={model}")
            found[name] = path
        if not found:
            raise ValueError("no models were given, expected at least one, such as cifar10")
        return found

    def _foreign(self, size: int, channels: int) -> "dict[str, Dataset]":
        from condvae.ood.strange_sets import open_foreign
        from condvae.runtime.folders import check_apart

        found: dict[str, Dataset] = {}
        for text in self.against:
            if path := text.partition("=")[2].strip():
                check_apart(path, self.out)
            one = open_foreign(text, size=size, channels=channels)
            if one.name in found:
                raise ValueError(f"two sets are called {one.name}: give each --against a name of its own")
            found[one.name] = one.data
        return found
