"""Which kind of data a job trains on."""

from __future__ import annotations

from fedkg.jobs.file.schema import Job
from fedkg.jobs.ground import Ground
from fedkg.jobs.samples.ground import on_sets
from fedkg.jobs.tables.ground import on_tables
from fedkg.pack import Pack


def ground_of(job: Job, pack: Pack) -> Ground:
    """What the job trains on. Raises JobError, TableError: naming the field, file or column that is wrong."""
    return on_tables(job, pack) if job.data.set is None else on_sets(job, pack)
