"""The folder of `clscope export parquet` as a list of files. Shared by the scripts beside it; needs pyarrow.

Refuses folders of another schema, and tables that were not exported."""

from __future__ import annotations

import json
import pathlib
import sys
from typing import Dict, List

#: The schema that these scripts know. Columns that a newer clscope adds do not disturb them.
SCHEMA = 2
#: The questions, which `clscope sql --recipe` answers too.
RECIPES = pathlib.Path(__file__).resolve().parents[1] / "recipes"
#: Columns of numbers that parts of older versions lack: null there.
LATER = ("origin_unix_ns",)


class Wrong(Exception):
    """The folder cannot be read; the text says why, and what to do."""


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


def parts(folder: str, table: str) -> List[str]:
    """The files of a table, in order of their names. Raises `Wrong` where there is none."""
    found = sorted(str(file) for file in (check(folder) / table).glob("*.parquet"))
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
