"""Codes of what rules mean together, FKG500 to FKG539."""

from __future__ import annotations

from fedkg_compiler.diagnostics.codes.code import Code

REASONING: dict[str, Code] = {
    "FKG500": Code(
        "rules that contradict each other",
        """\
No value satisfies these rules together: whatever the table holds or the model predicts, one of them is violated. The rules named are
the smallest such set: leave any one out, and the others can be kept. Numbers of the graph and of sheets count as they are.

    signal torque in N.m
    rule strong require torque >= 70 N.m
    rule gentle require torque <= 60 N.m

Change a bound, or say with `if ... then ...` where each rule applies.""",
    ),
    "FKG501": Code(
        "a rule that no value inside the span keeps",
        """\
The rule asks for a value that the declared span excludes. Mostly a unit is wrong, or a bound has a digit too many.

    signal torque in N.m span 0 .. 80
    rule strong require torque >= 700 N.m

Correct the bound, its unit, or the span.""",
    ),
    "FKG502": Code(
        "rules that contradict each other under a condition",
        """\
Rules of the form `if ... then ...` can all be kept, but only by never meeting the condition: where it holds, one of them is violated.

    signal speed in rpm span 0 .. 3000
    output failure in probability span 0 .. 1
    rule fast require if speed > 2000 rpm then failure >= 0.5
    rule turning require if speed > 1500 rpm then failure < 0.4

Make the conditions exclude each other, or change what one of the rules asks for.""",
    ),
    "FKG503": Code(
        "a rule that never applies",
        """\
The condition after `if` never holds, inside the declared spans or where the other rules are kept. The rule checks nothing. It is a note
where that goes for some of the rule's entities alone.

    signal wear in min span 0 .. 260
    signal torque in N.m
    rule worn require if wear > 300 min then torque <= 40 N.m

Correct the condition, its unit, or the span.""",
    ),
    "FKG504": Code(
        "a rule that never fails",
        """\
Every value inside the declared spans satisfies the rule, so it checks nothing. That a bound of a single signal stands at the very end of
its span is no reason for this warning. It is a note where that goes for some of the rule's entities alone. A rule can also never be found
violated because it is unknown where it does not hold: `if x == 0 bar then y / x > 5`.

    signal wear in min span 0 .. 260
    rule worn require wear <= 4000 min

Correct the bound, its unit, or the span.""",
    ),
    "FKG505": Code(
        "a rule that follows from others",
        """\
Whatever keeps the other rules keeps this one too. A hard rule does not follow from soft ones, as those may be broken; and a public rule
does not follow from private ones.

    signal torque in N.m
    rule strict require torque <= 60 N.m
    rule loose require torque <= 70 N.m

Leave the rule out, or tighten it.""",
    ),
    "FKG506": Code(
        "a rule that is there twice",
        """\
Two rules say the same, perhaps in different words or units; their weights add up. The later one is named.

    signal pressure in bar
    rule here require pressure <= 6 bar
    rule there require pressure <= 600 kPa

Leave one of them out.""",
    ),
    "FKG507": Code(
        "rules of which it is not known how they go together",
        """\
A check asks of every rule whether it contradicts others, repeats them, or can never fail. That takes time, and a check takes a few seconds
at most: of these rules it could not be told. Nothing is wrong with them. They are compiled, every table is checked under them, and
whatever else the check says holds.

    signal torque in N.m span 0 .. 80
    signal speed in rpm span 0 .. 3000
    signal wear in min span 0 .. 260
    rule bent require exp(torque / 1 N.m) * sin(speed / 1 rpm) <= (wear / 1 min)^3

To have it told, check fewer rules at once, or write the terms simpler: sums and limits are told at once, products of signals later,
exponentials and sines last.""",
    ),
    "FKG510": Code(
        "a signal that no rule reads",
        """\
The signal, output or label is declared, and no rule speaks of it. Perhaps a rule was forgotten, or another name is used in it.

    signal torque in N.m
    signal speed in rpm
    rule capacity require torque <= 60 N.m

Write a rule about it, or leave the declaration out.""",
    ),
    "FKG511": Code(
        "entities that no rule reaches",
        """\
Rules range over a class, and some of its members have no constraint at all: mostly a fact is missing that the rules' patterns ask for.

    prefix plant: <https://example.org/plant#>
    signal torque(?m) is plant:torque in N.m
    rule torque for ?m, ?max where { ?m a plant:Mill ; plant:maxTorque ?max } require torque(?m) <= ?max

    # plant.ttl
    @prefix plant: <https://example.org/plant#> .
    @prefix fkg: <https://w3id.org/fedkg/ns#> .
    @prefix sosa: <http://www.w3.org/ns/sosa/> .
    plant:Mill fkg:keyColumn "machine" .
    plant:M1 a plant:Mill ; plant:maxTorque 60 . plant:M2 a plant:Mill .
    plant:torque a sosa:ObservableProperty ; fkg:column "Torque [Nm]" .

A mill without plant:maxTorque is never checked. Give it one, or write a rule for those without.""",
    ),
}
