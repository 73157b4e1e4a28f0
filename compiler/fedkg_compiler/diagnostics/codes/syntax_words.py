"""Codes of statements that do not parse: words, signs and brackets."""

from __future__ import annotations

from fedkg_compiler.diagnostics.codes.code import Code

WORDS: dict[str, Code] = {
    "FKG001": Code(
        "This word does not start a statement",
        """\
A word at the left edge begins a statement, and the first word says which one: `use`, `prefix`, `timeline`, `rows are`,
`signal`, `output`, `label`, `rule`, `template`, `infer`, `range knowledge`, `predict knowledge`, `set`, `cause`,
`example`, `shapes` or `queries`.

    rul low_pressure require pressure <= 8 bar

Spell the word as above; indent a line that only continues the statement before it.

    rule low_pressure require pressure <= 8 bar
""",
    ),
    "FKG002": Code(
        "This is not expected here",
        """\
The statement makes sense up to this place, and what stands here cannot follow. The help line says what could.

    rule low_pressure weight heavy require pressure <= 8 bar

Write one of the things that the help line names, or take away what is too much.

    rule low_pressure weight 2 require pressure <= 8 bar
""",
    ),
    "FKG003": Code(
        "The statement ends too early",
        """\
Something is still missing when the next statement begins. A statement goes on over the lines that are indented below
it.

    rule low_pressure require pressure <=

Write what the help line names; if it is there, indent its line.

    rule low_pressure require pressure <=
      8 bar
""",
    ),
    "FKG004": Code(
        "A brace is never closed",
        """\
A graph pattern stands between `{` and `}`. Inside it quotes and IRIs must be closed, too, and its lines are indented
like all lines that continue a statement.

    rule limits for ?p where { ?p a plant:Pump
      require pressure(?p) <= 8 bar

Close the brace.

    rule limits for ?p where { ?p a plant:Pump }
      require pressure(?p) <= 8 bar
""",
    ),
    "FKG005": Code(
        "A parenthesis is never closed",
        """\
Every `(` needs its `)`, every `[` its `]`, within the same statement.

    rule both require (a >= 1 and b >= 1

Close it where the group ends.

    rule both require (a >= 1 and b >= 1)
""",
    ),
    "FKG006": Code(
        "A word is misspelt",
        """\
The word is not one that can stand here, but nearly is. Words of the language are written in small letters.

    rule low_pressure requre pressure <= 8 bar

Take the word that is offered.

    rule low_pressure require pressure <= 8 bar
""",
    ),
    "FKG007": Code(
        "A unit has several words",
        """\
A unit is written as one word without spaces: `N.m`, `kg/h`, `m^3/h`, `1/min`. With spaces around it, `/` divides by the
next value.

    rule gentle require torque <= 60 N m

Join the parts by `.` or `/`.

    rule gentle require torque <= 60 N.m
""",
    ),
    "FKG008": Code(
        "A decimal comma",
        """\
Decimals are written with a point. A comma separates the members of a list.

    rule balance require inflow == outflow +/- 0,5 kg/h

Write a point. Tables may keep their decimal commas: they are found out when a table is read.

    rule balance require inflow == outflow +/- 0.5 kg/h
""",
    ),
    "FKG009": Code(
        "`and` is mixed with `or`",
        """\
People do not agree which of the two binds tighter, so the language does not guess.

    rule either require a >= 1 and b >= 1 or c >= 1

Put one of the two in parentheses.

    rule either require (a >= 1 and b >= 1) or c >= 1
""",
    ),
    "FKG010": Code(
        "This is no comparison",
        """\
Values are compared by `<=`, `>=`, `==`, `!=`, `<` and `>`, or by the signs ≤, ≥ and ≠.

    rule closed require valve = 0

Write the comparison that is meant.

    rule closed require valve == 0
""",
    ),
    "FKG011": Code(
        "An arrow",
        """\
A consequence is written in words, so that it can be read aloud.

    rule follows require a >= 1 -> b >= 1

Write `if ... then ...`.

    rule follows require if a >= 1 then b >= 1
""",
    ),
    "FKG012": Code(
        "A logical sign",
        """\
`and`, `or` and `not` are words here.

    rule both require a >= 1 && b >= 1

Write the word.

    rule both require a >= 1 and b >= 1
""",
    ),
    "FKG013": Code(
        "The wrong quotes",
        """\
A text stands in plain double quotes. Word processors turn them into typographic ones, which look alike and are other
characters.

    rule low “Keep it low.” require pressure <= 8 bar

Write the plain quote. A column's own name, where it stands for a signal, has backquotes.

    rule low "Keep it low." require pressure <= 8 bar
""",
    ),
    "FKG014": Code(
        "A text is never closed",
        """\
A text, a name in backquotes and an IRI end on the line on which they begin.

    signal torque in N.m column "Torque [Nm]

Write the second quote.

    signal torque in N.m column "Torque [Nm]"
""",
    ),
    "FKG015": Code(
        "An option after the condition",
        """\
A rule's options come first and `require` with its condition last; so every word of the language can also be the name of
a signal.

    rule low require pressure <= 8 bar kind physical

Move the option before `require`.

    rule low kind physical require pressure <= 8 bar
""",
    ),
    "FKG016": Code(
        "A prefix word in the middle needs parentheses",
        """\
`always`, `eventually`, `if` and their like reach to the end of the condition, as when read aloud. In the middle of a
condition parentheses say how far.

    rule calm require pressure <= 5 bar and always flow >= 1

Put the part that the word governs in parentheses, the word inside them.

    rule calm require pressure <= 5 bar and (always flow >= 1)
""",
    ),
    "FKG017": Code(
        "A time, or `within`, at the wrong place",
        """\
`within` gives a time, and stands behind the word it belongs to: `eventually within 2 h`, `only after ... within 30
min`. How long something lasts is said before its condition, too: `always within 10 min pressure <= 5 bar`; so is when:
`always [10 min, end] pressure <= 5 bar`. By how much two values may differ is a tolerance.

    rule balance require inflow == outflow within 0.5 kg/h

Write a tolerance as `+/-` or `±`.

    rule balance require inflow == outflow +/- 0.5 kg/h
""",
    ),
    "FKG018": Code(
        "A value is no condition",
        """\
A rule requires a condition: something that holds or does not. A signal alone is a number.

    rule trips require trip only after heat >= 3

Compare the value with something.

    rule trips require trip >= 1 only after heat >= 3
""",
    ),
    "FKG019": Code(
        "A comparison where a value belongs",
        """\
Functions take values, and a condition that is complete cannot be compared once more.

    rule highest require max(a >= 1, b) <= 3

Compare the whole, or join two conditions by `and`.

    rule highest require a >= 1 and max(a, b) <= 3
""",
    ),
    "FKG020": Code(
        "`if` without its `then`",
        """\
A conditional has exactly two parts, `if ... then ...`. There is no `else`: what must hold in the other case is a second
rule. There are no `unless`, `when` or `implies` in conditions.

    rule relief require if pressure >= 8 bar

Write the part behind `then`.

    rule relief require if pressure >= 8 bar then valve >= 1
""",
    ),
    "FKG021": Code(
        "A name is missing, or is no name",
        """\
A declaration begins with a name of letters, digits and `_`, which does not begin with a digit. A signal can also have
the name of its column, as it is, in backquotes.

    signal tank-pressure in bar

Choose a plain name, or use backquotes.

    signal `tank-pressure` in bar
""",
    ),
    "FKG022": Code(
        "A mark is missing",
        """\
Variables begin with `?`, files stand in "quotes", graph patterns in { braces }, IRIs in <angle brackets>; `in` says
`class`, `table` or `query`; a number is no class.

    rule limits for tag, ?high in table "limits.csv" require value(?tag) <= ?high

Write the mark that the help line shows.

    rule limits for ?tag, ?high in table "limits.csv" require value(?tag) <= ?high
""",
    ),
    "FKG023": Code(
        "This is no number",
        """\
A number has digits, at most one point with digits on both sides, and an exponent if need be: `0.5`, `1200`, `1e6`. Its
digits stand together, and a minus may precede it, no plus.

    rule fast require speed <= 10 000

Write the number as the help line shows it.

    rule fast require speed <= 10000
""",
    ),
    "FKG024": Code(
        "A sign from another language",
        """\
Comments begin with `#`, powers are written `^`, products `*`, quotients `/`; a statement has no semicolon and no square
brackets except around a window of time.

    rule power require torque ** 2 <= 100

Write the sign that the help line names.

    rule power require torque ^ 2 <= 100
""",
    ),
    "FKG025": Code(
        "A bracket closes nothing",
        """\
There is no open bracket that this one could close.

    rule both require a >= 1) and b >= 1

Take it away, or open the bracket further to the left.

    rule both require a >= 1 and b >= 1
""",
    ),
    "FKG026": Code(
        "A line at the left edge continues a statement",
        """\
Only the first line of a statement stands at the left edge. This line makes sense as part of the statement above, and
was read so.

    rule both require a >= 1
    and b >= 1

Indent it.

    rule both require a >= 1
      and b >= 1
""",
    ),
    "FKG027": Code(
        "A statement is indented",
        """\
An indented line continues the statement above, so this one would become part of it. It was read as a statement of its
own.

    rule first require a >= 1
      rule second require b >= 1

Move it to the left edge.

    rule first require a >= 1
    rule second require b >= 1
""",
    ),
    "FKG028": Code(
        "`as` goes with `rises`",
        """\
A monotone condition says what must never happen as a feature rises. That something falls as the feature falls is the
same as that it rises as the feature rises.

    rule wear_matters require failure never rises as wear falls

Turn the first word round.

    rule wear_matters require failure never falls as wear rises
""",
    ),
    "FKG029": Code(
        "Something is missing in between",
        """\
Two values or two conditions stand side by side with nothing that joins them.

    rule both require a >= 1 (b >= 1)

Join conditions by `and` or `or`, values by `+`, `-`, `*`, `/` or a comparison.

    rule both require a >= 1 and (b >= 1)
""",
    ),
}
