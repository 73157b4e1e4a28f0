"""Hostile packs, tables and jobs under budgets: `python tests/fuzz/files.py [COUNT] [SEED]`.

Each file goes through a command in a forked child, so that start-up does not count. A child must end by itself, with an error
message and no fault, within `SECONDS` and `BYTES`.
"""

from __future__ import annotations

import gzip
import io
import os
import random
import resource
import signal
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

SECONDS, BYTES = 2.0, 500_000_000
PATIENCE = 4.0
"""Times `SECONDS` that a child gets on a busy machine before it is ended."""


def pack(dice: random.Random) -> bytes:
    """A zip with a manifest and tensors that are too large, too deep or nonsense."""
    count = dice.randint(10_000, 3_000_000)
    bodies = [
        b"{}," * count,
        b"[" * count,
        bytes(20 * count),
        dice.randbytes(1000),
        b'{"format":1}',
    ]
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("manifest.json", dice.choice(bodies))
        archive.writestr("tensors.safetensors", dice.choice(bodies))
    return out.getvalue()


def table(dice: random.Random) -> bytes:
    """A text table, perhaps gzipped, with too many cells, headers or bytes, or none of the columns that the rules read."""
    count = dice.randint(10_000, 300_000)
    bodies = [
        b"a,b\n" + b"0,0\n" * 60 * count,
        b"," * 20 * count,
        b'"' * count,
        b"a," * count + b"\n1\n",
        dice.randbytes(count),
    ]
    body = dice.choice(bodies)
    return gzip.compress(body, 1) if len(body) > 2_000_000 or dice.random() < 0.5 else body


def job(dice: random.Random) -> bytes:
    """A YAML file of aliases, of deep nesting, of many fields or of large numbers."""
    count = dice.randint(1000, 100_000)
    laughs = "a0: &a0 [x]\n" + "".join(
        f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 12)
    )
    texts = [laughs, "a: " + "[" * count, "".join(f"f{i}: 1\n" for i in range(count))]
    texts += [f"training: {{batch: 1e{count % 300}}}", "- " * count, "x" * 10 * count]
    return dice.choice(texts).encode()


KINDS: dict[str, tuple[Callable[[random.Random], bytes], str, tuple[str, ...]]] = {
    "pack": (pack, "hostile.fkgpack", ("inspect",)),
    "table": (table, "hostile.csv", ("eval", "rules.fkg")),
    "job": (job, "job.yaml", ("inspect",)),
}
"""For each kind: its maker, the name of its file, and the command that reads it."""


def tried(arguments: list[str]) -> tuple[int, float, int, str]:
    """Exit code, seconds, most bytes and the messages of a command in a forked child."""
    from fedkg.cli.main import run

    start = time.monotonic()
    child = os.fork()
    if child == 0:
        signal.alarm(int(SECONDS * PATIENCE))
        resource.setrlimit(resource.RLIMIT_AS, (8 * BYTES, 8 * BYTES))
        handle = os.open("messages", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        code = 99
        try:
            run(arguments)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 98
        except BaseException as error:  # noqa: BLE001  a fault, which the parent reports
            os.write(2, repr(error).encode())
        sys.stderr.flush()
        os._exit(code)
    _, status, usage = os.wait4(child, 0)
    said = Path("messages").read_text(encoding="utf-8", errors="replace")
    code = os.waitstatus_to_exitcode(status)
    return code, time.monotonic() - start, usage.ru_maxrss * 1024, said


def main(count: int = 20, seed: int = 0) -> int:
    """Try `count` files of each kind; return how many were not rejected within the budgets."""
    wrong = 0
    os.chdir(tempfile.mkdtemp())
    Path("rules.fkg").write_text('signal p column "p"\nrule low require p <= 3\n')
    Path("p.csv").write_text("p\n1\n")
    import fedkg.jobs.causes.job_file
    import fedkg.tables.parquet  # noqa: F401  start-up is not measured
    from fedkg import authoring

    authoring.check([Path("rules.fkg")])
    for kind, (make, name, command) in KINDS.items():
        slowest, largest = 0.0, 0
        for number in range(count):
            Path(name).write_bytes(make(random.Random(f"{seed} {kind} {number}")))
            code, seconds, most, said = tried([*command, name])
            slowest, largest = max(slowest, seconds), max(largest, most)
            if code not in (1, 2) or "internal error in fedkg" in said or most > BYTES:
                wrong += 1
                cost = f"{seconds:.1f} s, {most / 1e6:.0f} MB"
                print(f"{kind} {number}: code {code}, {cost}: {said[:200]}")  # noqa: T201
        cost = f"slowest {slowest:.1f} s, largest {largest / 1e6:.0f} MB"
        print(f"{kind}: {count} files, {cost}")  # noqa: T201
    return wrong


if __name__ == "__main__":
    sys.exit(bool(main(*map(int, sys.argv[1:]))))
