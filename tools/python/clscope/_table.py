"""Rows in the form that the caller wants. Refuses to compute figures: they are the command's."""

from __future__ import annotations

import glob
import importlib
import os
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Sequence

from ._command import MissingPackage

if TYPE_CHECKING:
    import duckdb
    import pandas
    import polars
    import pyarrow

Row = Dict[str, Any]

#: Tables whose files lie in ``host=H/rank=R``.
PARTITIONED = ("commands", "calls", "waits")


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

    def __repr__(self) -> str:
        return f"<clscope rows: {len(self._rows)}>"


class Table(View):
    """A table of Parquet files, which are written when they are first needed."""

    def __init__(self, name: str, folder: Callable[[], str]) -> None:
        self.name = name
        self._folder = folder

    def files(self) -> List[str]:
        """Its files. They live as long as the `Run` they are of."""
        pattern = os.path.join(glob.escape(self._folder()), self.name, "**", "*.parquet")
        return sorted(glob.glob(pattern, recursive=True))

    def duckdb(self) -> "duckdb.DuckDBPyRelation":
        """A DuckDB relation, which reads what is asked of it and no more."""
        engine = package("duckdb", "sql")
        return engine.read_parquet(self.files(), hive_partitioning=True)

    def arrow(self) -> "pyarrow.Table":
        engine = package("pyarrow", "arrow")
        dataset = importlib.import_module("pyarrow.dataset")
        # Of a name that stands for null no reader guesses the kind.
        columns = engine.schema([("host", engine.string()), ("rank", engine.int32())])
        by = dataset.partitioning(columns, flavor="hive") if self.name in PARTITIONED else None
        root = os.path.join(self._folder(), self.name)
        return dataset.dataset(root, format="parquet", partitioning=by).to_table()

    def pandas(self) -> "pandas.DataFrame":
        package("pandas", "pandas")
        if installed("pyarrow"):
            return self.arrow().to_pandas()
        return self.duckdb().df()

    def polars(self) -> "polars.DataFrame":
        engine = package("polars", "polars")
        return engine.read_parquet(self.files(), hive_partitioning=True)

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

    def __repr__(self) -> str:
        return f"<clscope table {self.name}>"
