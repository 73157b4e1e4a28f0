"""Lines about the content of a pack besides rules: knowledge models, sets, causes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from fedkg._internal.safe_text import count_noun

if TYPE_CHECKING:
    from fedkg.pack import Pack
    from fedkg.pack.knowledge_models import Clause, KnowledgeModel
    from fedkg.pack_bytes import PackCounts


def describe_other_contents(counts: PackCounts) -> str:
    """``, 2 knowledge models, 1 inference``; "" if there is nothing besides rules."""
    kinds = (
        ("knowledge model", counts.knowledge),
        ("inference", counts.inferences),
        ("set", counts.sets),
        ("cause", counts.causes),
    )
    return "".join(f", {count_noun(found, kind)}" for kind, found in kinds if found)


def other_content_lines(pack: Pack, rows: int) -> Iterator[str]:
    """A line for each knowledge model with its clauses, each set with its numbers, and each cause.

    Args:
        rows: number of clients shown per set.
    """
    from fedkg.cli.inspect_sets import set_lines

    manifest = pack.manifest
    if manifest.client:
        yield f"\nPrivate pack of {manifest.client}"
    if manifest.knowledge:
        yield "\nKnowledge"
    for model in manifest.knowledge:
        yield from _model(pack, model)
    if manifest.sets:
        yield "\nSets"
    yield from set_lines(manifest.sets, rows)
    if manifest.causes:
        yield "\nCauses"
    for cause in manifest.causes:
        yield f"  {cause.name}: {count_noun(len(cause.drives), 'pair')}"


def _model(pack: Pack, model: KnowledgeModel) -> Iterator[str]:
    from fedkg.pack.formula_text import row_text

    what = "range of" if model.kind == "range" else "prediction of"
    proven = {"nonempty": "never empty", "within": "always inside its ranges"}
    said = f"; proven: {', '.join(proven[one] for one in model.proven)}" if model.proven else ""
    yield f"  {model.name}: {what} {model.output}, true values in column `{model.column}`{said}"
    if model.network is not None:
        yield f"    from an earlier model of {count_noun(len(model.network.layers), 'layer')}"
    for clause in model.clauses:
        bank = pack.conditions[clause.bank]
        more = f" and {bank.rows - 1:,} more" if bank.rows > 1 else ""
        when = f"when {row_text(pack, bank, 0)}{more}" if bank.rows else "never"
        yield f"    {when}: {_answer(pack, model, clause)}"
    if model.otherwise is not None:
        yield f"    otherwise: {_answer(pack, model, model.otherwise)}"


def _answer(pack: Pack, model: KnowledgeModel, clause: Clause) -> str:
    """What a clause allows or predicts: ``B, C``, ``12 .. 0.5 * flow kg/h``, ``at least 3 bar``."""
    from fedkg.pack.formula_text import Names, row_names, term_text
    from fedkg.pack.formulas import Param

    if clause.anything:
        return "anything"
    if clause.classes is not None:
        return ", ".join(model.classes[place] for place in clause.classes)
    if clause.predicted is not None:
        return model.classes[clause.predicted]
    bank = pack.conditions[clause.bank]
    names = row_names(pack.manifest.contract, bank, 0) if bank.rows else Names()
    low, high, value = (
        None if term is None else term_text(term, names)
        for term in (clause.low, clause.high, clause.value)
    )
    ends = (
        f"at least {low}" if low is not None else "",
        f"at most {high}" if high is not None else "",
    )
    said = value if value is not None else f"{low} .. {high}" if all(ends) else "".join(ends)
    computed = any(
        not isinstance(term, Param)
        for term in (clause.low, clause.high, clause.value)
        if term is not None
    )
    return (
        said
        if not model.unit
        else f"{said}  (in {model.unit})"
        if computed
        else f"{said} {model.unit}"
    )
