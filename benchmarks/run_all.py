"""Runs every benchmark in this folder and writes what they print to RESULTS.md."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def claims(output: str) -> list[dict[str, object]]:
    """The JSON object, or list of them, in a benchmark's last line."""
    found = json.loads(output.rstrip().splitlines()[-1])
    return found if isinstance(found, list) else [found]


def claim_line(claim: dict[str, object]) -> str:
    """A claim as a line of a list: its ratio and whether it holds, or why there is no ratio."""
    if claim["ratio"] is None:
        return f"- {claim['claim']}: {claim.get('reason', 'not measured')}"
    return f"- {claim['claim']}: ratio {claim['ratio']}, {'holds' if claim['holds'] else 'does not hold'}"


def main() -> int:
    parts = [f"# Benchmark results\n\nWritten by `make bench` on {platform.platform()}, Python {platform.python_version()}.\n"]
    failed = 0
    for script in sorted(HERE.glob("*.py")):
        if script.name == Path(__file__).name or script.name.startswith("_"):
            continue
        print(f"== {script.name}", flush=True)
        done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, cwd=HERE.parent)
        print(done.stdout + done.stderr, flush=True)
        if done.returncode:
            failed += 1
            parts.append(f"## {script.stem}\n\nfailed with exit code {done.returncode}\n")
            continue
        held = [claim_line(claim) for claim in claims(done.stdout)]
        table = "\n".join(done.stdout.rstrip().splitlines()[:-1])
        parts.append(f"## {script.stem}\n\n" + "\n".join(held) + f"\n\n```\n{table}\n```\n")
    (HERE / "RESULTS.md").write_text("\n".join(parts), encoding="utf-8")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
