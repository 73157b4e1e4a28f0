"""Pack files: content survives, equal content gives equal bytes, and damage is detected."""

from __future__ import annotations

import io
import json
import math
import random
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from strategies import bank_of, guarded, pack_of, packs
from tries import tries

from fedkg.errors import PackError
from fedkg.pack import (
    FORMAT,
    And,
    Bank,
    Compare,
    Pack,
    Param,
    Slot,
    Sum,
    View,
    load,
    read_pack,
    save,
)
from fedkg.pack.formulas import Call


def equal(left: Pack, right: Pack) -> bool:
    """Whether two packs have the same rules and numbers (NaN equals NaN)."""
    if left.manifest != right.manifest or len(left.banks) != len(right.banks):
        return False
    pairs = [(a.tensors(), b.tensors()) for a, b in zip(left.banks, right.banks, strict=True)]
    return all(
        a.keys() == b.keys() and all(np.array_equal(a[k], b[k], equal_nan=True) for k in a if k)
        for a, b in pairs
    )


def some_pack() -> Pack:
    return pack_of(
        [
            *guarded(45.0).banks,
            bank_of(
                Compare(op="eq", left=Slot(index=0), right=Param(index=0), scale=1),
                [1.5, 2.0],
                [0],
                rows=3,
            ),
        ]
    )


@given(packs())
@tries(30)
def test_what_goes_in_comes_out(pack: Pack) -> None:
    body = pack.to_bytes()
    again = read_pack(body)
    assert equal(again, pack)
    assert again.to_bytes() == body


def test_saved_packs_load(tmp_path: Path) -> None:
    path = save(some_pack(), tmp_path / "plant.fkgpack")
    assert equal(load(path), some_pack())
    assert [p.name for p in tmp_path.iterdir()] == ["plant.fkgpack"]


@pytest.mark.slow
def test_another_process_writes_the_same_bytes() -> None:
    script = (
        "import sys; from strategies import guarded;"
        " sys.stdout.buffer.write(guarded(45.0).to_bytes())"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", script],
            capture_output=True,
            check=True,
            cwd=Path(__file__).parents[2],
            env={"PYTHONHASHSEED": seed},
        )
        for seed in ("1", "2")
    ]
    assert runs[0].stdout == runs[1].stdout == guarded(45.0).to_bytes()


def read_or_refuse(body: bytes) -> None:
    """Reading gives an equal pack or a PackError; any other exception fails the test."""
    try:
        pack = read_pack(body)
    except PackError:
        return
    assert equal(pack, some_pack())


def test_every_truncation_is_rejected() -> None:
    body = some_pack().to_bytes()
    for length in range(len(body)):
        with pytest.raises(PackError):
            read_pack(body[:length])


@pytest.mark.parametrize("mask", [0x01, 0x80, 0xFF, 0x08])
def test_every_flipped_byte_is_refused_or_harmless(mask: int) -> None:
    body = some_pack().to_bytes()
    for position in range(len(body)):
        damaged = bytearray(body)
        damaged[position] ^= mask
        read_or_refuse(bytes(damaged))


def test_random_damage_is_refused_or_harmless() -> None:
    body, dice = some_pack().to_bytes(), random.Random(0)
    for _ in range(2000):
        damaged = bytearray(body)
        for _ in range(dice.randint(1, 8)):
            damaged[dice.randrange(len(damaged))] = dice.randrange(256)
        read_or_refuse(bytes(damaged))
    for _ in range(300):
        start, end = sorted(dice.randrange(len(body)) for _ in range(2))
        read_or_refuse(body[:start] + body[end:])
        read_or_refuse(
            body[:start] + bytes(dice.randrange(256) for _ in range(end - start)) + body[end:]
        )


@pytest.mark.parametrize("body", [b"", b"PK", b"hello", b"\x00" * 4096, b"PK\x05\x06" + bytes(18)])
def test_other_files_are_no_packs(body: bytes) -> None:
    with pytest.raises(PackError, match="constraint pack"):
        read_pack(body, name="thing.fkgpack")


def rewritten(
    change: Callable[[dict[str, Any]], None], stored: dict[str, bytes] | None = None
) -> bytes:
    """The bytes of a pack with a changed manifest, or with replaced members."""
    with zipfile.ZipFile(io.BytesIO(some_pack().to_bytes())) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    document = json.loads(members["manifest.json"])
    change(document)
    members["manifest.json"] = json.dumps(document).encode()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, body in (members | (stored or {})).items():
            archive.writestr(name, body)
    return out.getvalue()


def put(*path: str | int, value: object) -> Callable[[dict[str, Any]], None]:
    """A change that sets `value` at a path of the manifest."""

    def change(document: dict[str, Any]) -> None:
        place: Any = document
        for part in path[:-1]:
            place = place[part]
        place[path[-1]] = value

    return change


POWER = {
    "kind": "compare",
    "op": "le",
    "left": {
        "kind": "power",
        "base": {"kind": "slot", "index": 0, "role": "input"},
        "exponent": math.inf,
    },
    "right": {"kind": "param", "index": 0},
    "scale": 1,
}
NESTED: dict[str, Any] = {"kind": "category_is", "slot": 0, "param": 0}
for _ in range(300):
    NESTED = {"kind": "not", "arg": NESTED}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (put("format", value=FORMAT + 1), "newer fedkg"),
        (put("format", value="1"), "not a constraint pack"),
        (put("format", value=True), "not a constraint pack"),
        (put("format", value=0), "not a constraint pack"),
        (put("sections", "causal", value={"version": 1, "required": True}), "section `causal`"),
        (put("sections", "constraints", value={"version": 99}), "section `constraints` version 99"),
        (put("sections", "constraints", value=7), "section `constraints`"),
        (put("sections", value=[]), "sections"),
        (put("rules", 0, "kind", value="funny"), "rules.0.kind"),
        (put("rules", value=[]), "rule"),
        (put("entities", value=[]), "entity"),
        (put("contract", "columns", value=[]), "bank.0.slots|view"),
        (put("contract", "views", value=[]), "view"),
        (put("contract", "step", value=0.0), "not a length of time"),
        (put("contract", "step", value=-5.0), "not a length of time"),
        (put("contract", "views", 1, "column", value=99), "view 1"),
        (
            put("contract", "columns", 4, "role", value="input"),
            "slot 1 that is not of the kind `output`",
        ),
        (put("skeletons", 1, "right", "index", value=7), "bank.1.params"),
        (put("skeletons", 1, "right", "index", value=-1), "bank.1.params"),
        (put("skeletons", 0, value={"kind": "and", "args": []}), "connective of nothing"),
        (put("skeletons", 0, value=NESTED), "."),
        (put("skeletons", value=[]), "."),
        (put("surprise", value=1), "surprise"),
        (put("rules", 0, "weight", value=math.nan), "rules.0.weight"),
        (put("rules", 0, "weight", value=-1.0), "negative weight"),
        (put("contract", "columns", 0, "span", value=[math.nan, 1.0]), "columns.0.span"),
        (put("contract", "columns", 0, "span", value=[0.0, math.inf]), "columns.0.span"),
        (put("contract", "columns", 0, "span", value=[2.0, 1.0]), "ends before it begins"),
        (put("contract", "views", 1, "delta", value=math.nan), "views.1.delta"),
        (put("skeletons", 0, value=POWER), "skeletons.0"),
    ],
)
def test_wrong_manifests_are_rejected(change: Callable[[dict[str, Any]], None], words: str) -> None:
    with pytest.raises(PackError, match=words):
        read_pack(rewritten(change), name="plant.fkgpack")


def test_an_unknown_section_that_is_not_required_is_passed_over() -> None:
    pack = read_pack(rewritten(put("sections", "plots", value={"version": 3, "required": False})))
    assert pack.rows == some_pack().rows


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"null",
        b"{}",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"format": 1}',
        b'{"format": 1e999}',
    ],
)
def test_manifests_that_are_none_are_rejected(body: bytes) -> None:
    with pytest.raises(PackError):
        read_pack(rewritten(lambda _: None, {"manifest.json": body}))


@pytest.mark.parametrize(
    "body", [b"", b"\x00" * 100, b"\xff" * 8 + b"{}", (2).to_bytes(8, "little") + b"{}"]
)
def test_tensors_that_are_none_are_rejected(body: bytes) -> None:
    with pytest.raises(PackError):
        read_pack(rewritten(lambda _: None, {"tensors.safetensors": body}))


@pytest.mark.parametrize(
    ("field", "array"),
    [
        ("slots", np.array([[99, 0]], np.int32)),
        ("slots", np.array([[-1, 0]], np.int32)),
        ("slots", np.array([[0, 0]], np.int32)),
        ("slots", np.array([[0]], np.int32)),
        ("views", np.array([[9, 0]], np.int32)),
        ("views", np.array([[0]], np.int32)),
        ("keys", np.array([[99]], np.int32)),
        ("keys", np.array([[-2]], np.int32)),
        ("codes", np.array([[1]], np.int32)),
        ("rule", np.array([5], np.int32)),
        ("rule", np.array([0, 0], np.int32)),
        ("entity", np.array([-1], np.int32)),
        ("unit", np.array([2], np.int32)),
        ("params", np.zeros((1, 1))),
        ("params", np.array([[1.0, 0.5, 0.0]])),
        ("params", np.array([[1.0, 0.5, np.nan]])),
        ("params", np.array([[np.inf, 0.5, 1.0]])),
        ("weight", np.array([np.nan])),
        ("weight", np.array([-1.0])),
        ("weight", np.array([np.inf])),
    ],
)
def test_banks_that_point_at_nothing_are_refused(field: str, array: np.ndarray) -> None:
    bank = replace(guarded(1.0).banks[0], **{field: array})
    with pytest.raises(PackError, match="compile the rules again"):
        read_pack(pack_of([bank]).to_bytes())


@pytest.mark.parametrize(
    "left",
    [
        Sum(args=()),
        Call(function="sqrt", args=()),
        Call(function="sqrt", args=(Param(index=0), Param(index=0))),
        Call(function="min", args=()),
    ],
)
def test_terms_with_the_wrong_number_of_parts_are_rejected(left: Any) -> None:
    bank: Bank = bank_of(
        Compare(op="le", left=left, right=Param(index=0), scale=1), [1.0, 1.0], [0]
    )
    with pytest.raises(PackError):
        read_pack(pack_of([bank]).to_bytes())
    with pytest.raises(PackError):
        read_pack(pack_of([replace(bank, skeleton=And(args=(bank.skeleton,)))]).to_bytes())


def test_missing_and_unwritable_places_are_named(tmp_path: Path) -> None:
    with pytest.raises(PackError, match=r"absent\.fkgpack"):
        load(tmp_path / "absent.fkgpack")
    with pytest.raises(PackError, match="cannot read"):
        load(tmp_path)
    with pytest.raises(PackError, match="cannot write"):
        save(some_pack(), tmp_path / "no" / "folder.fkgpack")


def test_a_contract_finds_columns_by_name() -> None:
    contract = some_pack().manifest.contract
    assert contract.index("wear") == 1
    with pytest.raises(KeyError):
        contract.index("nothing")
    assert View().kind == "base"
