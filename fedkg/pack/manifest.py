"""The part of a pack that is text: rules, contract, provenance."""

from __future__ import annotations

from typing import Literal

from fedkg.pack.causes import CauseRecord
from fedkg.pack.contract import DataContract, Node
from fedkg.pack.feasible_sets import KeptSet
from fedkg.pack.formulas import Formula
from fedkg.pack.knowledge_models import KnowledgeModel
from fedkg.pack.parameter_mining_tasks import Inference

Kind = Literal["temporal", "causal", "capacity", "physical", "other"]

FORMAT = 1
"""Version of the pack format this code writes and the newest it reads."""

SECTIONS = {"constraints": 3, "sets": 1, "causes": 1, "table_rows": 1}
"""Sections this code understands, with the newest version of each."""


class Section(Node):
    """A separately versioned part of the pack.

    A reader must refuse a required one that it does not know.
    """

    version: int
    required: bool = True


class RuleRecord(Node):
    """What is known of one rule besides its rows.

    Attributes:
        name: name of the rule, as the author wrote it.
        title: the sentence that the author gave it; "" for none.
        kind: its SCFA family.
        output: whether it touches an output: then it constrains the model and counts in scores;
            else it is a check of the data.
        severity: severity of a violation, as a shape gives it.
        text: the statement as written.
        file: name of the statement's file without folders.
        line: line of the statement in `file`.
    """

    name: str
    title: str = ""
    kind: Kind = "other"
    weight: float = 1.0
    hard: bool = False
    output: bool = False
    scope: Literal["public", "server", "client"] = "public"
    severity: Literal["violation", "warning", "info"] = "violation"
    text: str = ""
    file: str = ""
    line: int = 0


class Source(Node):
    """One source file of the pack.

    `sha256` is empty for a file of a site, since it could confirm guesses.

    See docs/decisions/012-private-packs-contain-one-clients-data.md.
    """

    name: str
    kind: Literal["rules", "ontology", "graph", "sheet", "query", "shapes", "model"]
    sha256: str


class Placement(Node):
    """The treatment of one part of a shape or query; every part has a record.

    Attributes:
        source: name of the file without folders.
        part: the constraint component of the shape, or the query.
        where: ``rows`` (bound constraints, checked on data), ``graph`` (decided on static facts
            when compiled), ``off`` (deactivated), ``refused`` (neither is possible).
        rule: name of the rule that the part became; "" for none.
        reason: why the part is treated so, in one sentence; "" for none.
        conforms: whether the graph conforms to the part; None if the graph does not decide it.
    """

    source: str
    part: str
    where: Literal["rows", "graph", "off", "refused"]
    rule: str = ""
    reason: str = ""
    conforms: bool | None = None


class Provenance(Node):
    """Where a pack comes from; no time stamps, so that equal inputs give equal bytes."""

    compiler: str
    sources: tuple[Source, ...] = ()


class Manifest(Node):
    """`manifest.json` of a pack.

    `skeletons[i]` belongs to the tensors called ``bank.i.*``. `conditions[i]`, with the tensors
    ``condition.i.*``, is a formula that is not a constraint but a part of knowledge models and
    inferences. `client` is the owner of a private pack, which never leaves its site; "" in a public
    one. The sections `sets` and `causes` are written where a pack has any.
    """

    format: int = FORMAT
    sections: dict[str, Section]
    contract: DataContract
    rules: tuple[RuleRecord, ...]
    skeletons: tuple[Formula, ...]
    entities: tuple[str, ...] = ("",)
    units: tuple[str, ...] = ("",)
    conditions: tuple[Formula, ...] = ()
    inferences: tuple[Inference, ...] = ()
    sets: tuple[KeptSet, ...] = ()
    causes: tuple[CauseRecord, ...] = ()
    client: str = ""
    knowledge: tuple[KnowledgeModel, ...] = ()
    placements: tuple[Placement, ...] = ()
    provenance: Provenance
