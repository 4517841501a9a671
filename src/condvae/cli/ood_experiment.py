"""The sub-verb `condvae ood experiment`."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from condvae.cli import shared
from condvae.cli.help_text import described, explained
from condvae.cli.model_data import open_as_trained
from condvae.completers.baseline_names import BASELINES
from condvae.experiments.ood.plan import OODSettings
from condvae.ood.score_names import SCORE_MEANINGS, SET_MEANINGS
from condvae.runtime.messages import listed
from condvae.weights.model_names import DEFAULT_MODEL

if TYPE_CHECKING:
    from condvae.data import Dataset


@explained(
    model=f"{shared.MODEL_HELP} Give several to compare them; NAME=MODEL sets the model's name in the report.",
    scores=f"The scores to compare: {described(SCORE_MEANINGS)}. {shared.SCORE_NUMBERS_HELP}",
    baselines="Baselines to compare with, which complete each image first and then score the whole image: "
    "completed-ipa uses the model's own completions, and completed-NAME uses a baseline of `condvae evaluate`, where "
    f"NAME is {listed(BASELINES, last='or')}, or a model of --completers. The score is gradient; completed-ipa-SCORE "
    "uses another one. Give no value to skip all baselines.",
    sets=f"Sets of strange images that are made without other data: {described(SET_MEANINGS)}.",
    regret_images="How many of the test images to use for the score regret, which is slow because it computes a "
    "gradient at each of its optimisation steps.",
)
@dataclass(frozen=True, kw_only=True)
class OODExperiment(shared.Parsed, OODSettings, shared.ExperimentOptions):
    """Compare scores by how well they tell strange images from test images.

    The report has the AUROC of every model and score against every set of strange images, in bins of the hidden share,
    with confidence intervals and with differences between methods, as JSON, CSV, Markdown and figures. A stopped call
    continues when it is repeated, and later calls can add models, scores and sets to the same folder. To share the work
    between processes, use torchrun or --shard.
    """

    model: Annotated[tuple[str, ...], tyro.conf.arg(metavar="MODEL|NAME=MODEL")] = (DEFAULT_MODEL,)
    scores: Annotated[tuple[str, ...], tyro.conf.arg(metavar="SCORE")] = OODSettings.scores
    baselines: Annotated[tuple[str, ...], tyro.conf.arg(metavar="BASELINE")] = OODSettings.baselines
    sets: Annotated[tuple[str, ...], tyro.conf.arg(metavar="SET")] = OODSettings.sets
    validation: shared.Validation = None
    split_seed: shared.SplitSeed = None
    completers: Annotated[tuple[str, ...], tyro.conf.arg(metavar="MODEL|NAME=MODEL")] = ()
    """Other models that complete each image first, such as baselines from `condvae train --baseline`. Each adds the
    baseline completed-NAME, unless --baselines already has one that uses it. NAME is the name of the file or of the run
    folder if it is not given; it contains no dash."""
    against: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME=DATA")] = ()
    """Other data sets whose images serve as strange images, each with a name for the report. From each, test images are
    used first, and its other images if these are too few. All are resized to the image size of the models."""
    out: shared.Out = Path("ood-experiment")
    """The folder for the results."""
    block: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """How many images to compute together, as one unit of work. Smaller values need less memory. If not given, a number
    that suits the device."""

    def run(self) -> None:
        if self.redraw is not None:
            from condvae.experiments.ood import redraw

            shared.say(shared.figures_written(redraw(self.redraw)))
            return
        if not self.data:
            raise ValueError("no data was given: give --data with the models' training images and test images")
        from condvae import weights
        from condvae.data.layouts import name_of_data
        from condvae.experiments.named_completers import named_models
        from condvae.experiments.ood import Shard, experiment
        from condvae.experiments.ood.run import check_models
        from condvae.runtime.folders import check_apart
        from condvae.runtime.ranks import join

        settings = shared.settings_of(OODSettings, self)
        check_apart(self.data, self.out)
        with join(self.device) as world:
            shard = Shard.of_text(self.shard, ranks=world.size)
            paths = named_models(self.model)
            if not paths:
                raise ValueError(f"no model was given: expected at least one, such as {DEFAULT_MODEL}")
            completers = named_models(self.completers, what="completers")
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
                completers=completers,
                data_name=name_of_data(self.data),
                block=self.block,
                world=world,
                shard=shard,
                say=shared.say,
            )

    def _foreign(self, size: int, channels: int) -> "dict[str, Dataset]":
        """Open the data sets of --against; return each by its name in the report."""
        from condvae.ood.strange_sets import open_foreign
        from condvae.runtime.folders import check_apart

        found: dict[str, Dataset] = {}
        for text in self.against:
            if path := text.partition("=")[2].strip():
                check_apart(path, self.out)
            one = open_foreign(text, size=size, channels=channels)
            if one.name in found:
                raise ValueError(f"two sets are called {one.name}: give each --against a different name")
            found[one.name] = one.data
        return found
