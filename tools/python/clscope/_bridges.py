"""A run in the form that other packages for performance data expect. Refuses to compute figures."""

from __future__ import annotations

import heapq
import json
from typing import TYPE_CHECKING, Any, Dict, List

from ._command import Error
from ._table import Table, package

if TYPE_CHECKING:
    import pandas

#: Profiles of the flame graph: what Hatchet's metric is called, and what turns weights into its unit.
METRICS = {
    "time": ("time", 1e-9),
    "energy, microjoules": ("joules", 1e-6),
    "count": ("launches", 1.0),
    "bytes": ("bytes", 1.0),
}


def lanes(begins: List[int], ends: List[int]) -> List[int]:
    """For spans by begin: the row of each, so that no two of a row overlap."""
    busy: List[Any] = []
    free: List[int] = []
    out = []
    for begin, end in zip(begins, ends):
        while busy and busy[0][0] <= begin:
            heapq.heappush(free, heapq.heappop(busy)[1])
        row = heapq.heappop(free) if free else len(busy)
        heapq.heappush(busy, (end, row))
        out.append(row)
    return out


def pipit(commands: Table, calls: Table, processes: Table) -> "pandas.DataFrame":
    """Events as Pipit has them: two rows, Enter and Leave, for each host call and each timed command."""
    pd = package("pandas", "pandas")
    labels = processes.pandas().sort_values("process")
    ranks = labels["rank"]
    by_rank = bool(ranks.notna().all() and ranks.is_unique)
    numbers = dict(zip(labels["process"], ranks.astype(int) if by_rank else range(len(labels))))

    host = calls.pandas()
    several = host["extent_ns"].fillna(host["duration_ns"])
    host = pd.DataFrame({"process": host["process"], "place": "thread " + host["thread"].astype(str),
                         "name": host["function"], "begin": host["begin_ns"], "end": host["begin_ns"] + several,
                         "calls": host["calls"]})
    device = commands.pandas()
    device = device[device["outcome"] == "timed"].sort_values("start_ns")
    device = pd.DataFrame({"process": device["process"], "place": "queue " + device["queue"].astype(str),
                           "name": device["name"], "begin": device["start_ns"],
                           "end": device["start_ns"] + device["duration_ns"], "calls": 1})
    # Commands of a queue may overlap, which events in one place cannot.
    row = pd.Series(0, index=device.index)
    for _, queue in device.groupby(["process", "place"]):
        row[queue.index] = lanes(list(queue["begin"]), list(queue["end"]))
    device["place"] += row.map(lambda row: f" row {row}" if row else "")

    spans = pd.concat([host, device], ignore_index=True).astype({"begin": "int64", "end": "int64"})
    places = spans[["process", "place"]].drop_duplicates().sort_values(["process", "place"])
    places["thread"] = places.groupby("process").cumcount()
    spans = spans.merge(places, on=["process", "place"])
    spans["span"] = range(len(spans))
    # What ends at a moment ends before anything begins then; a span without length is whole in between.
    empty = spans["begin"] == spans["end"]
    enter = spans.assign(at=spans["begin"], kind="Enter", group=empty.map({True: 1, False: 2}), phase=0)
    leave = spans.assign(at=spans["end"], kind="Leave", group=empty.map({True: 1, False: 0}), phase=1)
    events = pd.concat([enter, leave]).sort_values(["at", "group", "span", "phase"], ignore_index=True)
    return pd.DataFrame({
        "Timestamp (ns)": events["at"],
        "Event Type": pd.Categorical(events["kind"], ["Enter", "Leave"]),
        "Name": pd.Categorical(events["name"]),
        "Thread": events["thread"],
        "Process": events["process"].map(numbers).astype("int64"),
        "Place": pd.Categorical(events["place"]),
        "Calls": events["calls"].astype("int64"),
    })


def hatchet(speedscope: str) -> List[Dict[str, Any]]:
    """A literal for Hatchet from the flame graph in speedscope's form: process, call site, kernel."""
    document = json.loads(speedscope)
    frames = [frame["name"] for frame in document["shared"]["frames"]]
    roots: List[Dict[str, Any]] = []
    known = []
    for profile in document["profiles"]:
        if profile["name"] not in METRICS:
            raise Error(f"the command clscope is of another version: it names a weight {profile['name']!r}")
        metric, unit = METRICS[profile["name"]]
        known.append(metric)
        for stack, weight in zip(profile["samples"], profile["weights"]):
            value = weight * unit
            level, node = roots, None
            for frame in stack:
                name = frames[frame]
                node = next((n for n in level if n["frame"]["name"] == name), None)
                if node is None:
                    node = {"frame": {"name": name, "type": "function"}, "metrics": {}, "children": []}
                    level.append(node)
                metrics = node["metrics"]
                metrics[f"{metric} (inc)"] = metrics.get(f"{metric} (inc)", 0.0) + value
                level = node["children"]
            if node is not None:
                node["metrics"][metric] = node["metrics"].get(metric, 0.0) + value

    def fill(nodes: List[Dict[str, Any]]) -> None:
        """Every node has every metric that was recorded: what nothing was attributed to has 0 of it."""
        for node in nodes:
            for metric in known:
                node["metrics"].setdefault(metric, 0.0)
                node["metrics"].setdefault(f"{metric} (inc)", 0.0)
            fill(node["children"])

    fill(roots)
    return roots
