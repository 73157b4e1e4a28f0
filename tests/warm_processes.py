"""Processes that tests kill, forked from one that has imported what they need.

A start takes milliseconds instead of the seconds that PyTorch takes to import.
"""

from __future__ import annotations

import multiprocessing

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(  # one server for all tests: a second list would replace this one
    [
        "fedkg.jobs.runner",
        "fedkg.report",
        "fedkg.deploy.quorum_and_deadline_transport",
        "fedkg.deploy.site_process",
        "fedkg.deploy.site_training",
        "fedkg.federated.algorithms",
    ]
)
