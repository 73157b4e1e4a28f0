"""Which kind of data a job trains on."""

from __future__ import annotations

from fedkg.jobs.experiment import Experiment
from fedkg.jobs.samples.sample_experiment import create_sample_experiment
from fedkg.jobs.schema.job import Job
from fedkg.jobs.tables.table_experiment import create_table_experiment
from fedkg.pack import Pack


def create_experiment(job: Job, pack: Pack) -> Experiment:
    """What the job trains on. Raises JobError, TableError: naming the field, file or column that is wrong."""
    return (
        create_table_experiment(job, pack)
        if job.data.set is None
        else create_sample_experiment(job, pack)
    )
