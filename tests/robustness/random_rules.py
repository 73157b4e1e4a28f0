"""Random rules over time and members, as text and as plain Python functions.

This module uses neither packs nor the interpreter, so it checks the whole path from text to
verdict.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

Truth = bool | None
Cells = dict[str, float]

GRAPH = """@prefix plant: <https://example.org/plant#> .
@prefix sosa: <http://www.w3.org/ns/sosa/> .
@prefix fkg: <https://w3id.org/fedkg/ns#> .
@prefix qudt: <http://qudt.org/schema/qudt/> .
@prefix unit: <http://qudt.org/vocab/unit/> .
plant:flow a sosa:ObservableProperty .
plant:torque a sosa:ObservableProperty ; fkg:column "Torque" .
plant:Mill fkg:keyColumn "machine" .
plant:M1 a plant:Mill ; plant:low 2 ; plant:high 5 . plant:M2 a plant:Mill ; plant:high 3 .
plant:M3 a plant:Mill ; plant:low 1 .
plant:p1 a plant:Pipe .
plant:f1 sosa:observes plant:flow ; sosa:isHostedBy plant:p1 ; fkg:column "F1" .
plant:p2 a plant:Pipe .
plant:f2 sosa:observes plant:flow ; sosa:isHostedBy plant:p2 ; fkg:column "F2" ;
    qudt:hasUnit unit:KiloGM-PER-SEC .
"""
HEAD = """prefix plant: <https://example.org/plant#>
timeline time column "Time" step 5 min trace column "heat"{ends}
signal a in bar
signal b in kPa
signal valve in boolean
signal flow(?p) is plant:flow in kg/h
signal torque(?m) is plant:torque in N.m
label grade classes A, B
"""
MILLS: dict[str, tuple[float, float]] = {"M1": (2, 5), "M2": (-math.inf, 3), "M3": (1, math.inf)}
LIMITS = (
    "for ?m, ?low, ?high where { ?m a plant:Mill OPTIONAL { ?m plant:low ?low } OPTIONAL { "
    "?m plant:high ?high } }"
)
APART = 0.031
"""Added to one side of each comparison, so that no verdict depends on the last digit."""


@dataclass(slots=True)
class Trace:
    """The rows of one trace (and one machine) by step.

    Values in bar, kg/h, N.m, NaN where unknown.
    """

    rows: dict[int, Cells]
    clip: bool
    first: int = field(init=False)
    last: int = field(init=False)

    def __post_init__(self) -> None:
        self.first, self.last = min(self.rows), max(self.rows)

    def value(self, name: str, step: int) -> float:
        return self.rows[step][name] if step in self.rows else math.nan


Meaning = Callable[[Trace, int, str], Truth]
Number = Callable[[Trace, int, str], float]


@dataclass(frozen=True, slots=True)
class Written:
    """A rule: its text behind ``rule NAME``, its meaning, and the machines it is bound to ("".

    None).
    """

    text: str
    meaning: Meaning
    machines: tuple[str, ...] = ("",)


def no(value: Truth) -> Truth:
    return None if value is None else not value


def every(values: Iterable[Truth]) -> Truth:
    found = list(values)
    return False if False in found else None if None in found else True


def any_true(values: Iterable[Truth]) -> Truth:
    return no(every(no(value) for value in values))


def at_most(left: float, right: float) -> Truth:
    return None if math.isnan(left) or math.isnan(right) else left <= right


class Writer:
    """Writes rules at random."""

    def __init__(self, source: random.Random) -> None:
        self.random = source

    def rule(self) -> Written:
        text, meaning = self.condition(self.random.choice([1, 2, 2, 3]))
        if self.random.random() < 0.75:
            return Written(f"require {text}", meaning)

        def inside(trace: Trace, step: int, machine: str) -> Truth:
            low, high = MILLS[machine]
            value = trace.value("torque", step)
            return every([at_most(low, value), at_most(value, high)])

        window, low, high = self.window()
        held = temporal(
            "always", low, high, lambda t, i, m: every([inside(t, i, m), meaning(t, i, m)])
        )
        return Written(
            f"{LIMITS} require always {window or '[0, end]'} ((?low <= torque(?m) <= "
            f"?high) and ({text}))",
            held,
            tuple(MILLS),
        )

    def window(self) -> tuple[str, int, int | None]:
        low = self.random.choice([0, 0, 0, 1, 2])
        high = low + self.random.choice([0, 1, 2, 3])
        shapes: list[tuple[str, int, int | None]] = [
            ("", 0, None),
            (f"[{low}, end]", low, None),
            (f"[{low}, {high}]", low, high),
            (f"[{max(0, 5 * low - 2)} min, {5 * high + 4} min]", low, high),
        ]
        return self.random.choice(shapes)

    def condition(self, depth: int, *, member: bool = False) -> tuple[str, Meaning]:
        kind = self.random.choice(
            [
                "not",
                "join",
                "join",
                "if",
                "window",
                "window",
                "next",
                "until",
                "until",
                "initially",
                "after",
                "members",
                "lasting",
                "edge",
                "begins",
                "equal",
                "weak",
                "weak until",
                "end",
                "number",
                "number",
            ]
        )
        if depth == 0 or self.random.random() < 0.12 or (member and kind in ("after", "members")):
            return self.atom(member)
        text, one = self.condition(depth - 1, member=member or kind == "members")
        other_text, other = self.condition(depth - 1, member=member)
        window, low, high = self.window()
        match kind:
            case "not":
                return f"not ({text})", lambda t, i, p: no(one(t, i, p))
            case "join":
                word = self.random.choice(["and", "or"])
                join = every if word == "and" else any_true
                return f"({text}) {word} ({other_text})", lambda t, i, p: join(
                    [one(t, i, p), other(t, i, p)]
                )
            case "if":
                return f"if ({text}) then ({other_text})", lambda t, i, p: any_true(
                    [no(one(t, i, p)), other(t, i, p)]
                )
            case "window":
                word = self.random.choice(["always", "eventually", "historically", "once"])
                return f"{word} {window or '[0, end]'} ({text})", temporal(word, low, high, one)
            case "next":
                word = self.random.choice(["next", "previous"])
                return f"{word} ({text})", temporal(
                    "eventually" if word == "next" else "once", 1, 1, one
                )
            case "until":
                word, closed = self.random.choice(["until", "since"]), self.random.random() < 0.4
                meaning = until(word == "since", low, high, one, other, closed)
                return (
                    f"(({text}) {word} {'closed ' if closed else ''}{window} ({other_text}))",
                    meaning,
                )
            case "initially":
                return f"initially ({text})", lambda t, i, p: one(t, t.first, p)
            case "lasting":
                steps = self.random.choice([1, 2, 3])
                return f"({text}) for at least {5 * steps} min", lasting(steps, one)
            case "edge":
                return f"({text}) becomes true", edge(one)
            case "begins":
                return f"({text}) begins", begins(one)
            case "equal":
                word = self.random.choice(["iff", "xor"])
                return f"(({text}) {word} ({other_text}))", lambda t, i, p: equal(
                    word, one(t, i, p), other(t, i, p)
                )
            case "weak":
                word = self.random.choice(["next", "previous"])
                there = temporal("eventually" if word == "next" else "once", 1, 1, one)
                return f"weak {word} ({text})", lambda t, i, p: any_true(
                    [at_edge(t, i, last=word == "next"), there(t, i, p)]
                )
            case "weak until":
                word, closed = self.random.choice(["until", "since"]), self.random.random() < 0.4
                back = word == "since"
                reached = until(back, low, high, one, other, closed)
                held = temporal("historically" if back else "always", 0, high, one)
                return (
                    f"(({text}) weak {word} {'closed ' if closed else ''}{window} ({other_text}))",
                    lambda t, i, p: any_true([reached(t, i, p), held(t, i, p)]),
                )
            case "end":
                word = self.random.choice(["start", "end"])
                return f"(at the {word}) or ({text})", lambda t, i, p: any_true(
                    [at_edge(t, i, last=word == "end"), one(t, i, p)]
                )
            case "number":
                return self.number(text, one, other_text, other)
            case "after":
                return f"(({text}) only after ({other_text}) within 5 min)", only_after(one, other)
            case _:
                count, need = self.random.choice([("all", 2), ("any", 1), ("at least 2", 2)])
                return f"{count} of ({text}) over ?p in class plant:Pipe", lambda t, i, p: enough(
                    need, [one(t, i, q) for q in ("p1", "p2")]
                )

    def number(
        self, text: str, one: Meaning, other_text: str, other: Meaning
    ) -> tuple[str, Meaning]:
        """A limit on a number that is made of a condition at several steps."""
        word = self.random.choice(["count", "share", "duration", "starts"])
        counted = edge(one) if word == "starts" else one
        steps, most = self.random.choice([1, 2, 3]), self.random.choice([0, 1, 2])
        unit, scale = {"share": (" %", 100 / steps), "duration": (" min", 5)}.get(word, ("", 1))
        way = self.random.choice(["last", "next", "since"])
        if way == "since" and word != "share":
            shown = f"{word} of ({text}) since ({other_text}) <= {scale * most:.0f}{unit}"
            return shown, limited(most, counted, since=other)
        way = "last" if way == "since" else way
        limit = f"{scale * most + 0.1:.1f}{unit}"
        shown = f"{word} of ({text}) over {way} {5 * steps} min <= {limit}"
        return shown, limited(most, counted, steps=steps, way=1 if way == "next" else -1)

    def atom(self, member: bool) -> tuple[str, Meaning]:
        number = self.random.choice([1, 2, 3, 4])
        if member:
            past = self.random.random() < 0.2
            read = before if past else now
            return (
                f"{'past ' if past else ''}flow(?p) + {APART} kg/h <= {number} kg/h",
                lambda t, i, p: at_most(read(t, i, p) + APART, number),
            )
        match self.random.randrange(6):
            case 0:
                return "valve is on", lambda t, i, p: is_one(t.value("valve", i))
            case 1:
                return "grade in A", lambda t, i, p: is_one(t.value("grade", i))
            case 2:
                word = self.random.choice(["sum", "max", "mean"])
                text = f"{word} of flow(?p) over ?p in class plant:Pipe <= {number * 1000 + 31} g/h"
                return text, lambda t, i, p: at_most(
                    combine(word, [now(t, i, "p1"), now(t, i, "p2")]), number + APART
                )
            case 3:
                return f"past a + {APART} bar <= b", lambda t, i, p: at_most(
                    before(t, i, "a") + APART, now(t, i, "b")
                )
            case 4:
                return f"a > {number * 100 - 31} kPa", lambda t, i, p: no(
                    at_most(now(t, i, "a"), number - 0.31)
                )
            case _:
                return f"a - b + {APART} bar <= {number} bar", lambda t, i, p: at_most(
                    now(t, i, "a") - now(t, i, "b") + APART, number
                )


def now(trace: Trace, step: int, name: str) -> float:
    return trace.value(name, step)


def before(trace: Trace, step: int, name: str) -> float:
    return trace.value(name, step - 1) if step in trace.rows else math.nan


def is_one(value: float) -> Truth:
    return None if math.isnan(value) else value == 1


def combine(word: str, values: Sequence[float]) -> float:
    if any(map(math.isnan, values)):
        return math.nan
    return {"sum": sum(values), "max": max(values), "mean": sum(values) / len(values)}[word]


def enough(need: int, values: Sequence[Truth]) -> Truth:
    if values.count(True) >= need:
        return True
    return None if len(values) - values.count(False) >= need else False


def temporal(word: str, low: int, high: int | None, arg: Meaning) -> Meaning:
    way = -1 if word in ("historically", "once") else 1

    def meaning(trace: Trace, step: int, member: str) -> Truth:
        found: list[Truth] = []
        for away in range(low, (trace.last - trace.first if high is None else high) + 1):
            at = step + way * away
            if trace.first <= at <= trace.last:
                found.append(arg(trace, at, member))
            elif high is not None and not trace.clip:
                found.append(None)
        return every(found) if word in ("always", "historically") else any_true(found)

    return meaning


def lasting(steps: int, arg: Meaning) -> Meaning:
    """Seen now and at each of so many steps back; not seen that long near the beginning."""
    held = temporal("historically", 0, steps, arg)

    def meaning(trace: Trace, step: int, member: str) -> Truth:
        begins = trace.clip and step - steps < trace.first
        return every([held(trace, step, member), not begins])

    return meaning


def edge(arg: Meaning) -> Meaning:
    before_ = temporal("once", 1, 1, lambda t, i, p: no(arg(t, i, p)))
    return lambda t, i, p: every([arg(t, i, p), before_(t, i, p)])


def begins(arg: Meaning) -> Meaning:
    """True and not true in the step before; there is none before the first step."""

    def meaning(trace: Trace, step: int, member: str) -> Truth:
        earlier = arg(trace, step - 1, member) if step > trace.first else False
        return every([arg(trace, step, member), no(earlier)])

    return meaning


def equal(word: str, left: Truth, right: Truth) -> Truth:
    """``left iff right`` or ``left xor right``."""
    if left is None or right is None:
        return None
    return (left == right) == (word == "iff")


def at_edge(trace: Trace, step: int, *, last: bool) -> Truth:
    return step == (trace.last if last else trace.first)


def limited(
    most: int, arg: Meaning, *, steps: int = 0, way: int = -1, since: Meaning | None = None
) -> Meaning:
    """At most so many steps of a window at which a condition is true."""

    def meaning(trace: Trace, step: int, member: str) -> Truth:
        window = [step + way * away for away in range(steps)]
        if since is not None:
            at, window = step, [step]
            while at >= trace.first and since(trace, at, member) is not True:
                if since(trace, at, member) is None:
                    return None
                at -= 1
                window.append(at)
        if any(at not in trace.rows for at in window):
            return None
        found = [arg(trace, at, member) for at in window]
        return None if None in found else found.count(True) <= most

    return meaning


def until(
    back: bool, low: int, high: int | None, left: Meaning, right: Meaning, closed: bool
) -> Meaning:
    way = -1 if back else 1

    def meaning(trace: Trace, step: int, member: str) -> Truth:
        def asked(arg: Meaning, at: int) -> Truth:
            return arg(trace, at, member) if trace.first <= at <= trace.last else None

        found: list[Truth] = []
        for away in range(low, (trace.last - trace.first if high is None else high) + 1):
            at = step + way * away
            if not trace.first <= at <= trace.last and (high is None or trace.clip):
                break
            kept = [asked(left, step + way * j) for j in range(away + closed)]
            found.append(every([asked(right, at), *kept]))
        return any_true(found)

    return meaning


def only_after(effect: Meaning, cause: Meaning) -> Meaning:
    onset, recently = begins(effect), temporal("once", 0, 1, cause)
    return lambda t, i, p: any_true([no(onset(t, i, p)), recently(t, i, p)])
