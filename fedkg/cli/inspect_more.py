"""What a pack holds besides rules, as lines for people: knowledge models, sets, causes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from fedkg.cli.screen import count

if TYPE_CHECKING:
    from fedkg.pack import Pack
    from fedkg.pack.knowledge import Clause, KnowledgeModel


def besides(pack: Pack) -> str:
    """``, 2 knowledge models, 1 inference``: what there is besides rules; "" where there is nothing."""
    manifest = pack.manifest
    kinds = (
        ("knowledge model", manifest.knowledge),
        ("inference", manifest.inferences),
        ("set", manifest.sets),
        ("cause", manifest.causes),
    )
    return "".join(f", {count(len(found), kind)}" for kind, found in kinds if found)


def more_lines(pack: Pack) -> Iterator[str]:
    """A line for each knowledge model with its clauses, each set and each cause."""
    manifest = pack.manifest
    if manifest.client:
        yield f"\nPrivate pack of {manifest.client}"
    if manifest.knowledge:
        yield "\nKnowledge"
    for model in manifest.knowledge:
        yield from _model(pack, model)
    if manifest.sets:
        yield "\nSets"
    for kept in manifest.sets:
        what = kept.target or ("the parameters" if kept.on == "parameters" else "the predictions")
        yield (
            f"  {kept.name}: {what} in {kept.shape}, for {count(len(kept.clients), 'client')}"
            if kept.clients
            else f"  {kept.name}: {what} in {kept.shape}"
        )
    if manifest.causes:
        yield "\nCauses"
    for cause in manifest.causes:
        yield f"  {cause.name}: {count(len(cause.drives), 'pair')}"


def _model(pack: Pack, model: KnowledgeModel) -> Iterator[str]:
    from fedkg.pack.text import row_text

    what = "range of" if model.kind == "range" else "prediction of"
    proven = {"nonempty": "never empty", "within": "always inside its ranges"}
    said = f"; proven: {', '.join(proven[one] for one in model.proven)}" if model.proven else ""
    yield f"  {model.name}: {what} {model.output}, true values in column `{model.column}`{said}"
    if model.network is not None:
        yield f"    from an earlier model of {count(len(model.network.layers), 'layer')}"
    for clause in model.clauses:
        bank = pack.conditions[clause.bank]
        more = f" and {bank.rows - 1:,} more" if bank.rows > 1 else ""
        yield f"    when {row_text(pack, bank, 0)}{more}: {_answer(model, clause)}" if bank.rows else f"    never: {_answer(model, clause)}"
    if model.otherwise is not None:
        yield f"    otherwise: {_answer(model, model.otherwise)}"


def _answer(model: KnowledgeModel, clause: Clause) -> str:
    if clause.anything:
        return "anything"
    if clause.classes is not None:
        return ", ".join(model.classes[place] for place in clause.classes)
    if clause.predicted is not None:
        return model.classes[clause.predicted]
    return "a number" if clause.value is not None else "an interval"
