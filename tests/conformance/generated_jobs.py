"""Generated job files, and the result of `fedkg run` in the form that the plain loops read.

The rows of each site and of the server, their scaling, and the initial models come from the
product.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from command import Command
from hypothesis import strategies as st
from numpy.typing import NDArray
from plain_rules import Rule, Rules, rule_sets

import fedkg
from fedkg.federated import ServerState
from fedkg.federated.conformance import Array, Federation
from fedkg.federated.randomness import model_seed
from fedkg.jobs.checkpoint import load_state
from fedkg.jobs.experiment.labelled_table_samples import read_job_tables
from fedkg.jobs.experiment.sample_preparation import Samples
from fedkg.jobs.experiment.site_sample_statistics import SERVER, TRAIN
from fedkg.jobs.folder import RunFolder
from fedkg.jobs.schema.job_reader import parse_job

LIMITS = tuple(round(0.05 * i, 2) for i in range(6, 15))
"""Limits of the probability of a failure in rules."""
GUARDS = {"load": (4.0, 6.0, 20.0), "heat": (7.0, 20.0)}
"""Limits of the sensors in guards; no row reaches 20."""
HEAD = """\
signal load span 0 .. 10
signal heat span 0 .. 10
output failure in probability span 0 .. 1
"""


@dataclass(frozen=True, kw_only=True)
class DrawnJob:
    """A job file and its inputs; `fields` has no algorithm yet."""

    table: str
    rules: tuple[Rule, ...]
    fields: Mapping[str, Any]

    @property
    def sites(self) -> int:
        """Number of sites."""
        return len(self.fields["sites"])


@st.composite
def drawn_jobs(
    draw: st.DrawFn,
    *,
    least: int = 2,
    whole: bool = False,
    own: bool = True,
    deep: bool | None = None,
    counted_steps: bool | None = None,
) -> DrawnJob:
    """Jobs that differ in sizes of sites, participation, local work, rules, model and executor.

    Args:
        least: fewest sites.
        whole: all take part in every round.
        own: single sites may have individual settings.
        deep: whether the model has a hidden layer; None: either.
        counted_steps: whether sites make equally many steps.
    """
    dice = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    sizes = draw(st.lists(st.integers(12, 60), min_size=least, max_size=5))
    lines = ["site,load,heat,failure"]
    for k, size in enumerate(sizes):
        # Jobs scale their rows in float32, where a value at a limit may round to either side: no
        # value is at a limit.
        x = dice.integers(0, 20, (size, 2)) / 2 + 0.25
        bent = dice.choice([-1, 1])
        y = dice.uniform(size=size) < 1 / (1 + np.exp(-bent * (x[:, 0] + x[:, 1] / 2 - 7)))
        lines += [f"s{k},{a:.4f},{b:.4f},{int(c)}" for (a, b), c in zip(x, y, strict=True)]
    deep = draw(st.booleans()) if deep is None else deep
    counted = draw(st.booleans()) if counted_steps is None else counted_steps
    sites: dict[str, dict[str, Any]] = {f"s{k}": {} for k in range(len(sizes))}
    for k in draw(st.sets(st.integers(0, len(sizes) - 1), max_size=2)) if own else ():
        sites[f"s{k}"] = {
            "learning_rate": draw(st.sampled_from([0.03, 0.3])),
            "batch": draw(st.sampled_from([5, 100])),
        } | ({} if counted else {"local_epochs": draw(st.integers(1, 3))})
    work = {"local_steps" if counted else "local_epochs": draw(st.integers(1, 3))}
    return DrawnJob(
        table="\n".join(lines) + "\n",
        rules=draw(rule_sets(answer="failure", limits=LIMITS, inputs=GUARDS)),
        fields={
            "sites": sites,
            "data": {
                "label": "failure",
                "features": ["load", "heat"],
                "split": "column",
                "min_samples": 1,
                "server": 0.3,
            },
            "model": {"hidden": [3] if deep else []},
            "training": {
                "rounds": draw(st.integers(1, 4)),
                "participation": 1.0 if whole else draw(st.sampled_from([0.5, 0.75, 1.0])),
                "batch": draw(st.sampled_from([4, 16, 1000])),
                "schedule": draw(st.sampled_from(["constant", "cosine"])),
                "positive_weight": 1,
                "learning_rate": draw(st.sampled_from([0.1, 0.5])),
                "executor": draw(st.sampled_from(["stacked", "sequential"])),
                "chunk": draw(st.sampled_from([None, 2])),
            }
            | work,
            "scoring": {"probe": "plain", "probe_rows": 100_000},
            "evaluation": {"local_baseline": False},
        },
    )


@dataclass(frozen=True, kw_only=True)
class Finished:
    """A finished run.

    Attributes:
        federation: the job's data and settings.
        rules: on the server's rows.
        start: initial models [G, P].
        state: the last one.
        cohorts: of each round.
        weights: of the clients of each round.
    """

    federation: Federation
    rules: Rules
    start: Array
    state: ServerState
    cohorts: Sequence[Sequence[int]]
    weights: Sequence[Mapping[int, float]]


def run_drawn(
    cli: Command,
    folder: Path,
    job: DrawnJob,
    algorithm: Mapping[str, Any],
    *,
    more_rules: str = "",
    models: int = 1,
    **scoring: Any,
) -> Finished:
    """Run the job by `fedkg run`.

    Args:
        algorithm: the job's section.
        more_rules: text after the rules.
        models: how many the server holds.
        scoring: of the job.
    """
    rules = "".join(rule.text(f"rule_{i}", folder) for i, rule in enumerate(job.rules))
    (folder / "rules.fkg").write_text(HEAD + rules + more_rules)
    (folder / "table.csv").write_text(job.table)
    fields = {
        **job.fields,
        "name": "drawn",
        "rules": ["rules.fkg"],
        "data": {**job.fields["data"], "path": "table.csv"},
        "scoring": {**job.fields["scoring"], **scoring},
        "algorithms": {"drawn": dict(algorithm)},
        "algorithm": "drawn",
    }
    (folder / "job.yaml").write_text(yaml.safe_dump(fields))
    done = cli("run", folder / "job.yaml", "--out", folder / "run")
    assert done.code == 0, done.err
    files = RunFolder(folder / "run")
    rows = files.rows("clients.csv")
    [checkpoint] = (folder / "run" / "checkpoints").glob("*.safetensors")
    state = load_state(files, checkpoint.stem)
    assert state is not None
    federation, found, start = _read(fields, folder, job.rules, models)
    names = list(fields["sites"]) if len(federation.x) > 1 else ["all"]
    rounds = [
        [row for row in rows if int(row["round"]) == number]
        for number in range(1, federation.rounds + 1)
    ]
    return Finished(
        federation=federation,
        rules=found,
        start=start,
        state=state,
        cohorts=[[names.index(row["client"]) for row in one] for one in rounds],
        weights=[
            {names.index(row["client"]): float(row["alpha"]) for row in one} for one in rounds
        ],
    )


def _inputs(samples: Samples, rows: NDArray[np.int64]) -> Array:
    """The model's inputs of these rows, rounded to float32 as jobs do."""
    return np.asarray(samples.scaled.x(rows), dtype=np.float32).astype(np.float64)


def _read(
    fields: dict[str, Any], folder: Path, rules: tuple[Rule, ...], models: int
) -> tuple[Federation, Rules, Array]:
    """Data and settings of a finished job, its rules on the server's rows, and the initial models
    [G, P].
    """
    job = parse_job(fields, name="drawn", base=folder)
    samples = read_job_tables(job, fedkg.load(folder / "run" / "pack.fkgpack"))
    frame, server = samples.frame, samples.rows(SERVER)
    assert frame is not None
    train = samples.rows(TRAIN)
    sites = np.array(frame.texts("site"), dtype=object)[train]
    own = [train[sites == site] for site in job.sites]
    x = [_inputs(samples, rows) for rows in own]
    y = [samples.source.y[rows] for rows in own]
    if job.algorithms["drawn"].exchange == "data":
        x, y = [np.concatenate(x)], [np.concatenate(y)]
    training, probe = job.training, _inputs(samples, server)
    federation = Federation(
        x=tuple(x),
        y=tuple(y),
        server=(probe, samples.source.y[server]),
        loss="logistic",
        hidden=fields["model"]["hidden"][0] if fields["model"]["hidden"] else 0,
        activation="relu",
        rounds=training.rounds,
        participation=training.participation,
        epochs=training.local_epochs,
        steps=training.local_steps,
        batch=training.batch,
        rate=training.learning_rate,
        cosine=training.schedule == "cosine",
        own={
            k: (site.learning_rate, site.local_epochs, site.batch)
            for k, site in enumerate(job.sites.values())
        },
        dtype="float32",
    )
    columns = {name: frame.numbers(name)[server] for name in ("load", "heat")}

    def chances(w: Array) -> Array:
        return 1 / (1 + np.exp(-federation.outputs_at(w, probe)[:, 0]))

    first = [federation.model.init(model_seed(0, place)) for place in range(models)]
    start = np.concatenate(
        [federation.flat({name: one[name][None] for name in federation.shapes}) for one in first]
    )
    return federation, Rules(rules=rules, columns=columns, answer=("failure", chances)), start
