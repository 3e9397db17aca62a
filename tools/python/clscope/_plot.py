"""Plots of a run with matplotlib. Refuses to compute figures: what is drawn are rows of the command's tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple

from ._command import Error
from ._table import Table, package

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Kernels with colours of their own; the others share grey.
COLOURS = 9
#: Bars of one colour in one row that are nearer to each other than this part of the time shown are one.
RESOLUTION = 1 / 4000
#: A legend to the right of the axes, where it hides nothing.
BESIDE: Dict[str, Any] = {"fontsize": "small", "loc": "upper left", "bbox_to_anchor": (1.01, 1)}


def label(text: str) -> str:
    """A name from a trace as a text that is drawn as it is: no formulas, no control characters."""
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return shown.replace("\\", "\\\\").replace("$", r"\$") if "$" in shown else shown


def axes(given: Optional["Axes"], height: float) -> "Axes":
    """The axes to draw on: new ones where none are given."""
    if given is not None:
        return given
    made: "Axes" = package("matplotlib.pyplot", "plot").subplots(figsize=(10, height))[1]
    return made


def window(start: Optional[float], end: Optional[float]) -> Tuple[float, float]:
    """Seconds as nanoseconds, open where no end is given."""
    begin = float("-inf") if start is None else start * 1e9
    until = float("inf") if end is None else end * 1e9
    if not begin < until:
        raise ValueError(f"the window from {start} to {end} s is empty")
    return begin, until


def columns(table: Table, names: str) -> List[Tuple[Any, ...]]:
    """Some columns of a table as tuples."""
    wanted = names.split()
    return [tuple(row[name] for name in wanted) for row in table.rows()]


def power(table: Table, ax: Optional["Axes"], start: Optional[float], end: Optional[float]) -> "Axes":
    """Watts of each sensor over time. A reading holds until the next."""
    begin, until = window(start, end)
    curves: Dict[str, Tuple[List[float], List[float]]] = {}
    for sensor, unit, time, value in columns(table, "sensor unit time_ns value"):
        if unit == "W" and begin <= time <= until:
            curve = curves.setdefault(sensor, ([], []))
            curve[0].append(time * 1e-9)
            curve[1].append(value)
    if not curves:
        raise Error("there is no reading of power to draw: clscope doctor says which sensors there are")
    ax = axes(ax, 3)
    handles = []
    for sensor in sorted(curves):
        order = sorted(range(len(curves[sensor][0])), key=curves[sensor][0].__getitem__)
        times, watts = ([values[i] for i in order] for values in curves[sensor])
        handles += ax.plot(times, watts, drawstyle="steps-post", linewidth=1)
    ax.set_xlabel("time (s)")
    ax.set_ylabel("power (W)")
    ax.set_ylim(bottom=0)
    ax.legend(handles, [label(sensor) for sensor in sorted(curves)], **BESIDE)
    return ax


def joined(spans: List[Tuple[float, float]], nearest: float) -> List[Tuple[float, float]]:
    """Begin and length of bars, where neighbours closer than a pixel are one."""
    out: List[Tuple[float, float]] = []
    for begin, length in sorted(spans):
        if out and begin - (out[-1][0] + out[-1][1]) < nearest:
            out[-1] = (out[-1][0], max(out[-1][1], begin + length - out[-1][0]))
        else:
            out.append((begin, length))
    return out


def timeline(table: Table, ax: Optional["Axes"], start: Optional[float], end: Optional[float]) -> "Axes":
    """Timed commands as bars: a row for each queue, a colour for each kernel or kind of transfer."""
    begin, until = window(start, end)
    lanes: Dict[Tuple[str, int], Dict[str, List[Tuple[float, float]]]] = {}
    total: Dict[str, float] = {}
    names = "process queue name start_ns duration_ns"
    for process, queue, name, first, length in columns(table, names):
        if first is None or length is None or first > until or first + length < begin:
            continue
        spans = lanes.setdefault((process, queue), {}).setdefault(name, [])
        spans.append((first * 1e-9, length * 1e-9))
        total[name] = total.get(name, 0.0) + length
    if not lanes:
        raise Error("there is no timed command to draw: clscope report says why they have no time")
    every = [span for lane in lanes.values() for spans in lane.values() for span in spans]
    left, right = min(b for b, _ in every), max(b + length for b, length in every)
    left, right = max(left, begin * 1e-9), min(right, until * 1e-9)
    ranked = sorted(total, key=lambda name: (-total[name], name))
    ax = axes(ax, 1 + 0.5 * len(lanes))
    handles: Dict[str, Any] = {}
    for y, lane in enumerate(sorted(lanes)):
        for name in sorted(lanes[lane], key=ranked.index, reverse=True):
            rank = ranked.index(name)
            colour = f"C{rank}" if rank < COLOURS else "0.6"
            bars = joined(lanes[lane][name], (right - left) * RESOLUTION)
            drawn = ax.broken_barh(bars, (y - 0.4, 0.8), facecolors=colour, linewidth=0)
            handles.setdefault(name if rank < COLOURS else "others", drawn)
    shown = [name for name in [*ranked[:COLOURS], "others"] if name in handles]
    ax.set_xlim(left, right)
    ax.set_xlabel("time (s)")
    ax.set_yticks(range(len(lanes)), [label(f"{process} queue {queue}") for process, queue in sorted(lanes)])
    ax.invert_yaxis()
    ax.legend([handles[name] for name in shown], [label(name) for name in shown], **BESIDE)
    return ax
