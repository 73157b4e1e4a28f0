"""Codes of statements that parse and still cannot be meant so, and of files that are no rule files."""

from __future__ import annotations

from fedkg_compiler.diagnostics.codes.code import Code

CHECKS: dict[str, Code] = {
    "FKG030": Code(
        "An option is written twice",
        """\
Each clause of a statement stands once; the first one counts until the other is gone.

    rule low kind capacity kind physical require pressure <= 8 bar

Keep one of them.

    rule low kind physical require pressure <= 8 bar
""",
    ),
    "FKG031": Code(
        "An unknown kind of rule",
        """\
The kinds are `temporal`, `causal`, `capacity`, `physical` and `other`. The kind sorts the rule in reports and in the
families of a score; it does not change what the rule means.

    rule low kind capasity require pressure <= 8 bar

Take one of the five.

    rule low kind capacity require pressure <= 8 bar
""",
    ),
    "FKG032": Code(
        "A chain that turns round",
        """\
A chain of comparisons goes one way, `1 <= x < 5` or `5 > x >= 1`; a chain that turns says less than it seems to, and
`!=` in a chain says hardly anything.

    rule middle require low <= pressure >= high

Write two comparisons.

    rule middle require low <= pressure and pressure >= high
""",
    ),
    "FKG033": Code(
        "A tolerance without ==",
        """\
A tolerance says by how much two sides of `==` may differ. A bound is moved by writing another number.

    rule low require pressure <= 8 bar +/- 0.5 bar

Move the bound, or write `==`.

    rule low require pressure <= 8.5 bar
""",
    ),
    "FKG034": Code(
        "Nested too deep",
        """\
Parts can be nested 60 deep and sums can have 200 terms. Who needs more has mostly generated the rule, and can generate
several instead.

    rule deep require
      not not not not not not not not not not not not not not not not not not not not not not not not
      not not not not not not not not not not not not not not not not not not not not not not not not
      not not not not not not not not not not not not not not a >= 1

Split the rule.

    rule deep require a >= 1
""",
    ),
    "FKG035": Code(
        "A statement is too long",
        """\
A statement has at most 200,000 characters. Mostly this means that the file is no rule file, or that a list belongs into
a sheet or a graph: `for ?tag, ?low in table "limits.csv"`.
""",
    ),
    "FKG036": Code(
        "An unknown escape",
        r"""In a text a backslash begins an escape: `\"`, `\\`, `\n`, `\t`, `\r`, `\u00e4`.

    rule limits for ?tag, ?high in table "C:\data.csv" require value(?tag) <= ?high

Double the backslash, or write a plain `/` in paths.

    rule limits for ?tag, ?high in table "C:/data.csv" require value(?tag) <= ?high
""",
    ),
    "FKG037": Code(
        "A number is too large",
        """\
Numbers are kept as 64-bit floating point, which ends at about 1.8e308.

    rule low require pressure <= 1e999

Leave an unlimited side of a span away, or write a number that means something.

    rule low require pressure <= 1e9
""",
    ),
    "FKG038": Code(
        "An empty span",
        """\
A span has its lower end first, and the two ends differ.

    signal temperature in degC span 1200 .. 0

Turn the ends round.

    signal temperature in degC span 0 .. 1200
""",
    ),
    "FKG039": Code(
        "A name twice in one list",
        """\
The variables of a quantifier, the parameters of a template and the classes of a label are all different.

    rule limits for ?tag, ?tag in table "limits.csv" require value(?tag) <= 5

Give each its own name.

    rule limits for ?tag in table "limits.csv" require value(?tag) <= 5
""",
    ),
    "FKG040": Code(
        "A label without classes",
        """\
A label is an output that takes one of several classes, and they have to be known: their order is the order of the
model's scores.

    label grade column "Grade"

Name them.

    label grade classes A, B, C column "Grade"
""",
    ),
    "FKG041": Code(
        "A time of zero",
        """\
The step of a timeline and the lag of a cause are lengths of time, and so not zero.

    timeline step 0 min

Write how long it is; a table without time needs no timeline.

    timeline step 5 min
""",
    ),
    "FKG042": Code(
        "The file is not UTF-8",
        """\
Rule files are plain text in UTF-8; UTF-16 with its byte order mark is read as well. This file has bytes that are
neither: mostly it was saved in a Western European code page, and letters such as ä or ° come out wrong. Save it as
UTF-8 in the editor.
""",
    ),
    "FKG043": Code(
        "This is no text",
        """\
There is a control character or an invisible one here. A file full of control characters is no rule file: perhaps a
pack, a workbook or an archive was meant. A single invisible character mostly came along with something copied from a
web page.

    rule low require pressure <=\u200b 8 bar

Delete the character, or name the right file.

    rule low require pressure <= 8 bar
""",
    ),
    "FKG044": Code(
        "There are more problems",
        """\
A hundred problems of a file are shown; what follows was not read to the end. Mend the first ones and check again. A
file with more than a hundred is mostly no rule file.
""",
    ),
    "FKG045": Code(
        "A table in place of a rule file",
        """\
The file is a table (CSV, Parquet or a workbook): its name says so, or most of its lines have the same separators and none
begins a statement. Rules are written in a file of their own; `fedkg eval` holds the table against them, and `fedkg new` makes a
first draft of them from the table.

    time,pressure
    10:00,7.5
    10:05,8.2

Write what must hold, and run `fedkg eval rules.fkg history.csv`.

    rule low require pressure <= 8 bar
""",
    ),
}
