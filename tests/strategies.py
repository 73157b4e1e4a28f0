"""Hypothesis strategies for packs.

Any bank that the schema allows over one small contract, with numbers that include its limits.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from hypothesis import strategies as st

from fedkg.constraints import columns, scores
from fedkg.pack import (
    SECTIONS,
    And,
    AtLeast,
    Bank,
    Call,
    CategoryIs,
    Choose,
    ClassIn,
    Coalesce,
    Column,
    Compare,
    DataContract,
    Formula,
    Implies,
    Initially,
    Known,
    Manifest,
    MemberTable,
    Negate,
    Not,
    Or,
    Pack,
    Param,
    Power,
    Product,
    Provenance,
    Quotient,
    Reduce,
    RuleRecord,
    Section,
    Slot,
    Sum,
    Temporal,
    Term,
    Until,
    View,
    used_params,
    used_slots,
)
from fedkg.pack.contract import Role
from fedkg.pack.formulas import Lag, WindowReduce

VOCABULARY = ("H", "L", "M")
CONTRACT = DataContract(
    columns=(
        Column(name="torque", source="Torque [Nm]", unit="N.m"),
        Column(name="wear", source="Tool wear [min]", unit="min"),
        Column(name="pressure", source="pressure"),
        Column(name="kind", source="Type", type="category", vocabulary=VOCABULARY),
        Column(name="failure", source="failure", role="output"),
        Column(name="quality", source="quality", role="output"),
        *(
            Column(
                name=f"grade={c}",
                source="grade",
                type="score",
                role="output",
                label="grade",
                category=c,
            )
            for c in "ABC"
        ),
    ),
    views=(
        View(),
        View(kind="raised", column=1, delta=2.5),
        View(kind="previous"),
        View(kind="previous", groups=("Type",)),
    ),
)
INPUTS, CATEGORY, OUTPUTS, SCORES = (0, 1, 2), 3, (4, 5), (6, 7, 8)

X = columns(["torque", "wear", "pressure", "kind"])
Y = columns(["failure", "quality"]) + scores("grade", ["A", "B", "C"])
"""Layouts over `CONTRACT`: the unscaled input columns, then the five outputs."""

EDGES = (0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 300.0, 308.6, 8.6, 0.1, 0.3)
numbers = st.one_of(
    st.sampled_from(EDGES),
    st.floats(-1e3, 1e3, allow_subnormal=False),
    st.integers(-4, 4).map(float),
)
"""Numbers that often tie and equal decimal data."""

SMOOTH = ("min", "max", "abs", "floor", "ceil", "round")
EXACT = (*SMOOTH, "sqrt")
TRANSCENDENTAL = ("exp", "log", "sin", "cos", "tan", "tanh")
"""Functions that may differ in the last bit between mathematical libraries."""


def slots_of(role: Role) -> st.SearchStrategy[Term]:
    """Slots 0 to 2 are inputs, 3 and 4 outputs (see `banks`)."""
    return st.sampled_from(
        [Slot(index=i, role=role) for i in ((0, 1, 2) if role == "input" else (3, 4))]
    )


@cache
def terms(
    functions: tuple[str, ...] = EXACT, outputs: bool = True, members: int | None = None
) -> st.SearchStrategy[Term]:
    """Terms over three input slots, two output slots and six parameters.

    With `members`, also numbers computed from that member table, and choices.
    """
    leaves = [slots_of("input"), st.sampled_from([Param(index=i) for i in range(5)])]
    leaves += [slots_of("output")] * 2 if outputs else []
    if members is not None:
        leaves += [_reductions(functions, outputs, members)] * 2
        leaves.append(
            st.builds(
                Choose,
                condition=comparisons(functions, outputs),
                then=slots_of("input"),
                otherwise=leaves[1],
            )
        )
        leaves.append(st.builds(Coalesce, args=st.tuples(slots_of("input"), leaves[1])))

    def wider(inner: st.SearchStrategy[Term]) -> st.SearchStrategy[Term]:
        some = st.lists(inner, min_size=2, max_size=3).map(tuple)
        unary = [name for name in functions if name not in ("min", "max")]
        return st.one_of(
            st.builds(Sum, args=some),
            st.builds(Product, args=some),
            st.builds(Negate, arg=inner),
            st.builds(Quotient, numerator=inner, denominator=inner),
            st.builds(Power, base=inner, exponent=st.sampled_from([-1.0, 0.0, 0.5, 1.0, 2.0, 3.0])),
            st.builds(
                Call,
                function=st.sampled_from([name for name in functions if name in ("min", "max")]),
                args=some,
            ),
            st.builds(Call, function=st.sampled_from(unary), args=st.tuples(inner)),
        )

    return st.recursive(st.one_of(*leaves), wider, max_leaves=5)


@cache
def _reductions(functions: tuple[str, ...], outputs: bool, table: int) -> st.SearchStrategy[Term]:
    """Numbers computed from the members in `table`; those of table 0 have members in table 1."""
    inner = terms(functions, outputs, members=1 if table == 0 else None)
    return st.builds(
        Reduce,
        op=st.sampled_from(["sum", "mean", "min", "max", "count"]),
        members=st.just(table),
        arg=inner,
        skip=st.booleans(),
    )


@cache
def comparisons(
    functions: tuple[str, ...] = EXACT,
    outputs: bool = True,
    members: int | None = None,
    lagged: bool = False,
) -> st.SearchStrategy[Compare]:
    """Comparisons of every kind, with and without a tolerance; parameter 5 is the scale.

    With `lagged`, also of earlier values and of numbers over several steps; the first bounds of
    windows give the lag.
    """
    side = terms(functions, outputs, members)
    if lagged:
        slot = st.one_of(*map(slots_of, ("input", "output") if outputs else ("input",)))
        known = st.builds(Coalesce, args=st.tuples(slot, st.just(Param(index=0))))
        steps = st.sampled_from([low for low, _ in WINDOWS])
        earlier = st.builds(Lag, steps=steps, arg=st.one_of(slot, known))
        change = st.builds(lambda now, then: Sum(args=(now, Negate(arg=then))), slot, earlier)
        side = st.one_of(side, change, _over_steps(outputs))
    tolerance = st.one_of(st.none(), st.just(Param(index=4)))
    return st.builds(
        Compare,
        op=st.sampled_from(["le", "lt", "eq", "ne"]),
        left=side,
        right=side,
        tolerance=tolerance,
        scale=st.just(5),
    )


@st.composite
def _over_steps(draw: st.DrawFn, outputs: bool) -> Term:
    """A number made of values, or of a condition, over some steps or since an event.

    It takes no strategies, so that the text of a strategy stays short.
    """
    slot = st.one_of(*map(slots_of, ("input", "output") if outputs else ("input",)))

    def limit() -> Compare:
        op, limited = draw(st.sampled_from(["le", "lt"])), draw(slot)
        return Compare(op=op, left=limited, right=Param(index=2), scale=5)  # type: ignore[arg-type]

    op = draw(st.sampled_from(["sum", "mean", "min", "max"]))
    arg = draw(slot)
    if draw(st.booleans()):
        arg = Coalesce(args=(arg, Param(index=0)))
    elif draw(st.booleans()):
        arg = Choose(condition=limit(), then=Param(index=1), otherwise=Param(index=0))
    if draw(st.booleans()):
        return WindowReduce(op=op, arg=arg, since=limit())  # type: ignore[arg-type]
    ahead = draw(st.booleans())
    return WindowReduce(op=op, count=LENGTH, ahead=ahead, arg=arg)  # type: ignore[arg-type]


WINDOWS = ((7, 8), (9, 10))
COUNT = 11
LENGTH = 12
"""Parameters that hold windows, a count, and the length of a window."""


@cache
def formulas(
    functions: tuple[str, ...] = EXACT,
    outputs: bool = True,
    temporal: bool = False,
    members: bool = False,
) -> st.SearchStrategy[Formula]:
    """Formulas over all atoms; slot 5 is the category, 6 to 8 the class scores, parameter 6 a
    category code.

    With `temporal` also operators over time, their windows in parameters 7 to 10; with `members`
    also sums, choices and "at least" over two member tables, the second inside the first, its count
    in parameter 11.
    """
    atoms: list[st.SearchStrategy[Formula]] = [
        comparisons(functions, outputs, 0 if members else None, lagged=temporal)
    ] * 4
    atoms.append(st.just(CategoryIs(slot=5, param=6)))
    if members:
        atoms += [
            st.builds(Known, slot=st.integers(0, 5 if outputs else 2)),
            _counted(functions, outputs, temporal, table=0),
        ]
    if outputs:
        atoms.append(
            st.builds(
                lambda inside, strict: ClassIn(
                    inside=tuple(inside),
                    outside=tuple(i for i in (6, 7, 8) if i not in inside),
                    strict=strict,
                ),
                st.lists(st.sampled_from([6, 7, 8]), unique=True, max_size=3),
                st.booleans(),
            )
        )

    def wider(inner: st.SearchStrategy[Formula]) -> st.SearchStrategy[Formula]:
        some = st.lists(inner, min_size=2, max_size=3).map(tuple)
        return st.one_of(
            st.builds(Not, arg=inner),
            st.builds(And, args=some),
            st.builds(Or, args=some),
            st.builds(Implies, antecedent=inner, consequent=inner),
            *(_over_time(inner) if temporal else ()),
        )

    return st.recursive(st.one_of(*atoms), wider, max_leaves=5)


def _over_time(inner: st.SearchStrategy[Formula]) -> list[st.SearchStrategy[Formula]]:
    window = st.sampled_from(WINDOWS)
    sliding = st.builds(
        lambda op, window, arg: Temporal(op=op, low=window[0], high=window[1], arg=arg),
        st.sampled_from(["always", "eventually", "historically", "once"]),
        window,
        inner,
    )
    until = st.builds(
        lambda op, window, left, right, closed: Until(
            op=op, low=window[0], high=window[1], left=left, right=right, closed=closed
        ),
        st.sampled_from(["until", "since"]),
        window,
        inner,
        inner,
        st.booleans(),
    )
    return [sliding, sliding, until, st.builds(Initially, arg=inner)]


@cache
def _counted(
    functions: tuple[str, ...], outputs: bool, temporal: bool, table: int
) -> st.SearchStrategy[Formula]:
    """ "At least" a number of members of a table; those of table 0 may count members in table 1."""
    inside: list[st.SearchStrategy[Formula]] = [
        comparisons(functions, outputs, 1 if table == 0 else None, lagged=temporal)
    ]
    inside += [_counted(functions, outputs, temporal, table=1)] if table == 0 else []
    inside += _over_time(inside[0])[:1] if temporal else []
    return st.builds(
        AtLeast,
        count=st.sampled_from([None, COUNT]),
        members=st.just(table),
        arg=st.one_of(*inside),
    )


@st.composite
def banks(
    draw: st.DrawFn,
    skeletons: st.SearchStrategy[Formula] | None = None,
    rules: int = 2,
    max_rows: int = 4,
    views: int = 4,
    temporal: bool = False,
    members: bool = False,
) -> Bank:
    """A bank over `CONTRACT`, its skeleton one of `formulas` (with `temporal` and `members`) unless
    given.
    """
    skeleton = draw(
        formulas(temporal=temporal, members=members) if skeletons is None else skeletons
    )
    rows = draw(st.integers(1, max_rows))
    width = max([5, *used_slots(skeleton)]) + 1

    def choose(options: tuple[int, ...] | range, count: int) -> list[int]:
        return draw(st.lists(st.sampled_from(list(options)), min_size=count, max_size=count))

    columns = [
        choose(INPUTS, 3) + choose(OUTPUTS, 2) + [CATEGORY, *SCORES][: width - 5]
        for _ in range(rows)
    ]
    tables: list[MemberTable] = []
    for table in (0, 1) if members else ():
        owners = tables[0].count if tables else rows
        sizes = draw(st.lists(st.integers(0, 3), min_size=owners, max_size=owners))
        count, more = sum(sizes), _param_width(skeleton, table)
        tables.append(
            MemberTable(
                parent=table - 1,
                offsets=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
                slots=np.array(
                    [choose(INPUTS, 3) + choose(OUTPUTS, 2) for _ in range(count)], dtype=np.int32
                ).reshape(count, 5),
                views=np.array(
                    [choose(range(views), 5) for _ in range(count)], dtype=np.int32
                ).reshape(count, 5),
                params=np.array(
                    [draw(row_params(more)) for _ in range(count)], dtype=np.float64
                ).reshape(count, more),
            )
        )
    params = [draw(row_params(_param_width(skeleton, -1))) for _ in range(rows)]
    keyed = draw(st.booleans())
    return Bank(
        skeleton=skeleton,
        slots=np.array(columns, dtype=np.int32),
        views=np.array([choose(range(views), width) for _ in range(rows)], dtype=np.int32),
        params=np.array(params, dtype=np.float64),
        keys=np.array(
            [choose((-1, CATEGORY), 1) for _ in range(rows)] if keyed else [[]] * rows,
            dtype=np.int32,
        ).reshape(rows, int(keyed)),
        codes=np.array(
            [choose((0, 1, 2), 1) for _ in range(rows)] if keyed else [[]] * rows, dtype=np.int32
        ).reshape(rows, int(keyed)),
        weight=np.array(draw(st.lists(st.floats(0.1, 3.0), min_size=rows, max_size=rows))),
        rule=np.array(choose(range(rules), rows), dtype=np.int32),
        entity=np.array(choose((0, 1), rows), dtype=np.int32),
        unit=np.array(choose((0, 1), rows), dtype=np.int32),
        members=tuple(tables),
    )


def _param_width(skeleton: Formula, table: int) -> int:
    return LENGTH + 1 if max(used_params(skeleton, table), default=0) > 6 else 7


@st.composite
def row_params(draw: st.DrawFn, width: int) -> list[float]:
    """Five numbers, a scale, a category code; and of `width` 13 two windows, a count and a
    length.
    """
    found = [
        *draw(st.lists(numbers, min_size=5, max_size=5)),
        draw(st.floats(0.5, 50.0)),
        float(draw(st.integers(0, 2))),
    ]
    if width > 7:
        for _ in WINDOWS:
            low = draw(st.integers(0, 3))
            found += [float(low), float(draw(st.one_of(st.just(-1), st.integers(low, low + 3))))]
        found.append(float(draw(st.integers(0, 3))))
        found.append(float(draw(st.integers(1, 5))))
    return found


def bank_of(
    skeleton: Formula,
    params: list[float],
    slots: list[int],
    rows: int = 1,
    views: list[int] | None = None,
) -> Bank:
    """A bank of equal rows without keys, of rule 0, over `CONTRACT`'s columns `slots`."""

    return Bank(
        skeleton=skeleton,
        slots=np.tile(np.array(slots, dtype=np.int32), (rows, 1)),
        views=np.tile(np.array(views or [0] * len(slots), dtype=np.int32), (rows, 1)),
        params=np.tile(np.array(params, dtype=np.float64), (rows, 1)),
        keys=np.zeros((rows, 0), dtype=np.int32),
        codes=np.zeros((rows, 0), dtype=np.int32),
        weight=np.ones(rows),
        rule=np.zeros(rows, dtype=np.int32),
        entity=np.zeros(rows, dtype=np.int32),
        unit=np.zeros(rows, dtype=np.int32),
    )


def pack_of(banks: list[Bank], rules: int = 2, contract: DataContract = CONTRACT) -> Pack:
    """A pack of banks over a contract, its rules called rule_0, rule_1, ..."""
    manifest = Manifest(
        sections={name: Section(version=version) for name, version in SECTIONS.items()},
        contract=contract,
        rules=tuple(
            RuleRecord(name=f"rule_{i}", title=f"Rule {i}.", output=True) for i in range(rules)
        ),
        skeletons=tuple(bank.skeleton for bank in banks),
        entities=("", "machine_7"),
        units=("", "bar"),
        provenance=Provenance(compiler="test"),
    )
    return Pack(manifest=manifest, banks=tuple(banks))


def guarded(limit: float, view: int = 0) -> Pack:
    """If torque > `limit` then failure >= 1/2 (failure being an output)."""
    skeleton = Implies(
        antecedent=Compare(op="lt", left=Param(index=0), right=Slot(index=0), scale=2),
        consequent=Compare(
            op="le", left=Param(index=1), right=Slot(index=1, role="output"), scale=2
        ),
    )
    return pack_of([bank_of(skeleton, [limit, 0.5, 0.25], [0, 4], views=[0, view])])


def packs(max_banks: int = 3, **choices: object) -> st.SearchStrategy[Pack]:
    """Packs of up to `max_banks` banks over `CONTRACT`.

    `choices` are those of `banks`: ``packs(temporal=True, members=True)``.
    """
    return st.lists(banks(**choices), max_size=max_banks).map(pack_of)  # type: ignore[arg-type]


@st.composite
def tables(
    draw: st.DrawFn, max_rows: int = 5, unknown: bool = True
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Values of `CONTRACT`'s columns in the base view, float64 [B, C]; some unknown."""
    rows = draw(st.integers(0, max_rows))
    cell = st.one_of(numbers, numbers, numbers, st.just(np.nan)) if unknown else numbers
    table = np.array([draw(st.lists(cell, min_size=9, max_size=9)) for _ in range(rows)]).reshape(
        rows, 9
    )
    table[:, CATEGORY] = draw(st.lists(st.integers(0, 2), min_size=rows, max_size=rows))
    return table
