"""Codes of scopes, members, lists of classes, templates and example values."""

from __future__ import annotations

from fedkg_compiler.diagnostics.codes.code import Code

FORMS: dict[str, Code] = {
    "FKG046": Code(
        "An unknown scope",
        """\
A rule, knowledge or set belongs to everybody (`public`), to the server (`server`) or to each client (`client`), whose pack
never leaves it.

    rule low scope private require pressure <= 8 bar

Take one of the three.

    rule low scope client require pressure <= 8 bar
""",
    ),
    "FKG047": Code(
        "A number of members that cannot be counted",
        """\
`at least N of` counts members, so N is a whole number from 1 on.

    rule spare require at least 1.5 of (flow(?p) > 0 kg/h) over ?p in class plant:Pump

Write how many there must be. For none of them write `not any of`.

    rule spare require at least 2 of (flow(?p) > 0 kg/h) over ?p in class plant:Pump
""",
    ),
    "FKG048": Code(
        "An unknown way to join conditions over members",
        """\
Conditions over members are `all of`, `any of` and `at least N of`. `sum`, `mean`, `min`, `max` and `count` take values.

    rule spare require some of (flow(?p) > 0 kg/h) over ?p in class plant:Pump

Take one of the three.

    rule spare require any of (flow(?p) > 0 kg/h) over ?p in class plant:Pump
""",
    ),
    "FKG049": Code(
        "An unknown end of a timeline",
        """\
`ends` says what a window sees that reaches beyond the last row of a trace: with `strict` what lies there is unknown, with
`clip` the window ends with the trace.

    timeline step 5 min ends cut

Take one of the two.

    timeline step 5 min ends clip
""",
    ),
    "FKG050": Code(
        "Knowledge from a file with variables",
        """\
A decision table has a row for each case, and an earlier model an answer for each row of data; neither ranges over variables
of the graph.

    range knowledge grades of grade for ?p in class plant:Pump in table "grades.csv"

Take the quantifier away.

    range knowledge grades of grade in table "grades.csv"
""",
    ),
    "FKG051": Code(
        "A list of classes that is none",
        """\
`in` stands between a label, or a category, and the classes it may be: names or texts with commas between them, without
brackets. `not in` says which it may not be.

    rule good require grade in (A, B)

Leave the brackets away.

    rule good require grade in A, B
""",
    ),
    "FKG052": Code(
        "A template that is not followed",
        """\
`follows` stands where a condition stands, before the name of a template and its values in parentheses.

    rule usual require follows operational_range

Give the template its values.

    rule usual require follows operational_range(volume, 10, 90, 2 h)
""",
    ),
    "FKG053": Code(
        "A condition over members that lacks a part",
        """\
A condition over members has four parts: `all of`, `any of` or `at least N of`; the condition in parentheses; `over` and a
variable; and which members it stands for, a pattern or a class.

    rule closed require all of flow(?p) <= 0 kg/h over ?p in class plant:Pump

Put the condition into parentheses, and say which members are meant.

    rule closed require all of (flow(?p) <= 0 kg/h) over ?p in class plant:Pump
""",
    ),
    "FKG054": Code(
        "An example value that is none",
        """\
The values of an example are all numbers, with the unit behind the last one, or all classes. A value that is not known is
written `unknown`.

    example of recovers holds for pressure = 7 nan 9 bar

Write it so.

    example of recovers holds for pressure = 7 unknown 9 bar
""",
    ),
    "FKG055": Code(
        "An inference that looks into no template",
        """\
Behind `in` stands the name of a declared template with its arguments in parentheses, not a formula. What is looked for is
among the arguments, with its question mark.

    infer usual per client find ?low, ?high in ?low <= volume and volume <= ?high

Declare the formula as a template, in which its parameters stand without question marks, and name it.

    template inside(x, low, high) = low <= x and x <= high
    infer usual per client find ?low, ?high in inside(volume, ?low, ?high)
""",
    ),
}
