"""Hostile or careless job files, overrides and run folders: one clear message, no traceback."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from fedkg.cli import main
from fedkg.errors import FedkgError, Stopped
from fedkg.jobs import Event, resume, run_job

RULES = """\
signal torque in N.m column "Torque [Nm]" span 0 .. 80
signal wear in min column "Tool wear [min]" span 0 .. 260
output failure in probability span 0 .. 1 column "Machine failure"
rule strain  kind capacity  require if torque * wear > 11000 N.m.min then failure >= 0.5
rule follows kind temporal  require failure never falls as wear rises
"""
JOB: dict[str, Any] = {
    "name": "short",
    "rules": ["rules.fkg"],
    "sites": ["graz", "linz"],
    "data": {"rows": 400, "categories": ["Type"], "min_samples": 20},
    "model": {"hidden": [4]},
    "training": {"rounds": 3, "participation": 1.0, "local_steps": 1, "executor": "sequential"},
    "scoring": {"probe_rows": 20, "rows_per_rule": 1},
    "evaluation": {"local_baseline": False},
    "compare": {"algorithm": ["fedavg", "scfa"]},
}


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with a job; reports have separate tests."""
    import fedkg.report

    monkeypatch.setattr(
        fedkg.report, "write_report", lambda folder: Path(folder) / "report.html", raising=False
    )
    monkeypatch.chdir(tmp_path)
    Path("rules.fkg").write_text(RULES, encoding="utf-8")
    Path("job.yaml").write_text(yaml.safe_dump(JOB), encoding="utf-8")


def fedkg(*arguments: str) -> int:
    """The exit code of a command; any exception fails the test."""
    try:
        main.run(arguments)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    return 0


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert fedkg("run", "job.yaml", "--out", "run", *arguments) in (1, 2)
    written = capsys.readouterr()
    assert written.out == ""
    assert not Path("run/environment.json").exists()
    assert len(written.err) < 3000
    return written.err


WRONG_FIELDS = [
    ("name", "../x", "is not a name: ASCII letters"),
    ("title", [1], "must be a text, not [1]"),
    ("rules", "rules.fkg", "must be a list, such as [a, b], not 'rules.fkg'"),
    ("rules", [3], "`rules.0`: must be a text"),
    ("rules", ["none.fkg"], "none.fkg"),
    ("rules", ["."], "is a folder"),
    ("rules", [], "give either `rules` or `pack`"),
    ("pack", "x.fkgpack", "give either `rules` or `pack`"),
    ("output", "nope", "output: the rules do not define the output `nope`"),
    ("sites", {}, "sites: the federation has no site"),
    ("sites", "graz", "`sites`: must be a section"),
    ("sites", ["graz", "graz"], "`sites` lists the site 'graz' twice (line"),
    ("sites", {"graz": 3}, "`sites.graz`: must be a section"),
    ("sites", {"graz": {"machines": "M01"}}, "`sites.graz.machines`: must be a list"),
    ("sites", {"graz": {"table": "none.csv"}}, "none.csv"),
    ("sites", {"graz": {"tabel": "x"}}, "did you mean `table`?"),
    ("data", 3, "`data`: must be a section"),
    ("data.path", "none.csv", "none.csv"),
    ("data.path", ".", "Is a directory"),
    ("data.path", "rules.fkg", "no column"),
    ("data.rows", 0, "must be at least 1"),
    ("data.rows", 10**12, "must be at most 10000000"),
    ("data.rows", 1.5, "must be a whole number"),
    ("data.rows", 1, "this share gets no rows"),
    ("data.label", "nope", "no column `nope`"),
    ("data.label", "Type", "column `Type` has text"),
    ("data.label", "Torque [Nm]", "label column `Torque [Nm]` must be 0 or 1"),
    ("data.features", ["nope"], "no column `nope`"),
    ("data.features", ["Type"], "column `Type` has text"),
    ("data.features", ["Machine failure"], "is the label"),
    ("data.categories", ["UDI"], "different texts"),
    ("data.split", "odd", "must be 'dirichlet', 'iid', 'column'"),
    ("data.split", "column", "no column `site`"),
    ("data.alpha", 0, "must be above 0"),
    ("data.alpha", float("nan"), "must be a finite number"),
    ("data.alpha", 1e-300, "rows after the split"),
    ("data.min_samples", 10**6, "lower data.min_samples"),
    ("data.test", 1, "must be below 1"),
    ("data.pth", "x", "did you mean `path`?"),
    ("model.name", "cnn", "`hidden` does not apply to `cnn`, which has no size fields"),
    ("model.hidden", "wide", "must be a whole number or a list"),
    ("model.hidden", [10**8], "`model.hidden.0`: must be at most 16384"),
    ("model.dropout", "x", "must be a number"),
    ("training.rounds", "ten", "must be a whole number, not 'ten'"),
    ("training.participation", 2, "must be at most 1"),
    ("training.local_epochs", 1, "give either `local_epochs` or `local_steps`"),
    ("training.learning_rate", float("inf"), "must be a finite number"),
    ("training.positive_weight", "heavy", "must be 'balanced' or a number, not 'heavy'"),
    ("training.threads", 100_000, "must be at most 256"),
    ("training.device", "gpu", "must be cpu, cuda, or cuda:1 for the second GPU, not 'gpu'"),
    ("training.round", 3, "did you mean `rounds`?"),
    ("scoring.graded", "maybe", "must be true or false"),
    ("scoring.beta", float("inf"), "must be a finite number"),
    ("evaluation.threshold", 2, "must be 'server' or at most 1"),
    ("algorithm", "nope", "unknown algorithm"),
    ("algorithms", {"a": {}}, "`algorithms.a`: sets neither a `preset`"),
    (
        "algorithms",
        {"a": {"preset": "scfa", "scoring": {"combin": "mean"}}},
        "algorithms.a: `scoring.combin`",
    ),
    (
        "algorithms",
        {"a": {"preset": "scfa", "training": {"rounds": 0}}},
        "must be at least 1, not 0",
    ),
    ("seeds", 0, "must be at least 1"),
    ("seeds", 10**9, "must be at most 10000"),
    ("seeds", [], "must be"),
    ("seeds", ["a"], "`seeds.0`: must be a whole number"),
    ("compare", {"nope": [1]}, "`nope`"),
    ("compare", {"algorithm": "fedavg"}, "`compare.algorithm`: must be a list"),
    ("compare", {"algorithm": []}, "the list of values is empty"),
    ("compare", {"algorithm": ["scfa", "scfa"]}, "list each value of `compare` and each seed once"),
    ("compare", {"training.rounds": ["x"]}, "must be a whole number"),
    ("compare", {"data.alpha": [float("nan")]}, "a finite number"),
    ("corrupt", "linz", "`corrupt`: must be a section"),
    ("corrupt", {"site": "nope"}, "corrupt.site: unknown site"),
    ("extra", 3, "unknown field"),
    ("traning", {}, "did you mean `training`?"),
]


@pytest.mark.parametrize(
    ("field", "value", "said"),
    WRONG_FIELDS,
    ids=[f"{field}: {value!r:.30}" for field, value, _ in WRONG_FIELDS],
)
def test_a_wrong_field_is_reported_before_anything_is_trained(
    field: str, value: Any, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    section, _, name = field.partition(".")
    job = {**JOB, section: {**JOB.get(section, {}), name: value} if name else value}
    Path("job.yaml").write_text(yaml.safe_dump(job), encoding="utf-8")
    text = refused(capsys)
    assert said in text
    assert text.count("\n") < 8 or "FKG" in text


NO_JOB_FILES: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "an empty file"),
    "a list": (b"- a\n", "received: a list"),
    "a word": (b"hello", "is not a job file"),
    "a tab": (b"name:\ta\n\tb: c", "line 1, column 6"),
    "an open bracket": (b"name: [a", "is not YAML (line 1"),
    "bytes": (bytes(range(256)), "is not UTF-8 text"),
    "UTF-16": ("name: a".encode("utf-16"), "is not UTF-8 text"),
    "a NUL": (b"name: a\0b", "is not YAML"),
    "a field twice": (b"name: a\nname: b", "`name` occurs twice"),
    "a circle of aliases": (b"a: &a [*a]\nname: x\nsites: *a", "`a`: unknown field"),
    "a class to be made": (
        b"name: !!python/object/apply:os.system ['true']",
        "could not determine a constructor",
    ),
    "two documents": (b"name: a\n---\nname: b", "another document"),
    "a thousand brackets": (b"a: " + b"[" * 1000 + b"]" * 1000, "limit `depth`"),
    "a list as a key": (b"[a, b]: 1", "unhashable key"),
    "a number as a key": (b"1: 2\nsites: [a]", "keys should be strings"),
    "words that are truth values": (
        b"name: yes\nsites: [no, yes]",
        "`name`: must be a text, not True",
    ),
    "five thousand digits": (b"seeds: " + b"9" * 5000, "cannot be read"),
    "a day that is none": (b"name: 2024-13-45\n", "cannot be read"),
    "a name of a million letters": (b"name: " + b"x" * 900_000, "at most 64 characters"),
    "half of a letter": (b'name: "\\ud800"\nsites: [a]', "`name`"),
    "nothing but a rule file": (RULES.encode(), "is not"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", NO_JOB_FILES)
def test_a_file_that_is_no_job(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    body, said = NO_JOB_FILES[name]
    Path("job.yaml").write_bytes(body)
    text = refused(capsys)
    assert "job.yaml" in text
    assert said in text


def test_an_alias_of_aliases_is_rejected_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 9)]
    Path("job.yaml").write_text("\n".join([*lines, "name: *a8", "sites: *a8"]), encoding="utf-8")
    assert "limit `fields`" in refused(capsys)


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("", "not of the form field=value"),
        ("training.rounds", "not of the form"),
        ("=3", "not of the form"),
        ("training..rounds=1", "not of the form"),
        (".rounds=1", "not of the form"),
        ("training.rounds=", "must be a whole number, not None"),
        ("training.rounds=1=2", "must be a whole number"),
        ("training.rounds.x=1", "`training.rounds` has no fields"),
        ("training.roundz=1", "did you mean `rounds`?"),
        ("trainin.rounds=1", "did you mean `training`?"),
        ("training=3", "must be a section"),
        ("seeds=[0", "the value is not YAML"),
        ("seeds=" + "9" * 5000, "the value is not YAML"),
        ("seeds=!!python/name:os.system", "the value is not YAML"),
        ("data.path=none.csv", "none.csv"),
        (".".join("a" * 2000) + "=1", "unknown field"),
    ],
    ids=lambda text: text[:30],
)
def test_an_override_that_is_none(
    override: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = capsys.readouterr().err
    assert fedkg("run", "job.yaml", "--out", "run", "--set", override) in (1, 2)
    text = capsys.readouterr().err
    assert said in text
    assert not Path("run").exists()


def test_a_place_that_is_none_for_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    Path("file").write_text("x", encoding="utf-8")
    Path("other").mkdir()
    Path("other/job.yaml").write_text("of something else", encoding="utf-8")
    for out in ("file", "file/x", "other", ".", "/dev/null"):
        assert fedkg("run", "job.yaml", "--out", out) == 2, out
    for folder in ("none", "file", "other", "."):
        assert fedkg("run", "--resume", folder) == 2, folder
        assert "is not a run folder" in capsys.readouterr().err
    assert Path("other/job.yaml").read_text(encoding="utf-8") == "of something else"


def stopped_run(folder: Path) -> None:
    """A run that stopped in the middle of its second trial."""
    seen = 0

    def stop(event: Event) -> None:
        nonlocal seen
        seen += event.kind == "round"
        if seen == 5:
            raise KeyboardInterrupt

    with pytest.raises(Stopped):
        run_job("job.yaml", out=folder, on_event=stop)


DAMAGES: dict[str, Callable[[bytes], bytes | None]] = {
    "gone": lambda body: None,
    "empty": lambda body: b"",
    "half": lambda body: body[: len(body) // 2],
    "noise": lambda body: bytes(byte ^ 0x5A for byte in body),
    "longer": lambda body: body + b"\n\xff\x00,,,",
    "JSON of something else": lambda body: b'{"a": [1]}',
    "a list": lambda body: b"[]",
}


@pytest.mark.slow
def test_a_run_folder_with_any_file_damaged_goes_on_to_the_same_end_or_says_why_not() -> None:
    run_job("job.yaml", out="whole")
    whole = Path("whole/results.json").read_bytes()
    stopped_run(Path("stopped"))
    files = sorted(
        path.relative_to("stopped")
        for path in Path("stopped").rglob("*")
        if path.is_file() and path.name != ".lock"
    )
    assert len(files) >= 10
    refusals, faults = 0, []
    for file in files:
        for how, damage in DAMAGES.items():
            shutil.rmtree("run", ignore_errors=True)
            shutil.copytree("stopped", "run")
            body = damage((Path("run") / file).read_bytes())
            (Path("run") / file).unlink()
            if body is not None:
                (Path("run") / file).write_bytes(body)
            try:
                resume("run")
            except FedkgError:
                refusals += 1
                continue
            except (
                TypeError,
                KeyError,
                ValueError,
                IndexError,
                AttributeError,
                OSError,
                RuntimeError,
            ) as error:
                faults.append(f"{file} {how}: {type(error).__name__}: {error}")
                continue
            if Path("run/results.json").read_bytes() != whole:
                faults.append(f"{file} {how}: another result, and nothing said")
    assert not faults
    assert refusals > 10
