"""Sheets that rules quantify over."""
