"""The JSON file that FRET exports: requirements, with their variables."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fedkg.errors import RequirementsError

_EXPECTED = 'an object with the lists "requirements" and "variables", as FRET\'s Export writes it'
_HELP = "export requirements and variables as JSON in FRET"


class Semantics(BaseModel):
    """What FRET derived from a text: the formula over the past, without its macros if possible."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    pt: str = ""
    pt_expanded: str = Field(default="", alias="ptExpanded")


class Requirement(BaseModel):
    """One requirement: its identifier and its FRETish text."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    reqid: str
    fulltext: str
    project: str = ""
    semantics: Semantics = Semantics()


class FretVariable(BaseModel):
    """One variable of a component.

    Attributes:
        data_type: boolean, double, integer, ...; "" if nobody set it.
        id_type: Input, Output, Internal, Mode or Function.
        assignment: the definition of an internal variable, in Lustre.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    name: str = Field(alias="variable_name")
    component: str = Field(alias="component_name")
    project: str = ""
    data_type: str = Field(default="", alias="dataType")
    id_type: str = Field(default="", alias="idType")
    assignment: str = ""


class FretExport(BaseModel):
    """The parts of an export that rules are made from."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    requirements: tuple[Requirement, ...]
    variables: tuple[FretVariable, ...] = ()


def read_export(body: bytes, name: str) -> FretExport:
    """Read an export.

    Args:
        body: the bytes of the file. name: its name, for messages.

    Raises:
        RequirementsError: the file is not JSON, or not an export of FRET.
    """
    try:
        document = json.loads(body.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise _not_an_export(name, f"byte {error.start + 1} is not UTF-8") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}: {error.msg}"
        raise _not_an_export(name, f"no JSON; {where}") from None
    except (RecursionError, ValueError):  # nested or numbers with too many digits
        raise _not_an_export(name, "JSON that is nested too deep or has too long numbers") from None
    if isinstance(document, list):
        document = {"requirements": document}
    if not isinstance(document, dict) or not isinstance(document.get("requirements"), list):
        raise _not_an_export(name, _describe(document))
    try:
        return FretExport.model_validate(
            {
                "requirements": document["requirements"],
                "variables": _of_requirements(document.get("variables", [])),
            }
        )
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise _not_an_export(name, f"{where}: {first['msg']}") from None


def _of_requirements(variables: Any) -> Any:
    """The variables of requirements, without the ports of models beside them. `Any`: JSON."""
    if not isinstance(variables, list):
        return variables
    return [one for one in variables if not (isinstance(one, dict) and "idType" not in one)]


def _describe(document: Any) -> str:
    """What a JSON document is instead. `Any`: JSON."""
    if isinstance(document, dict):
        keys = ", ".join(json.dumps(key) for key in list(document)[:8])
        return f"an object with the keys {keys}" if keys else "an empty object"
    return f"JSON of another kind: {json.dumps(document)[:40]}"


def _not_an_export(name: str, received: str) -> RequirementsError:
    return RequirementsError(
        f"{name} is not an export of FRET", expected=_EXPECTED, received=received, help=_HELP
    )
