"""What was recorded: opening, recording, comparing. Figures are those of the command's reports."""

from __future__ import annotations

import builtins
import json
import os
import shutil
import subprocess
import tempfile
import time
import weakref
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence, Union

from . import _bridges, _command, _plot
from ._command import Error, Path
from ._live import interval_of
from ._table import Row, Rows, Table, connection

if TYPE_CHECKING:
    import duckdb
    import pandas
    from matplotlib.axes import Axes

#: Tables of ``clscope export parquet``.
TABLES = (
    "commands calls waits kernels energy devices queues sites power counters processes meta"
).split()


class Run:
    """One or several traces, opened together. Made by `open` and `record`."""

    def __init__(self, traces: Sequence[str], options: Dict[str, object]) -> None:
        self.traces = list(traces)
        self.exit_code: Optional[int] = None
        """Of the application, where this program recorded it."""
        self._options = _command.options(options)
        self._report: Optional[Dict[str, Any]] = None
        self._folder: Optional[str] = None
        self._written: List[str] = []

    def __repr__(self) -> str:
        return f"<clscope run of {', '.join(self.traces)}>"

    @property
    def report(self) -> Dict[str, Any]:
        """The whole report, as ``clscope report --format json`` gives it (report.schema.json)."""
        if self._report is None:
            text = _command.run(["report", "--format=json", *self._options, "--", *self.traces])
            self._report = json.loads(text)
        return self._report

    @property
    def running(self) -> bool:
        """Whether a process still ran when the report was read.

        Then sums and tables are what it had done when each was first asked for; `open` it again for more."""
        return any(process["running_as_of"] for process in self.report["processes"])

    def _sums(self, section: str) -> List[Row]:
        rows = []
        for of in self.report[section]:
            estimate = of.get("estimate") or {}
            # Where all that ran were timed, their sum is the total; else the estimate, if there is one.
            times = of["time_ns"]
            exact = times["total"] if times["count"] and of["untimed"] == of["failed"] else None
            total = interval_of(estimate.get("total_ns"), "total_ns")
            if total["total_ns"] is None:
                total["total_ns"] = exact
            row: Row = {"name": of["name"], "device": of["device"], "direction": of["direction"]}
            row.update(launches=of["count"], untimed=of["untimed"], bytes=of["bytes"], **total)
            row.update({f"{key}_ns": of["time_ns"][key] for key in ("mean", "median", "p95", "min", "max")})
            rows.append(row)
        return rows

    def why(self) -> Rows:
        """What the wall time went to, the largest cause first: ``share`` adds up to 1."""
        keys = ("kind", "text", "name", "more", "share", "time_ns", "estimated")
        return Rows([{key: cause[key] for key in keys} for cause in self.report["answer"]["why"]])

    def advice(self) -> Rows:
        """What to do, with the part of the wall time that it saves at most (``gain``, or ``None``)."""
        keys = ("against", "text", "name", "gain", "command")
        return Rows([{key: of[key] for key in keys} for of in self.report["answer"]["advice"]])

    def kernels(self) -> Rows:
        """Kernels by device: launches, times in nanoseconds, joules where they are known for the kernel alone.

        ``total_ns`` is estimated where sampled timing left launches out; then ``total_ns_low`` and ``_high``
        are the ends of its 95 % interval. The times beside it are of the timed launches."""
        rows = self._sums("kernels")
        energy = [row for row in self.energy() if row["kind"] == "kernel"]
        for row in rows:
            found = [e for e in energy if (e["device"], e["name"]) == (row["device"], row["name"])]
            # Two devices of one name have a row each there, and one here.
            known = found[0] if len(found) == 1 else {}
            names = ("joules", "joules_per_launch")
            row.update({n + end: known.get(n + end) for n in names for end in ("", "_low", "_high")})
            del row["direction"]
        return Rows(rows)

    def transfers(self) -> Rows:
        """Kinds of transfer by direction: count, bytes, times."""
        return Rows(self._sums("transfers"))

    def functions(self) -> Rows:
        """API functions: calls, errors, times."""
        keys = ("total", "mean", "median", "p95", "min", "max")
        return Rows(
            [
                {"name": f["name"], "calls": f["calls"], "errors": f["errors"]}
                | {f"{key}_ns": f["time_ns"][key] for key in keys}
                for f in self.report["functions"]
            ]
        )

    def energy(self) -> Rows:
        """Joules of kernels and transfers by device, with the ends of their 95 % intervals.

        ``None`` where a class has none of its own, and ``why`` says why; `report` has the sums, floors and the
        rest, and under ``energy.absent`` the reason where there is no figure at all."""
        rows: List[Row] = []
        for device in (self.report["energy"] or {}).get("devices", []):
            for of in device["classes"]:
                row: Row = {"device": device["device"], "kind": of["kind"], "name": of["name"]}
                row["launches"] = of["launches"]
                for name in ("joules", "joules_per_launch", "watts"):
                    row.update(interval_of(of[name], name))
                row["why"] = of["why"]
                rows.append(row)
        return Rows(rows)

    def table(self, name: str) -> Table:
        """A table of ``clscope export parquet`` by its name."""
        if name not in TABLES:
            raise ValueError(f"there is no table {name!r}: there are {', '.join(TABLES)}")
        return Table(name, lambda: self._exported(name))

    def commands(self) -> Table:
        """Device commands, a row each."""
        return self.table("commands")

    def calls(self) -> Table:
        """Host calls, a row each; identical calls in a row share one."""
        return self.table("calls")

    def power(self) -> Table:
        """Readings of sensors, a row each."""
        return self.table("power")

    def _exported(self, *tables: str) -> str:
        if self._folder is None:
            self._folder = tempfile.mkdtemp(prefix="clscope-")
            # It goes with the run, or with the last relation that reads it.
            weakref.finalize(self, shutil.rmtree, self._folder, True)
        folder = os.path.join(self._folder, "data")
        missing = [table for table in tables if table not in self._written]
        if missing:
            names = "--tables=" + ",".join(missing)
            arguments = ["export", "parquet", "-o", folder, names, *self._options]
            _command.run([*arguments, "--", *self.traces])
            self._written += missing
        return folder

    def export(self, folder: Path) -> None:
        """Writes all tables to a folder, to be kept; parts of other traces that lie in it stay."""
        target = os.path.abspath(os.fspath(folder))
        _command.run(["export", "parquet", "-o", target, *self._options, "--", *self.traces])

    def sql(self, query: str) -> "duckdb.DuckDBPyRelation":
        """A query of DuckDB, in which every table has its name. Needs ``clscope[sql]``.

        The relation reads when it is asked for rows, and keeps the tables for as long as it lives, also
        when this run is gone."""
        asked = connection(lambda: self._exported())
        wanted = [name for name in TABLES if name in query]
        self._exported(*wanted)
        for name in wanted:
            asked.read_parquet(self.table(name).files()).create_view(name)
        return asked.sql(query)

    def html(self, path: Path) -> None:
        """Writes the report as one page."""
        target = os.fspath(path)
        arguments = ["report", "--format=html", "-o", target, *self._options]
        _command.run([*arguments, "--", *self.traces])

    def plot_power(
        self, ax: Optional["Axes"] = None, start: Optional[float] = None, end: Optional[float] = None
    ) -> "Axes":
        """Draws watts of each sensor over time, from ``start`` to ``end`` seconds. Needs ``clscope[plot]``.

        Raises `Error` where no power was recorded then."""
        return _plot.power(self.power(), ax, start, end)

    def plot_timeline(
        self, ax: Optional["Axes"] = None, start: Optional[float] = None, end: Optional[float] = None
    ) -> "Axes":
        """Draws timed commands as bars, from ``start`` to ``end`` seconds. Needs ``clscope[plot]``.

        A row for each queue, a colour for each kernel. Bars of one colour that are nearer to each other
        than a 4000th of the time shown are one. Raises `Error` where no command was timed then."""
        return _plot.timeline(self.commands(), ax, start, end)

    def pipit(self) -> "pandas.DataFrame":
        """Events in the columns of Pipit: ``pipit.Trace(None, run.pipit())``. Needs ``clscope[pandas]``.

        Two rows, Enter and Leave, for each host call and each timed command, by time in nanoseconds from
        the trace's origin. ``Process`` is the rank where every process has one of its own, else a number;
        ``Thread`` numbers host threads and queues, whose names are in ``Place``: commands of a queue that
        overlap are in rows of their own. ``Calls`` counts identical host calls that share two rows."""
        return _bridges.pipit(self.commands(), self.calls(), self.table("processes"))

    def hatchet(self) -> List[Dict[str, Any]]:
        """A literal of Hatchet: ``hatchet.GraphFrame.from_literal(run.hatchet())``.

        Process, places in the application (``record --call-sites``) and kernel, as in the flame graph.
        ``time`` is device time in seconds, estimated where sampled timing left launches out; beside it
        ``launches``, and ``joules`` and ``bytes`` where there are any, each also with `` (inc)``."""
        with tempfile.TemporaryDirectory(prefix="clscope-") as folder:
            target = os.path.join(folder, "stacks.json")
            arguments = ["export", "speedscope", "-o", target, *self._options]
            _command.run([*arguments, "--", *self.traces])
            with builtins.open(target, encoding="utf-8") as file:
                return _bridges.hatchet(file.read())


def _paths(traces: Union[Path, Sequence[Path]]) -> List[str]:
    if isinstance(traces, (str, os.PathLike)):
        return [os.path.abspath(os.fspath(traces))]
    return [os.path.abspath(os.fspath(trace)) for trace in traces]


def open(traces: Union[Path, Sequence[Path]], **options: object) -> Run:
    """Opens a trace directory, or several on one timeline.

    Keywords are options that ``clscope report`` and ``clscope export`` share, for example
    ``gpu_power="nvml"``. Raises `Error` where a path is no trace."""
    paths = _paths(traces)
    if not paths:
        raise Error("no trace was named")
    for path in paths:
        if not os.path.isdir(path):
            raise Error(f"{path} is no trace directory: clscope record makes one")
    return Run(paths, options)


def record(
    command: Sequence[Path], output: Optional[Path] = None, check: bool = True, **options: object
) -> Run:
    """Runs an application, records it, and opens the trace.

    ``output`` names the trace directory; without it, it is ``APP-DATE-TIME.clscope`` in the working
    directory. Keywords are options of ``clscope record``: ``device_timing="event"``, ``replay=True``. The
    application has this program's streams. Raises `Error` where nothing was recorded, and with ``check``
    where the application failed."""
    if isinstance(command, (str, bytes)) or not command:
        raise Error("name the application and its arguments as a list: ['./app', '--size', '512']")
    words = [os.fspath(word) for word in command]
    if output is None:
        name = os.path.basename(words[0])
        output = f"{name}-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
    trace = os.path.abspath(os.fspath(output))
    if not trace.endswith(".clscope"):
        trace += ".clscope"
    # `%` stands for something in names of the command.
    arguments = [_command.find(), "record", "-q", "-o", trace.replace("%", "%%")]
    done = subprocess.run([*arguments, *_command.options(options), "--", *words], check=False)
    if not os.path.isdir(trace):
        raise Error(f"{words[0]} was not recorded: clscope record ended with {done.returncode}")
    if check and done.returncode != 0:
        raise Error(f"{words[0]} ended with {done.returncode}; its trace is {trace}")
    run = Run([trace], {})
    run.exit_code = done.returncode
    return run


def diff(before: Union[Path, Run], after: Union[Path, Run], **options: object) -> Dict[str, Any]:
    """Differences between two runs, as ``clscope diff --format json`` gives them. Keywords are its options:
    ``fail_on="time:+5%"``; rows over such a limit say so."""
    sides = [run.traces[0] if isinstance(run, Run) else _paths(run)[0] for run in (before, after)]
    # 3: a limit was exceeded, which the document tells.
    text = _command.run(["diff", "--format=json", *_command.options(options), "--", *sides], (0, 3))
    found: Dict[str, Any] = json.loads(text)
    return found
