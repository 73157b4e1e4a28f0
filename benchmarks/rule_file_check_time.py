"""Time of `fedkg check` on a rule file of 500 lines, in a new process each time.

    python benchmarks/rule_file_check_time.py [--lines 500] [--repeats 7] [--seed 1]

Start-up is included, because a person at an editor waits for it too.

The claim is about *cold* runs: the cache folder is empty, so fedkg knows nothing about the file and
lark builds the parser. *Nothing changed* checks the same file again and reads the verdicts back
from the cache. No other program checks rule files, so
the claim compares with a limit. All runs must report the same errors. The floor is a Python process
that imports what any such command needs: NumPy, pydantic and typer. Before the first measurement,
sources are compiled to byte code once, into a folder of this benchmark, as in an installed package;
PYTHONDONTWRITEBYTECODE is removed from the environment.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from reporting.rows import limit

TARGET_S = 1.5
FLOOR = "import numpy, pydantic, typer"


def rule_file(lines: int, seed: int) -> str:
    """A rule file with this number of lines, seeded, as a plant would have it.

    It contains signals, limits, guarded limits, sums, orders and responses.
    """
    source = random.Random(seed)
    signals = [f"tag_{n}" for n in range(lines // 10)]
    units = ["bar", "kg/h", "degC", "m3/h", "mm"]
    unit = {name: source.choice(units) for name in signals}
    written = ["# A generated plant.", "timeline step 5 min"]
    written += [
        f'signal {name} in {unit[name]} span 0 .. 1000 column "{name.upper()} [{unit[name]}]"'
        for name in signals
    ]
    written.append('output failure in probability span 0 .. 1 column "failure"')
    rules = [
        f"require {source.randint(1, 99)} {unit[name]} <= {name} <= {source.randint(900, 999)}"
        f" {unit[name]}"
        for name in signals
    ]
    while len(rules) < lines:
        one = source.choice(signals)
        other = source.choice([name for name in signals if unit[name] == unit[one] and name != one])
        step = "K" if unit[one] == "degC" else unit[one]
        low, high = (
            source.randint(200, 400) + len(rules) / 1000,
            source.randint(600, 800) + len(rules) / 1000,
        )
        rules.append(
            source.choice(
                [
                    (
                        f"require if {one} >= {high} {unit[one]} and {other} < {low} {unit[other]}"
                        " then failure >= 0.5"
                    ),
                    f"require {one} - {other} <= {high} {step}",
                    f"require failure never falls as {one} rises",
                    (
                        f"require if {one} > {high} {unit[one]} or {other} < {low} {unit[one]} then"
                        " not failure < 0.25"
                    ),
                ]
            )
        )
    for count, rule in enumerate(rules):
        if len(written) + 3 <= lines and source.random() < 0.5:
            written += [
                f'rule rule_{count} "Rule {count}."',
                "  kind capacity  weight 2",
                f"  {rule}",
            ]
        else:
            written.append(f"rule rule_{count}  {rule}")
    return "\n".join(written[:lines]) + "\n"


def run(command: list[str], cache: Path, code: Path) -> tuple[float, str]:
    """Run a command; return its wall time in seconds and its output.

    Byte code is read from the folder `code`.
    """
    surroundings = {
        name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
    }
    surroundings |= {"XDG_CACHE_HOME": str(cache), "PYTHONPYCACHEPREFIX": str(code)}
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, env=surroundings)
    return time.perf_counter() - start, done.stdout


def errors(said: str) -> list[str]:
    """The errors among the diagnostics that `fedkg check --json` prints."""
    return [
        json.dumps(item) for item in json.loads(said)["diagnostics"] if item["severity"] == "error"
    ]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lines", type=int, default=500)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--seed", type=int, default=1)
    choices = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path, known, code = (
            Path(folder) / "plant.fkg",
            Path(folder) / "known",
            Path(folder) / "code",
        )
        path.write_text(rule_file(choices.lines, choices.seed), encoding="utf-8")
        asked = ["check", str(path), "--json"]
        commands = {
            "cold": [sys.executable, "-m", "fedkg", *asked],
            "nothing changed": [sys.executable, "-m", "fedkg", *asked],
            "floor": [sys.executable, "-c", FLOOR],
        }
        said = {name: run(command, known, code)[1] for name, command in commands.items()}["cold"]
        times: dict[str, list[float]] = {name: [] for name in commands}
        for repeat in range(choices.repeats):
            for name, command in commands.items():
                cache = known if name == "nothing changed" else Path(folder) / f"{name}_{repeat}"
                seconds, output = run(command, cache, code)
                times[name].append(seconds)
                if name != "floor" and errors(output) != errors(said):
                    print("the runs disagree on the errors", file=sys.stderr)
                    return 1
    medians = {name: statistics.median(values) for name, values in times.items()}
    print(
        f"fedkg check, {choices.lines} lines, seed {choices.seed}, {choices.repeats} processes"
        " each, alternating"
    )
    print(
        f"{platform.platform()}, Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}"
        f" on {os.cpu_count()} cores"
    )
    print(f"{len(errors(said))} errors, {len(json.loads(said)['diagnostics'])} diagnostics")
    print(f"{'':16} {'median s':>9} {'spread s':>15}")
    for name, values in times.items():
        print(f"{name:16} {medians[name]:9.2f} {min(values):7.2f} .. {max(values):.2f}")
    rows = [
        limit(
            f"fedkg check, {choices.lines} lines, {name}, start-up included, s",
            times[name],
            TARGET_S,
            floor=medians["floor"],
        )
        for name in ("cold", "nothing changed")
    ]
    print(json.dumps(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
