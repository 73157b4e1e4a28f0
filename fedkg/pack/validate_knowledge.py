"""What must be true of a pack's knowledge models before anything asks them: every clause and layer
points at something that fits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fedkg.errors import PackError
from fedkg.pack.bank import Bank
from fedkg.pack.formulas import ROWS, Param, Reduce, Slot, everywhere, reads_output
from fedkg.pack.knowledge_models import Clause, KnowledgeModel, Network
from fedkg.pack.manifest import Manifest

Arrays = Mapping[str, NDArray[np.generic]]


def check_knowledge(
    manifest: Manifest, conditions: Sequence[Bank], arrays: Arrays, name: str
) -> None:
    """Raise PackError, naming the model, where something about a knowledge model is wrong."""
    names: set[str] = set()
    for model in manifest.knowledge:
        twice = ["occurs twice"] if model.name in names else []
        names.add(model.name)
        for problem in (*twice, *_problems(model, conditions, arrays)):
            raise PackError(
                f"{name}: knowledge model `{model.name}` {problem}", help="compile it again"
            )


def _problems(model: KnowledgeModel, conditions: Sequence[Bank], arrays: Arrays) -> Iterator[str]:
    if not model.name or not model.output:
        yield "does not say what it is called and what it is about"
    if len(set(model.classes)) != len(model.classes):
        yield "has a class twice"
    if model.span is not None and (
        model.classes or not np.isfinite(model.span).all() or model.span[0] > model.span[1]
    ):
        yield "has a span that is none"
    if not set(model.proven) <= {"nonempty" if model.kind == "range" else "within"}:
        yield "lists a proven property that does not apply to it"
    clauses = (*model.clauses, *(() if model.otherwise is None else (model.otherwise,)))
    if model.network is not None and clauses:
        yield "has both clauses and a network"
    for clause in clauses:
        yield from _wrong_clause(model, clause, conditions)
    if model.network is not None:
        yield from _wrong_network(model.network, conditions, len(model.classes), arrays)


def _wrong_clause(
    model: KnowledgeModel, clause: Clause, conditions: Sequence[Bank]
) -> Iterator[str]:
    said = {
        "classes": clause.classes is not None,
        "interval": clause.low is not None or clause.high is not None,
        "anything": clause.anything,
        "class": clause.predicted is not None,
        "number": clause.value is not None,
    }
    fitting = {
        ("range", True): ("classes", "anything"),
        ("range", False): ("interval", "anything"),
        ("predict", True): ("class",),
        ("predict", False): ("number",),
    }[model.kind, bool(model.classes)]
    given = [what for what, there in said.items() if there]
    if len(given) != 1 or given[0] not in fitting:
        yield (
            f"has a clause that gives {' and '.join(given) or 'no answer'}, not "
            f"{' or '.join(fitting)}"
        )
    if clause.classes is not None and (
        not clause.classes or len(set(clause.classes)) != len(clause.classes)
    ):
        yield "has a clause with no classes, or with one twice"
    named = (*(clause.classes or ()), *(() if clause.predicted is None else (clause.predicted,)))
    if not all(0 <= place < len(model.classes) for place in named):
        yield "has a clause with a class that it does not have"
    if not 0 <= clause.bank < len(conditions):
        yield "has a clause without a condition"
    else:
        yield from _wrong_terms(clause, conditions[clause.bank])


def _wrong_terms(clause: Clause, bank: Bank) -> Iterator[str]:
    terms = [term for term in (clause.low, clause.high, clause.value) if term is not None]
    if reads_output(bank.skeleton) or any(reads_output(term) for term in terms):
        yield "reads an output of the model"
    for table, part in (found for term in terms for found in everywhere(term)):
        readers = (
            bank
            if table == ROWS
            else bank.members[table]
            if 0 <= table < len(bank.members)
            else None
        )
        if readers is None or (
            isinstance(part, Reduce) and not 0 <= part.members < len(bank.members)
        ):
            yield "has a clause that ranges over members that its condition does not have"
            return
        width = readers.slots.shape[1] if isinstance(part, Slot) else readers.params.shape[1]
        if isinstance(part, Slot | Param) and not 0 <= part.index < width:
            yield "has a clause that reads what its condition does not have"
            return


def _wrong_network(
    network: Network, conditions: Sequence[Bank], classes: int, arrays: Arrays
) -> Iterator[str]:
    fits = {
        "largest": classes > 1,
        "probability": classes == 2,
        "logit": classes == 2,
        "number": classes == 0,
    }
    if not fits[network.decision]:
        yield f"decides by `{network.decision}` among {classes} classes"
    if not np.isfinite([network.scale, network.offset]).all():
        yield "has an output scale or offset that is not a number"
    if not 0 <= network.bank < len(conditions) or conditions[network.bank].rows != 1:
        yield "has a network without inputs"
        return
    width = conditions[network.bank].slots.shape[1]
    if not width == len(network.mean) == len(network.std):
        yield "reads columns that are not there"
    if (
        not all(np.isfinite(network.mean))
        or not all(np.isfinite(network.std))
        or 0.0 in network.std
    ):
        yield "has a mean or standard deviation that is not a number"
    for layer in network.layers:
        weight, bias = arrays.get(layer.weight), arrays.get(layer.bias)
        if (
            weight is None
            or bias is None
            or weight.ndim != 2
            or weight.shape[1] != width
            or bias.shape != (weight.shape[0],)
        ):
            yield f"has a layer `{layer.weight}` that does not fit"
            return
        if not all(
            array.dtype.kind == "f" and bool(np.isfinite(array).all()) for array in (weight, bias)
        ):
            yield f"has a layer `{layer.weight}` that is not of numbers"
        width = weight.shape[0]
    if width != (classes if network.decision == "largest" else 1):
        yield f"has {width} answers"
