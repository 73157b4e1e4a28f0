"""Watching runs: metrics, trackers, notifications, and a live view of a run folder.

    run ──► events ──► events.jsonl ──► `fedkg watch`
              └──► listeners: Prometheus, TensorBoard and MLflow, notifications

Nothing here changes a result or stops a training, and nothing depends on where the sites are.
"""
