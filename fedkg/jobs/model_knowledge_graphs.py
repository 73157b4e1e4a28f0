"""The knowledge graph that a model reads: from graph files, or from column names and rules.

Letters: F features of a row, V nodes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch

from fedkg.authoring import is_graph
from fedkg.errors import JobError
from fedkg.graphs import NodeTable, load_node_table
from fedkg.jobs.schema.endpoint_recognition import is_address
from fedkg.jobs.schema.job import Job
from fedkg.jobs.source_tables import sha256_of
from fedkg.models.graph_convolution import KnowledgeGraph
from fedkg.pack import Pack

NAME_SEPARATORS = re.compile(r"[_./\[\]]+")
"""Separates the parts of a column name that form a hierarchy:

``L0_S3_F12`` is a feature of station 3 on line 0.
"""

TABLE_NODE = "(table)"
"""The root node of a graph that is built from column names."""


def graph_files(job: Job) -> tuple[str, ...]:
    """The graphs that the model of a job reads: those in `model.graph`, or those among its rules.

    Each is a file, a store on disk (a folder), or the address of an endpoint.

    Raises:
        JobError: a file does not exist.
    """
    section = job.model.graph
    if section is None:
        return ()
    files = section.files or tuple(
        rule for rule in job.rules if is_address(rule) or Path(rule).is_dir() or is_graph(rule)
    )
    missing = next(
        (path for path in files if not is_address(path) and not Path(path).exists()), None
    )
    if missing is not None:
        raise JobError(
            "model.graph: the file does not exist",
            received=missing,
            help="paths are relative to the job file",
        )
    return files


@dataclass(slots=True, eq=False)
class GraphCache:
    """The graphs of a run's models; each is read and built once."""

    pack: Pack
    _read: dict[tuple[str, ...], NodeTable] = field(default_factory=dict)
    _made: dict[str, KnowledgeGraph] = field(default_factory=dict)

    def sources(self, job: Job) -> tuple[tuple[str, str], ...]:
        """Path or address and SHA-256 of every graph that the model of a job reads.

        Raises:
            JobError, CompileError: a graph cannot be read.
        """
        files = graph_files(job)
        return tuple(
            (path, sha256_of(path) if Path(path).is_file() else self._table(files).checksums[path])
            for path in files
        )

    def graph_for(self, job: Job, names: Sequence[str]) -> KnowledgeGraph | None:
        """The graph of a trial's model over features with these names.

        None if the model reads none.

        Raises:
            JobError, CompileError: a graph is missing or unreadable, or describes none of the
                columns.
        """
        if job.model.graph is None:
            return None
        files = graph_files(job)
        key = "|".join((*files, "", *names))
        if key not in self._made:
            self._made[key] = (
                _graph_from_files(self._table(files), names)
                if files
                else _graph_from_names(self.pack, names)
            )
        return self._made[key]

    def _table(self, files: tuple[str, ...]) -> NodeTable:
        if files not in self._read:
            self._read[files] = load_node_table(files)
        return self._read[files]


def _graph_from_files(table: NodeTable, names: Sequence[str]) -> KnowledgeGraph:
    nodes, edges, columns = table.nodes, table.edges, table.columns
    found = [_node_of(name, columns) for name in names]
    if not any(node >= 0 for node in found):
        raise JobError(
            "model.graph: no node of the graph is linked to a column of the data",
            expected=f"`fkg:column` with {', '.join(names[:3])}, ...",
            received=", ".join(list(columns)[:5]) or "no `fkg:column` at all",
            help="add `fkg:column` to a graph file, or remove the files: fedkg then builds a "
            "graph from column names and rules",
        )
    pairs = torch.tensor(edges, dtype=torch.int64).reshape(-1, 2).T
    return KnowledgeGraph(
        nodes=len(nodes), edges=pairs, column_node=torch.tensor(found, dtype=torch.int64)
    )


def _node_of(name: str, columns: Mapping[str, int]) -> int:
    """The node that a feature observes, -1 for none.

    A one-hot feature (``Type=L``) observes the node of its column.
    """
    return columns.get(name, columns.get(name.partition("=")[0], -1))


def _graph_from_names(pack: Pack, names: Sequence[str]) -> KnowledgeGraph:
    """A hierarchy of column name parts below the table.

    Every rule is a node next to its columns.
    """
    place: dict[str, int] = {TABLE_NODE: 0}
    edges: list[tuple[int, int]] = []

    def node(name: str) -> int:
        return place.setdefault(name, len(place))

    columns: dict[str, int] = {}
    for name in names:
        header = name.partition("=")[0]
        parts = [part for part in NAME_SEPARATORS.split(header) if part.strip()] or [header]
        above = 0
        for depth in range(1, len(parts)):
            own = node("part: " + "_".join(parts[:depth]))
            edges.append((above, own))
            above = own
        columns[header] = node("column: " + header)
        edges.append((above, columns[header]))
    for rule, read in _columns_read_by_rules(pack):
        edges += [(node("rule: " + rule), columns[header]) for header in read if header in columns]
    found = [columns[name.partition("=")[0]] for name in names]
    return KnowledgeGraph(
        nodes=len(place),
        edges=torch.tensor(edges, dtype=torch.int64).T,
        column_node=torch.tensor(found),
    )


def _columns_read_by_rules(pack: Pack) -> list[tuple[str, tuple[str, ...]]]:
    """For each rule, the headers of the columns that it reads."""
    contract, rules = pack.manifest.contract.columns, pack.manifest.rules
    read: dict[int, set[str]] = {}
    for bank in pack.banks:
        for rule, slots, keys in zip(
            bank.rule.tolist(), bank.slots.tolist(), bank.keys.tolist(), strict=True
        ):
            read.setdefault(rule, set()).update(
                contract[place].source for place in (*slots, *keys) if place >= 0
            )
    return [(rules[rule].name, tuple(sorted(headers))) for rule, headers in sorted(read.items())]
