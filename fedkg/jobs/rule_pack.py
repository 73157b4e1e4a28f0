"""The rules of a job: its pack, its rule files compiled, or none at all."""

from __future__ import annotations

import warnings

from fedkg.jobs.schema.job import Job
from fedkg.pack import DataContract, Manifest, Pack, Provenance, Section, load
from fedkg.pack.manifest import SECTIONS


def load_rules(job: Job) -> tuple[Pack, tuple[str, ...]]:
    """The job's pack, compiled if it names rule files, empty if it has none, and the compiler's warnings.

    Raises:
        PackError, FedkgError: when the pack or the rules are wrong.
    """
    if job.pack is not None:
        return load(job.pack), ()
    if not job.rules:
        return empty_pack(), ()
    from fedkg import authoring

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", authoring.RuleWarning)
        pack = authoring.compile(authoring.parse_sources(job.rules))
    return pack, tuple(str(warning.message) for warning in caught)


def empty_pack() -> Pack:
    """The pack that says nothing."""
    sections = {"constraints": Section(version=SECTIONS["constraints"])}
    manifest = Manifest(
        sections=sections,
        contract=DataContract(columns=()),
        rules=(),
        skeletons=(),
        provenance=Provenance(compiler=""),
    )
    return Pack(manifest=manifest, banks=())
