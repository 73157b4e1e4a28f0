"""The report of a run: one HTML file, made from the run folder alone."""

from fedkg.report.page import write_report

__all__ = ["write_report"]
