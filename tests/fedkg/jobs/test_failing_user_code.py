"""Errors of a user's functions and modules end as messages that name the field and the error."""

from __future__ import annotations

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


class Net(torch.nn.Linear):
    def __init__(self, width):
        super().__init__(5, width)
"""


@pytest.mark.parametrize(
    ("field", "message", "cause"),
    [
        ("data", "data.set: .*:data fails with", "TypeError: .*size"),
        ("algorithm", "path: .*:algorithm fails with the `options` rate", "the rate is not known"),
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
    else:
        place = "no_such_package" if field == "package" else code
        options = {"height": 2}
        fields["model"] = {"kind": "module", "path": f"{place}:Net", "options": options}
    with pytest.raises(JobError, match=message) as caught:
        run_job(fields, out=tmp_path / "run", trust_code=True)
    assert caught.match(cause)
