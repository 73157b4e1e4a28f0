"""The bill of materials of a run in CycloneDX 1.6 (ECMA-424): models, rules, ontologies, data sets.

The Python library for CycloneDX cannot write model cards yet, so the document is written as the
standard's JSON schema defines it; a test validates it with that library.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from fedkg.errors import FedkgError, JobError
from fedkg.jobs.checkpoint import checkpoint_name, load_state
from fedkg.jobs.comparison_metric import FIGURE_COLUMNS
from fedkg.jobs.file_damage import require_intact, require_run
from fedkg.jobs.folder import ENVIRONMENT, PACK, TRIALS, RunFolder
from fedkg.ontologies import list_entries
from fedkg.pack import Manifest, read_pack

Component = dict[str, Any]
"""A component of the bill. `Any`: JSON."""


def list_materials(folder: str | Path) -> dict[str, Any]:
    """The bill of materials of a finished run, as a CycloneDX 1.6 document. `Any`: JSON.

    Of sites it contains what the run folder contains: their names, numbers of samples, and
    checksums of their files if the server has read them.

    Raises:
        UsageError: the folder holds no run.
        JobError: the run is not finished, or one of its files has changed.
    """
    run = RunFolder(Path(folder))
    require_run(run)
    require_intact(run)
    if not run.is_finished():
        raise JobError(
            f"the run in {folder} is not finished",
            help=f"finish it first: fedkg run --resume {folder}",
        )
    environment = run.environment()
    manifest = read_pack(run.read_bytes(PACK), name=str(run.path / PACK)).manifest
    rules, sources = list(_rules(manifest)), list(_sources(manifest))
    sites, files = list(_sites(run)), list(_files(environment))
    models = list(_models(run, [*sites, *files]))
    pack = _component("pack", PACK, "file", sha256=run.log.states()[PACK].sha256, components=rules)
    components = [*models, pack, *sources, *sites, *files, *_libraries(environment)]
    name = str(environment["job"]["name"])
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, run.log.last)}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.strptime(
                environment["started"], "%Y-%m-%dT%H:%M:%S%z"
            ).isoformat(),
            "tools": {
                "components": [
                    _component(
                        "tool",
                        "fedkg",
                        "application",
                        version=environment["fedkg"],
                        licenses=[{"license": {"id": "Apache-2.0"}}],
                    )
                ]
            },
            "component": _component(
                "run",
                name,
                "application",
                description=str(environment["job"].get("title") or name),
                properties=_properties(
                    job_sha256=environment["job_sha256"], log_sha256=run.log.last
                ),
            ),
        },
        "components": components,
        "dependencies": [
            {"ref": f"run:{name}", "dependsOn": [one["bom-ref"] for one in models]},
            *(
                {
                    "ref": model["bom-ref"],
                    "dependsOn": [pack["bom-ref"], *(one["bom-ref"] for one in sites)],
                }
                for model in models
            ),
            {"ref": pack["bom-ref"], "dependsOn": [one["bom-ref"] for one in sources]},
        ],
    }


def _component(ref: str, name: str, type: str, *, sha256: str = "", **more: Any) -> Component:
    found: Component = {"type": type, "bom-ref": f"{ref}:{name}", "name": name}
    if sha256:
        found["hashes"] = [{"alg": "SHA-256", "content": sha256}]
    return found | more


def _properties(**values: Any) -> list[dict[str, str]]:
    """Facts that the standard has no field for; without those that are empty."""
    return [
        {"name": f"fedkg:{name}", "value": str(value)}
        for name, value in values.items()
        if value not in (None, "")
    ]


def _rules(manifest: Manifest) -> Iterator[Component]:
    for rule in manifest.rules:
        yield _component(
            "rule",
            rule.name,
            "data",
            sha256=hashlib.sha256(rule.text.encode()).hexdigest(),
            **({"description": rule.title} if rule.title else {}),
            data=[
                {
                    "type": "definition",
                    "contents": {"attachment": {"contentType": "text/plain", "content": rule.text}},
                }
            ],
            properties=_properties(
                file=rule.file,
                line=rule.line or None,
                kind=rule.kind,
                severity=rule.severity,
                weight=rule.weight,
                hard=rule.hard,
                about="output" if rule.output else "data",
            ),
        )


def _sources(manifest: Manifest) -> Iterator[Component]:
    """The files that the pack was compiled from; ontologies with what the catalogue knows."""
    ontologies = any(source.kind == "ontology" for source in manifest.provenance.sources)
    known = _catalogue() if ontologies else {}
    for place, source in enumerate(manifest.provenance.sources):
        more = known.get((source.name, source.sha256), {}) if source.kind == "ontology" else {}
        found = _component(f"source:{place}", source.name, "data", sha256=source.sha256, **more)
        yield {
            **found,
            "properties": [*_properties(kind=source.kind), *found.pop("properties", ())],
        }


def _catalogue() -> dict[tuple[str, str], dict[str, Any]]:
    """What is known of each ontology file with this name and SHA-256. `Any`: JSON."""
    try:
        entries = list_entries()
    except FedkgError:  # a runtime without the compiler knows no ontologies
        return {}
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for entry in entries:
        original = entry.in_use == "added"
        facts: dict[str, Any] = {
            "description": entry.title,
            "externalReferences": [{"type": "documentation", "url": entry.iri}],
            "licenses": [
                {"license": {"name": entry.licence} if original else {"id": "Apache-2.0"}}
            ],
            # our files stand in for ontologies of others, under their terms' IRIs
            "properties": _properties(original_licence=None if original else entry.licence),
        }
        if original and not entry.licence:
            del facts["licenses"]
        if entry.version:
            facts["version"] = entry.version
        for file in (entry.file, *entry.additions):
            path = Path(file)
            path = path if path.is_absolute() else Path(entry.file).parent / path
            if path.is_file():
                sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
                found[path.name, sha256] = facts
    return found


def _sites(run: RunFolder) -> Iterator[Component]:
    samples: dict[str, str] = {}
    for name in ("clients.csv", "sites.csv"):
        samples |= {row["client"]: row["samples"] for row in run.rows(name)}
    for site, count in sorted(samples.items()):
        yield _component(
            "site", site, "data", data=[{"type": "dataset"}], properties=_properties(rows=count)
        )


def _files(environment: Mapping[str, Any]) -> Iterator[Component]:
    """The data files that the run has read; with privacy their checksums need the run's key."""
    private = environment["job"].get("privacy") is not None
    for source in environment["sources"]:
        digest = str(source["sha256"])
        yield _component(
            "data",
            str(source["path"]),
            "data",
            sha256="" if private else digest,
            data=[{"type": "dataset"}],
            properties=_properties(hmac_sha256=digest if private else None),
        )


def _models(run: RunFolder, data: list[Component]) -> Iterator[Component]:
    """The final models with their parameters and figures; a figure that was not measured is left
    out."""
    job, states, rounds = run.environment()["job"], run.log.states(), run.rows("rounds.csv")
    for trial in run.read_json(TRIALS):
        state = load_state(run, trial["id"])
        if state is None:
            continue
        rows = [row for row in rounds if row["trial"] == trial["id"]]
        last = next(
            (row for row in reversed(rows) if any(row[name] for name in FIGURE_COLUMNS)), {}
        )
        yield _component(
            "model",
            trial["id"],
            "machine-learning-model",
            sha256=states[checkpoint_name(trial["id"])].sha256,
            description=str(trial["title"]),
            modelCard={
                "modelParameters": {
                    "approach": {"type": "supervised"},
                    "architectureFamily": str(job["model"].get("kind") or job["model"].get("name")),
                    "datasets": [{"ref": one["bom-ref"]} for one in data],
                },
                "quantitativeAnalysis": {
                    "performanceMetrics": [
                        {"type": name, "value": last[name], "slice": "test rows of all sites"}
                        for name in FIGURE_COLUMNS
                        if last.get(name)
                    ]
                },
                "properties": _properties(
                    algorithm=trial["algorithm"],
                    seed=trial["seed"],
                    rounds=trial["rounds"],
                    parameters=sum(value[0].numel() for value in state.models.values()),
                    models=len(next(iter(state.models.values()))),
                    file=checkpoint_name(trial["id"]),
                ),
            },
        )


def _libraries(environment: Mapping[str, Any]) -> Iterator[Component]:
    for name, version in environment["libraries"].items():
        yield _component(
            "library", name, "library", version=version, purl=f"pkg:pypi/{name}@{version}"
        )
    yield _component(
        "library",
        "fedkg",
        "library",
        version=environment["fedkg"],
        purl=f"pkg:pypi/fedkg@{environment['fedkg']}",
        properties=_properties(python=environment["python"], recorded_in=ENVIRONMENT),
    )
