"""Choose the server rows on which the server scores the sites' models; it ignores their labels.

A conditional rule ("if heat stays in the tool then ...") does not apply to most rows, and a bound
row about one machine in thirty rarely meets a row. On unselected rows, most bound rows would be
satisfied only because they do not apply. A *covering* probe therefore adds, for every bound row
that touches the prediction, some server rows that satisfy its condition, with the machine and
variant that it is about. This uses only conditions over inputs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedkg.constraints import evaluate_bank
from fedkg.data import Frame, concatenate
from fedkg.evaluation import table_values
from fedkg.jobs.schema.job import Scoring
from fedkg.pack import Bank, DataContract, Pack


def probe_rows(pack: Pack, server: Frame, scoring: Scoring, seed: int) -> Frame:
    """The probe: server rows, and for a covering probe rows to which each rule applies."""
    stream = np.random.Generator(np.random.PCG64([seed, 4]))
    order = stream.permutation(server.rows)
    plain = server.take(np.sort(order[: scoring.probe_rows]))
    if scoring.probe == "plain":
        return plain
    parts = [plain]
    contract = pack.manifest.contract
    readings = table_values(contract, server.table(), missing="skip")
    values = readings.part(order)
    touches = np.array([rule.output for rule in pack.manifest.rules], dtype=np.bool_)
    chosen: dict[tuple[tuple[int, int], ...], set[int]] = {}
    for bank in pack.banks:
        for keys, rows in _by_keys(bank, np.flatnonzero(touches[bank.rule])):
            asked = values.copy() if keys else values
            for column, code in keys:
                asked[:, :, column] = code
            for found in _rows_where_rule_fires(bank, rows, asked, scoring.rows_per_rule, stream):
                chosen.setdefault(keys, set()).update(order[found].tolist())
    for keys, members in sorted(chosen.items()):
        parts.append(
            _with_keys(server.take(np.array(sorted(members), dtype=np.int64)), keys, contract)
        )
    return concatenate([part for part in parts if part.rows], plain.name)


def _by_keys(
    bank: Bank, rows: NDArray[np.int64]
) -> list[tuple[tuple[tuple[int, int], ...], NDArray[np.int64]]]:
    """Bank rows grouped by their required categories."""
    groups: dict[tuple[tuple[int, int], ...], list[int]] = {}
    for row in rows.tolist():
        pairs = zip(bank.keys[row].tolist(), bank.codes[row].tolist(), strict=True)
        groups.setdefault(tuple(sorted(pair for pair in pairs if pair[0] >= 0)), []).append(row)
    return [(keys, np.array(members)) for keys, members in sorted(groups.items())]


def _rows_where_rule_fires(
    bank: Bank,
    rows: NDArray[np.int64],
    values: NDArray[np.float64],
    wanted: int,
    stream: np.random.Generator,
) -> list[NDArray[np.int64]]:
    """For each bank row at most `wanted` random table rows to which it applies."""
    fired = evaluate_bank(bank.take(rows), values).fired
    return [stream.permutation(np.flatnonzero(column))[:wanted] for column in fired.T]


def _with_keys(frame: Frame, keys: tuple[tuple[int, int], ...], contract: DataContract) -> Frame:
    """The rows with the required categories filled in."""
    for column, code in keys:
        entry = contract.columns[column]
        frame = frame.with_texts(entry.source, [entry.vocabulary[code]] * frame.rows)
    return frame
