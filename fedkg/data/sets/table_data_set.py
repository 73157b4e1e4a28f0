"""Any table as a data set: a data contract defines inputs, outputs and traces.

Letters: N rows, F features.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedkg.data.frame import text_array
from fedkg.data.sets.dataset import DataSet, Task
from fedkg.data.sets.numeric_table_reader import parse_time_column
from fedkg.errors import JobError
from fedkg.evaluation.table_readings import table_values
from fedkg.pack import Column, DataContract
from fedkg.tables import Table, read_table

F64 = NDArray[np.float64]


def table_set(
    path: str | Path | Table, contract: DataContract, *, output: str = "", site: str = ""
) -> DataSet:
    """Load a CSV, Parquet or xlsx table as a data set.

    Input columns become features in the order of the contract; a category becomes one 0/1 feature
    per value (``type=L``). Unknown cells stay NaN. A yes-or-no output makes a detection task, a
    label classes, a number regression. `site`, or else the contract's trace column, names the
    clients; with both, each trace is a series of its client. The time column orders the rows.

    Args:
        path: the table, or its file.
        contract: of a pack: ``fedkg.load(PACK).manifest.contract``.
        output: the signal or label to predict; required if the contract has several.
        site: header of a column that names the client.

    Raises:
        TableError: the table cannot be read, or lacks `site`, or a column of the contract or of the
            output.
        JobError: the output is ambiguous, or a row has no class.
    """
    table = path if isinstance(path, Table) else read_table(path)
    if site and site not in table:
        raise table.missing(site, needed="`data.site_column` names")
    contract = contract.with_output(output)
    read = table_values(contract, table)
    columns, units, values = [], [], []
    for place, column in enumerate(contract.columns):
        if column.role == "output":
            continue
        codes = read.base[:, place]
        if column.type == "category":
            columns += [f"{column.source}={text}" for text in column.vocabulary]
            units += [""] * len(column.vocabulary)
            values += [(codes == code).astype(np.float64) for code in range(len(column.vocabulary))]
        else:
            columns.append(column.source)
            units.append(column.unit)
            values.append(codes)
    places = _wanted(contract, output)
    y, task, classes = _targets(contract, places, read.base, table)
    header = site or contract.trace
    own_traces = contract.trace if contract.trace not in (header, None) else ""
    time, utc = _times(table, contract.time or "")
    return DataSet(
        name=Path(table.name).name.split(".")[0],
        source=table.name,
        x=np.stack(values, axis=1) if values else np.empty((table.rows, 0)),
        y=y,
        features=tuple(columns),
        units=tuple(units),
        task=task,
        classes=classes,
        label=contract.columns[places[0]].source,
        clients=text_array(table.texts(header)) if header else None,
        traces=text_array(table.texts(own_traces)) if own_traces in table else None,
        time=time,
        step=contract.step or 1.0,
        step_unit="s" if contract.time else "",
        since_1970=bool(contract.time) and not table.is_numeric(contract.time or ""),
        utc=utc,
        notes=read.notes,
    )


def _wanted(contract: DataContract, output: str) -> list[int]:
    """Positions of the columns of the output: one, or the scores of a label."""
    groups: dict[str, list[int]] = {}
    for place, column in enumerate(contract.columns):
        if column.role == "output":
            groups.setdefault(column.label if column.type == "score" else column.name, []).append(
                place
            )
    if output in groups or (not output and len(groups) == 1):
        return groups[output] if output else next(iter(groups.values()))
    names = [*groups] or list(dict.fromkeys(one.label or one.name for one in contract.unread))
    if not names:
        raise JobError(
            "no rule reads an `output` or a `label`: the rules have no output to predict",
            help="declare it, and write a rule that reads it",
        )
    raise JobError(
        f"the rules have no output `{output}`"
        if output
        else "the rules have several outputs, and the job does not say which one to predict",
        expected=", ".join(names),
        help=f"write in the job, for example, output: {names[0]}",
    )


def _targets(
    contract: DataContract, places: list[int], base: F64, table: Table
) -> tuple[NDArray[np.int64] | F64, Task, tuple[str, ...]]:
    columns: list[Column] = [contract.columns[place] for place in places]
    table.position(columns[0].source)  # rejects a table without the column
    first = columns[0]
    if first.type != "score":
        known = base[:, places[0]]
        binary = first.type == "boolean" or (
            first.unit == "probability" and set(np.unique(known[~np.isnan(known)])) <= {0.0, 1.0}
        )
        return known, "detection" if binary else "regression", ()
    scores = base[:, places]
    wrong = np.flatnonzero(~(np.nansum(scores, axis=1) > 0))
    if wrong.size:
        row = int(wrong[0])
        raise JobError(
            f"{table.name}: a cell of column `{first.source}` is not one of the classes",
            expected=", ".join(c.category for c in columns),
            received=f'"{table.texts(first.source)[row]}" in {table.where(row)}',
            help="correct the cell, or add the class to the `label` of the rules",
        )
    return (
        scores.argmax(axis=1).astype(np.int64),
        "classes",
        tuple(column.category for column in columns),
    )


def _times(table: Table, header: str) -> tuple[F64 | None, bool]:
    """The times of all rows (None without a time column), and whether they are in UTC."""
    if not header:
        return None, False
    if table.is_numeric(header):
        return table.numbers(header), False
    return parse_time_column(table.texts(header), f"{table.name}: column `{header}`")
