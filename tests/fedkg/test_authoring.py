"""`fedkg.compile` and the names of the package."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import fedkg
from fedkg import authoring
from fedkg.errors import FedkgError, MissingExtra, PackError, UsageError

GOOD = 'signal torque in N.m column "Torque [Nm]"\nrule strong require torque <= 70 N.m\n'


def test_a_text_and_a_file_of_it_give_the_same_banks(tmp_path: Path) -> None:
    (tmp_path / "rules.fkg").write_text(GOOD)
    from_file, from_text = fedkg.compile(tmp_path / "rules.fkg"), fedkg.compile(text=GOOD)
    assert from_file.banks[0].hash == from_text.banks[0].hash
    assert fedkg.compile([tmp_path / "rules.fkg"]).to_bytes() == from_file.to_bytes()
    assert fedkg.load(from_file.save(tmp_path / "rules.fkgpack")).to_bytes() == from_file.to_bytes()


def test_an_error_carries_every_diagnostic_and_shows_it() -> None:
    with pytest.raises(fedkg.CompileError) as caught:
        fedkg.compile(text="signal p in bar\nrule a require p <= 80 degC\nrule b require q <= 1\n")
    assert isinstance(caught.value, FedkgError)
    assert [d.severity for d in caught.value.diagnostics] == ["error", "error"]
    assert "2 | rule a require p <= 80 degC" in str(caught.value)
    assert "error[" in str(caught.value)


def test_warnings_of_the_compiler_are_warnings(tmp_path: Path) -> None:
    (tmp_path / "limits.csv").write_text("tag,low\n")
    (tmp_path / "rules.fkg").write_text(
        GOOD + 'rule empty for ?tag, ?low in table "limits.csv" require value(?tag) >= ?low\n'
    )
    with pytest.warns(fedkg.RuleWarning, match="warning\\["):
        pack = fedkg.compile(tmp_path / "rules.fkg")
    assert pack.rows == 1


def test_nothing_to_compile_is_a_wrong_call(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is nothing to compile"):
        fedkg.compile()
    with pytest.raises(UsageError, match="there is no file"):
        fedkg.compile(tmp_path / "nowhere.fkg")


@pytest.mark.parametrize("text", ["rule a require p <= 80 degC", GOOD, "# limits\n" + GOOD * 20])
def test_rules_in_place_of_their_path_are_told_of_text(text: str) -> None:
    with pytest.raises(
        UsageError, match="`paths` contains the rules themselves instead of the path of their file"
    ) as caught:
        fedkg.compile(text)
    assert caught.value.help == 'pass rules as text: fedkg.compile(text="...")'


def test_the_name_of_a_file_is_no_rule_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("rule a.fkg", "rule"):
        Path(name).write_text(GOOD)
        assert fedkg.compile(name).rows == 1
    with pytest.raises(UsageError, match=r"there is no file my rules\.fkg"):
        fedkg.compile("my rules.fkg")


def test_rules_are_no_pack_and_are_compiled(tmp_path: Path) -> None:
    (tmp_path / "rules.fkg").write_text(GOOD)
    with pytest.raises(PackError, match="is not a complete constraint pack") as caught:
        fedkg.load(tmp_path / "rules.fkg")
    assert f'fedkg.compile("{tmp_path / "rules.fkg"}")' in caught.value.help


def test_without_the_compiler_the_missing_part_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("fedkg_compiler")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "fedkg_compiler", None)
    with pytest.raises(MissingExtra, match=r'in a clone .* -e "\.\[compiler\]"'):
        authoring.check(text=GOOD)


def test_a_graph_beside_the_rules_is_no_pack(tmp_path: Path) -> None:
    (tmp_path / "plant.ttl").write_text(
        "<http://x.org/a#A> a <http://www.w3.org/2002/07/owl#Class> .\n"
    )
    (tmp_path / "rules.fkg").write_text(GOOD)
    pack, _ = authoring.load_or_compile([tmp_path / "rules.fkg", tmp_path / "plant.ttl"])
    assert pack.rows == 1


def test_the_public_names() -> None:
    promised = "compile load run columns probability logit scores Pack ConstraintModule FedkgError"
    assert set(promised.split()) <= set(dir(fedkg))
    assert all(getattr(fedkg, name) is not None for name in dir(fedkg))
    with pytest.raises(AttributeError, match="no attribute 'complie'"):
        _ = fedkg.complie


@pytest.mark.slow
def test_star_import_in_a_fresh_process() -> None:
    assert (
        subprocess.run(
            [sys.executable, "-c", "from fedkg import *; compile(text='rule x require 1 <= `a`')"]
        ).returncode
        == 0
    )
