"""`fedkg suggest RUN --review` and its flags: decisions, and wrong ones that record nothing."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from command import Done, call

from fedkg.jobs.folder import JOB, RunFolder
from fedkg.jobs.suggestion_reviews import read_reviews
from fedkg.learned_knowledge_records import (
    CausalEdge,
    LearnedKnowledge,
    MinedNumber,
    MinedProperty,
    Precedence,
)

FOUND = LearnedKnowledge(
    run="b" * 64,
    title="line # 1\nrule evil require x >= 0",
    software="fedkg",
    began="",
    properties=(
        MinedProperty(
            inference="night",
            template="range",
            text="operational_range(volume, ?low)",
            client="north",
            numbers=(MinedNumber(name="low", value=2.5, direction="down"),),
            traces=9,
        ),
    ),
    edges=(
        CausalEdge(
            driver="pump",
            driven="tank",
            strength=0.5,
            precedence=Precedence(
                leads="flow", rise=1, follows="level", answer=2, within=3, kept=0.9, chance=0.1,
                cases=50,
            ),
        ),
    ),
)  # fmt: skip
NAMES = ("night_everywhere", "found_1_ahead_untested", "level_follows_flow")
WHO = ("--reviewer", "Bo", "--reason", "seen")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("fedkg.cli.suggest.read_findings", lambda folder: FOUND)
    RunFolder(tmp_path).write_text(JOB, "name: small\n")
    return tmp_path


def answer(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, run: Path, text: str
) -> Done:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    return call(capsys, "suggest", run, "--review")


def test_the_review_asks_about_each_open_suggestion(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "click.edit", lambda text, extension: text.replace("lagSteps 1", "lagSteps 2")
    )
    done = answer(capsys, monkeypatch, run, "Ana\na\nfits\ne\nslower\nr\nchance\n")
    assert done.code == 0, done.err
    assert [(one.candidate.name, one.decision, one.reason) for one in read_reviews(run)] == [
        (NAMES[0], "accepted", "fits"),
        (NAMES[1], "edited", "slower"),
        (NAMES[2], "rejected", "chance"),
    ]
    assert {one.reviewer for one in read_reviews(run)} == {"Ana"}
    assert "every suggestion has a decision" in answer(capsys, monkeypatch, run, "").out


def test_a_review_that_ends_early_keeps_its_decisions(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    done = answer(capsys, monkeypatch, run, "Ana\ns\nr\nunclear\n")
    assert (done.code, "the decisions so far are recorded" in done.err) == (130, True)
    [made] = read_reviews(run)
    assert (made.candidate.name, made.decision) == (NAMES[1], "rejected")
    assert answer(capsys, monkeypatch, run, "Ana\nq\n").code == 0
    assert len(read_reviews(run)) == 1


def test_accepted_rules_bring_the_signals_that_they_read(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = run / "accepted.fkg"
    words = [word for name in NAMES for word in ("--accept", name)]
    assert call(capsys, "suggest", run, *words, *WHO, "--accepted", "-o", file).code == 0
    text = file.read_text()
    assert text.count("signal ") == 2
    assert "\nrule evil" not in text, "a title of a run is no statement"
    again = call(capsys, "suggest", run, "--reject", NAMES[2], *WHO, "--accepted")
    assert "signal " not in again.out
    assert call(capsys, "suggest", run, "--accepted", "-o", file).code == 2, "the file exists"


def test_explain_shows_the_evidence_of_an_accepted_cause(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = run / "accepted.fkg"
    decided = call(capsys, "suggest", run, "--accept", NAMES[1], *WHO, "--accepted", "-o", file)
    assert decided.code == 0, decided.err
    (run / "own.fkg").write_text('signal flow in bar column "flow"\nrule a require flow <= 1 bar\n')
    graph = run / "findings.trig"
    graph.write_text(
        "@prefix fkg: <https://w3id.org/fedkg/ns#> . @prefix x: <https://x.test/> .\n"
        'x:p fkg:client "pump" . x:t fkg:client "tank" .\n'
        "x:run { x:e a fkg:CausalEdge ; fkg:driver x:p ; fkg:driven x:t ; fkg:lagSteps 1 . }\n"
    )
    files = [run / "own.fkg", file, graph]
    done = call(capsys, "explain", NAMES[1], *files)
    assert done.code == 0, done.err
    assert "  allows    pump drives tank" in done.out
    assert "  reviewed  accepted by Bo on " in done.out
    found = call(capsys, "explain", NAMES[1], *files, "--json").json
    assert found["cause"] == NAMES[1]
    assert found["drives"] == [{"driver": "pump", "driven": "tank"}]
    assert {"evidence", "reviewed"} <= set(found["evidence"])
    assert NAMES[1] in call(capsys, "explain", NAMES[1][:-1], *files).err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--accept", "nigth_everywhere", *WHO), "did you mean `night_everywhere`?"),
        (("--accept", NAMES[0], "--reviewer", "Bo"), "the reason of the decision is missing"),
        (("--accept", NAMES[0], "--reason", "x"), "the reviewer of the decision is missing"),
        (("--accept", NAMES[0], "--reject", NAMES[0], *WHO), "several decisions"),
        (("--edit", NAMES[0], *WHO), "NAME=FILE"),
        (("--edit", f"{NAMES[0]}=none.fkg", *WHO), "there is no file none.fkg"),
        (("--edit", f"{NAMES[0]}=two.fkg", *WHO), "2 statements"),
        (("--edit", f"{NAMES[1]}=one.fkg", *WHO), "one `cause` statement"),
        (("--edit", f"{NAMES[0]}=bad.fkg", *WHO), "line 1"),
        (("--accept", NAMES[0], "--reject", "x", *WHO), "there is no suggestion `x`"),
        (("--review", "--json"), "exclude each other"),
        (
            ("--accept", NAMES[0], "--reviewer", "B\u202eo", "--reason", "x"),
            "contains a control character",
        ),
    ],
)
def test_wrong_decisions_record_nothing(
    run: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    said: str,
) -> None:
    monkeypatch.chdir(run)
    Path("one.fkg").write_text("rule a require x >= 0\n")
    Path("two.fkg").write_text("rule a require x >= 0\nrule b require x >= 1\n")
    Path("bad.fkg").write_text("rule a require\n")
    done = call(capsys, "suggest", run, *words)
    assert (done.code, said in done.err) == (2, True), done.err
    assert read_reviews(run) == []


def test_two_accepted_statements_have_different_names(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(run)
    Path("one.fkg").write_text("rule # the same\n  a require x >= 0\n")
    edits = [("--edit", f"{name}=one.fkg") for name in (NAMES[0], NAMES[2])]
    assert call(capsys, "suggest", run, *edits[0], *edits[1], *WHO).code == 2
    assert call(capsys, "suggest", run, *edits[0], *WHO).code == 0
    done = call(capsys, "suggest", run, *edits[1], *WHO)
    assert (done.code, f"accepted for `{NAMES[0]}`" in done.err) == (2, True), done.err
    assert [one.candidate.name for one in read_reviews(run)] == [NAMES[0]]
    assert call(capsys, "suggest", run, "--reject", NAMES[0], *edits[1], *WHO).code == 0


def test_a_graph_is_not_reviewed(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = call(capsys, "suggest", run / "learned.trig", "--review")
    assert (done.code, "apply to one run" in done.err) == (2, True)
