"""How long pages take from the disk to the screen, in Chromium.

    python benchmarks/page_load.py [--turns 5] [--rules 1000] [--sites 100]

The pages: the incident report that `fedkg eval --report` writes for RULES rules at SITES sites, the
report of the run in examples/plants, and the playground, if `make playground` has built it. Each
turn is a new browser with an empty profile, in a window of 1280 pixels. A time ends when the page
has painted its first content and fired its load event; of the playground also when the verdicts of
its example are there, and when it lists the first problem of rules with an error. Both need Python
in the browser and have no limit. Wall times: run it while nothing else runs.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from reporting.rows import Row, limit, without_peer

ROOT = Path(__file__).resolve().parents[1]
PLAYGROUND = ROOT / "build/playground/page"
LIMIT_MS = 2000
SHOWN = (
    "Math.max(performance.getEntriesByType('navigation')[0].loadEventEnd,"
    "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? Infinity)"
)
VERDICTS = "document.querySelectorAll('#verdicts tbody tr').length"
PROBLEMS = "document.querySelectorAll('#problems li[data-code]').length"
WRONG_RULES = {"rules.fkg": "signal pressure in bar\nrule hot require pressure <= 80 degC\n"}


def fedkg(*arguments: str | Path, folder: Path) -> None:
    """Run a command; it may report violations."""
    command = [sys.executable, "-m", "fedkg", *map(str, arguments)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode > 1:
        raise SystemExit(done.stderr)


def write_incidents(folder: Path, rules: int, sites: int) -> Path:
    """The incident report of many rules at many sites, with 300 rows each."""
    text = 'timeline step 1 min time column "time"\n'
    text += "".join(f'signal s{i} in bar span 0 .. 10 column "s{i}"\n' for i in range(10))
    for i in range(rules):
        text += f'rule r{i} "Pressure {i % 10} stays below its limit number {i}."\n'
        text += f"  require s{i % 10} <= {6 + i / rules:.4f} bar\n"
    (folder / "rules.fkg").write_text(text, encoding="utf-8")
    rng, described = np.random.default_rng(1), {}
    for site in range(sites):
        values = 5 + np.cumsum(rng.normal(0, 0.1, (300, 10)), axis=0)
        lines = ["time," + ",".join(f"s{i}" for i in range(10))]
        for row, own in enumerate(values.tolist()):
            cells = ",".join(f"{value:.3f}" for value in own)
            lines.append(f"2026-01-01 {row // 60:02d}:{row % 60:02d},{cells}")
        (folder / f"{site}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
        described[f"site{site}"] = {"url": f"{site}.csv"}
    (folder / "sites.yaml").write_text(json.dumps({"sites": described}), encoding="utf-8")
    page = folder / "incidents.html"
    fedkg("eval", "rules.fkg", "--sites", "sites.yaml", "--report", page, folder=folder)
    return page


def write_run_report(folder: Path) -> Path:
    """The report of the plants' job, with its own tables."""
    plants = ROOT / "examples/plants"
    subprocess.run([sys.executable, plants / "make_tables.py"], check=True, capture_output=True)
    fedkg("run", plants / "job.yaml", "--out", folder / "run", folder=ROOT)
    return folder / "run/report.html"


def time_page(url: str, condition: str = "") -> float:
    """Milliseconds until a page is shown in a new browser, or until a condition holds in it."""
    from chromium import chromium

    with chromium() as page:
        page.send(
            "Emulation.setDeviceMetricsOverride",
            width=1280,
            height=900,
            deviceScaleFactor=1,
            mobile=False,
        )
        page.send("Page.navigate", url=url)
        if condition:
            page.wait(condition, patience=300)
            return float(page.run("performance.now()"))
        page.wait(f"{SHOWN} > 0 && {SHOWN} < Infinity")
        return float(page.run(SHOWN))


def measure(turns: int, rules: int, sites: int) -> list[Row]:
    """One row for each page."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        begun = time.monotonic()
        incidents, report = write_incidents(folder, rules, sites), write_run_report(folder)
        print(f"pages written in {time.monotonic() - begun:.0f} s", flush=True)
        pages = {
            f"incident report, {rules:,} rules at {sites} sites, "
            f"{incidents.stat().st_size / 1e6:.1f} MB: until it is shown, ms": incidents,
            f"report of a run, {report.stat().st_size / 1e6:.1f} MB: until it is shown, ms": report,
        }
        rows = [
            limit(claim, [time_page(path.as_uri()) for _ in range(turns)], LIMIT_MS)
            for claim, path in pages.items()
        ]
    shown = "playground: until it is shown, ms"
    if not (PLAYGROUND / "parts.json").is_file():
        return [*rows, without_peer(shown, "not run: needs `make playground`", "")]
    from docs_hook import encode_state

    url = (PLAYGROUND / "index.html").as_uri()
    rows.append(limit(shown, [time_page(url) for _ in range(turns)], LIMIT_MS))
    for claim, address, condition in (
        ("until Python has evaluated its example", url, VERDICTS),
        ("until the first problem is listed", f"{url}#{encode_state(WRONG_RULES)}", PROBLEMS),
    ):
        times = [time_page(address, condition) for _ in range(turns)]
        rows.append(without_peer(f"playground: {claim}, ms", "no limit", "", ours=times))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--rules", type=int, default=1000)
    parser.add_argument("--sites", type=int, default=100)
    options = parser.parse_args()
    # the driver of Chromium, and the state of a page in its address
    sys.path += [str(ROOT / "tests"), str(ROOT / "playground")]
    print(json.dumps(measure(options.turns, options.rules, options.sites)))


if __name__ == "__main__":
    main()
