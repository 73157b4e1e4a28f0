"""Earlier models as knowledge: dense networks from safetensors and ONNX files become arrays of the
pack.

The file says in its metadata what its inputs are: `features`, a JSON list of the names of signals
or of table columns, and, where the inputs were scaled, `mean` and `std`, lists of numbers in the
units of the table. safetensors holds ``N.weight`` [out, in] and ``N.bias`` [out] of each layer, and
in its metadata `activation` (of all but the last layer, default relu) and `decision` (largest,
probability, logit, number; default: largest for more than one answer, else logit for a label and
number for a number).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedkg._internal.name_matching import did_you_mean
from fedkg._internal.safe_text import count_noun
from fedkg.pack import RuleRecord, Source
from fedkg.pack.knowledge_models import Network
from fedkg_compiler.formulas.formula_algebra import with_always
from fedkg_compiler.frontends.fkg.binding.scope import Sources
from fedkg_compiler.frontends.fkg.binding.signal_columns import header_place, plain_place
from fedkg_compiler.frontends.fkg.syntax.tree import EarlierModel
from fedkg_compiler.frontends.knowledge.dense_layer_reader import (
    Unreadable,
    read_onnx,
    read_safetensors,
)
from fedkg_compiler.frontends.knowledge.output_name_resolution import Answer, Statement
from fedkg_compiler.input_files import read_bytes
from fedkg_compiler.ir import BoundRows, Program, RowBuilder

_SYNTAX = 'its metadata needs a list: {"features": "[\\"ash\\", \\"sulphur\\"]"}'


def bind_network(
    source: EarlierModel, statement: Statement, answer: Answer, sources: Sources, first: int
) -> tuple[dict[str, object], Program]:
    """The network of a model file, with its arrays, source and condition; nothing if it cannot be
    used, which has been reported.

    Args:
        first: the number of conditions before that of the network.
    """
    place, problems = source.path.span, sources.problems
    path = sources.names.folders[place.file] / source.path.text
    try:
        body = read_bytes(path)
        read = read_onnx(body) if path.suffix.lower() == ".onnx" else read_safetensors(body)
        features = _names(read.metadata)
        scaling = _scaling(read.metadata, len(features))
    except OSError as error:
        problems.error(
            "FKG377",
            place,
            f"cannot read the model {source.path.text}: {error.strerror or error}",
            "check the path, which is relative to the folder of the rule file",
        )
        return {}, Program()
    except Unreadable as error:
        problems.error(
            "FKG377", place, f"the model {source.path.text} {error.reason}", error.advice
        )
        return {}, Program()
    rows = RowBuilder(1)
    for name in features:
        if not _slot(name, rows, source, sources):
            return {}, Program()
    if read.inputs != len(features):
        problems.error(
            "FKG377",
            place,
            f"the model {source.path.text} has {count_noun(read.inputs, 'input')}, but its metadata"
            f" names {count_noun(len(features), 'feature')}",
            "write one name for each input into the `features` of its metadata",
        )
        return {}, Program()
    wanted = len(answer.classes) if answer.label is not None and read.answers > 1 else 1
    if read.answers != wanted:
        needed = (
            f"`{answer.name.text}` is a number and needs one output"
            if answer.label is None
            else f"`{answer.name.text}` has {wanted} classes and needs one output for each"
        )
        problems.error(
            "FKG377",
            place,
            f"the model {source.path.text} has {read.answers} outputs, but {needed}",
            f"export a model that predicts `{answer.name.text}`",
        )
        return {}, Program()
    decision = read.decision or (
        "largest" if read.answers > 1 else "logit" if answer.label is not None else "number"
    )
    if not _decides(decision, read.answers, len(answer.classes)):
        what = (
            f"`{answer.name.text}` has {len(answer.classes)} classes"
            if answer.label is not None
            else f"`{answer.name.text}` is a number"
        )
        message = (
            f"the model {source.path.text} decides by `{decision}` over "
            f"{count_noun(read.answers, 'output')}, but {what}"
        )
        problems.error(
            "FKG377",
            place,
            message,
            "export one output for each class; or one output for two classes, or for a number",
        )
        return {}, Program()
    record = RuleRecord(name=statement.name.text, file=Path(place.file).name, line=place.line)
    formula, held = with_always(rows.build())
    part = BoundRows(rule=record, formula=formula, rows=held, keys=((),), entities=("",), unit="")
    prefix = f"{statement.name.text}."
    layers = tuple(
        layer.model_copy(update={"weight": prefix + layer.weight, "bias": prefix + layer.bias})
        for layer in read.layers
    )
    network = Network(bank=first, mean=scaling[0], std=scaling[1], layers=layers, decision=decision)
    found = Program(
        conditions=(part,),
        arrays={prefix + name: array for name, array in read.arrays.items()},
        sources=(Source(name=path.name, kind="model", sha256=hashlib.sha256(body).hexdigest()),),
    )
    return {"network": network}, found


def _decides(decision: str, answers: int, classes: int) -> bool:
    """Whether a number of answers can decide between a number of classes (0: a number) in this
    way.
    """
    if decision == "largest":
        return answers == classes > 1
    return answers == 1 and classes == (0 if decision == "number" else 2)


def _names(metadata: Mapping[str, str]) -> list[str]:
    try:
        names = json.loads(metadata["features"])
    except KeyError:
        raise Unreadable("does not say what its inputs are", _SYNTAX) from None
    except (ValueError, RecursionError):
        raise Unreadable("has `features` that are not a list in JSON", _SYNTAX) from None
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise Unreadable("has no list of names as its features", _SYNTAX)
    return names


def _scaling(
    metadata: Mapping[str, str], count: int
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    result = []
    for name, default in (("mean", 0.0), ("std", 1.0)):
        try:
            numbers = json.loads(metadata[name]) if name in metadata else [default] * count
            values = tuple(float(value) for value in numbers)
        except (ValueError, TypeError, OverflowError, RecursionError):
            raise Unreadable(
                f"has a `{name}` that is not a list of numbers", "write it as JSON: [1.5, 20]"
            ) from None
        if (
            len(values) != count
            or not all(np.isfinite(values))
            or (name == "std" and 0.0 in values)
        ):
            raise Unreadable(
                f"has a `{name}` of {len(values)} numbers that does not fit its {count} inputs",
                "give one finite number for each input, and no std of 0",
            )
        result.append(values)
    return result[0], result[1]


def _slot(name: str, rows: RowBuilder, source: EarlierModel, sources: Sources) -> bool:
    """Enter an input of the model; False, with a problem, where nothing is called so."""
    place, names = source.path.span, sources.names
    signal = names.signals.get(name) or names.by_header(name)
    if signal is None and not names.open:
        declared = f"{name} in ..." if name.isidentifier() else f'NAME in ... column "{name}"'
        advice = did_you_mean(name, names.known_names())
        advice = f"{advice} Correct `features` in the metadata of the model; or" if advice else ""
        advice = f"{advice} declare the input: signal {declared}".strip()
        sources.problems.error(
            "FKG378",
            place,
            f"the model {source.path.text} reads `{name}`, which is not declared",
            advice,
        )
        return False
    found = (
        header_place(name, sources, place)
        if signal is None
        else plain_place(signal, sources, place)
    )
    if found.column < 0:
        return False
    ids: NDArray[np.int64] = np.array([found.column])
    rows.slot(("feature", name), ids, np.zeros(1, dtype=np.int64), "input")
    return True
