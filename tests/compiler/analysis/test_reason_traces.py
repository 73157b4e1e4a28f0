"""Verdicts about rules over several steps, compared with short traces of one to five steps.

Values beyond a trace prove nothing.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tries import tries

from fedkg.constraints.meaning.interpreter import Timing, evaluate_bank
from fedkg.evaluation.witness_verdict import replay
from fedkg.pack import (
    SECTIONS,
    And,
    Bank,
    Column,
    Compare,
    DataContract,
    Formula,
    Implies,
    Manifest,
    Not,
    Or,
    Pack,
    Param,
    Provenance,
    RuleRecord,
    Section,
    Slot,
    Temporal,
    Until,
)
from fedkg_compiler import compile_rules
from fedkg_compiler.analysis import Verdict, reason
from fedkg_compiler.formulas.formula_algebra import implications

LENGTHS = np.random.default_rng(1).integers(1, 6, 600)
VALUES = np.random.default_rng(2).integers(0, 5, (1, int(LENGTHS.sum()), 2)).astype(float)
TRACE = np.repeat(np.arange(len(LENGTHS)), LENGTHS)
STEP = np.concatenate([np.arange(length) for length in LENGTHS])
"""600 traces of two columns, from 0 to 4: VALUES [1, steps, 2]."""
WINDOWS = ((0, 0), (0, 1), (1, 1), (1, 2), (0, 2), (2, 3), (0, -1), (1, -1), (0, 9), (1, 9))


def atoms() -> st.SearchStrategy[Formula]:
    slot, limit = (
        st.sampled_from([Slot(index=0), Slot(index=1)]),
        st.sampled_from([Param(index=0), Param(index=1)]),
    )
    op = st.sampled_from(["le", "lt"])
    return st.one_of(
        st.builds(lambda op, a, b: Compare(op=op, left=a, right=b, scale=2), op, slot, limit),
        st.builds(lambda op, a, b: Compare(op=op, left=b, right=a, scale=2), op, slot, limit),
    )


def over_time(arg: st.SearchStrategy[Formula]) -> st.SearchStrategy[Formula]:
    ops, window = (
        st.sampled_from(["always", "eventually", "historically", "once"]),
        st.integers(0, len(WINDOWS) - 1),
    )
    return st.one_of(
        st.builds(
            lambda op, w, a: Temporal(op=op, low=3 + 2 * w, high=4 + 2 * w, arg=a), ops, window, arg
        ),
        st.builds(
            lambda op, w, a: Temporal(op=op, low=3 + 2 * w, high=4 + 2 * w, arg=a), ops, window, arg
        ),
        st.builds(
            lambda op, w, a, b, closed: Until(
                op=op, low=3 + 2 * w, high=4 + 2 * w, left=a, right=b, closed=closed
            ),
            st.sampled_from(["until", "since"]),
            window,
            arg,
            arg,
            st.booleans(),
        ),
        st.builds(lambda a: Not(arg=a), arg),
    )


PARTS = st.one_of(atoms(), over_time(atoms()), over_time(over_time(atoms())))
FORMULAS: st.SearchStrategy[Formula] = st.one_of(
    atoms(),
    PARTS,
    st.builds(lambda a, b: And(args=(a, b)), PARTS, PARTS),
    st.builds(lambda a, b: Or(args=(a, b)), PARTS, PARTS),
    st.builds(lambda a, b: Implies(antecedent=a, consequent=b), PARTS, PARTS),
    st.builds(lambda a, b: Implies(antecedent=a, consequent=b), PARTS, PARTS),
)


def pack_of(rules: list[tuple[Formula, list[float]]], end: str) -> Pack:
    """One row for each rule: its formula and its first two numbers; the windows follow those."""
    none = np.zeros((1, 0), dtype=np.int32)
    banks = [
        Bank(
            skeleton=formula,
            slots=np.array([[0, 1]], dtype=np.int32),
            views=np.zeros((1, 2), dtype=np.int32),
            params=np.array(
                [[*numbers, 1.0, *(float(end) for window in WINDOWS for end in window)]]
            ),
            keys=none,
            codes=none,
            weight=np.ones(1),
            rule=np.array([rule], dtype=np.int32),
            entity=np.zeros(1, dtype=np.int32),
            unit=np.zeros(1, dtype=np.int32),
        )
        for rule, (formula, numbers) in enumerate(rules)
    ]
    columns = tuple(Column(name=name, source=name, span=(0.0, 4.0)) for name in "xy")
    manifest = Manifest(
        sections={name: Section(version=version) for name, version in SECTIONS.items()},
        contract=DataContract.model_validate({"kind": "trace", "end": end, "columns": columns}),
        rules=tuple(RuleRecord(name=f"r{i}") for i in range(len(rules))),
        skeletons=tuple(bank.skeleton for bank in banks),
        provenance=Provenance(compiler="test"),
    )
    return Pack(manifest=manifest, banks=tuple(banks))


@st.composite
def packs(draw: st.DrawFn) -> Pack:
    numbers = st.lists(st.integers(-1, 5).map(float), min_size=2, max_size=2)
    rules = [(draw(FORMULAS), draw(numbers)) for _ in range(draw(st.integers(1, 3)))]
    return pack_of(rules, draw(st.sampled_from(["strict", "clip"])))


def on_the_traces(pack: Pack, bank: Bank) -> tuple[np.ndarray, np.ndarray]:
    """Where a bank's row is satisfied, and where it is violated: bool [steps]."""
    timing = Timing(trace=TRACE, step=STEP, end=pack.manifest.contract.end)
    result = evaluate_bank(bank, VALUES, timing)
    return result.satisfied[:, 0], result.violated[:, 0]


def satisfied_steps(pack: Pack, rules: list[int]) -> np.ndarray:
    """Steps that satisfy all of these rules, in traces that violate none: bool [steps]."""
    found = np.ones(len(TRACE), dtype=np.bool_)
    for rule in rules:
        satisfied, violated = on_the_traces(pack, pack.banks[rule])
        found &= satisfied & ~np.isin(TRACE, TRACE[violated])
    return found


def speaks_against(pack: Pack, verdict: Verdict) -> bool:
    """Whether some step of the traces is a counterexample."""
    if verdict.kind == "undecided":
        return False
    first, *others = [int(pack.banks[ref.bank].rule[ref.row]) for ref in verdict.rows]
    bank = pack.banks[first]
    match verdict.kind:
        case "conflict" | "outside":
            return bool(satisfied_steps(pack, [first, *others]).any())
        case "never_fails":
            return bool(on_the_traces(pack, bank)[1].any())
        case "redundant" | "duplicate":
            broken = [TRACE[on_the_traces(pack, pack.banks[rule])[1]] for rule in (first, *others)]
            return not set(broken[0].tolist()) <= {
                trace for one in broken[1:] for trace in one.tolist()
            }
        case "never_applies" | "conditional":
            applies = np.zeros(len(TRACE), dtype=np.bool_)
            parts = implications(bank.skeleton)
            for part in parts:
                applies |= on_the_traces(pack, replace(bank, skeleton=part.antecedent))[0]
            return len(parts) == 1 and bool(
                (
                    applies
                    & satisfied_steps(
                        pack, [*others, *([first] if verdict.kind == "conditional" else [])]
                    )
                ).any()
            )
        case _:
            return False


@tries(10)
@given(packs())
def test_no_short_trace_speaks_against_a_verdict(pack: Pack) -> None:
    for verdict in reason(pack):
        assert not speaks_against(pack, verdict), verdict


@pytest.mark.slow
@tries(100)
@given(packs())
def test_no_short_trace_speaks_against_many_verdicts(pack: Pack) -> None:
    for verdict in reason(pack):
        assert not speaks_against(pack, verdict), verdict


@tries(10)
@given(packs())
def test_the_interpreter_confirms_every_witness(pack: Pack) -> None:
    for verdict in reason(pack):
        for left_out, witness in zip(verdict.rows, verdict.keeps, strict=False):
            if witness is None or verdict.kind != "conflict":
                continue
            values = witness.matrix(pack.manifest.contract)
            for ref in verdict.rows:
                assert (
                    ref == left_out
                    or replay(pack, ref.bank, ref.row, values, witness.now) == "satisfied"
                )


def compiled(text: str) -> Pack:
    pack = compile_rules(text=text, reason=False).pack
    assert pack is not None
    return pack


SPANS = "signal x in bar span 0 .. 4\nsignal y in bar\n"
FREE = "signal x in bar\nsignal y in bar\n"
CUT = {
    "an empty window that ends with the trace": (
        "timeline step 1 min ends clip\n" + SPANS,
        "always [1 min, 2 min] (x > 5 bar)",
    ),
    "a window without an end": ("timeline step 1 min\n" + SPANS, "always [1 min, end] (x > 5 bar)"),
    "no next step": (
        "timeline step 1 min ends clip\n" + FREE + "rule s require x <= 5 bar\n",
        "not (next x <= 5 bar)",
    ),
    "nothing before the first step": (
        "timeline step 1 min ends clip\n" + SPANS,
        "historically [1 min, 2 min] (x > 5 bar)",
    ),
    "no step before": ("timeline step 1 min ends clip\n" + SPANS, "not (previous x <= 5 bar)"),
    "an until that ends with the trace": (
        "timeline step 1 min ends clip\n" + SPANS,
        "not (x >= 0 bar until [1 min, 2 min] x <= 5 bar)",
    ),
    "an always that begins later": (
        "timeline step 1 min\n" + FREE + "rule s require always [1 min, 2 min] x <= 5 bar\n",
        "x > 5 bar",
    ),
}


@pytest.mark.parametrize("name", CUT)
def test_what_applies_where_the_trace_ends_is_not_said_never_to_apply(name: str) -> None:
    signals, condition = CUT[name]
    pack = compiled(f"{signals}rule r require if ({condition}) then y < 3 bar\n")
    assert [one.kind for one in reason(pack) if one.kind != "never_fails"] == []
    columns = [column.name for column in pack.manifest.contract.columns]
    values = np.array(
        [
            [
                [{"x": x, "y": 9.0}[column] for column in columns]
                for x in ((6.0, 5.0, 5.0) if "later" in name else (2.0,) * 3)
            ]
        ]
    )
    row = next(
        i for i, bank in enumerate(pack.banks) if pack.manifest.rules[int(bank.rule[0])].name == "r"
    )
    ends = [replay(pack, row, 0, values, step) for step in range(3)]
    assert ends.count("violated") == 1  # at one end, where the condition is always false


STRICT = "timeline step 1 min\n" + SPANS
CERTAIN = {
    "a window inside the trace": STRICT
    + "rule r require if (always [1 min, 2 min] (x > 5 bar)) then y < 3 bar\n",
    "the step itself": "timeline step 1 min ends clip\n"
    + SPANS
    + "rule r require if (always [0 min, 2 min] (x > 5 bar)) then y < 3 bar\n",
    "a step that is asked for": "timeline step 1 min ends clip\n"
    + SPANS
    + "rule r require if (next x > 5 bar) then y < 3 bar\n",
}


@pytest.mark.parametrize("name", CERTAIN)
def test_what_cannot_apply_is_still_said(name: str) -> None:
    assert [one.kind for one in reason(compiled(CERTAIN[name]))] == ["never_applies"]
