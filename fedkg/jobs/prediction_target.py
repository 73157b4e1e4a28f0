"""The output of the rules that a job's model predicts."""

from __future__ import annotations

from fedkg.errors import JobError
from fedkg.jobs.schema.job import Job
from fedkg.pack import Pack

_UNREAD = (
    "an output of entities, or with several columns in the graph, counts only if a rule reads it"
)


def choose_output(job: Job, pack: Pack) -> str:
    """The name of the output or label that the model predicts.

    For a table it is the one in the job's label column if the rules have several. A data set needs
    none: "" if the rules have none, or the first if the job forecasts several channels. Knowledge
    of a label counts too, because the data contract has no column for a label that no rule reads.

    Raises:
        JobError: the rules have several outputs, none that a table needs, or not the one in the
            job.
    """
    contract = pack.manifest.contract
    columns = [one for one in contract.columns if one.role == "output"]
    if not columns and job.data.set in (None, "table"):
        columns = [*contract.unread]
    names = list(dict.fromkeys(one.label or one.name for one in columns))
    table = job.data.set is None
    if not table:
        names = list(dict.fromkeys([*names, *(one.output for one in pack.manifest.knowledge)]))
    if job.output is not None:
        if job.output not in names:
            raise JobError(
                f"output: the rules do not define the output `{job.output}`",
                expected=", ".join(names) or "an `output` statement in the rules",
                received=job.output,
                help=(
                    "set `output` of the job to one of these"
                    if names
                    else "add the statement to the rule file, or remove `output` from the job"
                )
                + f"; {_UNREAD}",
            )
        return job.output
    fitting = [one.name for one in columns if table and one.source == job.data.label]
    if len(names) == 1 or len(fitting) == 1:
        return names[0] if len(names) == 1 else fitting[0]
    if table and not names:
        raise JobError(
            "the rules do not define an output to predict",
            expected="an `output` statement in the rules",
            help=f"add the statement to the rule file; {_UNREAD}",
        )
    if names and (table or job.data.window is None):
        raise JobError(
            "output: the rules define several outputs",
            expected=", ".join(names),
            help="set `output` of the job to one of these",
        )
    return names[0] if names else ""
