"""`fedkg paper`: the list, smoke runs, resuming, the verdict and the page."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fedkg.errors import UsageError
from fedkg.papers.catalogue import PAPERS
from fedkg.papers.granger import neural_granger, pcmci
from fedkg.papers.page import collect, render_page
from fedkg.papers.pcfedavg import FEASIBLE
from fedkg.papers.scfa import first_at_90, lost_above, r2_row, saved
from fedkg.papers.scfa_rule_families import lost_per_violation
from fedkg.papers.study import Bench, Claim, Paper, Row, Study, find_data, run_study, verdict

Command = Callable[..., Any]
DOCS = Path(__file__).resolve().parents[3] / "docs"

ASKED = {
    "scfa": {f"table {n}" for n in range(1, 8)} | {f"figure {n}" for n in (2, 3, 4)} | {"ablation"},
    "pcfedavg": {f"figure {n}" for n in range(1, 5)},
    "fedstl": {f"table {n}" for n in range(2, 6)} | {"figure 3"},
    "granger": {f"table {n}" for n in range(3, 8)}
    | {"figure 2d", "theorem 6.3", "corollary 6.4", "growth", "peers"},
    "knowledge": {"table 2", "table 3", "figure 4"},
    "together": {"plant"},
}


def claim(*support: float, published: float | None = None, each_seed: bool = False) -> Row:
    own = Claim(support=support, published=published, each_seed=each_seed)
    return Row(label="x", ours=support, claim=own)


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (claim(1.0, 1.1, 0.9, published=1.05), "reproduced"),
        (claim(1.0, 1.1, 0.9, published=1.24), "reproduced"),
        (claim(1.0, 1.1, 0.9, published=1.6), "partly: it holds with another size"),
        (claim(1.0, 1.1, 0.9), "reproduced"),
        (claim(-1.0, 1.1, 0.9), "not: no difference beyond the seeds"),
        (claim(-1.0, -1.1, -0.9, published=1.0), "not: the opposite"),
        (claim(0.0, 0.0, 0.0), "not: no difference beyond the seeds"),
        (claim(1.0, math.nan), "one seed: no verdict"),
        (claim(math.nan, math.nan), "not: it was never reached"),
        (claim(0.01, 9.0, 0.02), "not: no difference beyond the seeds"),
        (claim(0.01, 9.0, 0.02, each_seed=True), "reproduced"),
        (claim(0.01, 9.0, -0.02, each_seed=True), "not: it fails for 1 of 3 seeds"),
        (claim(0.01, 9.0, math.nan, each_seed=True), "not: it fails for 1 of 3 seeds"),
        (claim(1.0, each_seed=True), "one seed: no verdict"),
        (r2_row(0.96, (0.95, 0.97)), "reproduced"),
        (r2_row(0.96, (0.85, 0.97)), "not: no difference beyond the seeds"),
        (r2_row(0.96, None), "one seed: no verdict"),
        (Row(label="x", ours=(1.0, 2.0)), ""),
        (
            Row(label="x", ours=(1.0,), impossible="the data are secret"),
            "cannot be reproduced because the data are secret",
        ),
    ],
)
def test_verdicts(row: Row, expected: str) -> None:
    assert verdict(row) == expected


def test_the_list_has_every_table_and_figure(fedkg: Command) -> None:
    done = fedkg("paper", "--json")
    listed = json.loads(done.out)
    for paper, studies in ASKED.items():
        assert studies <= set(listed[paper]), paper
    said = fedkg("paper").out
    assert all(paper in said for paper in ASKED)
    assert "min" in said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("paper", "options"),
    [
        ("granger", ("--table", "3", "--study", "peers", "--study", "theorem 6.3")),
        ("pcfedavg", ("--figure", "2", "--figure", "3")),
        ("knowledge", ("--table", "3", "--table", "1")),
        ("scfa", ("--figure", "4")),
    ],
)
def test_smoke_runs_give_no_verdict(
    fedkg: Command, tmp_path: Path, paper: str, options: tuple[str, ...]
) -> None:
    done = fedkg("paper", paper, "--smoke", *options)
    assert done.code == 0, done.err
    assert "its figures mean nothing" in done.out
    results = sorted((tmp_path / f"paper-{paper}" / "smoke" / "results").glob("*.json"))
    assert len(results) == len(options) // 2
    for file in results:
        rows = json.loads(file.read_text())["rows"]
        assert rows
        assert {row["verdict"] for row in rows} == {"smoke run: no verdict"}
        assert any(row["mean"] is not None or row["impossible"] for row in rows)
    before = [file.read_bytes() for file in results]
    again = fedkg("paper", paper, "--smoke", *options)
    assert again.code == 0
    assert [file.read_bytes() for file in results] == before, "finished studies do not run again"


@pytest.mark.slow
@pytest.mark.parametrize("paper", sorted(PAPERS))
def test_every_study_runs(fedkg: Command, paper: str) -> None:
    done = fedkg("paper", paper, "--smoke", "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out[done.out.rindex("\n{\n") :])
    assert [one["study"] for one in found["results"]] == [one.name for one in PAPERS[paper].studies]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nothing",), "there is no paper `nothing`"),
        (("scfa", "--table", "9"), "scfa has no study `table 9`"),
        (("scfa", "--full", "--smoke"), "contradict each other"),
        (("scfa", "--table", "1", "--data", "absent"), "--data absent is not a folder"),
        (("--page", "claims.txt"), "is not a Markdown file"),
    ],
)
def test_wrong_arguments(
    fedkg: Command, tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    before = sorted(tmp_path.iterdir())
    done = fedkg("paper", *words)
    assert done.code == 2
    assert message in done.err
    assert sorted(tmp_path.iterdir()) == before


def bench(tmp_path: Path) -> Bench:
    return Bench(folder=tmp_path, size="reduced", say=lambda _: None)


def study_of(rows: Callable[[Bench], Iterator[Row]]) -> tuple[Paper, Study]:
    study = Study(name="table 1", title="a study", minutes=0.1, run=rows)
    return Paper(name="own", title="A paper", studies=(study,)), study


def test_a_stopped_study_continues(tmp_path: Path) -> None:
    calls: list[str] = []

    def work(name: str) -> float:
        calls.append(name)
        if name == "second" and len(calls) == 2:
            raise KeyboardInterrupt
        return len(calls)

    def rows(bench: Bench) -> Iterator[Row]:
        found = bench.compute("a", {name: partial(work, name) for name in ("first", "second")})
        yield Row(label="sum", ours=(found["first"], found["second"]))

    paper, study = study_of(rows)
    with pytest.raises(KeyboardInterrupt):
        run_study(paper, study, bench(tmp_path))
    assert not (tmp_path / "results").exists()
    result = run_study(paper, study, bench(tmp_path))
    assert calls == ["first", "second", "second"]
    assert result["rows"][0]["ours"] == [1, 3]
    assert not list(tmp_path.rglob("*.part"))


def power_of_two(exponent: int) -> list[int]:
    """Work of a study: 2 ** `exponent`, and the processors for it."""
    if exponent < 0:
        raise UsageError(f"{exponent} is below 0")
    return [2**exponent, torch.get_num_threads()]


def test_work_in_parallel_gives_the_results_of_work_in_order(tmp_path: Path) -> None:
    work = {f"number {number}": partial(power_of_two, number) for number in (3, 1, 2)}
    said: list[str] = []
    two = Bench(folder=tmp_path, size="smoke", jobs=2, say=said.append)
    found = two.compute("a", work, parallel=True)
    assert [(name, value) for name, (value, _) in found.items()] == [
        ("number 3", 8),
        ("number 1", 2),
        ("number 2", 4),
    ]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2
    assert {threads for _, threads in found.values()} <= {max(1, cores // 2), -(-cores // 2)}
    assert [line.partition(",")[0] for line in said] == [
        "  1 of 3: number 3",
        "  2 of 3: number 1",
        "  3 of 3: number 2",
    ]
    again = {name: partial(power_of_two, -1) for name in work}
    assert two.compute("a", again, parallel=True) == found


def test_work_that_fails_in_parallel_is_named(tmp_path: Path) -> None:
    two = Bench(folder=tmp_path, size="smoke", jobs=2, say=lambda _: None)
    work = {f"number {number}": partial(power_of_two, number) for number in (-1, 5)}
    with pytest.raises(UsageError, match=r"^number -1 failed: -1 is below 0"):
        two.compute("a", work, parallel=True)


def test_results_of_other_data_are_rejected(tmp_path: Path) -> None:
    paper, study = study_of(lambda _: iter([Row(label="x", ours=(1.0,))]))
    run_study(paper, study, bench(tmp_path))
    other = bench(tmp_path)
    other.data = tmp_path
    with pytest.raises(UsageError, match="other data or of another version"):
        run_study(paper, study, other)


def test_no_sweep_sets_a_field_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first sweep of each study."""
    asked: list[list[str]] = []

    def record(*_: object, changes: list[str] = [], **__: object) -> None:  # noqa: B006
        asked.append([change.partition("=")[0] for change in changes])
        raise InterruptedError

    monkeypatch.setattr(Bench, "sweep", record)
    studies = [*PAPERS["scfa"].studies[1:], *PAPERS["together"].studies]
    studies += [PAPERS["fedstl"].study(name) for name in ("table 2", "figure 3")]
    for study in studies:
        with suppress(InterruptedError):
            list(study.run(bench(tmp_path)))
    assert len(asked) == len(studies)
    assert all(len(fields) == len(set(fields)) for fields in asked)


@pytest.mark.slow
def test_the_sets_of_pcfedavg_bind(tmp_path: Path) -> None:
    paper = PAPERS["pcfedavg"]
    place = Bench(folder=tmp_path, size="smoke", say=lambda _: None)
    rows = run_study(paper, paper.study("figure 2"), place)["rows"]
    left = [row["mean"] for row in rows if row["published"] == "leaves its sets"]
    assert len(left) == 3
    assert min(left) > FEASIBLE


def test_results_and_parts_of_another_version_are_rejected_and_noted(tmp_path: Path) -> None:
    paper = PAPERS["granger"]
    folder = tmp_path / "paper-granger"
    place = Bench(folder=folder / "reduced", size="reduced")
    result = run_study(paper, paper.study("table 6"), place)
    changed = "The jobs or the code of this study have changed since this run."
    assert changed not in render_page(collect([folder]))
    file = folder / "reduced" / "results" / "table-6.json"
    file.write_text(json.dumps(result | {"version": "e3b0c44298fc"}))
    assert changed in render_page(collect([folder]))
    with pytest.raises(UsageError, match="or of another version of the study"):
        run_study(paper, paper.study("table 6"), place)
    (folder / "reduced" / "version-granger").write_text("e3b0c44298fc")
    with pytest.raises(UsageError, match="has parts of another version of the study"):
        run_study(paper, paper.study("table 7"), place)


def test_the_page_shows_results_and_what_is_missing(fedkg: Command, tmp_path: Path) -> None:
    paper = PAPERS["granger"]
    place = Bench(folder=tmp_path / "paper-granger" / "reduced", size="reduced")
    run_study(paper, paper.study("table 6"), place)
    assert fedkg("paper", "--page", "claims.md").code == 0
    page = (tmp_path / "claims.md").read_text()
    assert "because its sensor files are not there: they are sent on request only" in page
    assert "Not run yet. `fedkg paper scfa --study table-3`" in page
    assert page == render_page(json.loads((tmp_path / "claims.json").read_text()))
    (tmp_path / "paper-granger" / "reduced" / "results" / "table-6.json").unlink()
    assert len(collect([], tmp_path / "claims.json")) == 1, "earlier results stay"
    for other in ("[1]", "{}", "x"):
        (tmp_path / "claims.json").write_text(other)
        done = fedkg("paper", "--page", "claims.md")
        assert (done.code, "claims.json does not contain results" in done.err) == (2, True)
    done = fedkg("paper", "--page", "none/claims.md")
    assert (done.code, "the folder none for claims.md does not exist" in done.err) == (2, True)


def further_table(page: str, paper: str) -> dict[str, list[str]]:
    """The cells of the further claims of a paper by their label; empty without the section."""
    part = page.partition(f"### {paper}, further claims\n")[2].partition("\n## ")[0]
    lines = [line.strip("| ").split(" | ") for line in part.splitlines() if line.startswith("| ")]
    return {cells[0]: cells[1:] for cells in lines}


def test_further_claims_follow_from_the_results_of_the_studies() -> None:
    results = json.loads((DOCS / "reference/papers.json").read_text(encoding="utf-8"))
    page = render_page(results)
    for paper in set(PAPERS) - {"together"}:
        assert further_table(page, paper), paper
    label = "divergence: SCFA is below FedAvg, as a share"
    rows = {
        (result["paper"], result["study"], row["label"]): row
        for result in results
        for row in result["rows"]
    }
    for scfa, fedavg, published, found in (
        ([1.2, 1.19, 1.17], [2.0, 2.0, 2.0], "41.3 %", "reproduced"),
        ([1.9, 1.91, 1.89], [2.0, 2.0, 2.0], "41.3 %", "partly: it holds with another size"),
        ([2.0, 3.0, 1.0], [2.0, 2.0, 2.0], "41.3 %", "not: no difference beyond the seeds"),
    ):
        rows["scfa", "table 2", "SCFA, divergence"]["ours"] = scfa
        rows["scfa", "table 2", "FedAvg, divergence"]["ours"] = fedavg
        cells = further_table(render_page(results), "scfa")[label]
        mean = np.mean([1 - a / b for a, b in zip(scfa, fedavg, strict=True)])
        assert cells[0] == published
        assert float(cells[1].partition(" ")[0]) == pytest.approx(mean, abs=1e-3)
        assert cells[2] == found
    assert further_table(page, "scfa")["released data set"][2].startswith("cannot be reproduced")
    counted = page.partition("Verdicts on claims of the papers: ")[2].partition(" cannot")[0]
    table = [line for line in page.splitlines() if "| cannot be reproduced because" in line]
    own = [line for line in table if " | – | – | " in line]
    assert int(counted) == len(table) - len(own), "the counts include the further claims"
    partial = [one for one in results if (one["paper"], one["study"]) != ("scfa", "table 5")]
    assert not further_table(render_page(partial), "scfa")
    assert further_table(render_page(partial), "granger")
    rows["scfa", "table 3", "alpha 1: D"]["label"] = "a label of an older version"
    assert not further_table(render_page(results), "scfa")


def test_the_page_shows_the_families_of_rules_beside_the_published_ablation() -> None:
    results = json.loads((DOCS / "reference/papers.json").read_text(encoding="utf-8"))
    found = further_table(render_page(results), "scfa")
    rows = {
        (result["study"], row["label"]): row["mean"]
        for result in results
        if result["paper"] == "scfa"
        for row in result["rows"]
    }
    whole = rows["saving", "milling, honest sites: until 90 % of its own F1"]
    for family, published in (("temporal", "9.8%"), ("causal", "12.2%")):
        cells = found[f"all rules save more rounds than {family} rules alone, as a share"]
        gain = whole - rows["ablation", f"{family} rules alone: rounds saved"]
        assert cells[0] == published
        assert float(cells[1].partition(" ")[0]) == pytest.approx(gain, abs=1e-3)


def test_real_data_are_found_by_their_files(tmp_path: Path) -> None:
    for folder, name in (
        ("ai4i2020", "ai4i2020.csv.gz"),
        ("mnist", "train-images-idx3-ubyte.gz"),
        ("fashion-mnist", "train-images-idx3-ubyte.gz"),
    ):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).touch()
    assert find_data(tmp_path, "ai4i") == tmp_path / "ai4i2020" / "ai4i2020.csv.gz"
    assert find_data(tmp_path, "mnist") == tmp_path / "mnist"
    assert find_data(tmp_path, "fashion-mnist") == tmp_path / "fashion-mnist"
    assert find_data(tmp_path, "secom") is None
    (tmp_path / "sumo").mkdir()
    table = tmp_path / "sumo" / "segments.csv.gz"
    table.touch()
    assert find_data(tmp_path, "sumo") == table
    (tmp_path / "sumo" / "city.toml").touch()
    assert find_data(tmp_path, "sumo") == tmp_path / "sumo"


def write_hai(folder: Path) -> None:
    """Files in HAI's layout: a slow process P1 drives the others; a tag of P4 never changes."""
    folder.mkdir()
    for number, name in enumerate(("train1", "train2", "train3", "test1")):
        dice = np.random.default_rng(number)
        values = np.zeros((400, 8))
        for step in range(1, 400):
            driven = np.tile(values[step - 1, :2], 3)
            values[step, :2] = 0.98 * values[step - 1, :2] + dice.normal(0, 1, 2)
            values[step, 2:] = 0.5 * values[step - 1, 2:] + 0.25 * driven + dice.normal(0, 0.5, 6)
        tags = [f"P{process}_{tag}" for process in range(1, 5) for tag in ("FT01", "LIT01")]
        lines = ["timestamp," + ",".join(tags) + ",P4_ON,Attack"]
        for step, row in enumerate(values):
            time = f"2021-07-{10 + number} 00:{step // 60:02}:{step % 60:02}"
            attack = int(name == "test1" and step > 300)
            lines.append(f"{time},{','.join(map(str, row.round(4)))},1,{attack}")
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")


@pytest.mark.slow
def test_hai_is_read_from_the_data_folder(fedkg: Command, tmp_path: Path) -> None:
    write_hai(tmp_path / "hai")
    options = ("granger", "--table", "7", "--data", str(tmp_path), "--json")
    done = fedkg("paper", *options)
    assert done.code == 0, done.err
    [result] = json.loads(done.out[done.out.index("{\n") :])["results"]
    error, saved, *swat = result["rows"]
    assert "4 clients, 9 sensors, 8 after the correlation filter" in result["settings"][0]
    assert saved["ours"] == [8.0 * (8 - 2 * 2 * 4)] * 3, "three files without attacks"
    assert saved["verdict"] == "not: the opposite"
    assert all("its sensor files are not there" in row["verdict"] for row in swat)
    # Two tags of a client without noise are its states. Its own dynamics, fitted first, explain
    # them, so that the learned causes are 0.
    table = np.loadtxt(
        tmp_path / "hai" / "train1.csv", delimiter=",", skiprows=1, usecols=range(1, 9)
    )
    parts = np.split(table - table.mean(0), 4, axis=1)
    white = [part @ np.linalg.inv(np.linalg.cholesky(np.cov(part.T)).T) for part in parts]
    pooled = var(np.concatenate(white, axis=1))
    for place, part in enumerate(white):
        block = slice(2 * place, 2 * place + 2)
        pooled[block, block] -= var(part)
    assert error["ours"][0] == pytest.approx(np.linalg.norm(pooled), rel=0.02)
    assert error["verdict"] == "not: the opposite"


def var(states: Any) -> Any:
    """The matrix of a vector autoregression with one lag."""
    return np.linalg.lstsq(states[:-1], states[1:], rcond=None)[0].T


def test_saved_rounds() -> None:
    assert saved([32, 10], [41, 0.0 + 10]) == pytest.approx((9 / 41, 0.0))
    assert first_at_90({2: 0.1, 4: 0.5, 8: 0.46, 16: 0.5}) == 4
    assert math.isnan(first_at_90({2: 0.1, 4: 0.0}))


def test_the_slope_of_each_seed_is_that_of_its_line() -> None:
    rho = np.array([[0.4, 0.2, 0.1], [0.2, 0.2, 0.3], [0.1, 0.2, 0.5]])
    f1 = 0.9 - np.array([0.62, 0.5, 0.2]) * rho
    assert lost_per_violation(rho, f1) == pytest.approx((0.62, math.nan, 0.2), nan_ok=True)


def test_lost_f1_is_paired_by_seed() -> None:
    points = [(0, 0.01, 0.8), (0, 0.3, 0.6), (0, 0.4, 0.4), (1, 0.02, 0.5), (1, 0.1, 0.2)]
    found = lost_above([*points, (2, 0.0, 0.9), (2, 0.2, 0.8)])
    assert found == pytest.approx((0.3, math.nan, 0.1), nan_ok=True)


def test_proved_bounds_hold_for_each_seed_and_times_have_no_verdict(tmp_path: Path) -> None:
    """Margins far apart: Student's interval of their mean includes 0."""
    margins = {0: 0.01, 1: 9.0, 2: 0.02}
    place = tmp_path / "granger" / "computed" / "blocks"
    place.mkdir(parents=True)
    for seed, margin in margins.items():
        own = json.dumps({"theorem": [1.0, 1.0 + margin]})
        (place / f"seed-{seed}.json").write_text(own)
    paper = PAPERS["granger"]
    rows = run_study(paper, paper.study("theorem 6.3"), bench(tmp_path / "granger"))["rows"]
    assert [row["verdict"] for row in rows] == ["", "", "reproduced"]
    place = tmp_path / "fedstl" / "computed" / "mining"
    place.mkdir(parents=True)
    for template in range(1, 8):
        for turn in range(3):
            name = f"template-{template}-1-properties-turn-{turn}.json"
            (place / name).write_text("1e-9")
    paper = PAPERS["fedstl"]
    rows = run_study(paper, paper.study("table 3"), bench(tmp_path / "fedstl"))["rows"]
    assert {row["verdict"] for row in rows} == {""}


def test_peers_find_a_driver_and_no_common_effect() -> None:
    """x drives y and z; y and z share only their driver."""
    stream = np.random.default_rng(0)
    values = stream.standard_normal((800, 3))
    for t in range(1, 800):
        values[t, 0] += 0.7 * values[t - 1, 0]
        values[t, 1:] += 0.8 * values[t - 1, 0]
    p = pcmci(values)
    assert max(p[1, 0], p[2, 0]) < 1e-6
    assert min(p[0, 1], p[0, 2], p[1, 2], p[2, 1]) > 0.01
    strength = neural_granger(values)
    others = (strength[0, 1], strength[0, 2], strength[1, 2], strength[2, 1])
    assert min(strength[1, 0], strength[2, 0]) > 3 * max(others)
