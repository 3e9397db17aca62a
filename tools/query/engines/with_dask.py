"""with_dask.py FOLDER [RECIPE...] [--scheduler ADDRESS]: answers recipes over tables with Dask, a line of JSON each.

FOLDER is one of `clscope export parquet`, under a path that every worker sees. The recipes are those of
`clscope sql`. ADDRESS is tcp://HOST:8786 of a running cluster; without one, workers are started here. A
worker holds one row group of a file at a time. Needs pip install 'dask[distributed]' pandas pyarrow."""

from __future__ import annotations

import argparse
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence

import dask
import dask.dataframe as dd
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import tables

INTEGER, DOUBLE = (pd.ArrowDtype(kind()) for kind in (pa.int64, pa.float64))


class Group(NamedTuple):
    """A row group of a part."""

    path: str
    index: int


def read(group: Group, schema: pa.Schema) -> pd.DataFrame:
    """A row group with these columns: null where the file, of an older version, has none. Integers stay
    integers where some are null."""
    file = pq.ParquetFile(group.path)
    there = [name for name in schema.names if name in file.schema_arrow.names]
    rows = file.read_row_group(group.index, columns=there)
    values = []
    for field in schema:
        if field.name in there:
            values.append(rows[field.name].cast(field.type))
        else:
            values.append(pa.nulls(rows.num_rows, field.type))
    return pa.table(values, schema).to_pandas(types_mapper=pd.ArrowDtype)


def table(folder: str, name: str, columns: Sequence[str]) -> dd.DataFrame:
    """Columns of a table, a partition for each row group of its files."""
    groups, found = [], dict.fromkeys(tables.LATER, pa.int64())
    for path in tables.parts(folder, name):
        with pq.ParquetFile(path) as file:
            groups += [Group(path, index) for index in range(file.metadata.num_row_groups)]
            found.update({field.name: field.type for field in file.schema_arrow})
    # Sums of many floats of single precision need double.
    wide = {pa.float32(): pa.float64(), pa.int32(): pa.int64()}
    schema = pa.schema([(column, wide.get(found[column], found[column])) for column in columns])
    meta = schema.empty_table().to_pandas(types_mapper=pd.ArrowDtype)
    if not groups:
        return dd.from_pandas(meta, npartitions=1)
    return dd.from_map(read, groups, schema=schema, meta=meta)


def grouped(
    frame: dd.DataFrame, by: List[str], columns: Dict[str, Any], of: Callable[[pd.DataFrame], Dict[str, Any]]
) -> pd.DataFrame:
    """A row for each group with what `of` gives of its rows, which are brought together on one worker."""
    kinds = {**{name: frame.dtypes[name] for name in by}, **columns}
    meta = pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in kinds.items()})

    def each(rows: pd.DataFrame) -> pd.DataFrame:
        out = []
        for key, group in rows.groupby(by, dropna=False):
            out.append({**dict(zip(by, key)), **of(group)})
        return pd.DataFrame(out, columns=list(kinds)).astype(kinds)

    return frame.shuffle(on=by, shuffle_method="tasks").map_partitions(each, meta=meta).compute()


def sums(frame: dd.DataFrame, by: List[str], **columns: tuple) -> pd.DataFrame:
    """A row for each group: NAME=(COLUMN, "sum"|"count"|"max"|"size"). The sum of nothing is null."""
    groups = frame.groupby(by, dropna=False)
    lazy = []
    for source, how in columns.values():
        column = groups[source]
        lazy.append({
            "sum": lambda c: c.sum(min_count=1),
            "max": lambda c: c.max(),
            "count": lambda c: c.count(),
            "size": lambda c: c.size(),
        }[how](column))
    done = dask.compute(*lazy)
    return pd.concat([part.rename(name) for name, part in zip(columns, done)], axis=1).reset_index()


def weighed(rows: Any, columns: List[str]) -> Any:
    """Columns for sums over all commands: a sampled one stands for 1 / probability of them."""
    weights = 1 / rows.probability.astype(DOUBLE).fillna(1)
    return rows.assign(**{name: rows[name].astype(DOUBLE) * weights for name in columns})


def rounded(sum_of: pd.Series) -> pd.Series:
    return sum_of.round().astype(INTEGER)


def kernels(folder: str) -> pd.DataFrame:
    rows = table(folder, "commands", ["name", "kind", "duration_ns", "energy_j", "probability"])
    rows = rows[rows.kind == "NDRangeKernel"]
    rows = weighed(rows.assign(estimated_ns=rows.duration_ns), ["estimated_ns", "energy_j"])
    found = sums(rows, ["name"], launches=("kind", "size"), timed=("duration_ns", "count"),
                 timed_ns=("duration_ns", "sum"), estimated_ns=("estimated_ns", "sum"),
                 joules=("energy_j", "sum"))
    return found.assign(estimated_ns=rounded(found.estimated_ns))


def lengths(folder: str) -> pd.DataFrame:
    rows = table(folder, "commands", ["name", "kind", "duration_ns"])
    rows = rows[(rows.kind == "NDRangeKernel") & rows.duration_ns.notnull()][["name", "duration_ns"]]

    def of(group: pd.DataFrame) -> Dict[str, Any]:
        lengths = sorted(group.duration_ns)
        # The least length that at least such a share of all does not exceed.
        at = {name: lengths[-(-percent * len(lengths) // 100) - 1] for name, percent in
              (("median_ns", 50), ("p95_ns", 95))}
        return {**at, "min_ns": lengths[0], "max_ns": lengths[-1]}

    names = ("median_ns", "p95_ns", "min_ns", "max_ns")
    return grouped(rows, ["name"], dict.fromkeys(names, INTEGER), of)


def longest(folder: str) -> pd.DataFrame:
    columns = ["name", "process", "command", "start_ns", "duration_ns", "energy_j"]
    rows = table(folder, "commands", columns)

    def first(rows: pd.DataFrame) -> pd.DataFrame:
        rows = rows[rows.duration_ns.notnull()]
        return rows.sort_values(["duration_ns", "process", "command"], ascending=[False, True, True])[:20]

    return first(rows.map_partitions(first).compute())


def gaps(folder: str) -> pd.DataFrame:
    rows = table(folder, "commands", ["process", "queue", "outcome", "start_ns", "duration_ns"])
    rows = rows[rows.outcome == "timed"]

    def of(group: pd.DataFrame) -> Dict[str, Any]:
        group = group.sort_values("start_ns")
        until = (group.start_ns + group.duration_ns).cummax().shift(1)
        gap = (group.start_ns - until).dropna()
        gap = gap[gap > 0]
        return {"idle_ns": gap.sum(), "longest_ns": gap.max() if len(gap) else None, "gaps": len(gap)}

    columns = {"idle_ns": INTEGER, "longest_ns": INTEGER, "gaps": INTEGER}
    found = grouped(rows, ["process", "queue"], columns, of)
    return found[found.gaps > 0]


def overlap(folder: str) -> pd.DataFrame:
    columns = ["host", "device", "process", "outcome", "start_ns", "duration_ns", "origin_unix_ns"]
    rows = table(folder, "commands", columns)
    rows = rows[rows.outcome == "timed"]
    meta = pd.DataFrame({"host": pd.Series(dtype=rows.dtypes["host"]), "device": pd.Series(dtype=rows.dtypes["device"]),
                         "at_once": pd.Series(dtype=INTEGER), "ns": pd.Series(dtype=INTEGER)})

    def each(rows: pd.DataFrame) -> pd.DataFrame:
        out = [meta]
        # A part whose origin is not known stands alone.
        rows = rows.assign(alone=rows.process.where(rows.origin_unix_ns.isna()))
        for (host, device, _), group in rows.groupby(["host", "device", "alone"], dropna=False):
            begin = group.start_ns + group.origin_unix_ns.fillna(0)
            begins = pd.DataFrame({"moment": begin, "step": 1})
            ends = pd.DataFrame({"moment": begin + group.duration_ns, "step": -1})
            edges = pd.concat([begins, ends]).sort_values(["moment", "step"])
            stretches = pd.DataFrame({"at_once": edges.step.cumsum(), "ns": edges.moment.diff().shift(-1)})
            stretches = stretches[(stretches.at_once > 0) & (stretches.ns > 0)]
            summed = stretches.groupby("at_once", as_index=False).ns.sum()
            out.append(summed.assign(host=host, device=device)[list(meta.columns)].astype(meta.dtypes))
        return pd.concat(out).groupby(["host", "device", "at_once"], dropna=False, as_index=False).ns.sum()

    return rows.shuffle(on=["host", "device"], shuffle_method="tasks").map_partitions(each, meta=meta).compute()


def delays(folder: str) -> pd.DataFrame:
    waits = ["queued_to_submit_ns", "submit_to_start_ns"]
    rows = table(folder, "commands", ["process", "queue", "outcome", *waits])
    rows = rows[rows.outcome == "timed"]
    return sums(rows, ["process", "queue"], commands=("outcome", "size"), queued_ns=(waits[0], "sum"),
                submitted_ns=(waits[1], "sum"), longest_ns=(waits[1], "max"))


def imbalance(folder: str) -> pd.DataFrame:
    rows = table(folder, "commands", ["host", "rank", "duration_ns", "energy_j", "probability"])
    rows = weighed(rows, ["duration_ns", "energy_j"])
    found = sums(rows, ["host", "rank"], busy_ns=("duration_ns", "sum"), joules=("energy_j", "sum"))
    of_mean = found.busy_ns / found.busy_ns.mean()
    return found.assign(busy_ns=rounded(found.busy_ns), of_mean=of_mean)


def energy(folder: str) -> pd.DataFrame:
    joules = ["energy_j", "energy_low_j", "energy_high_j"]
    rows = table(folder, "commands", ["host", "rank", "name", "probability", *joules])
    rows = weighed(rows[rows.energy_j.notnull()], joules)
    return sums(rows, ["host", "rank", "name"], joules=(joules[0], "sum"), low=(joules[1], "sum"),
                high=(joules[2], "sum"))


def transfers(folder: str) -> pd.DataFrame:
    rows = table(folder, "commands", ["kind", "bytes", "duration_ns", "probability"])
    rows = rows[(rows.bytes > 0) & (rows.duration_ns > 0)]
    rows = weighed(rows.assign(moved=rows.bytes), ["moved", "duration_ns"])

    def size(rows: pd.DataFrame) -> pd.DataFrame:
        least = [1 << (int(count).bit_length() - 1) for count in rows.bytes]
        return rows.assign(from_bytes=pd.Series(least, index=rows.index, dtype=INTEGER))

    sized = rows.map_partitions(size)
    found = sums(sized, ["kind", "from_bytes"], timed=("kind", "size"), bytes=("bytes", "sum"),
                 moved=("moved", "sum"), took=("duration_ns", "sum"))
    return found.assign(gb_per_s=found.moved / found.took).drop(columns=["moved", "took"])


def calls(folder: str) -> pd.DataFrame:
    rows = table(folder, "calls", ["function", "calls", "duration_ns", "error"])
    return sums(rows, ["function"], calls=("calls", "sum"), host_ns=("duration_ns", "sum"),
                failed=("error", "count"))


RECIPES = {function.__name__: function for function in
           (kernels, lengths, longest, gaps, overlap, delays, imbalance, energy, transfers, calls)}


def answer(folder: str, name: str) -> List[dict]:
    """The rows that a recipe gives."""
    found = RECIPES[name](folder)
    plain: Callable[[Any], Any] = lambda value: None if pd.isna(value) else getattr(value, "item", lambda: value)()
    return [{key: plain(value) for key, value in row.items()} for row in found.to_dict("records")]


def run() -> None:
    from distributed import Client, LocalCluster

    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder")
    parser.add_argument("recipes", nargs="*")
    parser.add_argument("--scheduler")
    named: Any = parser.parse_args()
    names = tables.chosen(named.recipes)
    tables.check(named.folder)
    address: Optional[str] = named.scheduler
    with Client(address) if address else Client(LocalCluster(dashboard_address=None)) as client:
        # The workers need this module, and the one that it needs.
        client.upload_file(tables.__file__)
        client.upload_file(__file__)
        for name in names:
            tables.show(name, answer(named.folder, name))


if __name__ == "__main__":
    tables.main(run)
