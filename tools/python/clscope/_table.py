"""Rows in the form that the caller wants. Refuses to compute figures: they are the command's."""

from __future__ import annotations

import glob
import html
import importlib
import os
import shutil
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Sequence

from ._command import MissingPackage

if TYPE_CHECKING:
    import duckdb
    import pandas
    import polars
    import pyarrow

Row = Dict[str, Any]

#: Rows that are shown of something in a terminal and in a notebook.
SHOWN, SHOWN_HTML = 10, 50
#: Characters of one cell in a terminal.
CELL = 40

#: Columns that a terminal, which has no room for all, shows first: what most people look for.
FIRST = (
    "name", "kind", "launches", "count", "total_ns", "start_ns", "duration_ns", "mean_ns", "bytes",
    "joules", "joules_per_launch", "watts",
)


def package(name: str, extra: str) -> Any:
    """A package that is optional. Raises `MissingPackage`, which tells how to install it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingPackage(
            f"this needs the package {name.split('.')[0]}: pip install 'clscope[{extra}]'", name=name
        ) from error


def installed(name: str) -> bool:
    """Whether a package can be imported."""
    try:
        importlib.import_module(name)
    except ImportError:
        return False
    return True


#: What relations may still read where a connection cannot keep it.
KEPT: List[Callable[[], object]] = []


def connection(kept: Callable[[], object]) -> "duckdb.DuckDBPyConnection":
    """A connection of DuckDB that keeps what ``kept`` refers to for as long as it lives itself, and with it
    every relation that was made from it: files of a run must not go while somebody may read them."""
    made: "duckdb.DuckDBPyConnection" = package("duckdb", "sql").connect()
    if installed("numpy"):
        # What a function refers to is all that a connection keeps.
        made.create_function("clscope_keeps", lambda: str(kept()), [], "VARCHAR")
    else:
        # DuckDB has no functions then: the files stay until the program ends.
        KEPT.append(kept)
    return made


def shown(value: Any) -> str:
    """A value for people: figures with six digits, ``-`` for what is not known, no control characters."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.6g}"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(value))


def text_table(rows: Sequence[Row], more: int, width: int) -> str:
    """Rows as aligned text of so many characters, `FIRST` in front: columns that do not fit are named below."""
    columns = sorted(rows[0], key=lambda name: FIRST.index(name) if name in FIRST else len(FIRST))
    cells = {name: [shown(row.get(name)) for row in rows] for name in columns}
    cut = {n: [c if len(c) <= CELL else c[: CELL - 3] + "..." for c in of] for n, of in cells.items()}
    right = {n: not any(isinstance(row.get(n), str) for row in rows) for n in columns}
    fitting: List[List[str]] = []
    left = width
    for name in columns:
        size = max(len(cell) for cell in [name, *cut[name]])
        left -= size + (2 if fitting else 0)
        if left < 0 and fitting:
            break
        of = [name, *cut[name]]
        fitting.append([cell.rjust(size) if right[name] else cell.ljust(size) for cell in of])
    lines = ["  ".join(line).rstrip() for line in zip(*fitting)]
    if more:
        lines.append(f"and {more} more rows")
    if len(fitting) < len(columns):
        lines.append("and columns " + ", ".join(columns[len(fitting) :]))
    return "\n".join(lines)


class View:
    """Rows with names. It is iterable, has a length, and turns into what other packages work with."""

    def rows(self) -> List[Row]:
        """A list of dictionaries."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows())

    def __len__(self) -> int:
        return len(self.rows())

    def arrow(self) -> "pyarrow.Table":
        """A PyArrow table."""
        raise NotImplementedError

    def pandas(self) -> "pandas.DataFrame":
        """A pandas data frame."""
        raise NotImplementedError

    def polars(self) -> "polars.DataFrame":
        """A Polars data frame."""
        raise NotImplementedError


class Rows(View):
    """Rows that are in memory: sums of the report."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = list(rows)

    def rows(self) -> List[Row]:
        return [dict(row) for row in self._rows]

    def arrow(self) -> "pyarrow.Table":
        return package("pyarrow", "arrow").Table.from_pylist(self._rows)

    def pandas(self) -> "pandas.DataFrame":
        return package("pandas", "pandas").DataFrame(self._rows)

    def polars(self) -> "polars.DataFrame":
        # Where the first rows have no value, the kind of a column shows later.
        return package("polars", "polars").DataFrame(self._rows, infer_schema_length=None)

    def __getitem__(self, at: int) -> Row:
        """One row, by its place."""
        return dict(self._rows[at])

    def __repr__(self) -> str:
        """The first rows, as wide as the terminal."""
        if not self._rows:
            return "<clscope rows: none>"
        width = shutil.get_terminal_size((100, 24)).columns
        return text_table(self._rows[:SHOWN], max(len(self._rows) - SHOWN, 0), width)

    def _repr_html_(self) -> str:
        """The first rows for a notebook."""
        if not self._rows:
            return "<p>no rows</p>"

        def line(tag: str, of: Sequence[str]) -> str:
            return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in of) + "</tr>"

        names = list(self._rows[0])
        body = [line("td", [shown(row.get(n)) for n in names]) for row in self._rows[:SHOWN_HTML]]
        more = len(self._rows) - SHOWN_HTML
        note = f"<p>and {more} more rows</p>" if more > 0 else ""
        return f"<table><thead>{line('th', names)}</thead><tbody>{''.join(body)}</tbody></table>{note}"


class Table(View):
    """A table of Parquet files, which are written when they are first needed."""

    def __init__(self, name: str, folder: Callable[[], str]) -> None:
        self.name = name
        self._folder = folder

    def files(self) -> List[str]:
        """Its files. They live as long as the `Run` they are of."""
        pattern = os.path.join(glob.escape(self._folder()), self.name, "*.parquet")
        return sorted(glob.glob(pattern))

    def duckdb(self) -> "duckdb.DuckDBPyRelation":
        """A DuckDB relation, which reads what is asked of it and no more.

        It, and what is made from it, keeps the files for as long as it lives."""
        return connection(self._folder).read_parquet(self.files())

    def arrow(self) -> "pyarrow.Table":
        package("pyarrow", "arrow")
        dataset = importlib.import_module("pyarrow.dataset")
        return dataset.dataset(self.files(), format="parquet").to_table()

    def pandas(self) -> "pandas.DataFrame":
        package("pandas", "pandas")
        if installed("pyarrow"):
            return self.arrow().to_pandas()
        return self.duckdb().df()

    def polars(self) -> "polars.DataFrame":
        engine = package("polars", "polars")
        return engine.read_parquet(self.files())

    def rows(self) -> List[Row]:
        if installed("pyarrow"):
            rows: List[Row] = self.arrow().to_pylist()
            return rows
        relation = self.duckdb()
        columns = list(relation.columns)
        return [dict(zip(columns, row)) for row in relation.fetchall()]

    def __len__(self) -> int:
        if installed("pyarrow"):
            return int(self.arrow().num_rows)
        return int(self.duckdb().count("*").fetchall()[0][0])

    def head(self, n: int = SHOWN) -> Rows:
        """Its first rows; no more are read."""
        if installed("duckdb"):
            relation = self.duckdb().limit(n)
            columns = list(relation.columns)
            return Rows([dict(zip(columns, row)) for row in relation.fetchall()])
        return Rows(self.rows()[:n])

    def __repr__(self) -> str:
        """Its name: showing rows would write and read the table."""
        return f"<clscope table {self.name}: .head(), .pandas(), .polars(), .arrow() or .duckdb() read it>"
