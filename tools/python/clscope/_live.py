"""A run that is still going on, as of now. Figures are those of ``clscope top``."""

from __future__ import annotations

import json
import os
from typing import Any, Dict, Iterator, Optional, Union

from . import _command
from ._command import Path
from ._table import Row, Rows


def interval_of(value: Optional[Dict[str, Any]], name: str) -> Row:
    """A value with the ends of its 95 % interval as three columns; None where there is none."""
    value = value or {}
    ends = {"": "value", "_low": "low", "_high": "high"}
    return {name + end: value.get(key) for end, key in ends.items()}


class Live:
    """Readings of a running process or a trace that is written. Made by `live`.

    Iterating reads again and again, each time after the interval, until all processes ended."""

    def __init__(self, of: str, interval: float, options: Dict[str, object]) -> None:
        self.of = of
        """The trace, or the process's id."""
        self._arguments = ["top", "--once", "--format=json", f"--interval={interval}"]
        # No `--`: behind it stands an application.
        self._arguments += [*_command.options(options), of]
        self._state: Optional[Dict[str, Any]] = None

    def __repr__(self) -> str:
        return f"<clscope live view of {self.of}>"

    def read(self) -> "Live":
        """Reads the trace anew: takes one interval where a process still runs, so that there are rates."""
        self._state = json.loads(_command.run(self._arguments))
        return self

    @property
    def state(self) -> Dict[str, Any]:
        """The whole document of the last reading (top.schema.json); of the first one if there was none."""
        if self._state is None:
            self.read()
        assert self._state is not None
        return self._state

    @property
    def running(self) -> bool:
        """Whether a process had not ended at the last reading."""
        return any(process["state"] != "ended" for process in self.state["processes"])

    def __iter__(self) -> Iterator["Live"]:
        while True:
            yield self.read()
            if not self.running:
                return

    def kernels(self) -> Rows:
        """Kernels by device so far: launches, times, launches a second, joules where they are known alone.

        ``total_ns`` counts launches that sampled timing left out, with the ends of its 95 % interval."""
        intervals = ("total_ns", "joules", "joules_per_launch", "watts")
        return Rows(
            [
                {key: value for key, value in kernel.items() if key not in intervals}
                | {k: v for name in intervals for k, v in interval_of(kernel[name], name).items()}
                for kernel in self.state["kernels"]
            ]
        )

    def devices(self) -> Rows:
        """Devices: the share of the last interval in which each ran commands."""
        return Rows(self.state["devices"])

    def power(self) -> Rows:
        """Sensors: watts since the last update, joules since the first reading."""
        return Rows(self.state["meters"])


def live(of: Union[int, Path], interval: float = 1.0, **options: object) -> Live:
    """A process by its id, or a trace that is being written, as of now.

    ``for now in clscope.live(pid): print(now.kernels())`` reads every ``interval`` seconds until the end.
    Nothing is asked of the application. Keywords are options of ``clscope top``. Raises `Error` at the
    first reading where nothing of that name records."""
    return Live(str(of) if isinstance(of, int) else os.path.abspath(os.fspath(of)), interval, options)
