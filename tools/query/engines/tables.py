"""The folder of `clscope export parquet` as a list of files. Shared by the scripts beside it; needs pyarrow.

Refuses folders of another schema, and tables that were not exported."""

from __future__ import annotations

import json
import pathlib
import sys
import urllib.parse
from typing import Dict, Iterator, List, NamedTuple, Optional

#: The schema that these scripts know. Columns that a newer clscope adds do not disturb them.
SCHEMA = 1
#: The questions, which `clscope sql --recipe` answers too.
RECIPES = pathlib.Path(__file__).resolve().parents[1] / "recipes"
#: Columns of numbers that parts of older versions lack: null there.
LATER = ("origin_unix_ns",)
#: What stands for null in the name of a partition.
NULL = "__HIVE_DEFAULT_PARTITION__"


class Wrong(Exception):
    """The folder cannot be read; the text says why, and what to do."""


class Part(NamedTuple):
    """A file of a table, and the partition that its path names."""

    path: str
    host: Optional[str]
    rank: Optional[int]


def questions() -> Dict[str, str]:
    """The queries by name."""
    return {file.stem: file.read_text() for file in sorted(RECIPES.glob("*.sql"))}


def check(folder: str) -> pathlib.Path:
    """The folder, if it holds tables of this schema. Raises `Wrong`."""
    path = pathlib.Path(folder)
    try:
        found = json.loads((path / "clscope-data.json").read_text())
    except OSError as error:
        raise Wrong(f"{folder} holds no tables: clscope export parquet -o {folder} writes them") from error
    except ValueError as error:
        raise Wrong(f"{folder}/clscope-data.json is damaged: export to a new folder") from error
    schema = found.get("schema") if isinstance(found, dict) else None
    if schema != SCHEMA:
        raise Wrong(f"{folder} is of schema {schema}, this script knows {SCHEMA}: use the one beside that clscope")
    return path


def parts(folder: str, table: str) -> List[Part]:
    """The files of a table, in order of their names. Raises `Wrong` where there is none."""

    def partition(file: pathlib.Path) -> Iterator[Optional[str]]:
        named = dict(part.split("=", 1) for part in file.parts if "=" in part)
        for key in ("host", "rank"):
            value = named.get(key, NULL)
            yield None if value == NULL else urllib.parse.unquote(value)

    root = check(folder) / table
    found = []
    for file in sorted(root.glob("**/*.parquet")):
        host, rank = partition(file.relative_to(root))
        found.append(Part(str(file), host, None if rank is None else int(rank)))
    if not found:
        raise Wrong(f"{folder} has no table {table}: export it without --tables, or with {table} among them")
    return found


def chosen(names: List[str]) -> List[str]:
    """The recipes that a command line names, else all. Raises `Wrong` for one that is not there."""
    known = questions()
    unknown = [name for name in names if name not in known]
    if unknown:
        raise Wrong(f"there is no recipe {unknown[0]!r}: there are {', '.join(known)}")
    return names or list(known)


def show(name: str, rows: List[dict]) -> None:
    """An answer as a line of JSON. Names are escaped as JSON has it."""
    print(json.dumps({"recipe": name, "rows": rows}), flush=True)


def main(run) -> None:
    """Runs a script; a mistake ends it with its text and exit code 1."""
    try:
        run()
    except Wrong as error:
        # Names of folders are anyone's.
        sys.exit("error: " + str(error).encode("unicode_escape").decode())
