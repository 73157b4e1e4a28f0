"""An invalid job file gives one message with the file and every field."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import yaml

from fedkg._internal.yaml_documents import parse_yaml
from fedkg.errors import FedkgError, JobError, UsageError
from fedkg.jobs import Job, read_job
from fedkg.jobs.schema.job_reader import fields_at, parse_job

GOOD = {"pack": "rules.fkgpack", "sites": ["graz", "linz"]}


def read(document: object, tmp_path: Path) -> Job:
    path = tmp_path / "job.yaml"
    path.write_text(document if isinstance(document, str) else yaml.safe_dump(document))
    return read_job(path)


def test_a_short_job_takes_defaults_and_absolute_paths(tmp_path):
    job = read(GOOD, tmp_path)
    assert list(job.sites) == ["graz", "linz"]
    assert job.training.rounds == 50
    assert job.training.participation == 0.6
    assert job.pack == str(tmp_path / "rules.fkgpack")


@pytest.mark.parametrize(
    ("change", "field", "said"),
    [
        ({"training": {"rouns": 3}}, "training.rouns", "did you mean `rounds`"),
        ({"rounds": 3}, "rounds", "it belongs to `training.rounds`"),
        ({"training": {"rounds": 0}}, "training.rounds", "must be at least 1"),
        ({"training": {"rounds": "many"}}, "training.rounds", "'many'"),
        ({"training": {"rounds": True}}, "training.rounds", "must be a whole number, not true"),
        (
            {"training": {"learning_rate": True}},
            "training.learning_rate",
            "must be a number, not true",
        ),
        ({"model": {"hidden": [8, True]}}, "model.hidden", "must be a whole number, not true"),
        ({"data": {"alpha": False}}, "data.alpha", "must be a number, not false"),
        ({"training": {"participation": 1.5}}, "training.participation", "must be at most 1"),
        ({"training": {"learning_rate": -1}}, "training.learning_rate", "must be above 0"),
        ({"training": {"schedule": "cosin"}}, "training.schedule", "'cosine'"),
        ({"training": {"positive_weight": "some"}}, "training.positive_weight", "'some'"),
        ({"model": {"name": "tabnett"}}, "model.kind", "must be 'mlp'"),
        ({"model": {"hidden": [8, 0]}}, "model.hidden.1", "must be at least 1"),
        ({"data": {"test": 0.7, "server": 0.4}}, "data", "leave no rows"),
        ({"data": {"split": "dirichelt"}}, "data.split", "'dirichlet'"),
        ({"sites": {"graz": {"tables": "x"}}}, "sites.graz.tables", "did you mean `table`"),
        (
            {"sites": {"graz": {"columns": {"torque": {"unit": "N.m"}}}}},
            "sites.graz.columns.torque.column",
            "is missing",
        ),
        ({"sites": {" ": {}}}, "sites. ", "not a name"),
        ({"sites": {"press [2]": {"trust": "x"}}}, "sites.press [2].trust", "number"),
        ({"sites": {"float": {"trust": "x"}}}, "sites.float.trust", "number"),
        ({"seeds": 0}, "seeds", "must be at least 1"),
        ({"corrupt": {"site": "graz", "kind": "noise"}}, "corrupt.kind", "flipped_labels"),
        (
            {"algorithms": {"mine": {"preset": "fedprx"}}},
            "algorithms.mine.preset",
            "did you mean 'fedprox'?",
        ),
        ({"name": "../../etc"}, "name", "not a name"),
    ],
)
def test_a_wrong_field_is_named(change, field, said, tmp_path):
    with pytest.raises(JobError) as caught:
        read({**GOOD, **change}, tmp_path)
    text = str(caught.value)
    assert "job.yaml" in text
    assert f"`{field}`" in text
    assert said in text


def test_all_wrong_fields_come_in_one_message(tmp_path):
    with pytest.raises(JobError, match="3 fields are invalid") as caught:
        read({**GOOD, "training": {"rounds": 0, "batch": 0}, "modle": 1}, tmp_path)
    assert "did you mean `model`" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "an empty file"),
        ("- a\n- b\n", "a list"),
        ("just words", "text without fields"),
        ("a: [1, 2\n", "is not YAML (line"),
        ("a: 1\nb: 2\na: 3\n", "`a` occurs twice"),
        ("training:\n  rounds: 1\n  rounds: 2\n", "line 3, column 3"),
        ("a: !!python/object/apply:os.system ['true']\n", "is not YAML"),
        ("a: &x [*x]\n", "unknown field"),
        ("\t- x", "is not YAML"),
    ],
)
def test_a_file_other_than_a_job_is_an_error(text, said, tmp_path):
    with pytest.raises(JobError) as caught:
        read(text, tmp_path)
    assert said in str(caught.value)


def test_a_binary_and_a_missing_file(tmp_path):
    path = tmp_path / "job.yaml"
    path.write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(JobError, match="not UTF-8 text"):
        read_job(path)
    with pytest.raises(UsageError, match="cannot read job file"):
        read_job(tmp_path / "none.yaml")


def test_mutated_job_files_end_in_messages(tmp_path):
    whole = Path(__file__).parents[3].joinpath("examples/milling/job.yaml").read_text()
    said = []
    for seed in range(40):
        rng, text = random.Random(seed), whole
        for _ in range(3):
            i = rng.randrange(len(text))
            text = (
                text[:i]
                + rng.choice(["", ":", "\n", "{", "-", "x", "\x00", "[", "  "])
                + text[i + rng.randrange(3) :]
            )
        (tmp_path / "job.yaml").write_text(text)
        try:
            read_job(tmp_path / "job.yaml")
        except FedkgError as error:
            said.append(str(error))
    assert len(said) > 20
    assert all("job.yaml" in message for message in said)


def test_every_field_is_documented():
    def walk(place: tuple[str, ...]) -> None:
        for name, info in fields_at(place).items():
            assert info.description or fields_at((*place, name)), (*place, name)
            if len(place) < 2 and name not in ("sites", "algorithms"):
                walk((*place, name))

    walk(())


def test_overrides_replace_fields(tmp_path):
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(GOOD))
    job = read_job(
        tmp_path / "job.yaml",
        ["training.rounds=7", "data.features=[a, b]", "sites.graz.machines=[M1]", "seeds=2"],
    )
    assert job.training.rounds == 7
    assert job.data.features == ("a", "b")
    assert job.sites["graz"].machines == ("M1",)
    assert job.seed_list == (0, 1)


def test_an_override_of_a_compared_field_narrows_the_comparison():
    document = {**GOOD, "compare": {"data.alpha": [0.1, 1]}}
    job = parse_job(document, name="job", base=Path("/"), overrides=["data.alpha=1"])
    assert job.compare == {"data.alpha": (1,)}
    assert document["compare"] == {"data.alpha": [0.1, 1]}


def test_an_override_of_a_whole_comparison():
    job = parse_job(GOOD, name="job", base=Path("/"), overrides=["compare.data.alpha=[1, 2]"])
    assert job.compare == {"data.alpha": (1, 2)}


def test_a_path_on_the_command_line_is_relative_to_where_one_stands(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("table.csv").write_text("a\n1\n")
    job = parse_job(GOOD, name="job", base=Path("/elsewhere"), overrides=["data.path=table.csv"])
    assert job.data.path == str(tmp_path / "table.csv")
    assert (
        parse_job({**GOOD, "data": {"path": "t.csv"}}, name="job", base=Path("/there")).data.path
        == "/there/t.csv"
    )


def test_a_path_on_the_command_line_may_be_relative_to_the_job(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    beside = tmp_path / "jobs"
    beside.mkdir()
    (beside / "table.csv").write_text("a\n1\n")
    assert parse_job(
        GOOD, name="job", base=beside, overrides=["data.path=table.csv"]
    ).data.path == str(beside / "table.csv")
    Path("table.csv").write_text("a\n2\n")
    assert parse_job(
        GOOD, name="job", base=beside, overrides=["data.path=table.csv"]
    ).data.path == str(tmp_path / "table.csv")


def test_a_path_on_the_command_line_that_is_nowhere_names_the_places_tried(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        UsageError, match=f"the file does not exist\n.*{tmp_path}/t.csv and /elsewhere/t.csv"
    ):
        parse_job(GOOD, name="job", base=Path("/elsewhere"), overrides=["data.path=t.csv"])


@pytest.mark.parametrize("text", ["training.rounds", "=3", "seeds.x=1", "a=[1"])
def test_wrong_overrides(text):
    with pytest.raises(UsageError, match="--set"):
        parse_job({**GOOD, "seeds": 2}, name="job", base=Path("/"), overrides=[text])


def test_an_override_of_an_unknown_field_is_named():
    with pytest.raises(JobError, match=r"training\.rouns"):
        parse_job(GOOD, name="job", base=Path("/"), overrides=["training.rouns=3"])


def test_numbers_written_with_an_exponent():
    assert (
        parse_job(
            parse_yaml("pack: p\nsites: [a]\ntraining: {learning_rate: 1e-2}", "j"),
            name="j",
            base=Path("/"),
        ).training.learning_rate
        == 0.01
    )


def test_a_missing_field_lists_its_values():
    with pytest.raises(JobError, match=r"`privacy.unit`: is missing; give 'example' or 'client'"):
        parse_job({"privacy": {"epsilon": 1}}, name="job.yaml", base=Path())


def test_an_algorithm_in_place_of_its_name_is_named_as_it_stands_in_the_file():
    with pytest.raises(
        JobError,
        match=r"`algorithm.aggregate.krum.atackers`: unknown field; did you mean `attackers`",
    ):
        parse_job(
            {"algorithm": {"aggregate": {"krum": {"atackers": 1}}}}, name="job.yaml", base=Path()
        )


def test_an_error_about_several_fields_names_none_of_them():
    with pytest.raises(JobError, match=r"^job.yaml: `sites` lists the site 'a' twice$"):
        parse_job({"sites": ["a", "a"]}, name="job.yaml", base=Path())
