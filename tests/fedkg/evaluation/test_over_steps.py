"""Numbers over time, `for at least` and `becomes`: hand-computed verdicts, and pandas' `rolling`.

All go through `fedkg eval`, except the gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from command import call

import fedkg

STEP = pd.Timedelta(minutes=5)
HEAD = """
timeline time column "t" step 5 min{more}
signal p in bar column "P" span 0 .. 20
signal temp in degC column "T"
signal pump in boolean column "pump"
"""
TABLE = """t,P,T,pump
2024-03-09 00:00,1,20,off
2024-03-09 00:05,6,21,on
2024-03-09 00:10,7,25,on
2024-03-09 00:15,8,30,off
2024-03-09 00:25,9,,on
2024-03-09 00:30,2,20,off
2024-03-09 00:35,3,21,off
2024-03-09 00:40,4,22,on
"""
"""The step 00:20 is missing, and so is the temperature at 00:25."""

Counts = dict[str, tuple[int, int, int]]


def verdicts(
    capsys: pytest.CaptureFixture[str], folder: Path, rules: str, table: str = TABLE, more: str = ""
) -> Counts:
    """How often each rule is satisfied, violated and unknown."""
    (folder / "r.fkg").write_text(HEAD.format(more=more) + rules, encoding="utf-8")
    (folder / "t.csv").write_text(table, encoding="utf-8")
    done = call(capsys, "eval", folder / "r.fkg", folder / "t.csv", "--json")
    assert done.code == 0, done.err
    return {
        rule["rule"]: (rule["satisfied"], rule["violated"], rule["unknown"])
        for rule in done.json["rules"]
    }


@pytest.mark.parametrize("ends", ["strict", "clip"])
def test_numbers_are_unknown_until_the_window_is_complete_and_across_a_gap(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, ends: str
) -> None:
    found = verdicts(
        capsys,
        tmp_path,
        "rule mean   require mean of p over last 10 min <= 6.5 bar\n"
        "rule steps  require mean of p over last 2 <= 6.5 bar\n"
        "rule sum    require sum of p over last 10 min <= 6500 mbar\n"
        "rule least  require min of p over last 15 min >= 6 bar\n"
        "rule most   require max of p over next 10 min <= 7 bar\n"
        "rule warm   require mean of temp over last 10 min <= 73.4 degF\n"
        "rule one    require mean of p over last 5 min == p\n"
        "rule long   require mean of p over last 2 h <= 6.5 bar\n",
        more=f" ends {ends}",
    )
    # Windows of two: none, 3.5, 6.5, 7.5, gap, 5.5, 2.5, 3.5.
    assert found["mean"] == found["steps"] == (5, 1, 2)
    # Twice that: none, 7, 13, 15, gap, 11, 5, 7.
    assert found["sum"] == (1, 5, 2)
    # Windows of three: none, none, 1, 6, gap, gap, 2, 2.
    assert found["least"] == (1, 3, 4)
    # Now and the next step: 6, 7, 8, gap, 9, 3, 4, none.
    assert found["most"] == (4, 2, 2)
    # 73.4 degF are 23 degC: none, 20.5, 23, 27.5, gap, unknown, 20.5, 21.5.
    assert found["warm"] == (4, 1, 3)
    assert found["one"] == (8, 0, 0)
    assert found["long"] == (0, 0, 8)


def test_conditions_are_counted_with_their_units(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    found = verdicts(
        capsys,
        tmp_path,
        "rule count    require count of (p > 6 bar) over last 10 min <= 1\n"
        "rule share    require share of (p > 6 bar) over last 10 min <= 50 %\n"
        "rule duration require duration of (p > 6 bar) over last 10 min <= 5 min\n"
        "rule seconds  require duration of (p > 6 bar) over last 10 min < 300 s\n"
        "rule coming   require count of (p > 6 bar) over next 10 min >= 1\n",
    )
    # Above 6 bar at: 00:10, 00:15, 00:25. Pairs: none, 0, 1, 2, gap, 1, 0, 0.
    assert found["count"] == found["share"] == found["duration"] == (5, 1, 2)
    assert found["seconds"] == (3, 3, 2)
    # Now and the next step: 0, 1, 2, gap, 1, 0, 0, none.
    assert found["coming"] == (3, 3, 2)


def test_a_start_needs_the_step_before(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rules = (
        "rule starts require starts of (pump is on) over last 15 min <= 0\n"
        "rule edge   require not (pump becomes on)\n"
        "rule same   require not (pump is on becomes true)\n"
        "rule fast   require not (p > 6 bar becomes true)\n"
    )
    found = verdicts(capsys, tmp_path, rules)
    # The pump is off, on, on, off, gap, on, off, off, on: it starts at 00:05 and 00:40. What was
    # before 00:25 is unknown.
    assert found["edge"] == found["same"] == (5, 2, 1)
    # Complete from 00:10, unknown around the gap until 00:40 with the steps 00:30 to 00:40.
    assert found["starts"] == (0, 3, 5)
    # p passes 6 bar at 00:10; 00:25 is unknown.
    assert found["fast"] == (6, 1, 1)


def test_the_first_step_is_no_edge(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    table = "t,P,T,pump\n2024-03-09 00:00,9,1,on\n2024-03-09 00:05,9,1,on\n"
    rule = "rule edge require not (pump becomes on)\n"
    assert verdicts(capsys, tmp_path, rule, table)["edge"] == (1, 0, 1)
    assert verdicts(capsys, tmp_path, rule, table, " ends clip")["edge"] == (2, 0, 0)


def test_rates_have_a_unit_per_time(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    found = verdicts(
        capsys,
        tmp_path,
        "rule rate  require rate of p over last 10 min <= 0.3 bar/min\n"
        "rule hours require rate of p over last 10 min <= 18 bar/h\n"
        "rule steps require rate of p over last 2 <= 0.3 bar/min\n"
        "rule warm  require rate of temp over last 5 min <= 1.08 degR/min\n",
    )
    # Changes over 10 min: none, none, 6, 2, 1, gap, -6, 2; 3 bar are allowed.
    assert found["rate"] == found["hours"] == found["steps"] == (4, 1, 3)
    # 1.08 degR/min are 3 K in 5 min. Changes: none, 1, 4, 5, gap, unknown,
    # 1, 1.
    assert found["warm"] == (3, 2, 3)


@pytest.mark.parametrize(("ends", "unknown"), [("strict", 1), ("clip", 0)])
def test_a_confirmation_time_counts_from_the_first_step_at_which_it_was_seen(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, ends: str, unknown: int
) -> None:
    table = "t,P,T,pump\n" + "".join(
        f"2024-03-09 00:{5 * i:02},{p},1,off\n" for i, p in enumerate([9, 9, 9, 9, 1, 9, 9])
    )
    found = verdicts(
        capsys,
        tmp_path,
        "rule ten    require not (p > 6 bar for at least 10 min)\n"
        "rule eight  require not (p > 6 bar for at least 8 min)\n"
        "rule steps  require not (p > 6 bar for at least 2)\n"
        "rule now    require not (p > 6 bar for at least 0 min)\n"
        "rule plain  require not p > 6 bar for at least 10 min\n"
        "rule low    require (not p > 6 bar) for at least 0 min\n",
        table,
        f" ends {ends}",
    )
    # Seen at 0, 5 and 10 min it has held for 10 min. 8 min round up to 10.
    assert found["ten"] == found["eight"] == found["steps"] == (5 - 2 * unknown, 2, 2 * unknown)
    assert found["now"] == found["low"] == (1, 6, 0)
    assert found["plain"] == found["ten"]


def test_since_an_event_includes_its_step_and_starts_anew_at_the_next(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    table = """t,P,T,pump
2024-03-09 00:00,9,1,off
2024-03-09 00:05,7,1,on
2024-03-09 00:10,8,1,on
2024-03-09 00:15,2,1,off
2024-03-09 00:20,9,1,on
2024-03-09 00:25,9,1,off
2024-03-09 00:30,9,1,
2024-03-09 00:35,9,1,off
2024-03-09 00:40,1,1,on
"""
    found = verdicts(
        capsys,
        tmp_path,
        "rule time require duration of (p > 6 bar) since (pump becomes on) <= 5 min\n"
        "rule mean require mean of p since (pump becomes on) <= 7 bar\n"
        "rule last require max of p since (pump is on) <= 8 bar\n",
        table,
    )
    # Starts at 00:05, 00:20 and 00:40. It is unknown whether the pump started at 00:30.
    # Minutes above 6 bar: none, 5, 10, 10, 5, 10, unknown, unknown, 0.
    assert found["time"] == (3, 3, 3)
    # Means: none, 7, 7.5, 17 / 3, 9, 9, unknown, unknown, 1.
    assert found["mean"] == (3, 3, 3)
    # Since it was on last: none, 7, 8, 8, 9, 9, unknown, unknown, 1.
    assert found["last"] == (4, 2, 3)


PLANT = """
@prefix plant: <https://example.org/plant#> .
@prefix sosa: <http://www.w3.org/ns/sosa/> .
@prefix fkg:  <https://w3id.org/fedkg/ns#> .
plant:flow a sosa:ObservableProperty .
plant:tank a plant:Vessel .
plant:p1 plant:into plant:tank .
plant:f1 sosa:observes plant:flow ; sosa:isHostedBy plant:p1 ; fkg:column "F1" .
plant:p2 plant:into plant:tank .
plant:f2 sosa:observes plant:flow ; sosa:isHostedBy plant:p2 ; fkg:column "F2" .
plant:M1 a plant:Mill ; plant:wait 1 ; fkg:keyColumn "machine" .
plant:M2 a plant:Mill ; plant:wait 2 ; fkg:keyColumn "machine" .
"""
PLANT_TABLE = """t,P,machine,F1,F2,heat,kind,pump
2024-03-09 00:00,1,M1,1,2,20,M,on
2024-03-09 00:05,2,M2,3,4,40,L,on
2024-03-09 00:10,6,M1,9,4,20,M,off
2024-03-09 00:15,7,M2,9,9,50,L,off
2024-03-09 00:20,1,M1,1,1,,L,on
"""


def test_members_keys_durations_of_the_graph_templates_and_categories(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "plant.ttl").write_text(PLANT)
    pipes = "over ?p where { ?p plant:into ?v }"
    found = verdicts(
        capsys,
        tmp_path,
        "use plant\nprefix plant: <https://example.org/plant#>\n"
        "signal flow(?p) is plant:flow in kg/h span 0 .. 50\n"
        'signal heat(?m) in degC column "heat"\n'
        "template calm(x, high, wait) = mean of x over last wait <= high\n"
        "rule inflow for ?v in class plant:Vessel"
        f" require sum of mean of flow(?p) over last 10 min {pipes} <= 10 kg/h\n"
        "rule steady for ?v in class plant:Vessel"
        f" require all of (flow(?p) <= 8 kg/h for at least 5 min) {pipes}\n"
        "rule peaks for ?v in class plant:Vessel"
        f" require max of (count of (flow(?p) > 5 kg/h) over last 10 min) {pipes} <= 1\n"
        "rule mills for ?m, ?w where { ?m a plant:Mill ; plant:wait ?w }"
        " require mean of heat(?m) over last ?w <= 30 degC\n"
        "rule calm_p require follows calm(p, 3 bar, 10 min)\n"
        'rule kinds require if `kind` becomes "L" then pump is on\n',
        PLANT_TABLE,
    )
    # Means: none, 2, 6, 9, 5 and none, 3, 4, 6.5, 5.
    assert found["inflow"] == (3, 1, 1)
    # At most 8 kg/h now and before: unknown, yes, no, no, no (9 before).
    assert found["steady"] == (1, 3, 1)
    # Above 5 kg/h: none, 0, 1, 2, 1 and none, 0, 0, 1, 1.
    assert found["peaks"] == (3, 1, 1)
    # M1 has windows of one step: 20, 20, unknown. M2 lacks every second step of its windows of two.
    assert found["mills"] == (2, 0, 3)
    # Means: none, 1.5, 4, 6.5, 4.
    assert found["calm_p"] == (1, 3, 1)
    # It becomes L at 00:05 and, with the pump off, at 00:15.
    assert found["kinds"] == (4, 1, 0)


# pandas as the oracle

Window = Callable[[pd.Series, int], pd.Series]
OPERATORS: dict[str, Window] = {
    "mean": lambda x, n: x.rolling(n, min_periods=n).mean(),
    "sum": lambda x, n: x.rolling(n, min_periods=n).sum(),
    "min": lambda x, n: x.rolling(n, min_periods=n).min(),
    "max": lambda x, n: x.rolling(n, min_periods=n).max(),
    "rate": lambda x, n: x.diff(n) / (5 * n),
}


Change = Callable[[pd.Series], pd.Series]


def over(op: str, steps: int) -> Change:
    return lambda series: OPERATORS[op](series, steps)


def backwards(change: Change) -> Change:
    return lambda series: change(series[::-1])[::-1]


def on_axis(frame: pd.DataFrame, change: Change, each: Change = lambda x: x) -> pd.Series:
    """A function of the series of each trace, on a time axis without holes.

    `each` is applied first and is unknown at missing steps.
    """
    parts = []
    for _, part in frame.groupby("heat"):
        series = part.set_index("t")["P"]
        axis = pd.date_range(series.index.min(), series.index.max(), freq=STEP)
        known = each(series.reindex(axis)).where(axis.isin(series.index))
        found = change(known).reindex(series.index)
        parts.append(pd.Series(found.to_numpy(), index=part.index))
    return pd.concat(parts).reindex(frame.index)


def indicator(series: pd.Series, limit: float) -> pd.Series:
    return (series > limit).astype(float).where(series.notna())


def starts(series: pd.Series, limit: float) -> pd.Series:
    """1 where the series passes the limit, 0 where it certainly does not, else NaN."""
    now, before = indicator(series, limit), indicator(series, limit).shift(1)
    sure = now.notna() & before.notna()
    started = ((now == 1) & (before == 0)).astype(float).where(sure)
    return started.mask((now == 0) | (before == 1), 0.0)


def expected(values: pd.Series, most: float) -> tuple[int, int, int]:
    known = values.dropna()
    return int((known <= most).sum()), int((known > most).sum()), int(values.isna().sum())


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_random_traces_with_missing_steps_and_values_against_pandas(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, seed: int
) -> None:
    random = np.random.default_rng(seed)
    frames = []
    for heat in range(3):
        steps = np.flatnonzero(random.random(60) < 0.93)
        values = random.integers(0, 16, steps.size).astype(float)
        values[random.random(steps.size) < 0.05] = np.nan
        start = pd.Timestamp("2024-03-09") + heat * pd.Timedelta(hours=1)
        frames.append(pd.DataFrame({"t": start + steps * STEP, "P": values, "heat": f"h{heat}"}))
    frame = pd.concat(frames, ignore_index=True)
    frame["T"], frame["pump"] = 1.0, "off"
    table = frame.sample(frac=1.0, random_state=seed).to_csv(index=False)
    rules, wanted = "", {}
    limits = {"mean": 7.25, "sum": 30.25, "min": 3.5, "max": 12.5, "rate": 0.35}
    units = {"rate": "bar/min"}
    for n in (1, 2, 3, 6, 7):
        for op in OPERATORS:
            limit, unit = limits[op], units.get(op, "bar")
            rules += f"rule {op}{n} require {op} of p over last {5 * n} min <= {limit} {unit}\n"
            wanted[f"{op}{n}"] = expected(on_axis(frame, over(op, n)), limit)
        ahead = on_axis(frame, backwards(over("mean", n)))
        rules += f"rule ahead{n} require mean of p over next {5 * n} min <= 7.25 bar\n"
        wanted[f"ahead{n}"] = expected(ahead, 7.25)
        count = on_axis(frame, over("sum", n), lambda x: indicator(x, 7))
        rules += f"rule count{n} require count of (p > 7 bar) over last {5 * n} min <= 1\n"
        wanted[f"count{n}"] = expected(count, 1)
        rules += f"rule share{n} require share of (p > 7 bar) over last {5 * n} min <= 40 %\n"
        wanted[f"share{n}"] = expected(count / n, 0.4)
        rules += f"rule long{n} require duration of (p > 7 bar) over last {5 * n} min <= 8 min\n"
        wanted[f"long{n}"] = expected(5 * count, 8)
        started = on_axis(frame, over("sum", n), lambda x: starts(x, 7))
        rules += f"rule starts{n} require starts of (p > 7 bar) over last {5 * n} min <= 1\n"
        wanted[f"starts{n}"] = expected(started, 1)
    found = verdicts(capsys, tmp_path, rules, table, ' trace column "heat"')
    assert found == wanted
    for name in (f"{op}3" for op in (*OPERATORS, "count", "share", "long", "starts")):
        assert wanted[name][0] > 0, name
        assert wanted[name][1] > 0, name


# tensors


def test_gradients_reach_every_step_of_the_window() -> None:
    pack = fedkg.compile(
        text="timeline step 5 min\noutput p in bar span 0 .. 10\n"
        "rule mean require mean of p over last 10 min <= 5 bar\n"
        "rule most require max of p over last 15 min <= 5 bar\n"
        "rule rate require rate of p over last 5 min <= 0.2 bar/min\n"
    )
    rules = pack.constraints(x=fedkg.columns(["none"]), y=fedkg.columns(["p"]))
    y = torch.tensor([[[4.0], [8.0], [3.0]]], dtype=torch.float64, requires_grad=True)
    report = rules(x=torch.zeros(1, 3, 1, dtype=torch.float64), y=y)
    each = report.at_steps.robustness[0]
    # Means: none, 6, 5.5. Greatest of three: none, none, 8. Rates: none, 0.8, -1 bar/min.
    np.testing.assert_allclose(
        each.detach().numpy(), [[np.nan] * 3, [-1.0, np.nan, -0.6], [-0.5, -3.0, 1.2]], atol=1e-12
    )
    gradients = []
    for value in (each[1, 0], each[2, 1], each[2, 2]):
        (gradient,) = torch.autograd.grad(value, y, retain_graph=True)
        gradients.append(gradient.flatten().tolist())
    assert gradients == [[-0.5, -0.5, 0.0], [0.0, -1.0, 0.0], pytest.approx([0.0, 0.2, -0.2])]


def test_a_count_has_a_penalty_and_no_gradient() -> None:
    pack = fedkg.compile(
        text="timeline step 5 min\noutput p in bar span 0 .. 10\n"
        "rule r require count of (p > 5 bar) over last 15 min <= 1\n"
    )
    rules = pack.constraints(x=fedkg.columns(["none"]), y=fedkg.columns(["p"]))
    y = torch.tensor([[[6.0], [8.0], [7.0]]], dtype=torch.float64, requires_grad=True)
    report = rules(x=torch.zeros(1, 3, 1, dtype=torch.float64), y=y)
    # Three of three instead of one; a count of three steps lies in 0 .. 3.
    assert report.penalties.sum().item() == pytest.approx(2 / 3)


# the compiler

UNITS_REFUSED = {
    "mean of p over last 10 min <= 5 min": "FKG213",
    "count of (p > 5 bar) over last 10 min <= 5 bar": "FKG213",
    "duration of (p > 5 bar) over last 10 min <= 5 bar": "FKG213",
    "rate of p over last 10 min <= 5 bar": "FKG213",
    "sum of temp over last 10 min <= 5 degC": "FKG215",
    "mean of p over last 7 min <= 5 bar": "FKG255",
    "mean of p over last 0 min <= 5 bar": "FKG255",
    "mean of p over last 10 bar <= 5 bar": "FKG251",
    "mean of 3 bar over last 10 min <= 5 bar": "FKG262",
    "mean of (p > 5 bar) over last 10 min <= 5": "FKG202",
    "count of p over last 10 min <= 5": "FKG202",
    "average of p over last 10 min <= 5 bar": "FKG202",
    "rate of p over next 10 min <= 5 bar/min": "FKG202",
    "rate of p since (pump is on) <= 5 bar/min": "FKG202",
    "p > 5 bar for at least 10 bar": "FKG251",
}


@pytest.mark.parametrize("condition", UNITS_REFUSED)
def test_what_has_no_meaning_is_an_error(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, condition: str
) -> None:
    (tmp_path / "r.fkg").write_text(HEAD.format(more="") + f"rule r require {condition}\n")
    done = call(capsys, "check", tmp_path / "r.fkg")
    assert done.code == 1
    assert UNITS_REFUSED[condition] in done.err


def test_without_a_step_nothing_lasts(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rule = "signal p in bar\nrule r require duration of (p > 5 bar) over last 3 <= 5 min\n"
    (tmp_path / "r.fkg").write_text(rule)
    done = call(capsys, "check", tmp_path / "r.fkg")
    assert done.code == 1
    assert "FKG250" in done.err


WRITTEN = """rule a require mean of (p + 1 bar) over last 10 min <= 5 bar
  and p > 2 bar for at least 10 min
rule b require if pump becomes on then (p > 5 bar or p < 1 bar) becomes true
rule c require (if p > 5 bar then pump is on) for at least 2 h
rule d require starts of (p > 5 bar for at least 15 min) since (pump becomes on) <= 3
rule e require not (p > 5 bar for at least 10 min) and (not p > 5 bar) for at least 10 min
rule f require mean of max of p over last 3 over next 10 min * 2 <= 5 bar
"""


def test_the_formatter_keeps_the_meaning_and_is_stable(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "r.fkg"
    file.write_text(HEAD.format(more="") + WRITTEN)
    before = fedkg.compile(file)
    assert call(capsys, "fmt", file).code == 0
    written = file.read_text()
    assert "(p > 5 bar or p < 1 bar) becomes true" in written
    assert "(if p > 5 bar then pump is on) for at least 2 h" in written
    both = "not p > 5 bar for at least 10 min and (not p > 5 bar) for at least 10 min"
    assert both in written
    after = fedkg.compile(file)
    assert [bank.skeleton for bank in after.banks] == [bank.skeleton for bank in before.banks]
    assert call(capsys, "fmt", file, "--check").code == 0


def test_explain_names_the_window_and_gives_examples(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "r.fkg").write_text(
        HEAD.format(more="")
        + "rule mean require mean of p over last 10 min <= 5 bar\n"
        + "rule long require duration of (p > 5 bar) over last 10 min <= 5 min\n"
    )
    shown = call(capsys, "explain", "mean", tmp_path / "r.fkg").out
    assert "mean of p over last 10 min (2 steps) is at most 5 bar" in shown
    assert "violated  p = 0 bar at step -1, p = 12 bar" in shown
    shown = call(capsys, "explain", "long", tmp_path / "r.fkg").out
    assert "duration of (p is above 5 bar) over last 10 min (2 steps) is at most 5 min" in shown
    assert "violated  p = 6 bar" in shown


def test_check_finds_that_a_share_follows_from_a_mean(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Of two pressures from 0 with a mean of at most 5 bar, at most one is above 5 bar."""
    (tmp_path / "r.fkg").write_text(
        HEAD.format(more="")
        + "rule mean  require mean of p over last 10 min <= 5 bar\n"
        + "rule share require share of (p > 5 bar) over last 10 min <= 50 %\n"
    )
    done = call(capsys, "check", tmp_path / "r.fkg")
    assert "FKG505" in done.err
    assert "`share`" in done.err


def test_check_finds_two_windows_that_contradict(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "r.fkg").write_text(
        HEAD.format(more="")
        + "rule low  require mean of p over last 10 min <= 5 bar\n"
        + "rule high require min of p over last 10 min >= 6 bar\n"
    )
    assert "FKG500" in call(capsys, "check", tmp_path / "r.fkg").err


def test_examples_are_judged_where_the_window_is_complete(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "r.fkg").write_text(
        HEAD.format(more="")
        + "rule back require mean of p over last 10 min <= 5 bar\n"
        + "rule ahead require mean of p over next 10 min <= 5 bar\n"
        + "rule change require p - p 10 min ago <= 2 bar\n"
        + "rule event require max of p since (pump becomes on) <= 5 bar\n"
        + "example of back holds for p = 9 1 8 bar\n"
        + "example of back fails for p = 1 2 9 bar\n"
        + "example of ahead holds for p = 1 8 1 bar\n"
        + "example of ahead fails for p = 1 2 9 bar\n"
        + "example of change holds for p = 9 5 8 7 bar\n"
        + "example of change fails for p = 1 2 9 bar\n"
        + "example of event holds for p = 9 5 2 bar and pump = off on off\n"
        + "example of event fails for p = 9 5 6 bar and pump = off on off\n"
    )
    shown = call(capsys, "test", tmp_path / "r.fkg").out
    assert "8 examples, all as expected" in shown
    with (tmp_path / "r.fkg").open("a") as file:
        file.write("example of back holds for p = 1 bar\n")
        file.write("example of back holds for p = 1 unknown 1 1 bar\n")
    done = call(capsys, "test", tmp_path / "r.fkg")
    assert done.code == 1
    assert "step 1 is unknown: it looks at more steps than the example has" in done.out
    assert "step 2 is unknown" in done.out


@pytest.mark.parametrize("edge", ["becomes true", "only after p > 2 bar"])
def test_edges_inside_edges_do_not_grow_without_measure(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, edge: str
) -> None:
    rule = "rule r require " + "(" * 24 + "p > 1 bar" + f" {edge})" * 24 + "\n"
    (tmp_path / "r.fkg").write_text(HEAD.format(more="") + rule)
    done = call(capsys, "check", tmp_path / "r.fkg")
    assert done.code == 1
    assert "FKG261" in done.err
