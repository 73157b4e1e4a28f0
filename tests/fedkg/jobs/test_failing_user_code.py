"""Errors of a user's functions and modules end as messages that name the field and the error."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from fedkg.errors import JobError
from fedkg.jobs import run_job

CODE = """
import torch


def data(path, seed):
    return None


def algorithm(rate):
    raise ValueError("the rate is not known")


class Large(torch.nn.Linear):
    def __init__(self):
        super().__init__(2**30, 2**20)


class Net(torch.nn.Linear):
    def __init__(self, width):
        super().__init__(5, width)
"""


@pytest.mark.parametrize(
    ("field", "message", "cause"),
    [
        ("data", "data.set: .*:data fails with", "TypeError: .*size"),
        ("algorithm", "path: .*:algorithm fails with the `options` rate", "the rate is not known"),
        ("memory", "model.path: .*:Large .*needs more memory", "smaller `training.batch`"),
        ("model", "model.path: .*:Net cannot be created", "TypeError: .*height"),
        (
            "file",
            r"^model.path: \S*own.py cannot be loaded: SyntaxError",
            "until `python .*own.py`",
        ),
        ("package", "^model.path: no_such_package cannot be imported", "install the package"),
    ],
)
def test_an_error_of_user_code_is_reported(
    job_fields: dict[str, Any], tmp_path: Path, field: str, message: str, cause: str
) -> None:
    code = tmp_path / "own.py"
    code.write_text("def (" if field == "file" else CODE)
    fields = job_fields | {"compare": {}, "corrupt": None}
    if field == "data":
        fields |= {"data": {"set": f"{code}:data"}, "sites": 3}
    elif field == "algorithm":
        own = {"path": f"{code}:algorithm", "options": {"rate": 1}}
        fields |= {"algorithm": "own", "algorithms": {"own": own}}
    elif field == "memory":
        fields["model"] = {"kind": "module", "path": f"{code}:Large"}
    else:
        place = "no_such_package" if field == "package" else code
        options = {"height": 2}
        fields["model"] = {"kind": "module", "path": f"{place}:Net", "options": options}
    with pytest.raises(JobError, match=message) as caught:
        run_job(fields, out=tmp_path / "run", trust_code=True)
    assert caught.match(cause)


STEPS = """
import torch
from dataclasses import dataclass, replace

from fedkg.federated import Algorithm
from fedkg.federated.client.optimisers import SGD
from fedkg.federated.server.optimisers import AddUpdate
from fedkg.federated.server.weighted_mean import WeightedMean


class Lacking:
    needs_server_update = False


class Fails:
    def value(self, step):
        return step.params["nothing"]


class Greedy:
    def value(self, step):
        raise MemoryError


class OneNumber:
    def value(self, step):
        return sum((p**2).sum() for p in step.params.values())


@dataclass(frozen=True)
class Summed(SGD):
    def finish(self, setting, variables, carry):
        found = super().finish(setting, variables, carry)
        return replace(found, update={name: u.sum(0) for name, u in found.update.items()})


@dataclass(frozen=True)
class Memory(SGD):
    def finish(self, setting, variables, carry):
        found = super().finish(setting, variables, carry)
        return replace(found, client_memory={"local/y": torch.zeros(3, 3)})


@dataclass(frozen=True)
class Empty(WeightedMean):
    def finish(self, fold):
        return {}


class Counts(WeightedMean):
    def counted(self, fold):
        return torch.zeros(1)


@dataclass(frozen=True)
class Alone(AddUpdate):
    def apply(self, models, update, memory):
        return models


@dataclass(frozen=True)
class NoModels(AddUpdate):
    def apply(self, models, update, memory):
        return {}, memory


def make(**steps):
    return Algorithm(
        name="own",
        **{
            name: globals()[step]() if isinstance(step, str) else (globals()[step[0]](),)
            for name, step in steps.items()
        },
    )
"""


@pytest.mark.parametrize(
    ("step", "message", "received"),
    [
        ({"terms": ["Fails"]}, r":\d+: `Fails.value` raises an error", "KeyError: 'nothing'"),
        ({"terms": ["Greedy"]}, r":\d+: `Greedy.value` needs more memory", "MemoryError"),
        ({"terms": ["OneNumber"]}, r": `OneNumber`: `value` .*shape \[\d\]", r"\[\]"),
        ({"local": "Summed"}, r"`Summed`: `finish` .*shape \[\d, 8, 5\] for layers.0", r"\[8, 5\]"),
        ({"local": "Memory"}, "`Memory`: `finish` .*by name: none", "local/y"),
        ({"aggregate": "Empty"}, "`Empty`: `finish` .*by name: layers.0", "none"),
        ({"aggregate": "Counts"}, r"`Counts`: `counted` .*shape \[3\]", r"\[1\]"),
        ({"aggregate": "Lacking"}, "`Lacking` cannot be `aggregate` .*lacks `add`, `begin`", ""),
        ({"server": "Alone"}, "`Alone`: `apply` .*a pair", "dict"),
        ({"server": "NoModels"}, "`NoModels`: `apply` .*by name: layers.0", "none"),
    ],
)
def test_a_step_of_an_own_algorithm_is_named(
    job_fields: dict[str, Any], tmp_path: Path, step: dict[str, Any], message: str, received: str
) -> None:
    code = tmp_path / "steps.py"
    code.write_text(STEPS)
    own = {"path": f"{code}:make", "options": step}
    fields = job_fields | {"compare": {}, "corrupt": None, "algorithm": "own"}
    fields |= {"algorithms": {"own": own}}
    executor = "processes" if step == {"terms": ["Fails"]} else "sequential"
    fields["training"] = fields.get("training", {}) | {"executor": executor}
    with pytest.raises(JobError, match=f"(?s){message}") as caught:
        run_job(fields, out=tmp_path / "run", trust_code=True)
    assert re.search(received, caught.value.received)
