"""Codes of sheets, empty quantifiers and left-out rows, FKG170 to FKG199."""

from __future__ import annotations

from fedkg_compiler.diagnostics.codes.code import Code

SHEETS: dict[str, Code] = {
    "FKG170": Code(
        "a sheet that cannot be read",
        """\
`in table` names a CSV, TSV, Parquet or xlsx file. Its path counts from the folder of the rule file.

    rule r for ?tag, ?low, ?high in table "limts.csv" require ?low <= value(?tag) <= ?high  # did you mean "limits.csv"?

    # limits.csv
    tag,low,high
    PT-204,1,8

Correct the name, or put the file where the rule file expects it.""",
    ),
    "FKG171": Code(
        "a variable without a column in the sheet",
        """\
The variables of `in table` are the sheet's headers. Upper and lower case, blanks, underscores and a unit in brackets
behind the header do not count: ?low takes the column `Low [bar]`.

    rule r for ?tag, ?hgih in table "limits.csv" require value(?tag) <= ?hgih  # the sheet has `high`

    # limits.csv
    tag,high
    PT-204,8

Name the variable as the header.""",
    ),
    "FKG173": Code(
        "a quantifier that gives nothing",
        """\
The pattern, class or sheet has no solution, so the rule holds for nothing and checks nothing: a warning, and an error where
that goes for every rule. Mostly the graph with the
facts was not given, or a property is spelled differently there.

    prefix plant: <https://example.org/plant#>
    signal torque in N.m
    rule r for ?m, ?limit where { ?m plant:maxTorque ?limit } require torque <= ?limit  # no machine of the graph has a plant:maxTorque

Give the graph beside the rule file, or mend the pattern.""",
    ),
    "FKG174": Code(
        "values that are missing",
        """\
A row of the sheet, or a solution of the pattern, has no value for a variable of the rule. A limit that is not given does
not limit: of `?low <= value(?tag) <= ?high` the side that has its number is required, and a row with neither is left
out. This is a note, no mistake.

    rule r for ?tag, ?low, ?high in table "limits.csv" require ?low <= value(?tag) <= ?high  # of PT-204: 1 <= PT-204

    # limits.csv
    tag,low,high
    PT-204,1,
    PT-205,1,8
""",
    ),
    "FKG176": Code(
        "a class that should give more than its members",
        """\
`in class` gives one variable: the members of the class, those of its subclasses included.

    prefix plant: <https://example.org/plant#>
    signal torque in N.m
    rule r for ?zone, ?limit in class plant:Zone require torque <= ?limit

For more of each member write a pattern: for ?zone, ?limit where { ?zone a plant:Zone ; plant:limit ?limit }.""",
    ),
}
"""Codes FKG170 to FKG199."""
