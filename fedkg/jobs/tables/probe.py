"""The rows on which the server judges the sites' models: public, held by the server, labels unused.

A rule with a guard ("if heat stays in the tool then ...") says nothing about most rows, and a bound row about one machine in thirty hardly
meets a row at all: on rows as they come, most bound rows would hold for lack of a case. A *covering* probe therefore adds, for every bound
row that touches the prediction, some of the server's rows on which its guard holds, told of the machine and variant it is about. That uses
what the rules say of inputs and nothing else.
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
    """The probe: server rows as they are and, if it is to cover the rules, rows on which each of them applies."""
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
    """Bank rows grouped by the categories they ask for."""
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
    """For each bank row some table rows on which it says something, at most `wanted`, drawn for it alone."""
    fired = evaluate_bank(bank.take(rows), values).fired
    return [stream.permutation(np.flatnonzero(column))[:wanted] for column in fired.T]


def _with_keys(frame: Frame, keys: tuple[tuple[int, int], ...], contract: DataContract) -> Frame:
    """The rows with the categories that the keys ask for written in."""
    for column, code in keys:
        entry = contract.columns[column]
        frame = frame.with_texts(entry.source, [entry.vocabulary[code]] * frame.rows)
    return frame
