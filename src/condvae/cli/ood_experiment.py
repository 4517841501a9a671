"""The sub-verb that measures how well strange images are told apart: ood experiment."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from condvae.cli.model_data import open_as_trained
from condvae.experiments.ood.plan import BASELINE_METHODS, SCORES, SETS
from condvae.weights.embedded import DEFAULT_MODEL

if TYPE_CHECKING:
    from condvae.data import Dataset
    from condvae.experiments.ood import OODSettings


@dataclass(frozen=True, kw_only=True)
class OODExperiment:
    """Compare scores by how well they tell test images from strange ones, in five ranges of the hidden share.

    AUROC of every model and score against every set, with intervals and differences, as JSON, CSV, Markdown and
    figures. A killed call goes on where it was; models, scores and sets can be added to a folder later; torchrun or
    --shard share the work out.
    """

    models: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="MODEL|NAME=MODEL")] = (
        DEFAULT_MODEL,
    )
    """Conditional models by name, file, run folder, or owner/name on the hub; NAME= says what the report calls it."""
    data: Annotated[str | None, tyro.conf.arg(metavar="DATA")] = None
    """What the models were trained on, and test images: a folder, a zip, a standard layout, or cifar10 once fetched."""
    validation: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Training images to hold out; as many as in the first model's training if not given."""
    split_seed: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Decides which; that of the first model's training if not given."""
    against: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=DATA")] = ()
    """Other data as sets of strange images: its test images, then others; resized to the models' size."""
    out: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path("experiment")
    """Folder for the results."""
    scores: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME")] = SCORES
    """gradient: the temperature gradient, as in the paper. parts: its two terms apart. channels: with a temperature for
    each channel of the latents. likelihood: the bound of log p(y). NAME-K: a mean over K draws of the latents. ratio-R:
    what latents up to R x R cannot explain. complexity: against what PNG needs. regret-S: what S steps of optimisation
    gain."""
    baselines: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME")] = BASELINE_METHODS
    """Complete first, then score the full image: completed-ipa by the model itself, completed-nearest (mean, random,
    harmonic) by training images; completed-ipa-NAME for another score than the gradient. Nothing after it: none."""
    sets: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME")] = SETS
    """Sets that need no other data: noise, one colour each, flipped, rotated, enlarged, moved."""
    images: Annotated[int, tyro.conf.arg(metavar="N")] = 5000
    """Test images, evenly over all, and at most so many of each set."""
    fit_images: Annotated[int, tyro.conf.arg(metavar="N")] = 5000
    """Training images that densities are fitted to."""
    regret_images: Annotated[int, tyro.conf.arg(metavar="N")] = 500
    """Of the images, so many for regret, which takes a gradient for each of its steps, five if no S is given."""
    resamples: Annotated[int, tyro.conf.arg(metavar="N")] = 300
    """Of the images, for intervals."""
    seed: Annotated[int, tyro.conf.arg(metavar="N")] = 0
    """Decides holes, latents, and what is drawn for the sets."""
    block: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Images that are measured together, in one file; by their size if not given."""
    device: str = "auto"
    """auto, cpu, cuda or cuda:N."""
    shard: Annotated[str | None, tyro.conf.arg(metavar="I/N")] = None
    """Do only the I-th of N shares; a call without it, after all of them, writes the report."""
    redraw: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Draw the figures of an earlier --out again from its numbers, and stop."""

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

        settings = self._settings()
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
                say=lambda text: print(text, flush=True),
            )

    def _settings(self) -> "OODSettings":
        from condvae.experiments.ood import OODSettings

        return OODSettings(
            scores=self.scores,
            baselines=self.baselines,
            sets=self.sets,
            images=self.images,
            fit_images=self.fit_images,
            regret_images=self.regret_images,
            seed=self.seed,
            resamples=self.resamples,
        )

    def _paths(self) -> dict[str, Path]:
        """The models' files, by what the report calls them."""
        from condvae import weights

        found: dict[str, Path] = {}
        for text in self.models:
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
        from condvae.ood.sets import open_foreign
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
