"""What must be true of a pack's banks before anything evaluates them: every index points at
something; and of its knowledge models before anything asks them: every clause and layer points at
something that fits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fedkg.errors import PackError
from fedkg.pack.bank import Bank, TableRows
from fedkg.pack.formulas import (
    ROWS,
    Formula,
    Param,
    Reduce,
    Slot,
    atoms,
    everywhere,
    indices,
    is_temporal,
    member_table,
    reads_output,
    subterms,
    term_children,
    used_params,
    used_slots,
)
from fedkg.pack.knowledge_models import Clause, KnowledgeModel, Network
from fedkg.pack.manifest import Manifest

__all__ = [
    "atoms",
    "check_banks",
    "check_conditions",
    "subterms",
    "term_children",
    "used_params",
    "used_slots",
]


class _Readers(Protocol):
    """Rows of a bank, or members: what the terms over them read."""

    @property
    def slots(self) -> NDArray[np.int32]: ...
    @property
    def views(self) -> NDArray[np.int32]: ...
    @property
    def params(self) -> NDArray[np.float64]: ...


def check_banks(manifest: Manifest, banks: Iterable[Bank], name: str) -> None:
    """Raise PackError, naming the tensor, where a bank's index points at nothing or at a column of
    another kind, or its columns differ.
    """
    _check_views(manifest, name)
    _check_manifest_numbers(manifest, name)
    for i, bank in enumerate(banks):
        _check_skeleton(bank.skeleton, f"{name}: skeleton {i}")
        _check_rows(manifest, bank, f"bank.{i}", name, rules=len(manifest.rules))


def _check_manifest_numbers(manifest: Manifest, name: str) -> None:
    """Weights are not negative, spans have their smaller end first. (That numbers are finite is
    part of their type.)
    """
    for rule in manifest.rules:
        if rule.weight < 0:
            raise PackError(
                f"{name}: rule `{rule.name}` has a negative weight",
                received=f"{rule.weight:g}",
                help="the pack is damaged: compile the rules again",
            )
    spans = [(f"column `{column.name}`", column.span) for column in manifest.contract.columns] + [
        (f"inference `{one.name}`", parameter.span)
        for one in manifest.inferences
        for parameter in one.parameters
    ]
    for what, span in spans:
        if span is not None and span[0] > span[1]:
            raise PackError(
                f"{name}: {what} has a span that ends before it begins",
                received=f"{span[0]:g} .. {span[1]:g}",
                help="the pack is damaged: compile the rules again",
            )


def check_conditions(manifest: Manifest, conditions: Sequence[Bank], name: str) -> None:
    """Check formulas that are not constraints and so belong to no rule. Raises PackError."""
    for i, bank in enumerate(conditions):
        _check_skeleton(bank.skeleton, f"{name}: condition {i}")
        _check_rows(manifest, bank, f"condition.{i}", name, rules=None)
    _check_inferences(manifest, conditions, name)


def _check_inferences(manifest: Manifest, conditions: Sequence[Bank], name: str) -> None:
    for inference in manifest.inferences:
        if not 0 <= inference.condition < len(conditions):
            raise PackError(
                f"{name}: inference `{inference.name}` refers to a condition that the pack "
                "does not contain",
                help="the pack is damaged: compile the rules again",
            )
        bank = conditions[inference.condition]
        used = used_params(bank.skeleton)
        unused = [one.name for one in inference.parameters if one.param not in used]
        if bank.rows != 1 or unused:
            raise PackError(
                f"{name}: inference `{inference.name}` has a parameter `{unused[0]}` that its "
                "condition does not use"
                if unused
                else f"{name}: the condition of inference `{inference.name}` has {bank.rows} rows, "
                "not 1",
                help="the pack is damaged: compile the rules again",
            )


def _check_rows(
    manifest: Manifest, bank: Bank, prefix: str, name: str, *, rules: int | None
) -> None:
    """Raise PackError where the tensors called `prefix`.* are wrong.

    `rules` bounds the rule numbers, None: they mean nothing.
    """
    what = f"{name}: {prefix.replace('.', ' ')}"
    if any(array.shape[0] != bank.rows for array in bank.tensors().values()):
        raise PackError(
            f"{name}: the columns of {prefix.replace('.', ' ')} differ in length",
            help="the pack is damaged: compile the rules again",
        )
    if bank.views.shape != bank.slots.shape or bank.codes.shape != bank.keys.shape:
        raise PackError(
            f"{what} has columns of unequal width",
            help="the pack is damaged: compile the rules again",
        )
    checks = [
        ("keys", bank.keys, -1, len(manifest.contract.columns)),
        ("entity", bank.entity, 0, len(manifest.entities)),
        ("unit", bank.unit, 0, len(manifest.units)),
    ]
    for column, array, low, high in (
        checks if rules is None else [*checks, ("rule", bank.rule, 0, rules)]
    ):
        if not _within(array, low, high):
            raise PackError(
                f"{name}: tensor {prefix}.{column} points outside the pack",
                help="the pack is damaged: compile the rules again",
            )
    if not (bank.weight >= 0).all() or not np.isfinite(bank.weight).all():
        raise PackError(
            f"{name}: tensor {prefix}.weight has a weight that is negative or not a finite number",
            help="the pack is damaged: compile the rules again",
        )
    _check_keys(manifest, bank, f"{name}: tensor {prefix}.codes")
    _check_members(manifest, bank, prefix, name)
    slots, params = indices(bank.skeleton)
    if any(table >= len(bank.members) for table in slots):
        raise PackError(
            f"{name}: {prefix} ranges over members that it does not contain",
            help="the pack is damaged: compile the rules again",
        )
    for table in sorted(slots):
        readers, at = (
            (bank, prefix) if table == ROWS else (bank.members[table], f"{prefix}.member.{table}")
        )
        _check_readers(manifest, readers, (slots[table], params[table]), at, name)
        _check_numbers(bank.skeleton, table, readers, at, name)
    for table, part in everywhere(bank.skeleton):
        readers, at = (
            (bank, prefix) if table == ROWS else (bank.members[table], f"{prefix}.member.{table}")
        )
        for wanted in part.wanted_columns():
            columns = np.unique(readers.slots[:, wanted.slot]).tolist()
            if not all(wanted.fits(manifest.contract.columns[column]) for column in columns):
                raise PackError(
                    f"{name}: tensor {at}.slots has a column in slot {wanted.slot} that is not "
                    f"of the kind `{wanted.name}`",
                    help="the pack is damaged: compile the rules again",
                )


def _check_keys(manifest: Manifest, bank: Bank | TableRows, what: str) -> None:
    """Keys are columns of texts, and their codes refer to texts of them."""
    for key in np.unique(bank.keys[bank.keys >= 0]).tolist():
        column = manifest.contract.columns[key]
        if column.type != "category" or not _within(
            bank.codes[bank.keys == key], 0, len(column.vocabulary)
        ):
            raise PackError(
                f"{what} has a code without a text in its key column",
                help="the pack is damaged: compile the rules again",
            )


def _check_readers(
    manifest: Manifest,
    readers: _Readers,
    used: tuple[frozenset[int], frozenset[int]],
    at: str,
    name: str,
) -> None:
    checks = (
        ("slots", readers.slots, len(manifest.contract.columns)),
        ("views", readers.views, len(manifest.contract.views)),
        ("slots", np.array(sorted(used[0])), readers.slots.shape[1]),
        ("params", np.array(sorted(used[1])), readers.params.shape[1]),
    )
    for column, array, high in checks:
        if not _within(array, 0, high):
            raise PackError(
                f"{name}: tensor {at}.{column} points outside the pack",
                help="the pack is damaged: compile the rules again",
            )


def _check_numbers(skeleton: Formula, table: int, readers: _Readers, at: str, name: str) -> None:
    """Scales are positive; windows and counts are whole numbers that make sense; all are finite."""
    params = readers.params
    for where, part in everywhere(skeleton):
        if where != table:
            continue
        wrong = part.wrong_numbers(params)
        if wrong:
            raise PackError(
                f"{name}: tensor {at}.params has {wrong}",
                help="the pack is damaged: compile the rules again",
            )
    if np.isinf(params).any():
        raise PackError(
            f"{name}: tensor {at}.params has an infinite number",
            help="the pack is damaged: compile the rules again",
        )


def _check_members(manifest: Manifest, bank: Bank, prefix: str, name: str) -> None:
    """Check that each member table belongs to the rows or an earlier table, that its sets cover its
    members, and that terms over them are evaluated for the owner.
    """
    for j, table in enumerate(bank.members):
        at = f"{prefix}.member.{j}"
        if not -1 <= table.parent < j:
            raise PackError(
                f"{name}: tensor {at}.parent points outside the pack",
                help="the pack is damaged: compile the rules again",
            )
        owners = bank.rows if table.parent < 0 else bank.members[table.parent].count
        offsets = table.offsets
        if (
            offsets.shape[0] != owners + 1
            or offsets[0] != 0
            or offsets[-1] != table.count
            or bool((np.diff(offsets) < 0).any())
        ):
            raise PackError(
                f"{name}: tensor {at}.offsets does not fit the members",
                help="the pack is damaged: compile the rules again",
            )
        if table.views.shape != table.slots.shape or table.params.shape[0] != table.count:
            raise PackError(
                f"{name}: the columns of {at.replace('.', ' ')} differ in length or width",
                help="the pack is damaged: compile the rules again",
            )
        if table.table_rows is not None:
            _check_table_rows(manifest, bank, j, f"{name}: tensor {at}")
    for where, part in everywhere(bank.skeleton):
        members = member_table(part)
        if members is not None:
            if not 0 <= members < len(bank.members):
                raise PackError(
                    f"{name}: {prefix} ranges over members that it does not contain",
                    help="the pack is damaged: compile the rules again",
                )
            if bank.members[members].parent != where:
                at = f"{prefix}.member.{members}"
                raise PackError(
                    f"{name}: {at} has another owner than its terms",
                    help="the pack is damaged: compile the rules again",
                )


def _check_table_rows(manifest: Manifest, bank: Bank, j: int, at: str) -> None:
    """Check the keys of the members of table `j`, the table rows of their slots, and that rules
    across table rows read data of no other time.
    """
    table, around, depth = bank.members[j], j, 0
    while around >= 0:
        rows = bank.members[around].table_rows
        depth += rows is not None and rows.own
        around = bank.members[around].parent
    rows = table.table_rows
    assert rows is not None, "the caller asks for tables with them"
    if (
        rows.keys.shape != rows.codes.shape
        or rows.keys.shape[0] != (table.count if rows.own else 0)
        or not _within(rows.keys, -1, len(manifest.contract.columns))
    ):
        raise PackError(
            f"{at}.keys does not fit the members",
            help="the pack is damaged: compile the rules again",
        )
    _check_keys(manifest, rows, f"{at}.codes")
    if rows.depths.shape[0] != table.slots.shape[1] or not _within(rows.depths, 0, depth + 1):
        raise PackError(
            f"{at}.depths does not fit the slots",
            help="the pack is damaged: compile the rules again",
        )
    if is_temporal(bank.skeleton) or reads_output(bank.skeleton):
        raise PackError(
            f"{at}.own belongs to a rule over time or over predictions",
            help="the pack is damaged: compile the rules again",
        )


def _check_views(manifest: Manifest, name: str) -> None:
    views, columns = manifest.contract.views, manifest.contract.columns
    for i, view in enumerate(views):
        raised = view.kind == "raised"
        fits = (
            view.column is not None
            and 0 <= view.column < len(columns)
            and columns[view.column].role == "input"
        )
        if (raised and not fits) or (i == 0 and view.kind != "base"):
            raise PackError(
                f"{name}: view {i} of the contract is wrong",
                help="the pack is damaged: compile the rules again",
            )
    step = manifest.contract.step
    if step is not None and not (np.isfinite(step) and step > 0):
        raise PackError(
            f"{name}: the contract's step is not a length of time",
            received=f"{step:g} s",
            help="the pack is damaged: compile the rules again",
        )
    if not views:
        raise PackError(
            f"{name}: the contract has no view", help="the pack is damaged: compile the rules again"
        )


def _check_skeleton(formula: Formula, what: str) -> None:
    """Raise PackError where a node has too few or too many parts, or a setting that it cannot
    have.
    """
    for _, part in everywhere(formula):
        wrong = part.wrong_shape()
        if wrong:
            raise PackError(
                f"{what} has {wrong}", help="the pack is damaged: compile the rules again"
            )


def _within(array: NDArray[np.generic], low: int, high: int) -> bool:
    return array.size == 0 or bool(array.min() >= low and array.max() < high)


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
                f"{name}: knowledge model `{model.name}` {problem}",
                help="the pack is damaged: compile the rules again",
            )


def _problems(model: KnowledgeModel, conditions: Sequence[Bank], arrays: Arrays) -> Iterator[str]:
    if not model.name:
        yield "has an empty name"
    if not model.output:
        yield "names no output"
    if len(set(model.classes)) != len(model.classes):
        yield "has a class twice"
    if model.span is not None and (
        model.classes or not np.isfinite(model.span).all() or model.span[0] > model.span[1]
    ):
        yield "has a span although it has classes, or a span that is not two numbers in order"
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
        yield "has a clause with a class that the model does not have"
    if not 0 <= clause.bank < len(conditions):
        yield "has a clause with a condition that the pack does not contain"
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
        yield "has a network with inputs that the pack does not contain"
        return
    width = conditions[network.bank].slots.shape[1]
    if not width == len(network.mean) == len(network.std):
        yield "has a network with different numbers of inputs, means and standard deviations"
    if (
        not all(np.isfinite(network.mean))
        or not all(np.isfinite(network.std))
        or 0.0 in network.std
    ):
        yield "has a mean or standard deviation that is not a finite number, or a deviation of 0"
    for layer in network.layers:
        weight, bias = arrays.get(layer.weight), arrays.get(layer.bias)
        if (
            weight is None
            or bias is None
            or weight.ndim != 2
            or weight.shape[1] != width
            or bias.shape != (weight.shape[0],)
        ):
            yield f"has a layer `{layer.weight}` that is missing or does not fit the layer before"
            return
        if not all(
            array.dtype.kind == "f" and bool(np.isfinite(array).all()) for array in (weight, bias)
        ):
            yield f"has a layer `{layer.weight}` with weights that are not finite numbers"
        width = weight.shape[0]
    if width != (classes if network.decision == "largest" else 1):
        wanted = classes if network.decision == "largest" else 1
        yield f"has a network with {width} outputs, not {wanted}"
