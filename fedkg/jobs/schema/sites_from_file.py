"""The sites of a job from its sites file (`data.sites_file`)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedkg._internal.name_matching import nearest_name
from fedkg.errors import JobError
from fedkg.jobs.schema.data_section import resolve_knowledge_files


def add_sites_of_file(document: dict[str, Any], base: Path) -> dict[str, Any]:
    """The fields of a job with the sites, tables and settings of its sites file.

    A job that lists `sites` trains only these, and its own settings come first. With `data.set`,
    sites get no table and no machines, because all rows become one data set. A job without a sites
    file stays unchanged, and so does the job of a run if its sites file no longer exists.

    Args:
        document: the fields of a job file. `Any`: YAML.
        base: folder of relative paths.

    Raises:
        UsageError, TableError: the sites file cannot be read, or is wrong.
        JobError: the job names a site that the sites file does not describe, or describes its table
            too.
    """
    data = document.get("data")
    path = data.get("sites_file") if isinstance(data, Mapping) else None
    if not isinstance(path, str) or not isinstance(data, Mapping):
        return document
    file = (base / Path(path).expanduser()).resolve()
    listed = document.get("sites")
    if listed and not file.exists():
        return document
    from fedkg.sites import load_sites

    found = load_sites(file).sites
    if isinstance(listed, Mapping):
        named = {str(name): dict(own or {}) for name, own in listed.items()}
    elif isinstance(listed, list):
        named = {str(name): {} for name in listed}
    else:
        named = {name: {} for name in found}
    sites: dict[str, dict[str, Any]] = {}
    for name, own in named.items():
        if name not in found:
            near = nearest_name(name, found)
            raise JobError(
                f"sites.{name}: {file} does not describe this site",
                expected=", ".join(list(found)[:20]),
                help=f"did you mean `{near}`?" if near else "",
            )
        stated = found[name].settings.model_dump(exclude_none=True, exclude_defaults=True)
        if "knowledge" in stated:
            stated["knowledge"] = resolve_knowledge_files(stated["knowledge"], file.parent)
        if data.get("set") is None:
            table = str(Path(found[name].url[0]).resolve())
            twice = [key for key in ("table", "columns") if own.get(key, table) not in (table, {})]
            if twice:
                raise JobError(
                    f"sites.{name}.{twice[0]} and data.sites_file exclude each other",
                    help=f"remove sites.{name}.{twice[0]}: the sites file describes the table",
                )
            stated["table"] = table
        else:
            stated.pop("machines", None)
        sites[name] = {**stated, **own}
    return {**document, "sites": sites, "data": {**data, "sites_file": str(file)}}
