"""The pages of `fedkg serve`: the live view, and the review of suggestions, as HTML.

All texts of users are escaped by the templates. The pages load nothing from other hosts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedkg._internal.html_templates import template_environment
from fedkg.operations.run_progress_texts import LEFT_ALIGNED, LiveView

if TYPE_CHECKING:
    from jinja2 import Environment

    from fedkg.jobs.suggestion_reviews import Review
    from fedkg.learned_knowledge_records import Candidate

HERE = Path(__file__).parent
SCRIPT = HERE / "live.js"
STYLES = (HERE.parent / "report" / "style.css", HERE / "live.css")
"""The style of the report, and what the live pages add."""

VIEW, PAGE, SUGGESTIONS = "live_view.html.j2", "live_page.html.j2", "suggestions.html.j2"


def stylesheet() -> bytes:
    """The style of both pages."""
    return b"\n".join(path.read_bytes() for path in STYLES)


def render_view(folder: Path, view: LiveView | None, problem: str) -> str:
    """The part of the live page that changes.

    Args:
        view: the view of the folder; None if there is no run yet.
        problem: why the folder cannot be read; "" if it can.
    """
    return _render(VIEW, folder=str(folder), view=view, problem=problem)


def render_page(folder: Path, body: str, *, may_review: bool) -> str:
    """The live page.

    Args:
        body: the result of `render_view`.
        may_review: whether the page links to the suggestions.
    """
    return _render(PAGE, folder=str(folder), body=body, may_review=may_review)


def render_suggestions(
    folder: Path,
    candidates: Sequence[Candidate],
    reviews: Mapping[str, Review],
    *,
    token: str,
    problem: str,
    entered: Mapping[str, str],
) -> str:
    """The page with a form for each suggestion.

    Args:
        candidates: rules and causes to review.
        reviews: the valid decisions by name.
        token: the secret of this server that every form contains.
        problem: why a decision was not recorded, or why there are no suggestions; "" if neither.
        entered: fields of a rejected form, so that the user need not type them again.
    """
    return _render(
        SUGGESTIONS,
        folder=str(folder),
        candidates=candidates,
        reviews=reviews,
        token=token,
        problem=problem,
        entered=entered,
    )


def _render(template: str, **values: Any) -> str:
    return str(_environment().get_template(template).render(**values))


@cache
def _environment() -> Environment:
    environment = template_environment(HERE, "the live page")
    from markupsafe import Markup

    environment.globals["left_aligned"] = LEFT_ALIGNED
    environment.filters["markup"] = Markup  # of a part that a template of this module rendered
    return environment
