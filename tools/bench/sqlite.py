#!/usr/bin/env python3
"""sqlite.py DATA [RUNS]: kernels by time over the commands of a folder of `clscope export parquet`, asked by DuckDB
on one thread, and over the same rows, whole, in a table of SQLite, which other profilers export. Prints processor
seconds of both, medians of RUNS (5) runs, the sizes, and whether the answers are the same. Needs the module duckdb
(`pip install duckdb`); keeps the SQLite file in TMPDIR while it runs."""

import os
import sqlite3
import statistics
import sys
import tempfile
import time

import duckdb

QUERY = """SELECT name, count(*) AS launches, count(duration_ns) AS timed, CAST(sum(duration_ns) AS BIGINT) AS timed_ns
FROM commands WHERE kind = 'NDRangeKernel' GROUP BY name ORDER BY timed_ns DESC, name"""
ROWS = 10_000


def seconds(ask, runs):
    """Median of the processor time of an answer, and the answer."""
    used = []
    for _ in range(runs):
        before = time.process_time()
        rows = ask()
        used.append(time.process_time() - before)
    return statistics.median(used), rows


def main(folder, runs=5):
    files = os.path.join(folder, "commands", "**", "*.parquet")
    engine = duckdb.connect()
    engine.execute("SET threads = 1")
    engine.execute(f"CREATE VIEW commands AS SELECT * FROM read_parquet('{files}')")
    with tempfile.TemporaryDirectory() as place:
        path = os.path.join(place, "commands.sqlite")
        database = sqlite3.connect(path)
        database.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF")
        found = engine.execute("SELECT * FROM commands")
        names = [column[0] for column in found.description]
        database.execute("CREATE TABLE commands (" + ", ".join(names) + ")")
        insert = f"INSERT INTO commands VALUES ({', '.join('?' * len(names))})"
        count = 0
        while rows := found.fetchmany(ROWS):
            database.executemany(insert, rows)
            count += len(rows)
        database.commit()
        columns, columns_answer = seconds(lambda: engine.execute(QUERY).fetchall(), runs)
        rows_, rows_answer = seconds(lambda: database.execute(QUERY).fetchall(), runs)
        parts = sum(
            os.path.getsize(os.path.join(at, file))
            for at, _, inside in os.walk(os.path.join(folder, "commands"))
            for file in inside
        )
        print(f"{count:,} commands, {len(columns_answer)} kernels")
        print(f"DuckDB {duckdb.__version__}, one thread: {columns:.3f} s, {parts / count:.1f} bytes a row")
        size = os.path.getsize(path)
        print(f"SQLite {sqlite3.sqlite_version}: {rows_:.3f} s, {size / count:.1f} bytes a row")
        print(f"DuckDB takes 1/{rows_ / columns:.1f} of the time")
    if columns_answer != rows_answer:
        sys.exit(f"the answers differ: {columns_answer} and {rows_answer}")
    print("the answers are the same")


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    main(sys.argv[1], *map(int, sys.argv[2:]))
