"""Export the model that a site deploys at the end of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fedkg.constraints.binding.reads import categories_read
from fedkg.constraints.module import ConstraintModule
from fedkg.errors import JobError, UsageError
from fedkg.export.certified_model_export import Certified, require_enforceable, write_model
from fedkg.export.exportable_run_model import (
    RunKnowledge,
    RunModel,
    RunOutputs,
    RunRules,
    one_hot_places,
)
from fedkg.export.onnx_and_torch_export import Array, Format
from fedkg.export.random_input_verification import certify_forecasts, certify_ranges, certify_rules
from fedkg.federated.temporal.hard_rule_forecasts import HardForecasts
from fedkg.jobs.checkpoint import load_state
from fedkg.jobs.experiment.experiment import Experiment
from fedkg.jobs.experiment.site_knowledge import Lookup, TrainedNetwork, Weights
from fedkg.jobs.experiment.trial import Trial
from fedkg.jobs.file_damage import require_run
from fedkg.jobs.folder import RunFolder
from fedkg.jobs.run_initial_files import reopen_run
from fedkg.jobs.trial_expansion import TrialConfig, trial_to_use
from fedkg.jobs.trial_training import deployed_models
from fedkg.models import Params
from fedkg.pack import Column


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
        trial: the name of the trial in `trials.json`; None: see `trial_to_use`.
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
            f"the run has no site {site}",
            expected=", ".join(names[:20]),
            received=site,
            help="choose one of its sites with --site NAME",
        )
    if site is None and len(models) > 1:
        raise UsageError(
            "every site of this run has its own model",
            expected=f"--site with one of {', '.join(names[:20])}",
            help="choose the site of the model: --site NAME",
        )
    params = models[0 if len(models) == 1 or site is None else names.index(site)]
    reason = _why_not_exportable(built)
    if reason:
        raise JobError(
            f"the model of this run cannot be exported: {reason}",
            expected="a model of tables or windows, without `augment`, that predicts numbers, a "
            "probability, classes or forecasts, with rules about them or with `model.inject`",
            help="train a run with such a job; fedkg.export_model exports other PyTorch modules",
        )
    enforced, module = _enforced_rules(built)
    knowledge = _knowledge(experiment, built, site)
    raw = _run_model(built, params, module, knowledge)
    if raw.rules is not None:
        free = None if built.rules.hard is None else built.rules.hard.not_enforced
        require_enforceable(raw.rules, enforced, free)
    rules = built.rules

    def certify(inputs: Array, outputs: Array) -> Certified:
        entries: list[dict[str, Any]] = []
        contradicting = 0
        if rules.forecasts is not None:
            channels = rules.forecasts.module.plan.x.names
            entries = certify_forecasts(rules.pack, channels, enforced, outputs)
        elif rules.rows is not None:
            entries, contradicting = certify_rules(rules.rows, enforced, raw, inputs, outputs)
        if knowledge is not None:
            # Hard rules move answers after knowledge does.
            entries += certify_ranges(knowledge, raw, inputs, outputs, enforced=not enforced)
        return entries, contradicting

    return write_model(
        raw,
        folder,
        built.pack,
        outputs=_describe_outputs(built),
        certify=certify,
        format=format,
        run={"folder": opened.path.name, "trial": config.id, "site": site, "round": state.round},
    )


def _choose_trial(configs: tuple[TrialConfig, ...], trial: str | None) -> TrialConfig:
    found = {config.id: config for config in configs}
    if trial is None:
        return trial_to_use(configs)
    if trial not in found:
        raise UsageError(
            f"the run has no trial {trial}", expected=", ".join(list(found)[:20]), received=trial
        )
    return found[trial]


def _why_not_exportable(trial: Trial) -> str:
    """Why a file cannot contain the answers of a model; "" if it can."""
    data, job = trial.samples.source, trial.config.job
    if data.task == "survival":
        return "it predicts the risk of a survival model, which no rule and no knowledge bounds"
    if data.x.ndim == 4:
        return "it reads images, and rules and knowledge read named columns"
    if job.augment.by != "none":
        return "it reads augmented states (`augment`), which a filter computes from earlier rows"
    if trial.rules.module is None and job.model.inject is None:
        return "no rule is about its outputs, and it has no knowledge (`model.inject`)"
    return ""


def _enforced_rules(trial: Trial) -> tuple[tuple[str, ...], ConstraintModule | None]:
    """Names of the rules that the answers of a trial satisfy, and the module that enforces them on
    rows.
    """
    rules, model = trial.rules, trial.problem.model
    if isinstance(model, HardForecasts):
        return model.rules.names, None
    if trial.config.job.training.projection and rules.rows is not None:
        free = rules.rows.not_projected
        records = [one for one in rules.pack.manifest.rules if one.output]
        names = tuple(one.name for one in records if one.hard or one.name not in free)
        return names, rules.rows
    return ((), None) if rules.hard is None else (rules.hard.names, rules.hard.module)


def _run_model(
    trial: Trial, params: Params, module: ConstraintModule | None, knowledge: RunKnowledge | None
) -> RunModel:
    """The graph of the model of a site."""
    data, scaled, model = trial.samples.source, trial.samples.scaled, trial.problem.model
    window = trial.config.job.data.window
    codes: list[Column] = []
    if module is not None:
        codes = [
            column
            for column in categories_read(module.pack)
            if column.source in trial.rules.codes
            and not one_hot_places(column, scaled.inputs.names)
        ]
    return RunModel(
        model,
        params,
        scaled.inputs,
        steps=data.x.shape[1] if data.x.ndim == 3 else 0,
        codes=codes,
        outputs=RunOutputs(
            task=data.task, scaling=scaled.outputs, steps=0 if window is None else window.horizon
        ),
        knowledge=knowledge,
        rules=RunRules(
            module=module,
            classes=len(data.classes) if data.task == "classes" else 0,
            teacher=model.rules if isinstance(model, HardForecasts) else None,
        ),
    )


def _knowledge(experiment: Experiment, trial: Trial, site: str | None) -> RunKnowledge | None:
    """The knowledge that the model of a site contains; None if it injects none.

    Raises:
        UsageError: sites have their own knowledge, and no site was chosen.
        JobError: the knowledge of the site is an ONNX model.
    """
    form = trial.form
    if trial.config.job.model.inject is None or form is None:
        return None
    common = (trial.pack,) if form.select(trial.pack) else ()
    if not experiment.site_knowledge:
        return RunKnowledge(form=form, sources=common)
    names = list(trial.problem.clients.names)
    if site is None:
        raise UsageError(
            "sites of this run have knowledge of their own, which becomes part of the file",
            expected=f"--site with one of {', '.join(names[:20])}",
        )
    known, place = experiment.site_knowledge.get(site), names.index(site) + 1
    if known is None:
        return RunKnowledge(form=form, sources=common, place=place)
    sources = [
        one
        for one in known.sources
        if isinstance(one, Lookup)
        or (isinstance(one, TrainedNetwork) and isinstance(one.run, Weights))
    ]
    if len(sources) < len(known.sources):
        raise JobError(
            f"an exported model cannot contain {known.place}",
            expected="rules, a table, a predictor that the site trains, or a model in safetensors",
            received="a model in ONNX, which may have any operators",
            help="a rule file can name an ONNX model of dense layers: predict knowledge NAME of "
            "OUTPUT from model FILE; name the rule file in `rules`, and train again",
        )
    own = experiment.site_predictor(trial.config, site) if "predict" in form.kinds else None
    predictor = () if own is None else (own,)
    return RunKnowledge(
        form=form, sources=(*known.packs, *sources, *predictor, *common), place=place
    )


def _describe_outputs(trial: Trial) -> list[dict[str, Any]]:
    """Names and meanings of the outputs. `Any`: JSON."""
    data, scaling = trial.samples.source, trial.samples.scaled.outputs
    match data.task:
        case "detection":
            return [{"name": trial.output, "meaning": "probability"}]
        case "classes":
            return [{"name": name, "meaning": "probability"} for name in data.classes]
        case "forecast":
            assert scaling is not None, "numbers are scaled"
            window = trial.config.job.data.window
            steps = 0 if window is None else window.horizon
            return [{"name": n, "meaning": "value", "steps": steps} for n in scaling.names]
    return [{"name": trial.output, "meaning": "value"}]
