"""Long measurements that resume and report.

    resumable_work.py   work cut into units whose results are files: processes share it, and a killed one goes on
    reporting.py        the report: its folder, tables in JSON, CSV and Markdown, figures
    evaluation/         completions by models, simple fillers and other programs, by every metric
    design/             policies compared: who chooses the scans that tell most
    ood/                scores compared: who tells strange images from ordinary ones

The three experiments have the same files, in this order:

    plan.py             the settings, and what names mean; no torch, for the command line inherits it
    measure.py          everything that is measured with, and what a unit of work computes
    jobs.py             which units there are, and the files of their results
    summary.py          from these files to numbers
    tables.py, figures.py, report.py
    run.py              `experiment`: all of it in one call

Beside them stands who or what is compared: problems.py, methods.py, external_completions.py (evaluation), tasks.py
(design), readings.py (ood).
"""

from condvae.runtime.lazy import finder

__getattr__ = finder(__name__, {})
