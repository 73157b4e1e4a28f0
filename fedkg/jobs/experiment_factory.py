"""Create the experiment of a job from its kind of data."""

from __future__ import annotations

from fedkg.jobs.experiment_interface import Experiment
from fedkg.jobs.samples.sample_experiment import create_sample_experiment
from fedkg.jobs.schema.job import Job
from fedkg.jobs.tables.table_experiment import create_table_experiment
from fedkg.pack import Pack


def create_experiment(job: Job, pack: Pack) -> Experiment:
    """The experiment of a job.

    Raises:
        JobError, TableError: a field, file or column is wrong; the message names it.
    """
    return (
        create_table_experiment(job, pack)
        if job.data.set is None
        else create_sample_experiment(job, pack)
    )
