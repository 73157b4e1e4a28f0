"""A run that kills itself at the n-th write of a file or of its log."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fedkg.report
from fedkg.jobs import run_job
from fedkg.jobs.checksum_log import RunLog
from fedkg.jobs.folder import RunFolder

_written = 0


def run_and_die(job: Path, out: Path, moment: int, part: float) -> None:
    """Run a job in this process until it writes for the n-th time.

    Args:
        job: the job file.
        out: the run folder.
        moment: n.
        part: share of the content that is still written; 1: the write is complete.
    """

    def dying(write: Callable[..., Any], tear: Callable[..., None]) -> Callable[..., Any]:
        def wrapped(self: Any, *content: Any, **options: Any) -> Any:
            global _written
            _written += 1
            own = _written
            if own == moment and part < 1:
                tear(self, *content)
                os.kill(os.getpid(), signal.SIGKILL)
            result = write(self, *content, **options)
            if own == moment:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return wrapped

    def tear_file(self: RunFolder, name: str, content: Any, **options: Any) -> None:
        body = content if isinstance(content, bytes) else b"torn,line,without end"
        place = self.path / (name if isinstance(content, list) else name + ".part")
        with place.open("ab") as handle:
            handle.write(body[: int(len(body) * part)])

    def tear_log(self: RunLog, states: Any) -> None:
        with self.path.open("ab") as handle:
            handle.write(b'{"file": "rounds'[: int(16 * part)])

    changed: Any = (RunFolder, RunLog, fedkg.report)
    folder, log, report = changed
    folder.append = dying(RunFolder.append, tear_file)
    folder.write_bytes = dying(RunFolder.write_bytes, tear_file)
    log.add = dying(RunLog.add, tear_log)
    report.write_report = lambda folder: Path(folder) / "report.html"
    run_job(job, out=out)
