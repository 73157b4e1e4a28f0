"""Files and modules of users that cannot be loaded give an error of the job, not a traceback."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from fedkg._internal.user_code import load_object
from fedkg.errors import JobError


@pytest.mark.parametrize(
    ("text", "kind"),
    [("def (", "SyntaxError"), ("1 / 0", "ZeroDivisionError"), ("raise SystemExit(3)", "3")],
)
@pytest.mark.parametrize("as_module", [True, False])
def test_code_that_raises_when_it_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, kind: str, as_module: bool
) -> None:
    file = tmp_path / "broken_user_code.py"
    file.write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    place = file.stem if as_module else str(file)
    with pytest.raises(JobError, match=kind) as caught:
        load_object(f"{place}:Net", "model.path")
    assert str(caught.value).startswith(f"model.path: {place} cannot be")
    assert "runs without an error" in caught.value.help
    sys.modules.pop(file.stem, None)


@pytest.mark.parametrize("path", ["no_such_module_of_fedkg:Net", ".relative:Net", "no_colon"])
def test_a_module_that_does_not_exist(path: str) -> None:
    with pytest.raises(JobError, match="cannot be imported") as caught:
        load_object(path, "model.path")
    assert caught.value.expected == "package.file:Name or file.py:Name"
