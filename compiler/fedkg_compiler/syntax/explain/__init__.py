"""Why a statement does not parse, said at the place where it was made, with what to write instead."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from fedkg_compiler.diagnostics.record import Diagnostic
from fedkg_compiler.syntax.explain import (
    clauses,
    durations,
    forms,
    headers,
    inferences,
    members,
    pasted,
    shapes,
    signs,
    spoken,
    words,
)
from fedkg_compiler.syntax.explain.edge import explain_start, indented_statement
from fedkg_compiler.syntax.explain.expected import expected, listed
from fedkg_compiler.syntax.explain.fixes import certain_fix
from fedkg_compiler.syntax.explain.offence import Found, Offence, offence
from fedkg_compiler.syntax.split import Chunk

# asked in this order; the first that recognises its mistake speaks
RECOGNISERS: tuple[Callable[[Offence], Found | None], ...] = (
    shapes.unclosed_brace,
    headers.rule_head,
    shapes.missing_name,
    forms.waiver_reason,
    headers.template_head,
    headers.example_head,
    headers.quantifier_head,
    clauses.clause,
    forms.example_values,
    signs.number_form,
    signs.quoted_number,
    pasted.quoted_name,
    pasted.fraction,
    pasted.dashed_range,
    pasted.like_sign,
    pasted.early_tolerance,
    pasted.ellipsis,
    inferences.template_of_inference,
    signs.torn_sign,
    signs.dashed_comment,
    signs.unclosed_text,
    words.mixed_and_or,
    words.misspelt_operator,
    durations.lasting,
    durations.time_behind,
    durations.time_as_condition,
    words.late_option,
    words.inner_prefix,
    words.second_statement,
    members.aggregate_over_time,
    spoken.spoken_range,
    spoken.spoken_comparison,
    headers.signal_head,
    forms.bare_option,
    forms.bare_set,
    forms.late_closed,
    forms.knowledge_source,
    forms.range_ends,
    members.class_list,
    members.follows_call,
    members.over_members,
    members.members_of_values,
    durations.within_behind,
    durations.within_nothing,
    durations.bare_window,
    shapes.missing_then,
    durations.signal_as_unit,
    words.read_as_name,
    words.tolerance_as_within,
    words.falling_feature,
    shapes.missing_otherwise,
    shapes.span_form,
    shapes.missing_unit,
    shapes.value_not_condition,
    shapes.half_window,
    shapes.unclosed_bracket,
    shapes.closing_nothing,
    shapes.number_as_class,
    words.misspelt,
    shapes.missing_mark,
    signs.sign,
    words.meant,
    shapes.missing_require,
    words.split_unit,
    shapes.condition_not_value,
    shapes.window_without_word,
    shapes.brace_elsewhere,
    signs.stranger,
    words.side_by_side,
)


def explain(chunk: Chunk) -> Diagnostic:
    """The one diagnostic of a statement that does not parse."""
    at = offence(chunk)
    for recognise in RECOGNISERS:
        found = recognise(at)
        if found is not None:
            return at.diagnostic(replace(found, fix=found.fix or certain_fix(at, found)))
    return at.diagnostic(_unexpected(at))


def _unexpected(at: Offence) -> Found:
    """What is said where no recogniser knows better."""
    said = expected(at.accepts)
    hint = f"expected {listed(said)}"
    if not at.ended:
        return Found("FKG002", f"`{at.bad}` is not expected here", hint)
    return Found("FKG003", f"the statement ends too early, after `{at.last}`", hint)


__all__ = ["RECOGNISERS", "explain", "explain_start", "indented_statement"]
