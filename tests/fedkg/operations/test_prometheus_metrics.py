"""Metrics: the exposition, its bounds, the dashboard, and a real Prometheus if there is one."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from fedkg.errors import UsageError
from fedkg.jobs import Event
from fedkg.operations.metrics import MOST_RULES, MOST_SITES, MOST_TRIALS, RunMetrics, serve_metrics

DASHBOARD = Path(__file__).resolve().parents[3] / "docs" / "how-to" / "grafana-dashboard.json"

Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


def series_of(exposition: str) -> Series:
    """Every sample of an exposition, as the parser of prometheus_client reads it."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(exposition)
        for sample in family.samples
    }


def get(series: Series, name: str, **labels: str) -> float | None:
    return series.get((name, frozenset({"run": "run", **labels}.items())))


def queries() -> list[str]:
    """Every PromQL expression of the dashboard, with all runs selected."""
    found = [
        target["expr"].replace("$run", ".*")
        for panel in json.loads(DASHBOARD.read_text())["panels"]
        for target in panel["targets"]
    ]
    assert len(found) == len(set(found)) > 15
    return found


def test_the_metrics_of_a_run_are_those_of_its_tables(recorded: Any) -> None:
    series = series_of(recorded.exposition)
    rounds, clients = recorded.rows("rounds.csv"), recorded.rows("clients.csv")
    assert {row["trial"] for row in rounds} == {"fedavg-s0", "scfa-s0"}
    for trial in ("fedavg-s0", "scfa-s0"):
        mine = [row for row in rounds if row["trial"] == trial]
        last = mine[-1]
        assert get(series, "fedkg_round", trial=trial) == len(mine) == 3
        assert get(series, "fedkg_planned_rounds", trial=trial) == 3
        assert get(series, "fedkg_round_seconds_count", trial=trial) == 3
        total = get(series, "fedkg_round_seconds_sum", trial=trial)
        assert total == pytest.approx(sum(float(row["seconds"]) for row in mine))
        for way in ("up", "down"):
            sent = get(series, "fedkg_transferred_bytes_total", trial=trial, direction=way)
            assert sent == sum(int(row[f"bytes_{way}"]) for row in mine)
        assert get(series, "fedkg_train_loss", trial=trial) == float(last["train_loss"])
        assert get(series, "fedkg_test_figure", trial=trial, figure="f1") == float(last["f1"])
        for over in ("worst", "mean"):
            rate = get(series, "fedkg_violation_ratio", trial=trial, over=over)
            assert rate == float(last[f"rho_{over}"])
        zones = {
            dict(labels)["zone"]: value
            for (name, labels), value in series.items()
            if name == "fedkg_zone" and ("trial", trial) in labels
        }
        assert len(zones) == 4
        assert [zone for zone, value in zones.items() if value == 1] == [last["zone"]]
        sizes = set()
        for row in (row for row in clients if (row["trial"], row["round"]) == (trial, "3")):
            of = {"trial": trial, "site": row["client"]}
            sizes.add(get(series, "fedkg_site_samples", **of))
            assert get(series, "fedkg_site_samples", **of) == int(row["samples"])
            assert get(series, "fedkg_site_validity_ratio", **of) == float(row["validity"])
            assert get(series, "fedkg_site_weight_ratio", **of) == float(row["alpha"])
            assert get(series, "fedkg_site_round", **of) == 3
            assert get(series, "fedkg_site_exclusions_total", **of) == 0
        assert len(sizes) == 3  # sites of unequal size
        for row in (row for row in recorded.rows("rules.csv") if row["trial"] == trial):
            for name, column in (("violated", "violated"), ("evaluated", "evaluations")):
                cases = get(series, f"fedkg_test_rule_{name}", trial=trial, rule=row["rule"])
                assert cases == (int(row[column]) if int(row["evaluations"]) else None)


def test_names_and_labels_are_those_of_a_fixed_list(recorded: Any) -> None:
    """Names have the prefix, base units and `_total` at their end, and labels of a known list."""
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(recorded.exposition):
        assert family.documentation.endswith(".")
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    assert found
    for name, labels in found.items():
        assert re.fullmatch(r"fedkg_[a-z_]+", name)
        assert labels - {"run", "trial"} <= {
            *("site", "rule", "figure", "zone", "over", "direction")
        }
        assert {"run", "trial"} <= labels


def test_what_was_not_measured_has_no_series() -> None:
    metrics = RunMetrics()
    of = {"trial": "a", "rounds": 9}
    figures = {"f1": 0.5, "rho_worst": 0.2, "zone": "critical", "train_loss": 1.0}
    rules = {"strain": {"violated": 1, "evaluated": 4, "hard": 1}}
    metrics(Event(kind="round", round=1, values=figures, rules=rules, **of))
    metrics(Event(kind="round", round=2, values={"train_loss": float("nan"), "zone": ""}, **of))
    names = [sample.name for family in metrics.collect() for sample in family.samples]
    assert "fedkg_test_figure" in names  # the last evaluation
    for name in ("train_loss", "violation_ratio", "zone", "rule_evaluated"):
        assert f"fedkg_{name}" not in names


def test_series_are_bounded() -> None:
    metrics = RunMetrics()
    sites = {f"site {n}": {"samples": n, "alpha": 0.1} for n in range(MOST_SITES + 7)}
    rules = {f"rule {n}": {"violated": 0, "evaluated": 1} for n in range(MOST_RULES + 3)}
    for number in range(MOST_TRIALS + 5):
        for kind in ("round", "trial_done"):
            metrics(Event(kind=kind, trial=f"t{number}", round=1, sites=sites, rules=rules))
    counts: dict[str, int] = {}
    for family in metrics.collect():
        for sample in family.samples:
            counts[sample.name] = counts.get(sample.name, 0) + 1
            if sample.name == "fedkg_omitted_sites":
                assert sample.value == 7
            if sample.name == "fedkg_omitted_rules":
                assert sample.value == 3
    assert counts["fedkg_round"] == MOST_TRIALS
    assert counts["fedkg_site_samples"] == MOST_TRIALS * MOST_SITES
    assert counts["fedkg_rule_evaluated"] == MOST_TRIALS * MOST_RULES


def test_a_port_in_use_and_a_foreign_address_are_rejected() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match="cannot listen on"), serve_metrics(port, "127.0.0.1"):
            pass
    with (
        pytest.raises(UsageError, match="cannot listen on"),
        serve_metrics(0, "203.0.113.1"),
    ):  # an address of no machine
        pass
    with pytest.raises(UsageError, match="cannot listen on"), serve_metrics(0, "a..b"):
        pass


def test_every_query_of_the_dashboard_names_existing_metrics_and_labels(recorded: Any) -> None:
    labels: dict[str, set[str]] = {}
    for name, given in series_of(recorded.exposition):
        labels.setdefault(name, set()).update(label for label, _ in given)
    asked = set()
    for query in queries():
        names = re.findall(r"\bfedkg_\w+", query)
        assert names
        assert set(names) <= labels.keys(), query
        asked |= set(names)
        known = set.union(*(labels[name] for name in names))
        assert set(re.findall(r"(\w+)=~?\"", query)) <= known, query
        for inside in re.findall(r"\b(?:by|on) \(([^)]*)\)", query):
            assert set(re.split(r",\s*", inside)) <= known, query
    omitted = {"fedkg_omitted_sites", "fedkg_omitted_rules"}
    assert labels.keys() - omitted == asked  # the dashboard shows every metric
    panels = json.loads(DASHBOARD.read_text())["panels"]
    for panel in panels:
        for target in panel["targets"]:
            names = re.findall(r"\bfedkg_\w+", target["expr"])
            shown = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
            assert shown <= set.union(*(labels[name] for name in names))


def binary(name: str) -> str:
    """A program of Prometheus on the PATH or in the folder `FEDKG_PROMETHEUS`."""
    path = os.pathsep.join((os.environ.get("FEDKG_PROMETHEUS", ""), os.environ.get("PATH", "")))
    found = shutil.which(name, path=path)
    if found is None:
        pytest.skip(f"no {name}: install Debian's package prometheus, or set FEDKG_PROMETHEUS")
    return found


def test_promtool_finds_no_fault(recorded: Any) -> None:
    done = subprocess.run(
        [binary("promtool"), "check", "metrics"],
        input=recorded.exposition,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@contextmanager
def prometheus(target: str, folder: Path) -> Iterator[str]:
    """A Prometheus on a free port of loopback that scrapes one target every second."""
    program = binary("prometheus")
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    config = {
        "global": {"scrape_interval": "1s"},
        "scrape_configs": [{"job_name": "fedkg", "static_configs": [{"targets": [target]}]}],
    }
    (folder / "prometheus.yml").write_text(json.dumps(config))  # JSON is YAML
    command = [
        program,
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={address}",
    ]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            yield f"http://{address}"
        finally:
            server.terminate()
            server.wait(30)


def ask(address: str, query: str) -> list[dict[str, Any]]:
    url = f"{address}/api/v1/query?" + urllib.parse.urlencode({"query": query})
    with urllib.request.urlopen(url, timeout=10) as answer:
        body = json.load(answer)
    assert body["status"] == "success"
    return list(body["data"]["result"])


@pytest.mark.slow
def test_a_real_prometheus_answers_every_query_of_the_dashboard(
    recorded: Any, tmp_path: Path
) -> None:
    with serve_metrics(0, "127.0.0.1") as (metrics, url):
        target = urllib.parse.urlsplit(url).netloc
        for event in recorded.events:
            metrics(event)
        with prometheus(target, tmp_path) as address:
            until = time.monotonic() + 60
            found: dict[str, list[dict[str, Any]]] = {}
            while time.monotonic() < until and not all(found.get(query) for query in queries()):
                time.sleep(1)
                # counters need a change between two scrapes: the last round once more
                metrics([event for event in recorded.events if event.kind == "round"][-1])
                try:
                    found = {query: ask(address, query) for query in queries()}
                except OSError:  # it is not ready yet
                    continue
            assert [query for query in queries() if not found.get(query)] == []
            [one] = ask(address, 'fedkg_test_figure{trial="scfa-s0", figure="f1"}')
            f1 = [row["f1"] for row in recorded.rows("rounds.csv") if row["trial"] == "scfa-s0"]
            assert float(one["value"][1]) == float(f1[-1])
            assert one["metric"]["run"] == "run"
