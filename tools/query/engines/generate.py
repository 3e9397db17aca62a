"""generate.py FOLDER --commands NUMBER [--ranks 64] [--hosts 8]: a folder of tables as large as wanted, for trials of engines.

Each rank launches three kernels on two queues of its own, one launch of eight timed with joules. Rank 13 is slower by a
third. The tables are those of `clscope export parquet` (schemas/parquet.schema.txt), with commands alone. Needs duckdb."""

from __future__ import annotations

import argparse
import json
import pathlib
import re
from typing import Any, Dict

import duckdb
import tables

#: Where the schema is in the sources, and in a package.
SCHEMAS = [pathlib.Path(__file__).resolve().parents[1] / place for place in ("../export", "schemas")]
#: What a row holds, by the number `i` of the command in its rank; other columns are null, or zero where there is no null.
#: Two queues take turns, so that their commands overlap by half.
ROW = {
    "host": "'node' || {rank} % {hosts}",
    "rank": "{rank}",
    "process": "'job/' || {rank} || '-0'",
    "thread": "1",
    "command": "i + 1",
    "kind": "'NDRangeKernel'",
    "name": "['advance', 'exchange', 'reduce'][i % 3 + 1]",
    "function": "'clEnqueueNDRangeKernel'",
    "queue": "1 + i % 2",
    "device": "'GPU'",
    "start_ns": "CASE WHEN i % 8 = 0 THEN i * {step} END",
    "duration_ns": "CASE WHEN i % 8 = 0 THEN 9 * {step} + hash(64 * i + {rank}) % 1000 END",
    "queued_to_submit_ns": "CASE WHEN i % 8 = 0 THEN 100 + hash(64 * i + {rank} + 1) % 100 END",
    "submit_to_start_ns": "CASE WHEN i % 8 = 0 THEN 300 + hash(64 * i + {rank} + 2) % 100 END",
    "enqueue_begin_ns": "i * {step} - 500",
    "enqueue_duration_ns": "200",
    "clock_bound_ns": "CASE WHEN i % 8 = 0 THEN 200 END",
    "outcome": "CASE WHEN i % 8 = 0 THEN 'timed' ELSE 'left out by sampling' END",
    "probability": "0.125",
    "global_x": "65536",
    "local_x": "256",
    "energy_j": "CASE WHEN i % 8 = 0 THEN (9 * {step} + hash(64 * i + {rank}) % 1000) * 4e-8 END",
    "energy_low_j": "CASE WHEN i % 8 = 0 THEN (9 * {step} + hash(64 * i + {rank}) % 1000) * 3e-8 END",
    "energy_high_j": "CASE WHEN i % 8 = 0 THEN (9 * {step} + hash(64 * i + {rank}) % 1000) * 5e-8 END",
    "energy_of": "CASE WHEN i % 8 = 0 THEN 'mean of all launches' END",
    "origin_unix_ns": "1700000000000000000",
}
TYPES = {"int64": "BIGINT", "int32": "INTEGER", "float": "FLOAT", "double": "DOUBLE", "boolean": "BOOLEAN", "string": "VARCHAR"}


def columns(table: str) -> Dict[str, str]:
    """Columns of a table with their types, and whether they may be null, as the schema has them."""
    path = next(folder / "parquet.schema.txt" for folder in SCHEMAS if (folder / "parquet.schema.txt").is_file())
    lines = iter(path.read_text(encoding="utf-8").splitlines())
    for line in lines:
        if line.startswith(f"{table}/"):
            break
    found = {}
    for line in lines:
        match = re.match(r"  (\w+) \((\w+)", line)
        if not match:
            break
        found[match.group(1)] = TYPES[match.group(2)]
    return found


def run() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--commands", type=int, required=True)
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--hosts", type=int, default=8)
    named: Any = parser.parse_args()
    named.folder.mkdir(parents=True)
    marker = {"schema": tables.SCHEMA, "clscope": "generated"}
    (named.folder / "clscope-data.json").write_text(json.dumps(marker))
    wanted = columns("commands")
    database = duckdb.connect()
    for rank in range(named.ranks):
        place = named.folder / "commands"
        place.mkdir(exist_ok=True)
        words = {"rank": rank, "hosts": named.hosts, "step": 4000 if rank == 13 else 3000}
        row = ", ".join(f"CAST({ROW.get(name, 'NULL').format(**words)} AS {kind}) AS {name}" for name, kind in wanted.items())
        count = named.commands // named.ranks + (rank < named.commands % named.ranks)
        file = str(place / f"job-0@node{rank % named.hosts}@{rank}.parquet").replace("'", "''")
        database.execute(f"COPY (SELECT {row} FROM range({count}) AS made(i)) TO '{file}' (FORMAT parquet, COMPRESSION zstd)")


if __name__ == "__main__":
    tables.main(run)
