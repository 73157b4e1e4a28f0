"""Knowledge models from clauses, decision tables and earlier models: their banks, and the
diagnostics of mistakes.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import save_file

from fedkg.knowledge import allowed_classes, allowed_interval, predictions
from fedkg.pack import Pack, read_pack
from fedkg.pack.knowledge_models import KnowledgeModel
from fedkg_compiler.pipeline import compile_rules

HEAD = """\
signal ash in % span 0 .. 40
signal sulphur in % span 0 .. 5
label grade classes A, B, C, D
output quality in % span 0 .. 100
"""


def built(text: str, folder: Path | None = None) -> Pack:
    """The pack of a text, written and read again."""
    found = (
        compile_rules(text=HEAD + text) if folder is None else compile_rules([_file(folder, text)])
    )
    assert found.pack is not None, [(item.code, item.message) for item in found.diagnostics]
    return read_pack(found.pack.to_bytes())


def _file(folder: Path, text: str) -> Path:
    path = folder / "rules.fkg"
    path.write_text(HEAD + text, encoding="utf-8")
    return path


def error_lines(text: str, folder: Path | None = None) -> list[tuple[str, int]]:
    """Codes and lines of the errors in a text."""
    found = (
        compile_rules(text=HEAD + text) if folder is None else compile_rules([_file(folder, text)])
    )
    return [(item.code, item.span.line) for item in found.diagnostics if item.severity == "error"]


def samples(pack: Pack, **columns: list[float]) -> NDArray[np.float64]:
    """Values [1, B, C] with these columns; the others are unknown."""
    names = [column.name for column in pack.manifest.contract.columns]
    values = np.full((1, len(next(iter(columns.values()))), len(names)), np.nan)
    for name, numbers in columns.items():
        if name in names:
            values[0, :, names.index(name)] = numbers
    return values


def model(pack: Pack, name: str) -> KnowledgeModel:
    return next(one for one in pack.manifest.knowledge if one.name == name)


def letters(mask: NDArray[np.bool_]) -> list[str]:
    return ["".join(np.array(list("ABCD"))[row]) for row in mask]


RANGE = """
range knowledge grade_by_ash of grade
  when ash > 12.5 % allow C, D
  when ash <= 8 % and not sulphur > 1 % allow A, B
  when sulphur > 3 % allow D
  otherwise allow B
"""


def test_ranges_that_hold_at_once_intersect_and_unknown_conditions_allow_everything() -> None:
    pack = built(RANGE)
    values = samples(
        pack, ash=[13.0, 13.0, 4.0, 10.0, np.nan, 13.0], sulphur=[0.5, 4.0, 0.5, 0.5, 0.5, np.nan]
    )
    assert letters(allowed_classes(pack, model(pack, "grade_by_ash"), values)) == [
        "CD",
        "D",
        "AB",
        "B",
        "ABCD",
        "CD",
    ]


def test_the_first_prediction_that_holds_wins_and_none_is_made_behind_an_unknown_condition() -> (
    None
):
    pack = built(
        "predict knowledge rule of grade\n  when ash < 7 % predict A\n  when sulphur < 1 % "
        "predict B\n  otherwise predict C\n"
    )
    values = samples(pack, ash=[5.0, 10.0, 10.0, np.nan, 5.0], sulphur=[0.5, 0.5, 2.0, 0.5, np.nan])
    found = predictions(pack, model(pack, "rule"), values)
    np.testing.assert_array_equal(found, [0.0, 1.0, 2.0, np.nan, 0.0])


def test_intervals_and_numbers_convert_their_units_and_may_be_expressions() -> None:
    pack = built(
        "range knowledge usual of quality\n  when ash > 12.5 % allow 0 .. 60\n  when "
        "sulphur < 1 allow between 80 % - ash and 100 %\n"
        "  otherwise allow 0 .. 95 %\n"
        "predict knowledge rough of quality  when ash > 12.5 % predict 0.4  otherwise "
        "predict 100 % - 4 * ash\n"
    )
    values = samples(pack, ash=[13.0, 4.0, 13.0, 5.0], sulphur=[2.0, 0.5, 0.5, 3.0])
    interval = allowed_interval(pack, model(pack, "usual"), values)
    np.testing.assert_allclose(interval[:, 0], [0.0, 76.0, 67.0, 0.0])
    assert interval[1:2, 1].tolist() == [100.0]
    assert predictions(pack, model(pack, "rough"), values)[1] == 84.0
    assert model(pack, "usual").unit == "%"
    assert model(pack, "usual").span == (0.0, 100.0)


def test_clauses_over_a_quantifier_hold_row_by_row(tmp_path: Path) -> None:
    (tmp_path / "limits.csv").write_text("low,high\n0,10\n5,20\n", encoding="utf-8")
    pack = built(
        'range knowledge r of quality for ?low, ?high in table "limits.csv"\n  when ash > ?low'
        " allow between ?low and ?high\n  otherwise allow any\n",
        tmp_path,
    )
    interval = allowed_interval(pack, model(pack, "r"), samples(pack, ash=[1.0, 6.0, 0.0]))
    np.testing.assert_array_equal(interval, [[0.0, 10.0], [5.0, 10.0], [0.0, 100.0]])


def test_a_decision_table_says_what_clauses_say(tmp_path: Path) -> None:
    rows = (
        "ash [%];sulphur;grade;note\n> 12,5;;C, D;wet\n<= 8;<= 1 %;A, B;\n8 .. 12;-;any;\n;> 3;D;\n"
    )
    (tmp_path / "grades.csv").write_text(rows, encoding="utf-8")
    pack = built(
        'range knowledge t of grade in table "grades.csv"\n  otherwise allow B\n', tmp_path
    )
    values = samples(pack, ash=[13.0, 13.0, 4.0, 10.0, 12.2], sulphur=[0.5, 4.0, 0.5, 0.5, 0.5])
    assert letters(allowed_classes(pack, model(pack, "t"), values)) == [
        "CD",
        "D",
        "AB",
        "ABCD",
        "B",
    ]


def test_a_decision_table_predicts_numbers(tmp_path: Path) -> None:
    (tmp_path / "q.csv").write_text("ash,quality [%]\n> 12.5,40\n> 5,70\n", encoding="utf-8")
    pack = built(
        'predict knowledge q of quality in table "q.csv"\n  otherwise predict 90 %\n', tmp_path
    )
    found = predictions(pack, model(pack, "q"), samples(pack, ash=[13.0, 6.0, 1.0]))
    np.testing.assert_array_equal(found, [40.0, 70.0, 90.0])


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ("ash,grade\n> 3,E\n", "line 2, column `grade`: `E` is not a class"),
        ("ash,grade\nmuch >,A\n", "line 2, column `ash`"),
        ("ash,grade\n,A\n", "it would hold always"),
        ("ashes,grade\n> 3,A\n", "`ashes` is neither a signal, a label nor `grade`"),
        ("ash,klass\n> 3,A\n", "`klass` is neither"),
        ("ash\n> 3\n", "no column `grade`"),
    ],
)
def test_wrong_cells_and_columns_of_a_decision_table_are_named(
    tmp_path: Path, rows: str, words: str
) -> None:
    (tmp_path / "grades.csv").write_text(rows, encoding="utf-8")
    found = compile_rules([_file(tmp_path, 'predict knowledge t of grade in table "grades.csv"\n')])
    assert found.pack is None
    assert any(words in item.message for item in found.diagnostics), [
        item.message for item in found.diagnostics
    ]


def test_a_missing_decision_table_says_where_its_path_starts(tmp_path: Path) -> None:
    found = compile_rules([_file(tmp_path, 'predict knowledge t of grade in table "no.csv"\n')])
    assert [item.help for item in found.diagnostics if item.code == "FKG170"] == [
        "the path is relative to the folder of the rule file"
    ]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("range knowledge r of colour  when ash > 1 % allow A  otherwise allow any", "FKG370"),
        (
            "range knowledge r of ash  when sulphur > 1 % allow 0 .. 3 %  otherwise allow any",
            "FKG370",
        ),
        ("range knowledge r of grade  when ash > 1 % allow A, E  otherwise allow any", "FKG371"),
        ("predict knowledge p of grade  when ash > 1 % predict E  otherwise predict A", "FKG371"),
        ("range knowledge r of quality  when ash > 1 % allow A  otherwise allow any", "FKG372"),
        ("range knowledge r of grade  when ash > 1 % allow 0 .. 3  otherwise allow any", "FKG372"),
        (
            "predict knowledge p of grade  when ash > 1 % predict 2 * ash  otherwise predict A",
            "FKG372",
        ),
        (
            "predict knowledge p of quality  when grade is A predict 3 %  otherwise predict 2 %",
            "FKG373",
        ),
        (
            (
                "predict knowledge p of quality  when ash > 1 % predict 2 * quality  otherwise "
                "predict 2 %"
            ),
            "FKG373",
        ),
        (
            (
                "range knowledge r of quality  when ash > 1 % allow between 3 % and 2 * "
                "quality  otherwise allow any"
            ),
            "FKG373",
        ),
        (
            "predict knowledge p of quality  when ash > 1 bar predict 3 %  otherwise predict 2 %",
            "FKG213",
        ),
        (
            "predict knowledge p of quality  when ash > 1 % predict 3 bar  otherwise predict 2 %",
            "FKG213",
        ),
        ('predict knowledge p of quality from model "none.safetensors"', "FKG377"),
    ],
)
def test_mistakes_are_told_where_they_stand(text: str, code: str) -> None:
    assert error_lines(text + "\nrule other require ash <= 30 %\n") == [(code, 5)]


def test_an_earlier_model_from_safetensors_answers_as_it_did(tmp_path: Path) -> None:
    generator = np.random.default_rng(3)
    arrays = {
        "layers.0.weight": generator.normal(size=(8, 2)),
        "layers.0.bias": generator.normal(size=8),
        "layers.2.weight": generator.normal(size=(4, 8)),
        "layers.2.bias": generator.normal(size=4),
    }
    metadata = {
        "features": '["ash", "sulphur"]',
        "mean": "[10, 1]",
        "std": "[5, 0.5]",
        "activation": "tanh",
    }
    save_file(arrays, tmp_path / "old.safetensors", metadata=metadata)
    pack = built('predict knowledge old of grade from model "old.safetensors"\n', tmp_path)
    ash, sulphur = generator.uniform(0, 40, 50), generator.uniform(0, 5, 50)
    ash[7] = np.nan
    x = np.stack([(ash - 10) / 5, (sulphur - 1) / 0.5], axis=1)
    hidden = np.tanh(x @ arrays["layers.0.weight"].T + arrays["layers.0.bias"])
    expected = np.argmax(
        hidden @ arrays["layers.2.weight"].T + arrays["layers.2.bias"], axis=1
    ).astype(np.float64)
    expected[7] = np.nan
    found = predictions(
        pack, model(pack, "old"), samples(pack, ash=ash.tolist(), sulphur=sulphur.tolist())
    )
    np.testing.assert_array_equal(found, expected)
    assert any(source.kind == "model" for source in pack.manifest.provenance.sources)


def test_an_onnx_model_with_a_bias_of_another_size_or_its_weights_elsewhere_is_an_error(
    tmp_path: Path,
) -> None:
    onnx = pytest.importorskip("onnx")
    helper, float32 = onnx.helper, onnx.TensorProto.FLOAT
    weight = onnx.numpy_helper.from_array(np.ones((2, 3), dtype=np.float32), "a")
    bias = onnx.numpy_helper.from_array(np.ones(2, dtype=np.float32), "b")
    elsewhere = onnx.TensorProto(name="a", data_type=float32, dims=[2, 3])
    elsewhere.data_location = onnx.TensorProto.EXTERNAL
    elsewhere.external_data.add(key="location", value="old.data")
    nodes = [
        helper.make_node("MatMul", ["x", "a"], ["h"]),
        helper.make_node("Add", ["h", "b"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(name, float32, [None, 2]) for name in ("x", "y")]
    for first, words in (
        (weight, "adds 2 numbers to a layer with 3 outputs"),
        (elsewhere, "has a tensor `a` that cannot be read as numbers"),
    ):
        graph = helper.make_graph(nodes, "old", ends[:1], ends[1:], [first, bias])
        (tmp_path / "old.onnx").write_bytes(helper.make_model(graph).SerializeToString())
        found = compile_rules(
            [_file(tmp_path, 'predict knowledge old of quality from model "old.onnx"\n')]
        )
        assert found.pack is None
        assert any(words in item.message for item in found.diagnostics), found.diagnostics


def test_an_earlier_model_from_onnx_answers_as_it_did(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    helper = onnx.helper
    generator = np.random.default_rng(4)
    first, second = (
        generator.normal(size=(2, 6)).astype(np.float32),
        generator.normal(size=(1, 6)).astype(np.float32),
    )
    bias = generator.normal(size=6).astype(np.float32)
    numbers = [
        onnx.numpy_helper.from_array(array, name)
        for array, name in ((first, "a"), (bias, "b"), (second, "c"))
    ]
    nodes = [
        helper.make_node("MatMul", ["x", "a"], ["h"]),
        helper.make_node("Add", ["h", "b"], ["g"]),
        helper.make_node("Relu", ["g"], ["r"]),
        helper.make_node("Gemm", ["r", "c"], ["y"], transB=1),
    ]
    float32 = onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        nodes,
        "old",
        [helper.make_tensor_value_info("x", float32, [None, 2])],
        [helper.make_tensor_value_info("y", float32, [None, 1])],
        numbers,
    )
    network = helper.make_model(graph)
    helper.set_model_props(network, {"features": json.dumps(["sulphur", "ash"])})
    onnx.save(network, str(tmp_path / "old.onnx"))
    pack = built('predict knowledge old of quality from model "old.onnx"\n', tmp_path)
    values = samples(pack, ash=[3.0, 20.0], sulphur=[0.5, 2.0])
    x = np.array([[0.5, 3.0], [2.0, 20.0]])
    expected = np.maximum(x @ first.astype(float) + bias.astype(float), 0) @ second.astype(float).T
    np.testing.assert_allclose(
        predictions(pack, model(pack, "old"), values), expected[:, 0], rtol=1e-12
    )


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        ({}, "does not say what its inputs are"),
        ({"features": '["ash"]'}, "has 2 inputs, but its metadata names 1 feature"),
        ({"features": '["ash", "colour"]'}, "reads `colour`, which is not declared"),
        ({"features": '["ash", "sulphur"]', "std": "[1, 0]"}, "does not fit its 2 inputs"),
        ({"features": '["ash", "sulphur"]', "activation": "swish"}, "has the activation `swish`"),
        (
            {"features": '["ash", "sulphur"]', "mean": f"[1{'0' * 400}, 0]"},
            "has a `mean` that is not a list of numbers",
        ),
        ({"features": "[" * 100_000}, "has `features` that are not a list in JSON"),
    ],
)
def test_an_unsuitable_earlier_model_is_an_error(
    tmp_path: Path, metadata: dict[str, str], words: str
) -> None:
    save_file(
        {"0.weight": np.ones((4, 2)), "0.bias": np.ones(4)},
        tmp_path / "old.safetensors",
        metadata=metadata,
    )
    found = compile_rules(
        [_file(tmp_path, 'predict knowledge old of grade from model "old.safetensors"\n')]
    )
    assert found.pack is None
    assert any(words in item.message for item in found.diagnostics), [
        item.message for item in found.diagnostics
    ]


def test_a_file_that_is_no_model_is_rejected(tmp_path: Path) -> None:
    for name in ("old.safetensors", "old.onnx"):
        (tmp_path / name).write_bytes(b"not a model at all, but long enough to be read")
        assert error_lines(f'predict knowledge old of grade from model "{name}"\n', tmp_path) == [
            ("FKG377", 5)
        ]


def test_a_clause_that_allows_anything_keeps_otherwise_away(tmp_path: Path) -> None:
    (tmp_path / "grades.csv").write_text("ash,grade\n> 12,any\n", encoding="utf-8")
    for text in (
        "when ash > 12 % allow any otherwise allow A",
        'in table "grades.csv" otherwise allow A',
    ):
        pack = built(f"range knowledge r of grade {text}\n", tmp_path)
        assert letters(
            allowed_classes(pack, model(pack, "r"), samples(pack, ash=[13.0, 11.0]))
        ) == ["ABCD", "A"]
    pack = built(
        "range knowledge r of quality when ash > 12 % allow any otherwise allow 0 .. 40 %\n"
    )
    assert allowed_interval(pack, model(pack, "r"), samples(pack, ash=[13.0, 11.0])).tolist() == [
        [0.0, 100.0],
        [0.0, 40.0],
    ]


@pytest.mark.parametrize(
    ("output", "decision", "answers"),
    [
        ("grade", "number", 1),
        ("grade", "logit", 1),
        ("grade", "largest", 1),
        ("quality", "logit", 1),
        ("quality", "largest", 1),
    ],
)
def test_an_earlier_model_decides_as_its_output_can(
    tmp_path: Path, output: str, decision: str, answers: int
) -> None:
    metadata = {"features": '["ash", "sulphur"]', "decision": decision}
    save_file(
        {"0.weight": np.ones((answers, 2)), "0.bias": np.ones(answers)},
        tmp_path / "old.safetensors",
        metadata=metadata,
    )
    found = compile_rules(
        [_file(tmp_path, f'predict knowledge old of {output} from model "old.safetensors"\n')]
    )
    assert found.pack is None
    assert any(
        f"decides by `{decision}`" in item.message
        for item in found.diagnostics
        if item.code == "FKG377"
    )


def test_a_header_with_its_unit_is_that_of_the_signal_s_column(tmp_path: Path) -> None:
    (tmp_path / "q.csv").write_text("Moisture [%],grade\n> 12.5,C\n", encoding="utf-8")
    text = (
        'signal water in % column "Moisture" span 0 .. 40\npredict knowledge q of grade in table'
        ' "q.csv"\n  otherwise predict A\n'
    )
    pack = built(text, tmp_path)
    np.testing.assert_array_equal(
        predictions(pack, model(pack, "q"), samples(pack, water=[13.0, 1.0])), [2.0, 0.0]
    )


def test_wrong_cells_of_a_decision_table_are_reported_together_with_their_places(
    tmp_path: Path,
) -> None:
    cells = [
        "ash [%],sulphur,grade",
        ">1,<= 1 bar,A",
        "8..,,A",
        "3 foo,,A",
        "1 .. 2 bar,,A",
        "2,,Q",
        "=> 3,,A",
        "4,,A",
    ]
    (tmp_path / "g.csv").write_text("\n".join(cells) + "\n", encoding="utf-8")
    found = compile_rules(
        [_file(tmp_path, 'range knowledge k of grade in table "g.csv"\n  otherwise allow any\n')]
    )
    (error,) = [item for item in found.diagnostics if item.severity == "error"]
    assert error.code == "FKG375"
    assert error.message.split("g.csv, ")[1].split("; ") == [
        "line 2, column `sulphur`: `bar` cannot be compared with `%`",
        "line 3, column `ash [%]`: `8..` is not a condition",
        "line 4, column `ash [%]`: `foo` is not a unit",
        "line 5, column `ash [%]`: `bar` cannot be compared with `%`",
        "line 6, column `grade`: `Q` is not a class of `grade`",
        "and 1 more",
    ]
    assert error.help == "write the number in the unit of the column, or in another one of its kind"
