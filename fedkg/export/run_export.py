"""Export the model that a site deploys at the end of a run.

Letters: B batch, F features, H outputs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import Tensor, nn
from typing_extensions import override

from fedkg.errors import JobError, UsageError
from fedkg.export.graph import Format, RawModel
from fedkg.export.model import require_enforceable, write_model
from fedkg.jobs.checkpoint import load_state
from fedkg.jobs.file_damage import require_run
from fedkg.jobs.folder import RunFolder
from fedkg.jobs.run_initial_files import reopen_run
from fedkg.jobs.samples.trial import Trial
from fedkg.jobs.trial_expansion import TrialConfig
from fedkg.jobs.trial_training import deployed_models
from fedkg.models import Model, Params


class SiteModel(nn.Module):
    """A federated model with the parameters of one site: scaled features [B, F] to raw outputs
    [B, H].

    Args:
        model: the model of a trial.
        params: the parameters of the site.
    """

    def __init__(self, model: Model, params: Params) -> None:
        super().__init__()
        self._model = (model,)
        self._names = tuple(params)
        self.values = nn.ParameterList(
            nn.Parameter(value.detach().clone(), requires_grad=False) for value in params.values()
        )

    @override
    def forward(self, x: Tensor) -> Tensor:
        """See the class."""
        stack = {
            name: value.unsqueeze(0) for name, value in zip(self._names, self.values, strict=True)
        }
        return self._model[0].apply(stack, x.unsqueeze(0))[0]


def export_run(
    run: str | Path,
    folder: str | Path,
    *,
    site: str | None = None,
    trial: str | None = None,
    format: Format = "onnx",
    trust_code: bool = False,
) -> dict[str, Any]:
    """Write the model that a site deploys at the end of a run, with the rules about its answers.

    Args:
        run: the folder of a finished run.
        folder: see `export_model`.
        site: the site; None if all sites share one model.
        trial: the name of the trial in `trials.json`; None: the first that is not a baseline.
        format: see `export_model`.
        trust_code: whether code that the job imports may run.

    Returns:
        The certificate. `Any`: JSON.

    Raises:
        UsageError: the folder is not a finished run, or it has no such site or trial.
        JobError: the model cannot be exported; the message says why.
        FedkgError: as in `export_model`.
    """
    opened = RunFolder(Path(run))
    require_run(opened)
    if not opened.is_finished():
        raise UsageError(
            f"the run in {run} is not finished", help=f"finish it first: fedkg run --resume {run}"
        )
    _, experiment, configs = reopen_run(opened, trust_code)
    config = _choose_trial(configs, trial)
    built = experiment.build_trial(config)
    state = load_state(opened, config.id)
    if state is None:
        raise UsageError(
            f"the trial `{config.id}` of the run in {run} has no checkpoint with a model",
            help="choose another trial: --trial NAME",
        )
    models = deployed_models(built).models(state)
    names = list(built.problem.clients.names)
    if site is not None and site not in names:
        raise UsageError(
            f"the run has no site {site}", expected=", ".join(names[:20]), received=site
        )
    if site is None and len(models) > 1:
        raise UsageError(
            "every site of this run has its own model",
            expected=f"--site with one of {', '.join(names[:20])}",
            help="choose the site of the model: --site NAME",
        )
    params = models[0 if len(models) == 1 or site is None else names.index(site)]
    _require_exportable(built)
    rules, hard = built.rules.rows, built.rules.hard
    assert rules is not None, "`_require_exportable` checks it"
    if hard is not None:
        require_enforceable(hard.module, hard.names)
    raw = RawModel(
        SiteModel(built.problem.model, params),
        rules.plan.x,
        rules.plan.y,
        None if hard is None else hard.module,
    )
    return write_model(
        raw,
        folder,
        built.pack,
        rules=rules,
        enforced=() if hard is None else hard.names,
        format=format,
        run={"folder": opened.path.name, "trial": config.id, "site": site, "round": state.round},
    )


def _choose_trial(configs: tuple[TrialConfig, ...], trial: str | None) -> TrialConfig:
    found = {config.id: config for config in configs}
    if trial is None:
        return next((config for config in configs if not config.baseline), configs[0])
    if trial not in found:
        raise UsageError(
            f"the run has no trial {trial}", expected=", ".join(list(found)[:20]), received=trial
        )
    return found[trial]


def _require_exportable(trial: Trial) -> None:
    """Raise JobError for a model with answers that a file cannot contain."""
    rules, job = trial.rules, trial.config.job
    if rules.forecasts is not None:
        names = [one.name for one in rules.pack.manifest.rules if one.hard and one.output]
        what = f"forecasts move to the nearest trace that satisfies {', '.join(names) or 'rules'}"
    elif job.model.inject is not None:
        what = "knowledge (`model.inject`) is not part of the weights of a run"
    elif job.training.projection:
        what = "`training.projection` reads codes of categories"
    elif trial.samples.source.task == "classes":
        what = "the model predicts classes"
    elif trial.samples.source.x.ndim != 2:
        what = "the model reads windows or images"
    elif job.augment.by != "none":
        what = "the model reads augmented states"
    elif rules.rows is None:
        what = "no rule is about its outputs"
    else:
        return
    raise JobError(
        f"the model of this run cannot be exported: {what}",
        expected="a model of numbers or of one probability that reads the rows of a table",
        help="fedkg.export_model exports PyTorch modules, with `fedkg.inject` too",
    )
