"""Codes of names, declarations and types."""

from __future__ import annotations

from fedkg_compiler.diagnostics.codes.code import Code

NAMES: dict[str, Code] = {
    "FKG200": Code(
        "a name that is not declared",
        """\
Once a file declares a signal, every plain name in its rules must be declared, so that a slip is found.

    signal torque in N.m
    rule cap require torqe <= 60 N.m  # did you mean `torque`?

Declare it (`signal torqe in N.m`), or write a table's header as it stands in backquotes: `Torque [Nm]`. A file without
any declaration may use plain headers as they are.""",
    ),
    "FKG201": Code(
        "a variable that no quantifier binds",
        """\
A ?variable takes its values from the `for` of its own rule.

    rule cap for ?tag, ?limit in table "limits.csv" require value(?tag) <= ?limt  # ?limit

    # limits.csv
    tag,limit
    PT-204,8

Correct the name, or bind it.""",
    ),
    "FKG202": Code(
        "something applied that is no function",
        """\
`name(...)` is a function (min, max, abs, sqrt, exp, log, sin, cos, tan, tanh, floor, ceil, round), a signal declared for
each entity (`signal temperature(?zone) ...`), or `value(?tag)`, the column that a text names.

    rule r require maximum(a, b) <= 3 bar  # write max(a, b)""",
    ),
    "FKG203": Code(
        "a name declared twice",
        """\
Each signal, output and label is declared once, and the timeline too. The same declaration, word for word, may stand in
several files.

    signal torque in N.m
    signal torque in kN.m""",
    ),
    "FKG204": Code(
        "two rules of one name",
        """\
Reports tell rules apart by their names.

    rule limit require torque <= 60 N.m
    rule limit require speed <= 3000 rpm  # call it speed_limit""",
    ),
    "FKG205": Code(
        "too many or too few arguments",
        """\
Functions of one number take one argument, min and max two or more; a signal of each entity takes one variable of the
quantifier.

    rule r require sqrt(a, b) <= 3  # sqrt(a)""",
    ),
    "FKG206": Code(
        "entities where there are none, or none where there are some",
        """\
A signal declared as `temperature(?zone)` has a value for each zone and is written with the variable of a quantifier;
one declared as `torque` has one value for each table row and is written alone.

    prefix plant: <https://example.org/plant#>
    signal temperature(?zone) is plant:temperature in degC
    rule r require temperature <= 900 degC  # for ?zone in class plant:Zone require temperature(?zone) <= 900 degC
""",
    ),
    "FKG207": Code(
        "a signal without a column, or with several",
        """\
A signal is read from a table column: the one its `column "..."` clause names, else the one the graph gives
(`fkg:column` on its observed property, or on the sensor of an entity), else the one called as the signal. A signal of
each entity needs the entity's own sensor column, or one shared column and the key that tells which rows are about the
entity (`fkg:keyColumn` on the entity or its class, `fkg:keyValue` on the entity).

    prefix plant: <https://example.org/plant#>
    signal torque(?m) is plant:torque in N.m
    rule r for ?m in class plant:Machine require torque(?m) <= 60 N.m

    # plant.ttl
    @prefix plant: <https://example.org/plant#> .
    @prefix fkg: <https://w3id.org/fedkg/ns#> .
    @prefix sosa: <http://www.w3.org/ns/sosa/> .
    plant:M07 a plant:Machine .
    plant:torque a sosa:ObservableProperty ; fkg:column "Torque [Nm]" .

One column has the torque of all machines, and nothing says which rows are about M07. With

    plant:Machine fkg:keyColumn "machine" .

it is those whose column `machine` says M07.

With several columns in the graph, say which: `column "..."`. Where the sensors of several entities share a column without
such a key, every limit would be held against every row, so that is refused too.""",
    ),
    "FKG208": Code(
        "a text or an entity where a number is needed",
        """\
?variables hold numbers, texts or entities of the graph; only numbers can be compared and calculated with, and only
entities have signals of their own.

    prefix plant: <https://example.org/plant#>
    signal temperature in degC
    rule r for ?zone in class plant:Zone require temperature <= ?zone

    # plant.ttl
    @prefix plant: <https://example.org/plant#> .
    plant:Zone7 a plant:Zone .

In a graph a number is written 900, not "900".""",
    ),
    "FKG209": Code(
        "a class where a number is needed, or a number where a class is",
        """\
A label predicts a class and is asked `grade is D`; a signal or output holds numbers and is compared.

    label grade classes A, B, C
    rule r require grade >= 2  # write grade is not C""",
    ),
    "FKG210": Code(
        "a class that the label does not have",
        """\
    label grade classes A, B, C
    rule r require grade is E  # its classes are A, B, C""",
    ),
    "FKG229": Code(
        "a label with one class",
        """\
A model that can predict one class only predicts nothing.

    label grade classes A  # name all of them: classes A, B, C""",
    ),
    "FKG220": Code(
        "a weight of nothing",
        """\
The weight says how much a rule counts against others; it is 1 where none is written, and above 0.

    rule r weight 0 require torque <= 60 N.m  # take the rule out instead""",
    ),
    "FKG230": Code(
        "something that cannot be a class",
        """\
Before `is` stands a label or a column of texts.

    rule r require torque + 1 is D""",
    ),
    "FKG231": Code(
        "a row about two things at once",
        """\
Two entities share their columns and are told apart by a key column, so no table row is about both of them.

    prefix plant: <https://example.org/plant#>
    signal torque(?m) is plant:torque in N.m
    rule r for ?a, ?b where { ?a plant:feeds ?b } require torque(?a) <= torque(?b)

    # plant.ttl
    @prefix plant: <https://example.org/plant#> .
    @prefix fkg: <https://w3id.org/fedkg/ns#> .
    @prefix sosa: <http://www.w3.org/ns/sosa/> .
    plant:Machine fkg:keyColumn "machine" .
    plant:M1 a plant:Machine ; plant:feeds plant:M2 . plant:M2 a plant:Machine .
    plant:torque a sosa:ObservableProperty ; fkg:column "Torque [Nm]" .

Compare entities that have columns of their own (`fkg:column` on their sensors). As a warning it tells of a rule over two such
entities that reads a signal of neither: then nothing says which rows it is about, and it is checked on all of them.

    rule r for ?machine, ?line, ?limit where { ?machine plant:of ?line ; plant:limit ?limit } require torque <= ?limit

Write torque(?machine), or leave ?line out of the variables.""",
    ),
    "FKG233": Code(
        "a variable that is not used",
        """\
The quantifier binds a variable on which nothing depends but the number of solutions. This is a note, no mistake.

    rule r for ?tag, ?low, ?high in table "limits.csv" require value(?tag) <= ?high  # and ?low?

    # limits.csv
    tag,low,high
    PT-204,2,8
""",
    ),
    "FKG234": Code(
        "a rule that reads no signal",
        """\
A rule says something about data or predictions. One that compares fixed numbers alone is true or false for ever.

    rule r for ?low, ?high in table "limits.csv" require ?low <= ?high

    # limits.csv
    tag,low,high
    PT-204,2,8
""",
    ),
    "FKG235": Code(
        "rules that hold for nothing",
        """\
No row of any sheet or pattern has all the values that its rule needs, so there is nothing to compile. The notes at the
quantifiers say which values are missing.

    rule r for ?tag, ?high in table "limits.csv" require value(?tag) <= ?high

    # limits.csv
    tag,high
    PT-204,
""",
    ),
    "FKG237": Code(
        "a prefix with two meanings",
        """\
    prefix plant: <https://example.org/plant#>
    prefix plant: <https://example.org/works#>  # call the second one works:""",
    ),
    "FKG240": Code(
        "a file that cannot be read",
        """\
The rule file does not exist, is a folder, or may not be read by you. Check its name and its rights.""",
    ),
    "FKG241": Code(
        "no rule",
        """\
There is no rule file, or none with a rule in it, as here:

    signal torque in N.m

A first rule: `rule capacity require torque <= 60 N.m`.
""",
    ),
}
"""Names, declarations and types."""
