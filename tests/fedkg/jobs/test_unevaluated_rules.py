"""A rule that a run never evaluates is neither satisfied nor violated in any output."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from command import call

from fedkg.jobs.folder import RunFolder

JUMPS = 'rule calm "No jumps." kind temporal require abs(temp - past temp) <= 1.5 K\n'
HEAD = """timeline time column "time" step 5 min
signal temp in degC span 0 .. 200
output fault in probability span 0 .. 1
"""
UNKNOWN = "Not evaluated, neither satisfied nor violated"


def sawtooth(path: Path, rows: int, peak: int = 40) -> None:
    """Temperature rises by 1 K in each step and falls from its peak; faults are random."""
    draws = np.random.default_rng(len(path.stem)).random(rows)
    wave = [
        50 + min(step % (2 * peak), 2 * peak - step % (2 * peak)) for step in range(rows)
    ]  # no step of more than 1 K
    lines = ["time,temp,fault"]
    for step, (temp, draw) in enumerate(zip(wave, draws, strict=True)):
        hour, minute = divmod(5 * step, 60)
        day, hour = divmod(hour, 24)
        lines.append(f"2025-03-{day + 1:02}T{hour:02}:{minute:02}:00,{temp},{int(draw < 0.3)}")
    path.write_text("\n".join(lines) + "\n")


def job(
    folder: Path, rules: str, *, algorithm: str = "scfa", own: bool = True, hold_out: str = "auto"
) -> Path:
    """A job over two sites with tables of unequal length, or with one table for both."""
    sawtooth(folder / "north.csv", 240)
    sawtooth(folder / "south.csv", 160)
    (folder / "rules.fkg").write_text(rules)
    sites = "{north: {table: north.csv}, south: {table: south.csv}}" if own else "[north, south]"
    data = (
        f"{{label: fault, features: [temp], hold_out: {hold_out}}}"
        if own
        else f"{{label: fault, path: north.csv, features: [temp], hold_out: {hold_out}}}"
    )
    place = folder / "job.yaml"
    place.write_text(
        f"name: t\nrules: [rules.fkg]\nsites: {sites}\ndata: {data}\nmodel: {{hidden: []}}\n"
        "training: {rounds: 2, participation: 1.0, executor: stacked}\n"
        "evaluation: {local_baseline: false, accept_unevaluated: [stays]}\n"
        f"algorithm: {algorithm}\n"
    )
    return place


def run(capsys: pytest.CaptureFixture[str], place: Path, out: Path) -> tuple[str, RunFolder]:
    """The output of `fedkg run`, and its folder."""
    done = call(capsys, "run", place, "--out", out)
    assert done.code == 0, done.err
    return done.out + done.err, RunFolder(out)


TEMPORAL = HEAD + (
    'rule stays "Risk never stays." kind temporal hard\n'
    "  require always within 30 min fault <= 0.2\n"
)


def test_hard_temporal_rules_are_not_evaluated_on_random_rows(tmp_path, capsys):
    said, folder = run(capsys, job(tmp_path, TEMPORAL, hold_out="random"), tmp_path / "run")
    assert "warning: `data.hold_out: random` separates rows from their neighbours" in said
    assert f"{UNKNOWN}: `stays`; it compares rows, and the test rows are a random sample" in said
    assert "ConstraintWarning" not in said
    [rule] = folder.rows("rules.csv")
    assert (rule["rate"], rule["applied"], rule["not_evaluated"]) == ("", "0", "1")
    assert rule["reason"] == "it compares rows, and the test rows are a random sample"
    clients = folder.rows("clients.csv")
    assert [row["validity"] for row in clients] == [""] * 4
    assert all(float(row["alpha"]) == pytest.approx(float(row["share"])) for row in clients)
    rounds = folder.rows("rounds.csv")
    assert [(row["rho_worst"], row["rho_mean"], row["zone"]) for row in rounds] == [("",) * 3] * 2
    assert all("weighted by the number of samples alone" in row["notes"] for row in rounds)
    assert all(row["violation"] == "" for row in folder.rows("sites.csv"))
    results = json.loads((folder.path / "results.json").read_text())
    assert results["not_evaluated"].keys() == {"stays"}
    assert results["rows"][0]["zone"] == ""
    page = (folder.path / "report.html").read_text()
    assert "Never violated" not in page
    assert "These rules count neither as satisfied nor as violated" in page


@pytest.mark.parametrize("own", [True, False])
def test_hard_temporal_rules_score_sites_on_consecutive_rows(tmp_path, capsys, own):
    """The rule is evaluated on the probe in every round, and on the last rows at the end."""
    said, folder = run(capsys, job(tmp_path, TEMPORAL, own=own), tmp_path / "run")
    assert UNKNOWN not in said
    assert "held out by time: the last rows are the test" in said
    [rule] = folder.rows("rules.csv")
    assert int(rule["applied"]) > 20
    assert 0 < int(rule["violated"]) <= int(rule["applied"])
    assert {row["validity"] for row in folder.rows("clients.csv")} == {"0.0"}
    assert [row["zone"] for row in folder.rows("rounds.csv")] == ["critical"] * 2


@pytest.mark.parametrize("hold_out", ["auto", "random"])
def test_hard_temporal_rules_score_sites_on_consecutive_windows(tmp_path, capsys, hold_out):
    """As on rows: in every round on the server's windows, at the end on those of the test."""
    place = job(tmp_path, TEMPORAL + "rule reads require if temp > 500 degC then fault >= 0\n")
    text = place.read_text()
    window = (
        f"data: {{set: table, path: north.csv, split: iid, hold_out: {hold_out},"
        " window: {history: 3}}\n"
    )
    start = text.index("data: ")
    place.write_text(
        text.replace(text[start : text.index("\n", start) + 1], window).replace(
            "{north: {table: north.csv}, south: {table: south.csv}}", "[north, south]"
        )
    )
    _, folder = run(capsys, place, tmp_path / "run")
    rule = next(row for row in folder.rows("rules.csv") if row["rule"] == "stays")
    validity = {row["validity"] for row in folder.rows("clients.csv")}
    if hold_out == "random":
        assert (rule["evaluations"], validity) == ("0", {""})
        assert "it compares rows" in rule["reason"]
        return
    assert 0 < int(rule["violated"]) <= int(rule["evaluations"]) > 20
    assert validity == {"0.0"}
    assert "it compares rows" not in folder.rows("rounds.csv")[0]["notes"]


def test_a_hard_rule_that_no_site_can_evaluate_stops_the_run(tmp_path, capsys):
    place = job(tmp_path, TEMPORAL, hold_out="random")
    place.write_text(place.read_text().replace("[stays]", "[]"))
    done = call(capsys, "run", place, "--out", tmp_path / "run")
    assert done.code == 1
    assert "no site can evaluate the hard rule `stays`: it compares rows" in done.err
    assert "evaluation.accept_unevaluated: [stays]" in done.err
    assert not (tmp_path / "run" / "environment.json").exists()
    changed = "evaluation.accept_unevaluated=[stays]"
    assert call(capsys, "run", place, "--out", tmp_path / "run", "--set", changed).code == 0


def test_the_rules_that_are_evaluated_decide_alone(tmp_path, capsys):
    """Only one of two rules is evaluated: the zone and the weights are those of this rule."""
    rules = TEMPORAL + "rule low hard require fault <= 0.999\n"
    _, folder = run(capsys, job(tmp_path, rules, hold_out="random"), tmp_path / "run")
    (tmp_path / "alone").mkdir()
    alone = HEAD + "rule low hard require fault <= 0.999\n"
    alone = job(tmp_path / "alone", alone, hold_out="random")
    _, other = run(capsys, alone, tmp_path / "other")
    columns = ("rho_worst", "rho_mean", "zone", "loss")
    first, second = (
        [[row[name] for name in columns] for row in one.rows("rounds.csv")]
        for one in (folder, other)
    )
    assert first == second
    assert first[0][2] == "safe"


def test_a_condition_that_no_row_meets_ends_no_run(tmp_path, capsys):
    rules = HEAD + "rule f require if temp > 150 degC then fault >= 0.5\n"
    said, folder = run(capsys, job(tmp_path, rules, algorithm="fedavg"), tmp_path / "run")
    reason = "no test row has the key, meets the condition and gives the values"
    assert f"{UNKNOWN}: `f`; {reason}" in said
    assert [row["reason"] for row in folder.rows("rules.csv")] == [reason]


def test_a_rule_reads_an_earlier_answer_that_no_row_has(tmp_path, capsys):
    rules = HEAD + "rule f require fault >= past fault - 0.5\n"
    done = call(capsys, "run", job(tmp_path, rules), "--out", tmp_path / "run")
    assert done.code == 1
    assert "a rule reads earlier values of the output `fault` (past, previous)" in done.err
    assert not (tmp_path / "run" / "results.json").exists()


def test_a_label_with_classes_needs_the_columns_of_the_rules(tmp_path, capsys):
    rules = HEAD.replace("output fault in probability span 0 .. 1", "label fault classes yes, no")
    rules += "rule f require if temp > 60 degC then fault is yes\n"
    done = call(capsys, "run", job(tmp_path, rules), "--out", tmp_path / "run")
    assert done.code == 1
    assert "output: `fault` has classes, and `data.label` is a column of 0 and 1" in done.err
    assert "data.set: table" in done.err


@pytest.mark.parametrize("own", [True, False])
def test_rules_over_rows_are_checked_on_intact_tables(tmp_path, capsys, own):
    """`run` counts what `eval` counts: every step but the first of each table."""
    rules = HEAD + JUMPS + "rule f require fault >= 0\n"
    place = job(tmp_path, rules, own=own)
    _, folder = run(capsys, place, tmp_path / "run")
    counts = np.zeros(2, dtype=int)
    for name in ("north.csv", "south.csv") if own else ("north.csv",):
        done = call(capsys, "eval", tmp_path / "rules.fkg", tmp_path / name, "--json")
        [found] = [one for one in done.json["rules"] if one["rule"] == "calm"]
        counts += [found["violated"], found["violated"] + found["satisfied"]]
    [check] = folder.rows("checks.csv")
    assert (
        (int(check["violated"]), int(check["evaluations"]))
        == tuple(counts)
        == (0, 398 if own else 239)
    )


def test_machines_are_dealt_to_intact_tables_as_to_their_parts(tmp_path, capsys):
    """A rule about one site's machine counts that site's rows, wherever they went."""
    sawtooth(tmp_path / "all.csv", 200)
    (tmp_path / "rules.fkg").write_text(
        HEAD
        + "rule f require fault >= 0\nsignal machine is category"
        + '\nrule cool require if machine is "M1" then temp <= 0 degC\n'
    )
    place = tmp_path / "job.yaml"
    place.write_text(
        "name: t\nrules: [rules.fkg]\nsites: {north: {machines: [M1]}, south: {machines: [M2]}}\n"
        "data: {label: fault, path: all.csv, features: [temp]}\nmodel: {hidden: []}\n"
        "training: {rounds: 1, participation: 1.0, executor: stacked}\n"
        "evaluation: {local_baseline: false}\nalgorithm: fedavg\n"
    )
    _, folder = run(capsys, place, tmp_path / "run")
    [check] = folder.rows("checks.csv")
    north, south = (int(row["samples"]) for row in folder.rows("clients.csv"))
    assert north <= int(check["violated"]) <= 200 - south
    assert check["evaluations"] == "200"


def test_theory_knows_nothing_of_rules_that_are_not_evaluated(tmp_path, capsys):
    """Rules that are not evaluated give no share of valid models and no violation term.

    Both are known for a rule that is evaluated.
    """
    done = call(
        capsys,
        *("run", job(tmp_path, TEMPORAL, hold_out="random"), "--out", tmp_path / "run"),
        *("--set", "theory=true"),
    )
    assert done.code == 0, done.err
    folder = RunFolder(tmp_path / "run")
    assert [row["valid"] for row in folder.rows("theory.csv")] == [""] * 2
    [found] = json.loads((folder.path / "theory.json").read_text())["trials"]
    assert (found["constants"]["theta"], found["constants"]["draws"]) == (None, None)
    assert "no rule is evaluated on the rows of the probe" in found["note"]
    assert found["gradient_bound"]["valid_iterates"] is None
    assert (found["bound"]["violation"], found["bound"]["total"]) == (None, None)
    assert found["bound"]["drift"] >= 0
    (tmp_path / "known").mkdir()
    rules = TEMPORAL + "rule low hard require fault <= 0.999\n"
    place = job(tmp_path / "known", rules, hold_out="random")
    call(capsys, "run", place, "--out", tmp_path / "other", "--set", "theory=true")
    [found] = json.loads((tmp_path / "other" / "theory.json").read_text())["trials"]
    assert found["constants"]["theta"] == 1
    assert found["gradient_bound"]["valid_iterates"] == 2
    assert found["bound"]["violation"] == 0


def test_the_graph_of_what_a_run_learned_has_the_reason(tmp_path, capsys):
    rules = TEMPORAL + "rule low hard require fault <= 0.999\n"
    run(capsys, job(tmp_path, rules, hold_out="random"), tmp_path / "run")
    graph = tmp_path / "learned.trig"
    assert call(capsys, "ontology", "learned", tmp_path / "run", "-o", graph).code == 0
    stays, low = graph.read_text().split("a fkg:RuleEvidence")[1:]
    reason = "it compares rows, and the test rows are a random sample"
    assert f'fkg:notEvaluated "{reason}"' in stays
    assert "fkg:violationRate" not in stays
    assert "fkg:notEvaluated" not in low
    assert "fkg:violationRate" in low


def test_a_column_that_no_table_has_is_named_as_the_reason(tmp_path, capsys):
    (tmp_path / "plant.ttl").write_text(
        "@prefix p: <https://ex.org/p#> . @prefix fkg: <https://w3id.org/fedkg/ns#> .\n"
        'p:Kiln fkg:keyColumn "kiln" . p:K1 a p:Kiln .\n'
    )
    rules = (
        "use plant\nprefix p: <https://ex.org/p#>\n"
        + HEAD
        + "rule low for ?kiln in class p:Kiln require fault <= 0.9\n"
    )
    place = job(tmp_path, rules)
    place.write_text(
        place.read_text().replace("features: [temp]", "features: [temp], machine: kiln")
    )
    said, folder = run(capsys, place, tmp_path / "run")
    reason = "low (1); the probe rows have no column `kiln`"
    assert f"1 of 1 bound rows are not evaluated on the probe: {reason}" in said
    assert "keys=" not in said
    assert [row["validity"] for row in folder.rows("clients.csv")] == [""] * 4


def test_windows_have_a_reason_of_their_own(tmp_path, capsys):
    """A random sample of windows leaves none beside its neighbours."""
    sawtooth(tmp_path / "all.csv", 240)
    lines = (tmp_path / "all.csv").read_text().splitlines()
    rows = [f"{line},{'ab'[step // 120]}" for step, line in enumerate(lines[1:])]
    (tmp_path / "all.csv").write_text("\n".join([f"{lines[0]},site", *rows]) + "\n")
    (tmp_path / "rules.fkg").write_text(
        TEMPORAL + "rule low hard require if temp > 60 degC then fault <= 0.999\n"
    )
    place = tmp_path / "job.yaml"
    place.write_text(
        "name: t\nrules: [rules.fkg]\nsites: [a, b]\n"
        "data: {set: table, path: all.csv, split: column, min_samples: 2, hold_out: random,"
        " window: {history: 4}}\n"
        "model: {kind: rnn, hidden: 2, layers: 1}\n"
        "training: {rounds: 1, participation: 1.0, executor: stacked}\n"
        "evaluation: {local_baseline: false, accept_unevaluated: [stays]}\nalgorithm: scfa\n"
    )
    _, folder = run(capsys, place, tmp_path / "run")
    reasons = {row["rule"]: row["reason"] for row in folder.rows("rules.csv")}
    random = "it compares rows, and the test rows are a random sample"
    assert reasons == {"stays": random, "low": ""}
