"""The comparison at the end of a run: mean and spread over seeds per setting, and sentences."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from fedkg.federated.metrics import rounds_to, rounds_to_lower_error, rounds_to_own_share
from fedkg.jobs.comparison.injection import knowledge_values
from fedkg.jobs.comparison.paired_test import PairedTest, compare_on_common_seeds, mean_interval
from fedkg.jobs.comparison.site_spread import spread_over_sites
from fedkg.jobs.comparison_metric import FIGURE_COLUMNS, MEASURE_BY_COLUMN, MEASURES, Measure
from fedkg.jobs.trial_expansion import TrialConfig, trial_title
from fedkg.violation_rate_zones import classify_rate, describe_rate

Line = Mapping[str, str]
"""A row of a CSV file of the run folder."""

Result = dict[str, Any]
"""A row of the comparison. `Any`: texts, numbers and small mappings."""


def compare_trials(
    configs: Sequence[TrialConfig],
    rounds: Iterable[Line],
    clients: Iterable[Line],
    target: float,
    sites: Iterable[Line] = (),
    measure: Measure = MEASURES["detection"],
    knowledge: Iterable[Line] = (),
) -> list[Result]:
    """One row per setting, corruption and algorithm, in the order of the trials.

    Args:
        target: the target of the measure, or NaN.
        measure: the figure that decides comparisons.
        knowledge: the rows of `knowledge.csv`.
    """
    told = list(knowledge)
    by_trial, weights, alone = _by_trial(rounds), _by_trial(clients), _by_trial(sites)
    groups: dict[tuple[Any, ...], list[TrialConfig]] = {}
    for config in configs:
        groups.setdefault(
            (
                config.setting,
                "" if config.corrupt is None else config.corrupt.site,
                config.algorithm,
            ),
            [],
        ).append(config)
    scenarios = list(dict.fromkeys(key[:2] for key in groups))
    ordered = [groups[key] for key in sorted(groups, key=lambda key: scenarios.index(key[:2]))]
    return [
        _result(members, by_trial, weights, target, measure)
        | _violated_cases([alone.get(member.id, ()) for member in members])
        | {"sites": spread_over_sites([alone.get(member.id, ()) for member in members])}
        | {
            name: summarise_seeds(values)
            for name, values in knowledge_values([member.id for member in members], told).items()
        }
        for members in ordered
        if all(config.id in by_trial for config in members)
    ]


def _by_trial(lines: Iterable[Line]) -> dict[str, list[Line]]:
    found: dict[str, list[Line]] = {}
    for line in lines:
        found.setdefault(line["trial"], []).append(line)
    return found


def _result(
    members: Sequence[TrialConfig],
    rounds: Mapping[str, Sequence[Line]],
    clients: Mapping[str, Sequence[Line]],
    target: float,
    measure: Measure,
) -> Result:
    config = members[0]
    runs = [rounds[member.id] for member in members]

    def last(field: str) -> dict[str, Any]:
        return summarise_seeds([_number(lines[-1].get(field, "")) for lines in runs])

    def over(field: str, fold: Callable[[list[float]], float]) -> dict[str, Any]:
        return summarise_seeds(
            [fold(known) if (known := known_values(lines, field)) else math.nan for lines in runs]
        )

    firsts = [_first_round_at_target(lines, target, measure) for lines in runs]
    own = [_first_round_at_90_percent(lines, measure) for lines in runs]
    result: Result = {
        "setting": dict(config.setting),
        "algorithm": config.algorithm,
        "preset": config.preset,
        "title": trial_title(config),
        "corrupted": "" if config.corrupt is None else config.corrupt.site,
        "baseline": config.baseline,
        "seeds": len(members),
        "seed_list": [member.seed for member in members],
        "measure": measure.name,
        "event": measure.event,
        "target": None if math.isnan(target) else target,
        **{field: last(field) for field in FIGURE_COLUMNS},
        f"{measure.name}_late": summarise_seeds([_late_mean(lines, measure) for lines in runs]),
        "rounds_to_90": summarise_seeds(
            [math.nan if first is None else float(first) for first in own]
        ),
        "rounds_to_target": summarise_seeds(
            [math.nan if first is None else float(first) for first in firsts]
        ),
        "reached": sum(first is not None for first in firsts),
        "rho_worst": last("rho_worst"),
        "rho_mean": last("rho_mean"),
        "rho_worst_max": over("rho_worst", max),
        "rho_worst_average": over("rho_worst", statistics.fmean),
        "rho_mean_average": over("rho_mean", statistics.fmean),
        "zone": ""
        if last("rho_worst")["mean"] is None
        else classify_rate(last("rho_worst")["mean"]),
        "bytes": over("bytes", math.fsum),
        "bytes_paper": over("bytes_paper", math.fsum),
        "alpha_corrupted": None,
        "share_corrupted": None,
    }
    if config.corrupt is not None:
        mine = [
            [line for line in clients.get(member.id, ()) if line["client"] == config.corrupt.site]
            for member in members
        ]
        result["alpha_corrupted"] = summarise_seeds([_mean(lines, "alpha") for lines in mine])
        result["share_corrupted"] = summarise_seeds([_mean(lines, "share") for lines in mine])
    return result


def _violated_cases(seeds: Sequence[Sequence[Line]]) -> Result:
    """Violated cases of the rules, cases with a verdict, and their ratio, over all sites of a seed.

    Args:
        seeds: the rows of `sites.csv` for each seed.
    """
    counts = [
        [math.fsum(known_values(lines, field)) for field in ("violated", "evaluations")]
        for lines in seeds
    ]
    return {
        "violation_rate": summarise_seeds(
            [violated / evaluated if evaluated else math.nan for violated, evaluated in counts]
        ),
        "violated_cases": summarise_seeds([violated for violated, _ in counts]),
        "evaluated_cases": summarise_seeds([evaluated for _, evaluated in counts]),
    }


def violated_cases_text(row: Mapping[str, Any]) -> str:
    """The violation rate with both counts, over all seeds; "" if no case has a verdict.

    Args:
        row: of the comparison; `Any`: JSON.
    """
    counts = (math.fsum(row[name]["values"]) for name in ("violated_cases", "evaluated_cases"))
    return describe_rate(*counts)


def summarise_seeds(values: Sequence[float]) -> dict[str, Any]:
    """Mean, 95 % interval, sample standard deviation and values; null if not measured.

    `Any`: JSON.
    """
    known = [value for value in values if not math.isnan(value)]
    return {
        "mean": statistics.fmean(known) if known else None,
        "interval": mean_interval(known),
        "spread": statistics.stdev(known) if len(known) > 1 else None,
        "values": [None if math.isnan(value) else value for value in values],
    }


def describe_comparison(results: Sequence[Result], target: float) -> list[str]:
    """The results in sentences for a plant operator; differences that may be chance are marked.

    `describe_local_training` covers local models, because they are not made for other sites' rows.
    """
    said: list[str] = []
    for scenario in _group_by_scenario(results):
        base = next((row for row in scenario if row["preset"] == "fedavg"), scenario[0])
        said += [
            _compared(base, other)
            for other in scenario
            if other is not base and not other["baseline"]
        ]
        if base["corrupted"]:
            said += [
                _weight(row)
                for row in scenario
                if row["alpha_corrupted"] and row["alpha_corrupted"]["mean"] is not None
            ]
    said += _augmented(results)
    if results and not math.isnan(target) and all(row["reached"] == 0 for row in results):
        measure = MEASURE_BY_COLUMN[results[0]["measure"]]
        said.append(
            f"No training reached {'an' if measure.name == 'f1' else 'the'} "
            f"{measure.title} of {target:g} on the test rows."
        )
    return said


def _group_by_scenario(results: Sequence[Result]) -> list[list[Result]]:
    scenarios: dict[tuple[Any, ...], list[Result]] = {}
    for row in results:
        scenarios.setdefault((tuple(sorted(row["setting"].items())), row["corrupted"]), []).append(
            row
        )
    return list(scenarios.values())


def _compared(base: Result, other: Result) -> str:
    where = ", ".join(
        f"{field.rpartition('.')[2]} {value}" for field, value in base["setting"].items()
    )
    where = (f"With {where}" if where else "On this split") + (
        f" and wrong labels at {base['corrupted']}" if base["corrupted"] else ""
    )
    measure = MEASURE_BY_COLUMN[base["measure"]]
    ours, theirs = other[measure.name], base[measure.name]
    mine, others = violated_cases_text(other), violated_cases_text(base)
    violated = f" Violated cases: {mine}, {base['title']} {others}." if mine and others else ""
    judged = _describe_test(compare_on_common_seeds(other, base, measure.name))
    better = "" if measure.higher else " (less is better)"
    return (
        f"{where}, {other['title']} ends at {measure.title} {_mean_and_spread(ours)}{better}, "
        f"{base['title']} at {_mean_and_spread(theirs)}: {judged}.{violated}"
    )


def _augmented(results: Sequence[Result]) -> list[str]:
    """Whether augmented states helped, for every algorithm trained with and without them."""
    said = []
    for row, other in (
        (row, other)
        for row in results
        for other in results
        if row["corrupted"] == other["corrupted"]
    ):
        field = next(
            (
                field
                for field in ("augment", "augment.by")
                if row["setting"].get(field) not in (None, "none")
            ),
            "",
        )
        if (
            not field
            or other["algorithm"] != row["algorithm"]
            or other["setting"] != {**row["setting"], field: "none"}
        ):
            continue
        measure, rest = (
            MEASURE_BY_COLUMN[row["measure"]],
            {name: value for name, value in row["setting"].items() if name != field},
        )
        ours, theirs = row[measure.name], other[measure.name]
        where = "".join(f", {name.rpartition('.')[2]} {value}" for name, value in rest.items())
        damaged = f", wrong labels at {row['corrupted']}" if row["corrupted"] else ""
        better = "" if measure.higher else " (less is better)"
        own = row["preset"] == "local_only" or row["setting"][field] == "filter"
        source = "the states of each site's filter" if own else "the states of a causal discovery"
        said.append(
            f"{row['title']}{where}{damaged} ends at {measure.title} "
            f"{_mean_and_spread(ours)}{better} with {source} among its inputs, at "
            f"{_mean_and_spread(theirs)} "
            f"without: {_describe_test(compare_on_common_seeds(row, other, measure.name))}."
        )
    return said


def _describe_test(found: PairedTest) -> str:
    """``clearly higher, by 0.373 ± 0.156 (on 3 of 3 seeds)``, or ``..., not significant``."""
    if len(found.differences) == 1:
        return "one seed only"
    if not any(found.differences):
        return "no difference"
    side, seeds = ("higher", found.higher) if found.mean > 0 else ("lower", found.lower)
    by = (
        f"{side}, by {abs(found.mean):.3f} ± {found.spread:.3f} (on {seeds} of "
        f"{len(found.differences)} seeds)"
    )
    return f"clearly {by}" if found.direction else f"{by}, not significant"


def _weight(row: Result) -> str:
    alpha, share = row["alpha_corrupted"]["mean"], row["share_corrupted"]["mean"]
    if alpha < 5e-4:
        none = "almost no weight" if alpha else "no weight"
        return (
            f"{row['title']} gives {row['corrupted']} {none}; its share of the rows is "
            f"{share:.3f} in the rounds it takes part in."
        )
    change = abs(alpha / share - 1.0)
    words = (
        "equal to its share of the rows"
        if change < 5e-3
        else f"{change:.0%} {'less' if alpha < share else 'more'} than its share of the rows"
    )
    return (
        f"{row['title']} gives {row['corrupted']} on average a weight of {alpha:.3f} in the "
        f"rounds it takes part in, {words}."
    )


def _mean_and_spread(value: Mapping[str, Any]) -> str:
    if value["mean"] is None:
        return "nothing measured"
    return f"{value['mean']:.3f}" + (
        f" ± {value['spread']:.3f}" if value["spread"] is not None else ""
    )


def _late_mean(lines: Sequence[Line], measure: Measure) -> float:
    """Mean figure over the last quarter of the rounds; depends less on the last sampled sites."""
    known = known_values(lines, measure.name)
    return statistics.fmean(known[-max(1, len(known) // 4) :]) if known else math.nan


def _first_round_at_target(lines: Sequence[Line], target: float, measure: Measure) -> int | None:
    measured = [line for line in lines if line[measure.name]]
    place = rounds_to(
        [measure.sign * float(line[measure.name]) for line in measured], measure.sign * target
    )
    return None if place is None else int(measured[place - 1]["round"])


def _first_round_at_90_percent(lines: Sequence[Line], measure: Measure) -> int | None:
    """The first round at 90 % of the last value, or of the fall of an error; None without one."""
    measured = [line for line in lines if line[measure.name]]
    values = [float(line[measure.name]) for line in measured]
    if not values or (measure.higher and values[-1] == 0.0):
        return None
    place = (rounds_to_own_share if measure.higher else rounds_to_lower_error)(values)
    return None if place is None else int(measured[place - 1]["round"])


def _number(text: str) -> float:
    return float(text) if text else math.nan


def known_values(lines: Sequence[Line], field: str) -> list[float]:
    """The numbers of a column, without the empty cells."""
    return [float(line[field]) for line in lines if line[field]]


def _mean(lines: Sequence[Line], field: str) -> float:
    known = known_values(lines, field)
    return statistics.fmean(known) if known else math.nan
