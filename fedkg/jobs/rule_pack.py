"""Load the rules of a job: a pack, compiled rule files, or no rules."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from fedkg.errors import JobError
from fedkg.jobs.schema.job import Job
from fedkg.pack import DataContract, Manifest, Pack, Provenance, Section, load
from fedkg.pack.manifest import SECTIONS


def load_rules(job: Job) -> tuple[Pack, tuple[str, ...]]:
    """The pack of a job and the compiler's warnings; an empty pack for a job without rules.

    Its contract has the output that the job trains, also if no rule reads it.

    Raises:
        PackError, FedkgError: the pack or a rule file is invalid.
    """
    for field, path in (("pack", job.pack), *((f"rules.{i}", r) for i, r in enumerate(job.rules))):
        if path is not None and "://" not in path and not Path(path).exists():
            raise JobError(
                f"{field}: the file does not exist",
                received=path,
                help="paths are relative to the job file",
            )
    if job.pack is not None:
        return with_trained_output(job, load(job.pack)), ()
    if not job.rules:
        return empty_pack(), ()
    from fedkg import authoring

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", authoring.RuleWarning)
        pack = authoring.compile(rule_sources(job.rules))
    return with_trained_output(job, pack), tuple(str(warning.message) for warning in caught)


def with_trained_output(job: Job, pack: Pack) -> Pack:
    """The pack with the declared output that the job trains among the columns of its contract."""
    if job.data.set not in (None, "table"):
        return pack
    contract = pack.manifest.contract.with_output(job.output or "")
    return replace(pack, manifest=pack.manifest.model_copy(update={"contract": contract}))


def rule_sources(rules: Sequence[str]) -> list[str | Path]:
    """The rule files of a job for the compiler; those in the current folder relative to it, because
    messages show the paths.
    """
    from fedkg.authoring import parse_sources

    here = Path.cwd()
    return [
        path.relative_to(here) if isinstance(path, Path) and path.is_relative_to(here) else path
        for path in parse_sources(rules)
    ]


def empty_pack() -> Pack:
    """A pack without rules."""
    sections = {"constraints": Section(version=SECTIONS["constraints"])}
    manifest = Manifest(
        sections=sections,
        contract=DataContract(columns=()),
        rules=(),
        skeletons=(),
        provenance=Provenance(compiler=""),
    )
    return Pack(manifest=manifest, banks=())
