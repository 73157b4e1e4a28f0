"""The HTML report of a run, made from its folder."""

from fedkg.report.page import write_report

__all__ = ["write_report"]
