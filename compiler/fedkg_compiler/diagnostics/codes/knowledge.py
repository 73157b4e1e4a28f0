"""Codes of knowledge models, FKG370 to FKG399."""

from __future__ import annotations

from fedkg_compiler.diagnostics.codes.code import Code

KNOWLEDGE: dict[str, Code] = {
    "FKG370": Code(
        "knowledge of something that is no output",
        """\
A knowledge model is about what a model predicts: an `output`, which is a number, or a `label`, which is one of several
classes.

    label grade classes A, B, C, D
    range knowledge grade_by_ash of grade  when ash > 12.5 % allow C, D  otherwise allow any
""",
    ),
    "FKG371": Code(
        "a class that the label does not have",
        """\
A range allows some of the classes of its label, a prediction is one of them. They are those of the declaration.

    label grade classes A, B, C, D
    predict knowledge grade_rule of grade  when ash < 7 % predict A  otherwise predict C
""",
    ),
    "FKG372": Code(
        "classes for a number, or a number for classes",
        """\
Of a label, classes are allowed or predicted; of an output, an interval is allowed and a number is predicted.

    output quality span 0 .. 100
    range knowledge usual of quality  when ash > 12.5 % allow 0 .. 60  otherwise allow any
    predict knowledge rough of quality  when ash > 12.5 % predict 40  otherwise predict 100 - 4 * ash
""",
    ),
    "FKG373": Code(
        "a condition of knowledge that reads what the model says",
        """\
Knowledge is there before the model answers: it says what the answer may be. Its conditions therefore read signals alone.
What ties several answers together is a rule.

    rule risk_follows_wear require failure never falls as wear rises
""",
    ),
    "FKG374": Code(
        "what holds otherwise is not one value",
        """\
`otherwise` holds for a sample when every condition fails, those of all rows of the quantifier. It cannot differ from row
to row.
""",
    ),
    "FKG375": Code(
        "a cell of a decision table is wrong",
        """\
A cell under a signal holds a condition: `> 12.5`, `8 .. 12`, `= 3`, a class, several classes separated by commas, or
nothing. A cell under the output holds what is allowed or predicted.

    | ash [%] | grade |
    | > 12.5  | C, D  |
    | 8 .. 12 | B     |
""",
    ),
    "FKG376": Code(
        "a column of a decision table is not known",
        """\
Each column of a decision table stands for a signal, by its name or its header, and one for the output. A column for
people is called `note`.
""",
    ),
    "FKG377": Code(
        "an earlier model cannot be used",
        """\
Earlier models are chains of dense layers, as safetensors or ONNX. The file's metadata name their inputs, in order, as a
JSON list `features`; `mean` and `std` are lists too, where the inputs were scaled.

    safetensors.torch.save_file(model.state_dict(), "grade.safetensors", metadata={"features": '["ash", "sulphur"]'})
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
Ranges whose conditions hold at once intersect. Where nothing is left, the knowledge contradicts itself; whoever uses it
allows everything there.

    range knowledge grade_by_ash of grade
      when ash > 12 % allow C, D
      when ash > 10 % allow A, B       # at 13 % ash: nothing
      otherwise allow any
""",
    ),
    "FKG380": Code(
        "a prediction that its range does not allow",
        """\
A prediction has to lie in the ranges of the same output, wherever both speak (assumption 5.1 of knowledge injection).

    range knowledge r of grade    when ash > 12 % allow C, D  otherwise allow any
    predict knowledge p of grade  when ash > 10 % predict B  otherwise predict C      # at 13 % ash: B is not allowed
""",
    ),
    "FKG381": Code(
        "knowledge that is checked on data",
        """\
That ranges are never empty, and that predictions lie in them, is proven where the conditions are affine and the signals
have spans. Where it is not, `fedkg eval` counts the samples of a table for which it fails.
""",
    ),
}
