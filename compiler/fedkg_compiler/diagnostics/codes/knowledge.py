"""Codes of knowledge models, FKG370 to FKG399."""

from __future__ import annotations

from fedkg_compiler.diagnostics.codes.code import Code

KNOWLEDGE: dict[str, Code] = {
    "FKG370": Code(
        "knowledge of something that is no output",
        """\
A knowledge model is about what a model predicts: an `output`, which is a number, or a `label`, which is one of several
classes.

    signal grade in %
    signal ash in %
    range knowledge by_ash of grade  when ash > 12.5 % allow 0 .. 60  otherwise allow any

Declare it: `output grade ...`, or `label grade classes A, B, C, D`.
""",
    ),
    "FKG371": Code(
        "a class that the label does not have",
        """\
A range allows some of the classes of its label, a prediction is one of them. They are those of the declaration.

    signal ash in %
    label grade classes A, B, C, D
    predict knowledge by_ash of grade  when ash < 7 % predict E  otherwise predict C

Name one of the classes, or add it to the label.
""",
    ),
    "FKG372": Code(
        "classes for a number, or a number for classes",
        """\
Of a label, classes are allowed or predicted; of an output, an interval is allowed and a number is predicted.

    signal ash in %
    output quality span 0 .. 100
    range knowledge usual of quality  when ash > 12.5 % allow A, B  otherwise allow any

Write `allow 0 .. 60`, or declare `label quality classes A, B`.
""",
    ),
    "FKG373": Code(
        "a condition of knowledge that reads what the model says",
        """\
Knowledge is there before the model answers: it says what the answer may be. Its conditions therefore read signals alone.
What ties several answers together is a rule.

    signal ash in %
    label grade classes A, B
    output failure in probability span 0 .. 1
    range knowledge r of grade  when failure > 0.5 allow A  otherwise allow any
""",
    ),
    "FKG374": Code(
        "what holds otherwise is not one value",
        """\
`otherwise` holds for a sample when every condition fails, those of all rows of the quantifier. It can differ between two
rows only where no sample is about both, since a key column tells their samples apart.

    signal load in bar
    output speed in bar span 0 .. 20
    predict knowledge k of speed for ?most, ?best in table "limits.csv"
      when load > ?most predict ?most
      otherwise predict ?best

    # limits.csv
    most [bar],best [bar]
    10,3
    12,4

Write `otherwise predict 3 bar`, one value for all.
""",
    ),
    "FKG375": Code(
        "a cell of a decision table is wrong",
        """\
A cell under a signal holds a condition: `> 12.5`, `8 .. 12`, `= 3`, a class, several classes separated by commas, or
nothing. A cell under the output holds what is allowed or predicted.

    signal ash in %
    label grade classes A, B
    range knowledge r of grade in table "grades.csv"  otherwise allow any

    # grades.csv
    ash,grade
    much,A

Write `> 12` where there stands `much`.
""",
    ),
    "FKG376": Code(
        "a column of a decision table is not known",
        """\
Each column of a decision table stands for a signal, by its name or its header, and one for the output. A column for
people is called `note`.

    signal ash in %
    label grade classes A, B
    range knowledge r of grade in table "grades.csv"  otherwise allow any

    # grades.csv
    ashes,grade
    > 12,A
""",
    ),
    "FKG377": Code(
        "an earlier model cannot be used",
        """\
Earlier models are chains of dense layers, as safetensors or ONNX. The file's metadata name their inputs, in order, as a
JSON list `features`; `mean` and `std` are lists too, where the inputs were scaled.

    label grade classes A, B
    predict knowledge earlier of grade from model "grade.safetensors"

    # grade.safetensors
    none
""",
    ),
    "FKG378": Code(
        "an earlier model reads something that is not declared",
        """\
The names in the metadata of an earlier model are those of signals, or the headers of their columns.

    signal ash in %
    predict knowledge earlier of grade from model "grade.safetensors"
""",
    ),
    "FKG379": Code(
        "clauses that together allow nothing",
        """\
Ranges whose conditions hold at once intersect, whether one range model gives them or several of the same output do. Where
nothing is left, the knowledge contradicts itself; whoever uses it allows everything there.

    signal ash in % span 0 .. 40
    label grade classes A, B, C, D
    range knowledge grade_by_ash of grade
      when ash > 12 % allow C, D
      when ash > 10 % allow A, B  # at 13 % ash: nothing
      otherwise allow any
""",
    ),
    "FKG380": Code(
        "a prediction that its range does not allow",
        """\
A prediction has to lie in the ranges of the same output, wherever both speak (assumption 5.1 of knowledge injection).

    signal ash in % span 0 .. 40
    label grade classes A, B, C, D
    range knowledge r of grade  when ash > 12 % allow C, D  otherwise allow any
    predict knowledge p of grade  when ash > 10 % predict B  otherwise predict C  # at 13 % ash: B is not allowed
""",
    ),
    "FKG381": Code(
        "knowledge that is checked on data",
        """\
That ranges are never empty, and that predictions lie in them, is proven where the conditions are affine and the signals
have spans. Where it is not, `fedkg eval` counts the samples of a table for which it fails.

    signal ash in %
    label grade classes A, B
    range knowledge r of grade  when sin(ash / 1 %) > 0.5 allow A  when ash > 3 % allow B  otherwise allow any
""",
    ),
}
