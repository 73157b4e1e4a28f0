"""Reading and writing `NAME.fkgpack`: a zip of `manifest.json` and `tensors.safetensors`, the same
bytes for the same content.
"""

from __future__ import annotations

import hashlib
import io
import json
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from fedkg.errors import PackError
from fedkg.limits import open_zip, parse_json, read_file, unzip
from fedkg.pack.bank import Bank, MemberTable, TableRows
from fedkg.pack.formulas import Formula
from fedkg.pack.manifest import FORMAT, SECTIONS, Manifest
from fedkg.pack.pack import Pack
from fedkg.pack.validate import check_banks, check_conditions, check_knowledge
from fedkg.pack_bytes import write_pack

MANIFEST = "manifest.json"
TENSORS = "tensors.safetensors"
EPOCH = (1980, 1, 1, 0, 0, 0)
ENCRYPTED = 0x1
RULE_FILES = frozenset(
    {".fkg", ".rq", ".ttl", ".shacl", ".trig", ".nt", ".nq", ".rdf", ".owl", ".jsonld"}
)
"""How the names of files end that a pack is compiled from."""
DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    LookupError,
    ValueError,
    ArithmeticError,
    RuntimeError,  # among them the RecursionError of a manifest nested too deeply
    EOFError,
    OSError,
    MemoryError,
)
"""All that the readers of zip and JSON raise on damaged bytes."""
COLUMNS = {
    "slots": (np.int32, 2),
    "views": (np.int32, 2),
    "params": (np.float64, 2),
    "keys": (np.int32, 2),
    "codes": (np.int32, 2),
    "weight": (np.float64, 1),
    "rule": (np.int32, 1),
    "entity": (np.int32, 1),
    "unit": (np.int32, 1),
}
ARRAY = "array."
"""The prefixes of tensors that do not belong to a bank."""
MEMBERS = {
    "parent": (np.int32, 1),
    "offsets": (np.int64, 1),
    "slots": (np.int32, 2),
    "views": (np.int32, 2),
    "params": (np.float64, 2),
}
"""The tensors of a member table; `parent` holds one number."""
TABLE_ROWS = {
    "own": (np.int32, 1),
    "keys": (np.int32, 2),
    "codes": (np.int32, 2),
    "depths": (np.int32, 1),
}
"""The tensors of a member table that is read in other table rows; `own` holds 0 or 1."""


def pack_digest(pack: Pack) -> str:
    """SHA-256 of what a pack holds, whatever library compresses its file."""
    found = hashlib.sha256()
    for name, body in _contents(pack):
        found.update(f"{name} {len(body)} ".encode() + body)
    return found.hexdigest()


def _contents(pack: Pack) -> tuple[tuple[str, bytes], ...]:
    """Names and bytes of what a pack file consists of."""
    tensors = {
        f"{kind}.{i}.{name}": np.ascontiguousarray(array)
        for kind, banks in (("bank", pack.banks), ("condition", pack.conditions))
        for i, bank in enumerate(banks)
        for name, array in _named(bank)
    } | {
        f"{ARRAY}{name}": np.ascontiguousarray(array) for name, array in sorted(pack.arrays.items())
    }
    from safetensors.numpy import save as save_tensors  # absent in a browser, which writes no packs

    text = json.dumps(
        pack.manifest.model_dump(mode="json"),
        sort_keys=True,
        ensure_ascii=False,
        separators=(",", ":"),
    )
    return (MANIFEST, text.encode()), (TENSORS, save_tensors(tensors))


def pack_bytes(pack: Pack) -> bytes:
    """The bytes of a pack file; equal packs give equal bytes."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for name, body in _contents(pack):
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, body)
    return out.getvalue()


def save(pack: Pack, path: str | Path) -> Path:
    """Write a pack file whole or not at all (temporary file, then rename).

    Raises PackError when the place cannot be written.
    """
    return write_pack(pack_bytes(pack), path)


def load(path: str | Path) -> Pack:
    """Read a pack from its file.

    Raises:
        PackError: the file is missing or damaged, was written by a newer fedkg, or needs an unknown
            section.
        LimitError: the file is larger than a limit of `fedkg.limits`, or expands to more.
    """
    path = Path(path)
    try:
        body = read_file(path)
    except (OSError, ValueError) as error:  # a path with a null character: ValueError
        raise PackError(
            f"cannot read pack {path}",
            received=getattr(error, "strerror", None) or str(error),
            help="check the path; to write a pack: fedkg compile RULES -o NAME.fkgpack"
            if isinstance(error, FileNotFoundError)
            else "check that the path is that of a file which you may read",
        ) from error
    return read_pack(body, name=str(path))


def _advice(name: str) -> str:
    """Advice about a file that is not a pack: compile it if it has rules."""
    if Path(name).suffix.lower() in RULE_FILES:
        return (
            f'rules are compiled: fedkg.compile("{name}"), or `fedkg compile {name} -o'
            " NAME.fkgpack`"
        )
    if Path(name).suffix.lower() not in ("", ".fkgpack"):
        return (
            "check that this is the right file: packs are .fkgpack files, and rule files end with "
            ".fkg; if it is a pack, it is damaged: compile the rules again"
        )
    return "the pack is damaged: compile the rules again"


def read_pack(body: bytes, *, name: str = "pack") -> Pack:
    """The pack in a pack file's bytes; errors contain `name`.

    Raises PackError, and LimitError as `load` does.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load as load_tensors

    try:
        text, raw = _members(body, name)
        document = parse_json(text, f"{name}/{MANIFEST}")
        tensors = load_tensors(raw)
    except (*DAMAGE, SafetensorError) as error:
        reason = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
        raise PackError(
            f"{name} is not a complete constraint pack",
            received=reason or type(error).__name__,
            help=_advice(name),
        ) from error
    _refuse_newer(document, name)
    try:
        manifest = Manifest.model_validate(document)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise PackError(
            f"{name}: manifest field `{where}` is wrong: {first['msg']}",
            help="the pack is damaged: compile the rules again",
        ) from error
    read: set[str] = set()
    banks = tuple(
        _bank(skeleton, tensors, f"bank.{i}", name, read)
        for i, skeleton in enumerate(manifest.skeletons)
    )
    conditions = tuple(
        _bank(skeleton, tensors, f"condition.{i}", name, read)
        for i, skeleton in enumerate(manifest.conditions)
    )
    unread = sorted(
        key for key in tensors if key.startswith(("bank.", "condition.")) and key not in read
    )
    if unread:
        raise PackError(
            f"{name} contains tensors that belong to no rule, `{unread[0]}` first",
            help="the pack is damaged: compile the rules again",
        )
    check_banks(manifest, banks, name)
    check_conditions(manifest, conditions, name)
    arrays = {
        key.removeprefix(ARRAY): array for key, array in tensors.items() if key.startswith(ARRAY)
    }
    check_knowledge(manifest, conditions, arrays, name)
    return Pack(manifest=manifest, banks=banks, conditions=conditions, arrays=arrays)


def _members(body: bytes, name: str) -> tuple[bytes, bytes]:
    with open_zip(body, name) as archive:
        for entry in archive.infolist():
            if (
                entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
                or entry.flag_bits & ENCRYPTED
            ):
                raise zipfile.BadZipFile(
                    f"{entry.filename} is compressed in a way that packs do not use"
                )
        found = unzip(archive, [MANIFEST, TENSORS], name)
        return found[MANIFEST], found[TENSORS]


def _refuse_newer(document: Any, name: str) -> None:
    version = document.get("format") if isinstance(document, dict) else None
    if (
        not isinstance(document, dict)
        or not isinstance(version, int)
        or isinstance(version, bool)
        or version < 1
    ):
        raise PackError(
            f"{name} is not a constraint pack",
            expected="a manifest with a format version",
            help="write a pack first: fedkg compile RULES -o NAME.fkgpack",
        )
    if version > FORMAT:
        raise PackError(
            f"{name} was written by a newer fedkg",
            expected=f"pack format up to {FORMAT}",
            received=f"format {version}",
            help="upgrade fedkg, or compile the rules with this version",
        )
    sections = document.get("sections")
    for section, entry in sections.items() if isinstance(sections, dict) else ():
        version, required = (
            (entry.get("version"), entry.get("required", True))
            if isinstance(entry, dict)
            else (None, True)
        )
        known = SECTIONS.get(section)
        if not required:
            continue
        if not isinstance(version, int):
            raise PackError(
                f"{name}: section `{section}` of the manifest has no version number",
                help="the pack is damaged: compile the rules again",
            )
        if known is None or version > known:
            raise PackError(
                f"{name} needs section `{section}` version {version}, which this fedkg "
                "does not know",
                expected=", ".join(
                    f"{key} up to version {value}" for key, value in SECTIONS.items()
                ),
                help="upgrade fedkg",
            )


def _named(bank: Bank) -> Iterator[tuple[str, NDArray[Any]]]:
    """The bank's tensors by the ends of their names. `Any`: of several types."""
    yield from bank.tensors().items()
    for j, table in enumerate(bank.members):
        yield f"member.{j}.parent", np.array([table.parent], dtype=np.int32)
        for column in MEMBERS:
            if column != "parent":
                yield f"member.{j}.{column}", getattr(table, column)
        if table.table_rows is not None:
            yield f"member.{j}.own", np.array([table.table_rows.own], dtype=np.int32)
            for column in ("keys", "codes", "depths"):
                yield f"member.{j}.{column}", getattr(table.table_rows, column)


def _bank(
    skeleton: Formula, tensors: Mapping[str, NDArray[Any]], prefix: str, name: str, read: set[str]
) -> Bank:
    """Read the bank with tensors that begin with `prefix`; add their names to `read`.

    Raises PackError.

    `Any`: arrays of several types.
    """
    columns = _tensors(tensors, prefix, COLUMNS, name, read)
    members: list[MemberTable] = []
    while f"{prefix}.member.{len(members)}.offsets" in tensors:
        at = f"{prefix}.member.{len(members)}"
        table = _tensors(tensors, at, MEMBERS, name, read)
        wrong = "parent" if table["parent"].shape != (1,) else "offsets"
        if wrong == "parent" or not table["offsets"].shape[0]:
            raise PackError(
                f"{name}: tensor {at}.{wrong} has the wrong shape: {list(table[wrong].shape)}",
                help="the pack is damaged: compile the rules again",
            )
        members.append(
            MemberTable(
                parent=int(table.pop("parent")[0]),
                table_rows=_table_rows(tensors, at, name, read),
                **table,
            )
        )
    return Bank(
        skeleton=skeleton,
        slots=columns["slots"],
        views=columns["views"],
        params=columns["params"],
        keys=columns["keys"],
        codes=columns["codes"],
        weight=columns["weight"],
        rule=columns["rule"],
        entity=columns["entity"],
        unit=columns["unit"],
        members=tuple(members),
    )


def _table_rows(
    tensors: Mapping[str, NDArray[Any]], at: str, name: str, read: set[str]
) -> TableRows | None:
    """Read from which table rows the members called `at` are read; None if the pack does not say.

    Raises PackError.

    `Any`: arrays of several types.
    """
    if not any(f"{at}.{column}" in tensors for column in TABLE_ROWS):
        return None
    found = _tensors(tensors, at, TABLE_ROWS, name, read)
    own = found["own"]
    if own.shape != (1,) or own[0] not in (0, 1):
        raise PackError(
            f"{name}: tensor {at}.own is not 0 or 1",
            help="the pack is damaged: compile the rules again",
        )
    return TableRows(
        own=bool(own[0]), keys=found["keys"], codes=found["codes"], depths=found["depths"]
    )


def _tensors(
    tensors: Mapping[str, NDArray[Any]],
    prefix: str,
    wanted: Mapping[str, tuple[type, int]],
    name: str,
    read: set[str],
) -> dict[str, NDArray[Any]]:
    columns: dict[str, NDArray[Any]] = {}
    for column, (dtype, dimensions) in wanted.items():
        array = tensors.get(f"{prefix}.{column}")
        if array is None or array.dtype != dtype or array.ndim != dimensions:
            found = "is missing" if array is None else f"is {array.dtype} {list(array.shape)}"
            raise PackError(
                f"{name}: tensor {prefix}.{column} {found}",
                expected=f"{np.dtype(dtype)} with {dimensions} dimension{'s' * (dimensions > 1)}",
                help="the pack is damaged: compile the rules again",
            )
        columns[column] = array
        read.add(f"{prefix}.{column}")
    return columns
