"""Sites files: one file describes the data of every site, so that one rule file fits all of them.

Columns and formats use the vocabulary of W3C CSV on the Web. Names are loaded when they are first
used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedkg.sites.draft import draft_sites
    from fedkg.sites.reader import SiteTable, read_site
    from fedkg.sites.schema import Site, SitesFile
    from fedkg.sites.sites_file import load_sites

__all__ = ["Site", "SiteTable", "SitesFile", "draft_sites", "load_sites", "read_site"]

_HOMES = {
    "draft": ("draft_sites",),
    "reader": ("SiteTable", "read_site"),
    "schema": ("Site", "SitesFile"),
    "sites_file": ("load_sites",),
}
"""The module of each name."""


def __getattr__(name: str) -> Any:
    """The public name `name`; its module is imported now. `Any`: a class or a function."""
    for module, names in _HOMES.items():
        if name in names:
            value = getattr(import_module(f"fedkg.sites.{module}"), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module 'fedkg.sites' has no attribute '{name}'")
