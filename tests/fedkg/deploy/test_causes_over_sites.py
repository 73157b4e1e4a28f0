"""A causal discovery over sites that keep their tables has the results of one that reads all."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from fedkg.deploy.deletion import DISCOVERED, delete_site, list_deletions
from fedkg.deploy.federation_folders import create_federation, join_federation
from fedkg.deploy.federation_job_and_pack import JobFiles
from fedkg.deploy.message import Message
from fedkg.deploy.server import run_server
from fedkg.deploy.site import open_site
from fedkg.deploy.site_check import check_site, list_site_disclosures
from fedkg.deploy.transport import LoopbackTransport, Reply
from fedkg.errors import FederationError, FedkgError, JobError, Stopped
from fedkg.granger.epoch_messages import ClientEpochs, ask_here, learn_in_epochs
from fedkg.granger.kalman import estimated
from fedkg.granger.learn import Rates, learn
from fedkg.granger.moments import series_of
from fedkg.granger.state_extraction import Measured, client_of
from fedkg.jobs.causes.run import run_causes

NAMES = ("boiler", "cooler", "turbine")
HOURS = {"boiler": (0, 130), "cooler": (4, 120), "turbine": (0, 125)}
"""First and last hour of each table."""

SITES = """\
sites:
  boiler:
    url: boiler.csv
    dialect: {delimiter: ";"}
    datatype: {decimalChar: ","}
    tableSchema:
      columns:
        - {name: time, titles: Zeit, datatype: {base: datetime, format: "dd.MM.yyyy HH:mm"}}
        - {name: pressure, titles: Druck, unit: mbar}
        - {name: temp, titles: "Temp [°C]"}
        - {name: flow, titles: Fluss}
  cooler:
    url: cooler.csv
    tableSchema:
      columns:
        - {name: time, titles: when, datatype: {base: datetime, format: "yyyy-MM-dd HH:mm"}}
        - {name: temp, titles: T, unit: degF}
        - {name: level, titles: L}
  turbine:
    url: turbine.csv
    tableSchema:
      columns:
        - {name: time, titles: when, datatype: {base: datetime, format: "yyyy-MM-dd HH:mm"}}
        - {name: pressure, titles: p, unit: bar}
        - {name: speed, titles: n}
"""

JOB = {
    "kind": "causes",
    "name": "plant",
    "states": 1,
    "correlation": 0,
    "precedence": False,
    "shifts": 39,
    "learning": {"mode": "batch", "epochs": 12},
}


def write_tables(folder: Path) -> None:
    """Three tables of unequal length with unknown cells: the turbine follows the boiler by an hour,
    and the cooler is alone.
    """
    stream = np.random.default_rng(3)
    steam = np.zeros(131)
    for hour in range(1, len(steam)):
        steam[hour] = 0.9 * steam[hour - 1] + stream.standard_normal()
    noise = stream.standard_normal((6, len(steam))) / 5
    values = {
        "boiler": (5000 + 100 * steam, 80 + steam + noise[0], 3 + noise[1] + steam / 2),
        "cooler": (60 + noise[2].cumsum(), 9 + noise[3]),
        "turbine": (5 + np.roll(steam, 1) / 10 + noise[4] / 10, 50 + np.roll(steam, 1) + noise[5]),
    }
    for name, columns in values.items():
        first, last = HOURS[name]
        mark = ";" if name == "boiler" else ","
        kind = "%d.%m.%Y %H:%M" if name == "boiler" else "%Y-%m-%d %H:%M"
        head = {
            "boiler": "Zeit;Druck;Temp [°C];Fluss",
            "cooler": "when,T,L",
            "turbine": "when,p,n",
        }[name]
        lines = [head]
        for hour in range(first, last + 1):
            cells = [f"{column[hour]:.4f}" for column in columns]
            if hour % 40 == 7:
                cells[-1] = ""
            if name == "boiler":
                cells = [cell.replace(".", ",") for cell in cells]
            time = datetime(2024, 5, 1) + timedelta(hours=hour)
            lines.append(mark.join([time.strftime(kind), *cells]))
        (folder / f"{name}.csv").write_text("\n".join([*lines, ""]), encoding="utf-8")
    (folder / "sites.yaml").write_text(SITES, encoding="utf-8")


def write_job(folder: Path, **changes: Any) -> Path:
    path = folder / "job.yaml"
    path.write_text(yaml.safe_dump({**JOB, "data": {"sites_file": "sites.yaml"}, **changes}))
    return path


def write_federation(folder: Path, **changes: Any) -> LoopbackTransport:
    """The folder of the server and those of the sites; each site describes its own table alone."""
    folder.mkdir(exist_ok=True)
    write_tables(folder)
    create_federation(write_job(folder, **changes), folder / "server", sites=NAMES)
    whole = yaml.safe_load(SITES)
    for name in NAMES:
        own = folder / f"{name}-own"
        own.mkdir()
        (folder / f"{name}.csv").rename(own / f"{name}.csv")
        (own / "sites.yaml").write_text(yaml.safe_dump({"sites": {name: whole["sites"][name]}}))
        invitation = folder / "server" / "invitations" / f"{name}.zip"
        join_federation(invitation, own / "sites.yaml", folder / name)
    return LoopbackTransport(sites={name: open_site(folder / name) for name in NAMES})


def run_together(folder: Path, **changes: Any) -> Path:
    """The same job in one process that reads all tables."""
    folder.mkdir()
    write_tables(folder)
    return run_causes(write_job(folder, **changes), out=folder / "run").folder


def check_equal(apart: Path, together: Path) -> None:
    """All results are equal to the byte, and something was found."""
    for name in ("edges.csv", "losses.csv"):
        assert (apart / name).read_bytes() == (together / name).read_bytes(), name
    figures = ("radius", "distance", "convexity", "smoothness")
    ours, theirs = (json.loads((run / "results.json").read_text()) for run in (apart, together))
    for one, other in zip(ours["convergence"], theirs["convergence"], strict=True):
        assert {one[name] for name in figures} == {None}, "a server has no measurements"
        assert all(isinstance(other.pop(name), float) for name in figures)
        for name in figures:
            del one[name]
    assert ours == theirs
    one, two = (json.loads((run / "learned.json").read_text()) for run in (apart, together))
    assert one["edges"] == two["edges"]
    assert one["window"] == two["window"]
    with (apart / "edges.csv").open() as file:
        rows = {(row["driver"], row["driven"]): row for row in csv.DictReader(file)}
    assert float(rows["boiler", "turbine"]["p_value"]) == 1 / 40, "the least of 39 shifts"
    assert float(rows["boiler", "turbine"]["strength"]) > 0
    assert float(rows["turbine", "cooler"]["p_value"]) > 1 / 40


@dataclass
class Watched:
    """Sites in this process, all of whose messages are kept.

    Attributes:
        before: called with each request; may stop the server.
        away: sites without a process.
    """

    inner: LoopbackTransport
    before: Callable[[Message], None] = lambda request: None
    requests: list[Message] = field(default_factory=list)
    answers: list[tuple[str, Message]] = field(default_factory=list)
    away: set[str] = field(default_factory=set)

    def present(self) -> tuple[str, ...]:
        return self.inner.present()

    def exchange(self, requests: Mapping[str, Message], *, seconds: float) -> Iterator[Reply]:
        for request in requests.values():
            self.before(request)
            self.requests.append(request)
        for site in self.away & requests.keys():
            yield Reply(site=site, message=None, error="no site process answers")
        here = {site: one for site, one in requests.items() if site not in self.away}
        for reply in self.inner.exchange(here, seconds=seconds):
            if reply.message is not None:
                self.answers.append((reply.site, reply.message))
            yield reply


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {
            "states": 2,
            "learning": {"mode": "batch", "epochs": 5, "lags": {"turbine": 2}, "ridge": 0.01},
            "data": {"season": 24, "train": 1, "sites_file": "sites.yaml"},
        },
        {
            "clients": {"turbine": ["speed"], "cooler": [], "boiler": ["temp", "pressure"]},
            "learning": {"mode": "batch", "epochs": 4, "lags": "choose", "normalised": False,
                         "client": 0.001, "causes": 0.001},
        },
    ],
)  # fmt: skip
def test_results_equal_those_of_a_run_that_reads_all_tables(tmp_path, changes):
    apart = run_server(tmp_path / "server", write_federation(tmp_path, **changes)).folder
    check_equal(apart, run_together(tmp_path / "together", **changes))


def test_messages_show_states_and_no_measurement(tmp_path):
    """Names, types and widths of all that leaves a site are in its list of disclosures."""
    watched = Watched(write_federation(tmp_path))
    run_server(tmp_path / "server", watched)
    for name in NAMES:
        listed = {
            one.name: one
            for one in list_site_disclosures(tmp_path / name)
            if one.direction == "to the server"
        }
        sent = [message for site, message in watched.answers if site == name]
        used: set[str] = set()
        for message in sent:
            assert set(message.tensors) | set(message.fields) - {"request"} <= listed.keys()
            used |= message.tensors.keys() | message.fields.keys()
            for tensor, value in message.tensors.items():
                assert str(value.dtype) == f"torch.{listed[tensor].dtype}"
                assert tuple(value.shape)[1:] == listed[tensor].shape[1:], "the width of states"
        assert used - {"request"} == listed.keys()
        table = (tmp_path / f"{name}-own" / f"{name}.csv").read_text().replace(";", " ")
        cells = {
            float(cell.replace(",", ".")) if name == "boiler" else float(cell)
            for line in table.splitlines()[1:]
            for cell in line.replace("," if name != "boiler" else " ", " ").split()[2:]
        }
        numbers = np.concatenate(
            [value.double().numpy().ravel() for one in sent for value in one.tensors.values()]
        )
        assert len(cells) > 100
        assert not cells & set(numbers.tolist())


def test_a_discovery_goes_on_after_server_and_sites_were_killed(tmp_path):
    """The server stops in epoch 5 of 12; a site that starts again has only its files."""
    inner = write_federation(tmp_path)
    together = run_together(tmp_path / "together")

    def die(request: Message) -> None:
        if request.kind == "learn" and request.round == 5:
            raise KeyboardInterrupt

    with pytest.raises(Stopped, match="finished epochs are kept"):
        run_server(tmp_path / "server", Watched(inner, before=die))
    table = tmp_path / "cooler-own" / "cooler.csv"
    text = table.read_text()
    table.write_text(text.replace("2024-05-02 00:00", "2024-05-02 00:30"))
    sites = {**inner.sites, "cooler": open_site(tmp_path / "cooler")}
    with pytest.raises(FederationError, match=r"cooler\.csv has changed since the run started"):
        run_server(tmp_path / "server", LoopbackTransport(sites=sites))
    table.write_text(text)
    again = Watched(LoopbackTransport(sites={n: open_site(tmp_path / n) for n in NAMES}))
    done = run_server(tmp_path / "server", again)
    check_equal(done.folder, together)
    assert min(one.round for one in again.requests if one.kind == "learn") == 5
    # A finished discovery asks for no more epochs.
    silent = Watched(again.inner)
    assert run_server(tmp_path / "server", silent).sentences == done.sentences
    assert not [one for one in silent.requests if one.kind == "learn"]


def test_a_missing_site_ends_the_discovery_by_name_and_it_goes_on_later(tmp_path):
    watched = Watched(write_federation(tmp_path, federation={"retries": 0}))

    def leave(request: Message) -> None:
        if request.kind == "learn" and request.round == 3:
            watched.away.add("cooler")

    watched.before = leave
    with pytest.raises(FederationError, match=r"site cooler: no site process answers"):
        run_server(tmp_path / "server", watched)
    back = Watched(LoopbackTransport(sites={name: open_site(tmp_path / name) for name in NAMES}))
    done = run_server(tmp_path / "server", back)
    assert min(one.round for one in back.requests if one.kind == "learn") == 3
    check_equal(done.folder, run_together(tmp_path / "together"))


@pytest.mark.slow
def test_a_discovery_without_a_site_is_another_one_and_a_deletion_says_what_remains(tmp_path):
    sites, server = write_federation(tmp_path), tmp_path / "server"

    def die(request: Message) -> None:
        if request.kind == "learn" and request.round == 5:
            raise KeyboardInterrupt

    run_server(server, sites)
    (server / "learning.message").touch()  # of the states of all sites
    with pytest.raises(Stopped) as caught:
        run_server(server, Watched(sites, before=die), without=["cooler"])
    assert str(caught.value.help).endswith("server --without cooler")
    apart = run_server(server, sites, without=["cooler"])

    assert apart.folder.name == "run-without-cooler"
    assert list(apart.results["clients"]) == ["boiler", "turbine"]
    assert list(run_server(server, sites).results["clients"]) == list(NAMES)

    found = delete_site(server, "cooler")

    assert "learning.message: the last epoch of an unfinished discovery" in found.deleted
    assert [one for one in found.remains if "edges.csv" in one] == [f"run: {DISCOVERED}"]
    assert [one["remains"] for one in list_deletions(server)] == [list(found.remains)]


def naive(
    measured: list[np.ndarray], clients: list[Any], states: list[np.ndarray], rates: Rates, n: int
) -> tuple[dict[tuple[int, int], np.ndarray], list[np.ndarray]]:
    """The batch mode of section 5, one sum over time after the other; steps are not normalised."""
    pairs = [(m, k) for m in range(len(clients)) for k in range(len(clients)) if m != k]
    blocks = {(m, k): np.zeros((states[m].shape[1], states[k].shape[1])) for m, k in pairs}
    thetas = [np.zeros((states[m].shape[1], one.shape[1])) for m, one in enumerate(measured)]
    steps = len(states[0])
    for _ in range(n):
        new_blocks = {pair: block.copy() for pair, block in blocks.items()}
        new_thetas = [theta.copy() for theta in thetas]
        for m, client in enumerate(clients):
            a, c, y, h = client.transition, client.emission, measured[m], states[m]
            for t in range(1, steps):
                e = a @ thetas[m] @ y[t - 1]
                for k in range(len(clients)):
                    if k != m:
                        e = e - blocks[m, k] @ states[k][t - 1]
                r = y[t] - c @ a @ (h[t - 1] + thetas[m] @ y[t - 1])
                u = 2 * a.T @ e
                push = 2 * rates.client * (c @ a).T @ r - rates.server * u
                new_thetas[m] += np.outer(push, y[t - 1]) / (steps - 1)
                for k in range(len(clients)):
                    if k != m:
                        step = 2 * rates.causes * np.outer(e, states[k][t - 1])
                        new_blocks[m, k] += step / (steps - 1)
        blocks, thetas = new_blocks, new_thetas
    return blocks, thetas


def test_epochs_by_messages_are_those_of_the_paper():
    """Naive loops, and the moments of `learn`, give the same parameters."""
    stream = np.random.default_rng(0)
    values = [stream.standard_normal((40, width)).cumsum(0) for width in (3, 2, 4)]
    clients = [
        client_of(
            Measured(name=str(m), columns=tuple(map(str, range(one.shape[1]))), values=one), 2
        )
        for m, one in enumerate(values)
    ]
    rates = Rates(client=0.01, server=0.02, causes=0.03)
    series = series_of(clients)
    states = [estimated(client) for client in clients]
    thetas = [np.zeros(client.gain.shape) for client in clients]
    sides = [
        ClientEpochs(client=client, states=own, begin=1, end=40, rates=rates)
        for client, own in zip(clients, states, strict=True)
    ]
    found = learn_in_epochs(series, rates, ask_here(sides, thetas), epochs=6)
    blocks, expected = naive([one.measurements for one in clients], clients, states, rates, 6)
    for (m, k), block in blocks.items():
        np.testing.assert_allclose(found.block(series, m, k), block, rtol=1e-9, atol=1e-12)
    for theta, one in zip(thetas, expected, strict=True):
        np.testing.assert_allclose(theta, one, rtol=1e-9, atol=1e-12)
    other = learn(series, rates, mode="batch", epochs=6)
    np.testing.assert_allclose(found.causes, other.causes, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.server_loss, other.server_loss, rtol=1e-9)
    np.testing.assert_allclose(found.client_loss, other.client_loss, rtol=1e-9)


def test_rates_that_are_too_large_name_the_client():
    stream = np.random.default_rng(1)
    clients = [
        client_of(
            Measured(name=name, columns=("a", "b"), values=stream.standard_normal((30, 2))), 1
        )
        for name in ("left", "right")
    ]
    rates = Rates(client=50.0, server=1.0, causes=50.0)
    sides = [
        ClientEpochs(client=client, states=estimated(client), begin=1, end=30, rates=rates)
        for client in clients
    ]
    ask = ask_here(sides, [np.zeros(client.gain.shape) for client in clients])
    with pytest.raises(FedkgError, match=r"(left|right): the learning diverges in epoch"):
        learn_in_epochs(series_of(clients), rates, ask, epochs=200)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"learning": {"mode": "sequential"}}, "every step of every epoch"),
        ({"learning": {"mode": "closed_form"}}, "measurements of a site by states of the others"),
        ({"correlation": 0.3}, "`correlation: 0.3` compares measurements"),
        ({"precedence": True}, "`precedence: true` compares measurements"),
        ({"centralised": True}, "pools the measurements"),
        ({"federation": {"quorum": 2}}, "needs the states of all sites"),
    ],
)
def test_jobs_that_need_all_measurements_are_rejected(tmp_path, changes, said):
    write_tables(tmp_path)
    with pytest.raises(JobError, match=said):
        create_federation(write_job(tmp_path, **changes), tmp_path / "server", sites=NAMES)
    assert not (tmp_path / "server").exists()
    folder = tmp_path / "forged"
    folder.mkdir()
    (folder / "job.yaml").write_text(yaml.safe_dump({**JOB, **changes}))
    files = JobFiles(folder=folder, document={**JOB, **changes}, pack=None)  # type: ignore[arg-type]
    with pytest.raises(JobError, match=said):
        files.causes_job()


def test_a_site_checks_its_table_before_it_joins(tmp_path):
    write_federation(tmp_path)
    found = {one.what: one for one in check_site(tmp_path / "cooler")}
    assert found["table"].text == "117 steps of 2 measurements, seen through 1 states"
    assert found["table"].ok


@pytest.mark.slow
def test_a_prior_in_the_rules_restricts_the_edges(tmp_path):
    """Pairs that no `cause` statement allows are not learned, and `init` compiles the rules."""
    folder = tmp_path / "apart"
    rules = ["rules.fkg", "plant.ttl"]
    for place in (folder, tmp_path / "together"):
        place.mkdir()
        (place / "rules.fkg").write_text(
            "prefix plant: <https://example.org/plant#>\n"
            "cause along for ?a, ?b where { ?a plant:feeds ?b } allow ?a drives ?b\n"
        )
        (place / "plant.ttl").write_text(
            "@prefix plant: <https://example.org/plant#> .\n"
            "@prefix fkg: <https://w3id.org/fedkg/ns#> .\n"
            'plant:b fkg:client "boiler" ; plant:feeds plant:t .\nplant:t fkg:client "turbine" .\n'
        )
    transport = write_federation(folder, rules=rules)
    apart = run_server(folder / "server", transport).folder
    write_tables(tmp_path / "together")
    job = write_job(tmp_path / "together", rules=rules)
    together = run_causes(job, out=tmp_path / "together" / "run").folder
    with (apart / "edges.csv").open() as file:
        assert [(row["driver"], row["driven"]) for row in csv.DictReader(file)] == [
            ("boiler", "turbine")
        ]
    for name in ("edges.csv", "losses.csv"):
        assert (apart / name).read_bytes() == (together / name).read_bytes()
