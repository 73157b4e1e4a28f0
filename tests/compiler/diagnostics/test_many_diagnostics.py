"""A file with very many problems: the first errors are shown, the rest is counted."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import call

from fedkg.authoring import MOST_SHOWN


def test_messages_are_capped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rules = [f"rule r{i} require p <= {i} degC\n" for i in range(MOST_SHOWN + 50)]
    path = tmp_path / "many.fkg"
    path.write_text("signal p in bar\n" + "".join(rules), encoding="utf-8")
    done = call(capsys, "check", str(path))
    assert done.code != 0
    text = done.out + done.err
    assert text.count("error[FKG213]") == MOST_SHOWN
    assert "and 50 more, with --json" in text
    assert f"{MOST_SHOWN + 50} errors" in text
