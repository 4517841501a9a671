"""Long experiments that can be resumed and that write a report.

    resumable_work.py   splits work into units whose results are files, so that processes can share and resume work
    reporting.py        writes the report: its folder, tables in JSON, CSV and Markdown, and figures
    named_completers.py opens models, such as learned baselines, as completers with names of the user's choice
    evaluation/         measures completions of models, baselines and other programs with all metrics
    design/             compares policies that choose scans
    ood/                compares scores that detect strange images
    pretraining/        compares conditional training with an artifact and from scratch, against time

The experiments have the same files, in this order:

    plan.py             the settings and the names of choices; imports no torch, so that the command line starts fast
    measure.py          the context of an experiment, and what a unit of work computes
    jobs.py             the list of units, and the files of their results
    summary.py          computes the reported numbers from these files
    tables.py, figures.py, report.py
    run.py              `experiment`: runs all of it in one call

Other files define what is compared: problems.py, methods.py and external_completions.py (evaluation), tasks.py
(design), readings.py (ood), training_runs.py (pretraining).
"""

from condvae.runtime.lazy import finder

__getattr__ = finder(__name__, {})
