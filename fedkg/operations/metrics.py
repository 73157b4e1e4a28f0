"""Figures of a run for Prometheus, over HTTP while the run lasts.

Names follow the conventions of Prometheus: base units and their names at the end, `_total` for
counters. Every series has the labels `run` (name of the run folder) and `trial`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING

from fedkg.errors import MissingExtra, UsageError
from fedkg.jobs.comparison_metric import MEASURE_BY_COLUMN
from fedkg.jobs.events import Event, Values
from fedkg.violation_rate_zones import ZONES

if TYPE_CHECKING:
    from prometheus_client import Metric

MOST_TRIALS, MOST_SITES, MOST_RULES = 20, 200, 200
"""Bounds of the labels. The series of the oldest trial disappear when another one starts; a trial
has series for the first sites and rules that it meets, and counts the others."""

FIGURES = (*MEASURE_BY_COLUMN, "precision", "recall", "loss")
"""Columns of `rounds.csv` with figures on the test rows."""

RUN_LABELS = ("run", "trial")

GAUGES = {
    "round": "Last finished round.",
    "planned_rounds": "Rounds of the trial.",
    "train_loss": "Mean local objective of the sites in the last round.",
    "omitted_sites": f"Sites beyond the first {MOST_SITES}, which have no series.",
    "omitted_rules": f"Rules beyond the first {MOST_RULES}, which have no series.",
}
"""Gauges of a trial by name without prefix."""

SITE_GAUGES = {
    "samples": ("site_samples", "Training samples of the site."),
    "validity": ("site_validity_ratio", "Validity score of the site's last update."),
    "alpha": ("site_weight_ratio", "Weight of the site's last update."),
    "round": ("site_round", "Last round that the site took part in."),
    "violated": ("site_violated", "Bound rows that the site's model violated on the probe."),
    "evaluated": ("site_evaluated", "Bound rows that were evaluated for the site on the probe."),
}
"""Gauges of a site: figure, name without prefix, and meaning."""

RULE_GAUGES = {
    "violated": "Violated pairs of a bound row and a site's model on the probe.",
    "evaluated": "Evaluated pairs of a bound row and a site's model on the probe.",
}
TEST_GAUGES = {
    "violated": "Violated cases of the deployed model on the test rows.",
    "evaluated": "Evaluated cases of the deployed model on the test rows.",
}


@dataclass(slots=True, kw_only=True)
class _Trial:
    """The last known figures of a trial. A figure that was not measured has no entry."""

    gauges: dict[str, float] = field(default_factory=dict)
    figures: dict[str, float] = field(default_factory=dict)
    rates: dict[str, float] = field(default_factory=dict)
    zone: str = ""
    seconds: float = 0.0
    rounds: int = 0
    bytes: dict[str, float] = field(default_factory=lambda: {"up": 0.0, "down": 0.0})
    sites: dict[str, dict[str, float]] = field(default_factory=dict)
    exclusions: dict[str, int] = field(default_factory=dict)
    rules: dict[str, dict[str, float]] = field(default_factory=dict)
    tests: dict[str, dict[str, float]] = field(default_factory=dict)


class RunMetrics:
    """A listener that keeps the last figures of each trial, and a collector of Prometheus."""

    def __init__(self) -> None:
        self._trials: dict[tuple[str, str], _Trial] = {}
        self._lock = threading.Lock()

    def __call__(self, event: Event) -> None:
        """Update the figures with one event."""
        if not event.trial:
            return
        key = ("" if event.folder is None else event.folder.name), event.trial
        with self._lock:
            trial = self._trials.setdefault(key, _Trial())
            if len(self._trials) > MOST_TRIALS:
                del self._trials[next(iter(self._trials))]
            trial.gauges |= {"round": event.round, "planned_rounds": event.rounds}
            if event.kind == "round":
                _add_round(trial, event)
            elif event.kind == "trial_done":
                _update(trial, trial.tests, event.rules, MOST_RULES, "omitted_rules")

    def collect(self) -> Iterator[Metric]:
        """The series now, as `prometheus_client` asks for them."""
        from prometheus_client.core import (
            CounterMetricFamily,
            GaugeMetricFamily,
            SummaryMetricFamily,
        )

        def gauge(name: str, text: str, *labels: str) -> GaugeMetricFamily:
            return GaugeMetricFamily(f"fedkg_{name}", text, labels=(*RUN_LABELS, *labels))

        gauges = {name: gauge(name, text) for name, text in GAUGES.items()}
        sites = {figure: gauge(name, text, "site") for figure, (name, text) in SITE_GAUGES.items()}
        rules = {name: gauge(f"rule_{name}", text, "rule") for name, text in RULE_GAUGES.items()}
        tests = {
            name: gauge(f"test_rule_{name}", text, "rule") for name, text in TEST_GAUGES.items()
        }
        figures = gauge("test_figure", "Figure on the test rows, when last measured.", "figure")
        rates = gauge("violation_ratio", "Violation rate over the sites of the last round.", "over")
        zones = gauge("zone", "1 for the zone of the worst site, 0 for the others.", "zone")
        seconds = SummaryMetricFamily(
            "fedkg_round_seconds", "Wall-clock time of the rounds.", labels=RUN_LABELS
        )
        sent = CounterMetricFamily(
            "fedkg_transferred_bytes",
            "Bytes from (up) and to (down) the sites.",
            labels=(*RUN_LABELS, "direction"),
        )
        exclusions = CounterMetricFamily(
            "fedkg_site_exclusions",
            "Rounds in which the site's update was not used.",
            labels=(*RUN_LABELS, "site"),
        )
        with self._lock:
            for key, trial in self._trials.items():
                for name, value in trial.gauges.items():
                    gauges[name].add_metric(key, value)
                for family, values in ((figures, trial.figures), (rates, trial.rates)):
                    for name, value in values.items():
                        family.add_metric((*key, name), value)
                for name, *_ in ZONES if trial.zone else ():
                    zones.add_metric((*key, name), float(name == trial.zone))
                for families, entries in (
                    (sites, trial.sites),
                    (rules, trial.rules),
                    (tests, trial.tests),
                ):
                    for entry, values in entries.items():
                        for name, one in families.items():
                            if name in values:
                                one.add_metric((*key, entry), values[name])
                seconds.add_metric(key, trial.rounds, trial.seconds)
                for direction, number in trial.bytes.items():
                    sent.add_metric((*key, direction), number)
                for site, number in trial.exclusions.items():
                    exclusions.add_metric((*key, site), number)
        yield from (*gauges.values(), figures, rates, zones, seconds, sent)
        yield from (*sites.values(), exclusions, *rules.values(), *tests.values())


def _add_round(trial: _Trial, event: Event) -> None:
    numbers = {
        name: float(value)
        for name, value in event.values.items()
        if not isinstance(value, str) and value == value
    }
    trial.rounds += 1
    trial.seconds += numbers.get("seconds", 0.0)
    for direction in trial.bytes:
        trial.bytes[direction] += numbers.get(f"bytes_{direction}", 0.0)
    trial.gauges.pop("train_loss", None)
    trial.gauges |= {name: numbers[name] for name in ("train_loss",) if name in numbers}
    trial.figures |= {name: numbers[name] for name in FIGURES if name in numbers}
    trial.rates = {
        over: numbers[f"rho_{over}"] for over in ("worst", "mean") if f"rho_{over}" in numbers
    }
    trial.zone = str(event.values.get("zone") or "")
    sites = {name: {**one, "round": event.round} for name, one in event.sites.items()}
    _update(trial, trial.sites, sites, MOST_SITES, "omitted_sites")
    for name, one in event.sites.items():
        if name in trial.sites:
            is_excluded = str(one.get("status", "")).startswith("excluded")
            trial.exclusions[name] = trial.exclusions.get(name, 0) + is_excluded
    trial.rules.clear()  # a rule without a verdict in this round has no count
    _update(trial, trial.rules, event.rules, MOST_RULES, "omitted_rules")


def _update(
    trial: _Trial,
    entries: dict[str, dict[str, float]],
    found: Mapping[str, Values],
    most: int,
    omitted: str,
) -> None:
    """Replace the figures of sites or rules; count those beyond the bound in a gauge."""
    left_out = 0
    for name, values in found.items():
        if name in entries or len(entries) < most:
            entries[name] = {
                figure: float(value)
                for figure, value in values.items()
                if not isinstance(value, str) and value == value
            }
        else:
            left_out += 1
    trial.gauges[omitted] = left_out


@contextmanager
def serve_metrics(port: int, address: str) -> Iterator[tuple[RunMetrics, str]]:
    """Serve metrics at an address, without encryption or login; the listener, and the URL.

    Args:
        port: the port; 0 for a free one.

    Raises:
        UsageError: fedkg cannot listen there.
        MissingExtra: `prometheus_client` is not installed.
    """
    if find_spec("prometheus_client") is None:
        raise MissingExtra("--metrics-port", "trackers")
    from prometheus_client import CollectorRegistry, start_http_server

    metrics, registry = RunMetrics(), CollectorRegistry()
    registry.register(metrics)
    try:
        server, thread = start_http_server(port, address, registry)
    except (OSError, OverflowError, UnicodeError) as error:  # a name may not suit DNS
        raise UsageError(
            f"--metrics-port: cannot listen on {address} port {port}",
            received=getattr(error, "strerror", None) or str(error),
            help="choose another port (0: a free one), or correct --metrics-address",
        ) from error
    try:
        host = f"[{address}]" if ":" in address else address
        yield metrics, f"http://{host}:{server.server_port}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
