"""Write a model with its rules, and the certificate of what it guarantees, into a folder."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from importlib import metadata
from itertools import pairwise
from pathlib import Path
from typing import Any

from torch import nn

from fedkg._internal.atomic_file import replace_file
from fedkg.constraints.binding.layout import InputLayout, OutputLayout
from fedkg.constraints.binding.reads import categories_read
from fedkg.constraints.module import ConstraintModule
from fedkg.errors import LayoutError, UsageError
from fedkg.export.onnx_and_torch_export import (
    MODEL_FILES,
    Array,
    Format,
    GraphModel,
    RawModel,
    load_graph,
    model_bytes,
)
from fedkg.export.random_input_verification import (
    INPUTS,
    SEED,
    TOLERANCE,
    certify_knowledge,
    certify_rules,
    random_inputs,
    run_batches,
)
from fedkg.knowledge.injected_model import Injected
from fedkg.knowledge.tensor_knowledge import PredictionKnowledge, RangeKnowledge
from fedkg.pack import Column, Pack
from fedkg.pack.file import pack_digest

CERTIFICATE = "certificate.json"

ROWS = 50
"""Rows of the example with which a graph is traced."""


def export_model(
    model: nn.Module,
    folder: str | Path,
    *,
    rules: ConstraintModule | None = None,
    format: Format = "onnx",
) -> dict[str, Any]:
    """Write a model that satisfies its rules, from inputs in source units to outputs in the units
    of the rules, both float64.

    The file contains scaling, weights, projection and injected knowledge. fedkg runs it on 10,000
    random inputs, and the NumPy interpreter evaluates the rules on its outputs.

    Args:
        model: from scaled features [B, F] to answers [B, H] in the layout of `rules`; or a model
            from `fedkg.inject`.
        folder: gets `model.onnx` or `model.pt2`, and `certificate.json`. It is created.
        rules: the rules over the layouts of inputs and answers. Answers move to the nearest ones
            that satisfy the linear rules (`ConstraintModule.project`). None for an injected model.
        format: "onnx", or "torch" for `torch.export`.

    Returns:
        The certificate. `Any`: JSON.

    Raises:
        UsageError: neither rules nor injected knowledge of a pack, an unknown format, or a folder
            that cannot be written.
        LayoutError: a hard rule cannot be enforced in a file; the message names it.
        SetError: the rules bound too many sums.
        MissingExtra: `onnxruntime` or `onnxscript` is not installed.
        FedkgError: an output violates a rule.
    """
    if rules is None:
        (x, pack), y = _layout_of_knowledge(model), None
    else:
        require_enforceable(rules, [r.name for r in rules.pack.manifest.rules if r.hard])
        x, y, pack = rules.plan.x, rules.plan.y, rules.pack
    raw = RawModel(model, x, y, rules)
    records = pack.manifest.rules
    free = set() if rules is None else set(rules.not_projected)
    enforced = [record.name for record in records if record.output and record.name not in free]

    def certify(inputs: Array, outputs: Array) -> Certified:
        entries, contradicting = (
            ([], 0) if rules is None else certify_rules(rules, enforced, raw, inputs, outputs)
        )
        if isinstance(model, Injected):
            entries += certify_knowledge(model, raw, inputs, outputs)
        return entries, contradicting

    described = _describe_outputs(model, y)
    return write_model(raw, folder, pack, outputs=described, certify=certify, format=format)


Certified = tuple[list[dict[str, Any]], int]
"""The entries of a certificate, and the number of inputs with contradicting rules. `Any`: JSON."""


def write_model(
    raw: GraphModel,
    folder: str | Path,
    pack: Pack,
    *,
    outputs: Sequence[Mapping[str, Any]],
    certify: Callable[[Array, Array], Certified],
    format: Format,
    run: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Write a model and its certificate.

    Args:
        raw: the model.
        folder: see `export_model`.
        pack: the rules that the certificate is about.
        outputs: describes each output. `Any`: JSON.
        certify: evaluates rules and knowledge on raw inputs and the outputs of the file.
        format: see `export_model`.
        run: describes the run that the model comes from. `Any`: JSON.

    Returns:
        The certificate. `Any`: JSON.

    Raises:
        UsageError, MissingExtra, FedkgError: see `export_model`.
    """
    if format not in MODEL_FILES:
        raise UsageError(
            "unknown export format", expected=" or ".join(MODEL_FILES), received=str(format)
        )
    target = Path(folder)
    if target.exists() and not target.is_dir():
        raise UsageError(f"{target} is a file", expected="the name of a folder")
    raw.eval()
    inputs = random_inputs(raw, pack.manifest.contract.columns)
    body = model_bytes(raw, inputs[:ROWS], format)
    infer, runtime = load_graph(body, format)
    entries, contradicting = certify(inputs, run_batches(infer, inputs))
    certificate = {
        "model": MODEL_FILES[format],
        "model_sha256": hashlib.sha256(body).hexdigest(),
        "fedkg": metadata.version("fedkg"),
        "pack_sha256": pack_digest(pack),
        "run": None if run is None else dict(run),
        "inputs": [_describe_input(name, pack) for name in raw.names],
        **({"steps": raw.steps} if raw.steps else {}),
        "outputs": [dict(one) for one in outputs],
        "tolerance": {
            "share": TOLERANCE,
            "of": "the largest number that the rule reads, at least 1; computed in float64",
        },
        "rules": entries,
        "guarantee": "`enforced` rules hold within the tolerance for finite inputs; where the "
        "rules contradict each other for an input, the model returns a compromise, and "
        "`contradicting_inputs` counts them; `checked` rules are only counted",
        "verification": {
            "inputs": INPUTS,
            "seed": SEED,
            "drawn": "uniform over the declared spans and a tenth beyond, half of them rounded",
            "runtime": runtime,
            "verdicts": "fedkg's NumPy interpreter",
            "contradicting_inputs": contradicting,
        },
    }
    _write(target, MODEL_FILES[format], body, certificate)
    return certificate


def require_enforceable(
    rules: ConstraintModule, names: Collection[str], free: Collection[str] | None = None
) -> None:
    """Raise LayoutError if a file cannot enforce a rule.

    Args:
        rules: the rules to project onto.
        names: those of them that a projection must enforce whole.
        free: the rules that a projection does not enforce; None: `not_projected`.
    """
    free = [name for name in names if name in (rules.not_projected if free is None else free)]
    if free:
        raise LayoutError(
            f"the hard rule `{free[0]}` cannot be enforced in an exported model",
            expected="rules that are linear in the outputs of one row, or about its class",
            received=", ".join(free),
            help="remove `hard` from the rule, and compile it or train the run again; the "
            "certificate then counts its violations",
        )
    columns = rules.pack.manifest.contract.columns
    absent = [
        column
        for column in categories_read(rules.pack)
        if rules.plan.features.get(columns.index(column), -1) < 0
    ]
    if absent:
        reading = ", ".join(f"`{name}`" for name in _rules_reading(rules.pack, absent))
        raise LayoutError(
            f"the exported model cannot apply {reading}: the model has no feature for "
            f"{', '.join(f'`{one.name}`' for one in absent)}",
            expected="a feature for each category that the rules read",
            help=f"add a feature `{absent[0].name}` with the codes that "
            f'rules.codes("{absent[0].name}", texts) returns, or remove the rules that read it',
        )


def _rules_reading(pack: Pack, columns: Sequence[Column]) -> list[str]:
    """Names of the rules that read one of some columns of the contract."""
    places = {pack.manifest.contract.columns.index(column) for column in columns}
    return list(
        dict.fromkeys(
            pack.manifest.rules[rule].name
            for bank in pack.banks
            for rule, slots, keys in zip(
                bank.rule.tolist(), bank.slots.tolist(), bank.keys.tolist(), strict=True
            )
            if places & {*slots, *keys}
        )
    )


def _layout_of_knowledge(model: nn.Module) -> tuple[InputLayout, Pack]:
    """The layout of the features and the pack of injected knowledge.

    Raises UsageError if a model has none.
    """
    for part in model.parts if isinstance(model, Injected) else ():
        if isinstance(part, RangeKnowledge | PredictionKnowledge):
            return part.layout, part.pack
    raise UsageError(
        "there are no rules to export",
        expected="rules=, or a model from fedkg.inject with knowledge of a pack",
        received=type(model).__name__,
        help="fedkg.export_model(model, folder, rules=pack.constraints(x=..., y=...))",
    )


def _describe_input(name: str, pack: Pack) -> dict[str, Any]:
    """Name, unit, span and categories of an input. `Any`: JSON."""
    for column in pack.manifest.contract.columns:
        if name in (column.name, column.source):
            span = None if column.span is None else list(column.span)
            texts = {"codes": list(column.vocabulary)} if column.vocabulary else {}
            return {"name": name, "unit": column.unit, "span": span, **texts}
    return {"name": name, "unit": "", "span": None}


def _describe_outputs(model: nn.Module, y: OutputLayout | None) -> list[dict[str, Any]]:
    """Names and meanings of the outputs. `Any`: JSON."""
    if y is not None:
        return [
            {
                "name": entry.category or entry.name,
                "meaning": "probability" if entry.kind == "logit" else entry.kind,
            }
            for entry in y.entries
        ]
    assert isinstance(model, Injected), "a model without rules has knowledge"
    part = next(
        part for part in model.parts if isinstance(part, RangeKnowledge | PredictionKnowledge)
    )
    classes = (
        list(part.classes)
        if part.ends is None
        else [f"{low:g} .. {high:g}" for low, high in pairwise(part.ends.tolist())]
    )
    return [{"name": str(name), "meaning": "probability"} for name in classes]


def _write(folder: Path, name: str, body: bytes, certificate: Mapping[str, Any]) -> None:
    """Write both files; the certificate last, so that it never describes another model.

    Raises UsageError: the folder cannot be written.
    """
    text = json.dumps(certificate, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / CERTIFICATE).unlink(missing_ok=True)
        replace_file(folder / name, body)
        replace_file(folder / CERTIFICATE, text.encode("utf-8"))
    except OSError as error:
        raise UsageError(
            f"cannot write the exported model to {folder}",
            received=error.strerror or str(error),
            help="choose another folder",
        ) from error
