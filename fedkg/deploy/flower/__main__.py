"""Run a part of Flower as a child process: `python -m fedkg.deploy.flower superlink|supernode`.

Such a process ends when the process that started it ends, even if that was killed.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import traceback
from pathlib import Path

from fedkg.deploy.child_process import PARENT

CHECK_S = 0.5
"""Seconds between two checks whether the parent is alive."""


def main(arguments: list[str]) -> None:
    """Run the part; see `internals.run_superlink` and `internals.run_supernode`."""
    # Before the imports, which take seconds: the parent may die meanwhile.
    parent = int(os.environ[PARENT])
    threading.Thread(target=_follow_parent, args=(parent,), daemon=True).start()
    from fedkg.deploy.flower.internals import run_superlink, run_supernode

    part, *rest = arguments
    try:
        if part == "superlink":
            run_superlink(rest)
        else:
            runtime, secret, *rest = rest
            run_supernode(rest, runtime, Path(secret))
    except BaseException:
        traceback.print_exc()
        raise
    finally:
        # Flower leaves threads behind that would keep the process, and nobody would start it again.
        sys.stderr.flush()
        os._exit(1)


def _follow_parent(parent: int) -> None:
    """Stop this process when its parent is gone."""
    while os.getppid() == parent:
        time.sleep(CHECK_S)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(10 * CHECK_S)
    os._exit(1)


if __name__ == "__main__":
    main(sys.argv[1:])
