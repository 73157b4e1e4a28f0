"""``x 10 min ago``: hand-computed verdicts, and pandas' `shift` over random tables.

Both go through `fedkg eval`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command import call

RULES = """
timeline time column "t" step 5 min{trace}
signal temp in degC column "T"
"""
STEP = pd.Timedelta(minutes=5)


def counts(
    capsys: pytest.CaptureFixture[str], rules: Path, table: Path
) -> dict[str, tuple[int, int, int]]:
    """How often each rule is satisfied, violated and unknown."""
    done = call(capsys, "eval", rules, table, "--json")
    assert done.code == 0, done.err
    return {
        rule["rule"]: (rule["satisfied"], rule["violated"], rule["unknown"])
        for rule in done.json["rules"]
    }


@pytest.mark.parametrize("ends", ["strict", "clip"])
def test_hand_computed_verdicts(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, ends: str
) -> None:
    rules, table = tmp_path / "r.fkg", tmp_path / "t.csv"
    rules.write_text(
        RULES.format(trace=f" ends {ends}")
        + "rule slow     require temp - temp 10 min ago <= 5 K\n"
        + "rule steps    require temp - temp 2 ago <= 5 K\n"
        + "rule now      require temp - temp 0 ago == 0 K\n"
        + "rule twice    require temp 5 min ago 5 min ago <= 3 degC\n"
        + "rule far      require temp 2 h ago <= 3 degC\n"
        + "rule fahren   require temp 10 min ago <= 37.4 degF\n"
        + "rule settled  require always [0 min, 5 min] temp - temp 10 min ago <= 5 K\n"
    )
    # 00:20 is missing, and so is the value at 00:30.
    table.write_text(
        "t,T\n2024-03-09 00:00,1\n2024-03-09 00:05,2\n2024-03-09 00:10,9\n2024-03-09 00:15,5\n"
        "2024-03-09 00:25,3\n2024-03-09 00:30,\n2024-03-09 00:35,30\n"
    )
    found = counts(capsys, rules, table)
    # Changes over two steps: none, none, 9 - 1, 5 - 2, 3 - 5, none, 30 - 3.
    assert found["slow"] == found["steps"] == (2, 2, 3)
    # Known at every row with a value.
    assert found["now"] == (6, 0, 1)
    # Two single steps: none, none, 1, 2, none (00:20 between is missing), none, 3.
    assert found["twice"] == (3, 0, 4)
    assert found["far"] == (0, 0, 7)
    # 37.4 degF are 3 degC.
    assert found["fahren"] == (3, 1, 3)
    # Now and one step on. 00:05: unknown now, 8 K at 00:10 is too much. 00:10 likewise. 00:15: 3 K,
    # then the gap. 00:25: -2 K, then unknown. 00:30: unknown, then 27 K. 00:35: 27 K.
    assert found["settled"] == (0, 4, 3)


def test_the_worst_row_is_the_one_with_the_largest_change(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    rules, table = tmp_path / "r.fkg", tmp_path / "t.csv"
    rules.write_text(RULES.format(trace="") + "rule slow require temp - temp 10 min ago <= 5 K\n")
    table.write_text(
        "t,T\n2024-03-09 00:00,1\n2024-03-09 00:05,2\n2024-03-09 00:10,9\n2024-03-09 00:15,5\n"
    )
    [rule] = call(capsys, "eval", rules, table, "--json").json["rules"]
    assert (rule["worst"]["row"], rule["worst"]["robustness"]) == (3, -3.0)
    shown = call(capsys, "explain", "slow", rules).out
    assert "temp - temp 10 min (2 steps) ago is at most 5 K" in shown


def shifted(frame: pd.DataFrame, group: list[str], back: int) -> pd.Series:
    """The value `back` steps before each row of its group, by pandas.

    NaN where the time axis has no such step.
    """
    parts = []
    for _, part in frame.groupby(group) if group else [(None, frame)]:
        series = part.set_index("t")["T"]
        axis = pd.date_range(series.index.min(), series.index.max(), freq=STEP)
        earlier = series.reindex(axis).shift(back).reindex(series.index)
        parts.append(pd.Series(earlier.to_numpy(), index=part.index))
    return pd.concat(parts).reindex(frame.index)


def expected(change: pd.Series, most: float) -> tuple[int, int, int]:
    known = change.dropna()
    return int((known <= most).sum()), int((known > most).sum()), int(change.isna().sum())


@pytest.mark.parametrize("seed", range(6))
def test_random_traces_against_pandas_shift(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, seed: int
) -> None:
    random = np.random.default_rng(seed)
    rules, table = tmp_path / "r.fkg", tmp_path / "t.csv"
    rules.write_text(
        RULES.format(trace=' trace column "heat"')
        + "".join(
            f"rule r{back} require temp - temp {5 * back} min ago <= 2 K\n" for back in range(6)
        )
    )
    parts = []
    for heat in range(4):
        steps = np.flatnonzero(random.random(40) < 0.8)
        values = np.where(
            random.random(steps.size) < 0.1, np.nan, random.integers(0, 8, steps.size)
        )
        start = pd.Timestamp("2024-03-09") + heat * pd.Timedelta(hours=1)
        parts.append(pd.DataFrame({"t": start + steps * STEP, "T": values, "heat": f"h{heat}"}))
    frame = pd.concat(parts, ignore_index=True)
    frame.sample(frac=1.0, random_state=seed).to_csv(table, index=False)
    found = counts(capsys, rules, table)
    for back in range(6):
        change = frame["T"] - shifted(frame, ["heat"], back)
        assert found[f"r{back}"] == expected(change, 2.0)


@pytest.mark.parametrize("seed", range(4))
def test_keyed_tables_against_pandas_shift(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, seed: int
) -> None:
    """Rows of several machines share a table: the earlier value is that of the same machine."""
    random = np.random.default_rng(100 + seed)
    machines, limits = ["M1", "M2", "M3"], [1.0, 2.0, 3.0]
    prefix = (
        "@prefix plant: <https://example.org/plant#> .\n@prefix fkg:"
        " <https://w3id.org/fedkg/ns#> .\n"
    )
    graph = prefix + "".join(
        f"plant:{name} a plant:Mill ; plant:rise {rise} ; plant:wait {back} ; fkg:keyColumn"
        ' "machine" .\n'
        for name, rise, back in zip(machines, limits, (1, 2, 4), strict=True)
    )
    (tmp_path / "plant.ttl").write_text(graph)
    rules, table = tmp_path / "r.fkg", tmp_path / "t.csv"
    rules.write_text(
        'use plant\nprefix plant: <https://example.org/plant#>\ntimeline time column "t" step 5'
        ' min\nsignal temp(?m) in degC column "T"\nrule rise for ?m, ?most, ?back where { ?m a'
        " plant:Mill ; plant:rise ?most ; plant:wait ?back }\n  require temp(?m) - temp(?m) ?back"
        " ago <= ?most * 1 K\n"
    )
    rows = [
        {"t": pd.Timestamp("2024-03-09") + step * STEP, "machine": name, "T": value}
        for step in range(60)
        for name, value in zip(machines, random.integers(0, 9, 3).tolist(), strict=True)
        if random.random() < 0.7
    ]
    frame = pd.DataFrame(rows)
    frame.to_csv(table, index=False)
    total = np.zeros(3, dtype=int)
    for name, most, back in zip(machines, limits, (1, 2, 4), strict=True):
        own = frame[frame["machine"] == name]
        total += expected(own["T"] - shifted(own, [], back), most)
    assert counts(capsys, rules, table)["rise"] == tuple(total.tolist())


def test_a_lag_of_members_is_that_of_each(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "tanks.ttl").write_text(
        "@prefix plant: <https://example.org/plant#> .\n@prefix sosa: <http://www.w3.org/ns/sosa/>"
        " .\n@prefix fkg: <https://w3id.org/fedkg/ns#> .\nplant:flow a sosa:ObservableProperty"
        ' .\nplant:f1 sosa:observes plant:flow ; sosa:isHostedBy plant:p1 ; fkg:column "F1"'
        ' .\nplant:f2 sosa:observes plant:flow ; sosa:isHostedBy plant:p2 ; fkg:column "F2"'
        " .\nplant:p1 plant:into plant:tank . plant:p2 plant:into plant:tank .\n"
    )
    rules, table = tmp_path / "r.fkg", tmp_path / "t.csv"
    over = "over ?p where { ?p plant:into plant:tank }"
    rules.write_text(
        "use tanks\nprefix plant: <https://example.org/plant#>\ntimeline step 5 min\n"
        "signal flow(?p) is plant:flow in kg/h\n"
        f"rule inside  require sum of flow(?p) 5 min ago {over} <= 7 kg/h\n"
        f"rule outside require (sum of flow(?p) {over}) 5 min ago <= 7 kg/h\n"
        f"rule each    require all of (flow(?p) - flow(?p) 5 min ago <= 2 kg/h) {over}\n"
    )
    table.write_text("F1,F2\n1,2\n3,5\n5,9\n4,4\n")
    found = counts(capsys, rules, table)
    # Sums one step earlier: none, 3, 8, 14. Rises of F1 and F2: none, 2 and 3, 2 and 4, -1 and -5.
    assert found["inside"] == found["outside"] == (1, 2, 1)
    assert found["each"] == (1, 2, 1)
