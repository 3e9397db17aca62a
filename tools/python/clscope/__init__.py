"""Traces of OpenCL applications as Python values.

    import clscope

    run = clscope.record(["./app", "--size", "512"])   # or clscope.open("run.clscope")
    for kernel in run.kernels():
        print(kernel["name"], kernel["launches"], kernel["total_ns"], kernel["joules"])
    run.commands().pandas()                            # one row for each device command
    run.sql("SELECT name, sum(joules) FROM energy GROUP BY name")
    run.plot_timeline().figure.savefig("timeline.png")
    for now in clscope.live(4711):                     # a process that records
        print(now.kernels().rows())

The package contains the command ``clscope`` and the recorder. What is not known is ``None``, never 0.
Times are nanoseconds and energies are joules, as the names of the columns say. The columns of the tables
are listed in ``parquet.schema.txt`` of the source, and as metadata of the files that
``clscope export parquet`` writes.

Nothing else needs to be installed for sums (`Run.kernels`, `Run.transfers`, `Run.energy`, `Run.functions`).
Tables with a row for each event are Parquet files; reading them needs one of DuckDB (``clscope[sql]``),
PyArrow (``clscope[arrow]``) or Polars (``clscope[polars]``). Plots need matplotlib (``clscope[plot]``).
"""

from importlib import metadata

from ._command import Error, MissingPackage
from ._live import Live, live
from ._run import Run, diff, open, record
from ._table import Rows, Table, View

__all__ = [
    "Error", "Live", "MissingPackage", "Rows", "Run", "Table", "View", "__version__", "diff", "live", "open", "record",
]

try:
    __version__: str = metadata.version("clscope")
    """The version of the package, which is that of the command."""
except metadata.PackageNotFoundError:
    # The module of a source tree, which nothing has installed.
    __version__ = "0+source"
