"""Explanations of syntax errors: where the mistake is, and what to write instead."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from fedkg_compiler.diagnostics.record import Diagnostic
from fedkg_compiler.syntax.explain import (
    clause_slips,
    durations,
    foreign_signs,
    inference_templates,
    member_conditions,
    misplaced_words,
    pasted_characters,
    spoken_comparisons,
    statement_heads,
    statement_parts,
    statement_shape,
)
from fedkg_compiler.syntax.explain.certain_fixes import certain_fix
from fedkg_compiler.syntax.explain.expected_tokens import describe_expected, join_alternatives
from fedkg_compiler.syntax.explain.failure_location import Explanation, ParseFailure, locate_failure
from fedkg_compiler.syntax.explain.indentation_errors import explain_start, indented_statement
from fedkg_compiler.syntax.split import Chunk

# The order matters: the first recogniser that matches explains the error.
RECOGNISERS: tuple[Callable[[ParseFailure], Explanation | None], ...] = (
    statement_shape.unclosed_brace,
    statement_heads.rule_head,
    statement_shape.missing_name,
    statement_parts.waiver_reason,
    statement_heads.template_head,
    statement_heads.example_head,
    statement_heads.quantifier_head,
    clause_slips.clause,
    statement_parts.example_values,
    foreign_signs.number_form,
    foreign_signs.quoted_number,
    pasted_characters.quoted_name,
    pasted_characters.fraction,
    pasted_characters.dashed_range,
    pasted_characters.like_sign,
    pasted_characters.early_tolerance,
    pasted_characters.ellipsis,
    inference_templates.template_of_inference,
    foreign_signs.torn_sign,
    foreign_signs.dashed_comment,
    foreign_signs.unclosed_text,
    misplaced_words.header_spelling,
    misplaced_words.mixed_and_or,
    misplaced_words.misspelt_operator,
    durations.lasting,
    durations.time_behind,
    durations.time_as_condition,
    misplaced_words.late_option,
    misplaced_words.inner_prefix,
    misplaced_words.second_statement,
    member_conditions.aggregate_over_time,
    spoken_comparisons.spoken_range,
    spoken_comparisons.spoken_comparison,
    statement_heads.signal_head,
    statement_parts.bare_option,
    statement_parts.bare_set,
    statement_parts.late_closed,
    statement_parts.knowledge_source,
    statement_parts.range_ends,
    member_conditions.class_list,
    member_conditions.follows_call,
    member_conditions.over_members,
    member_conditions.members_of_values,
    durations.within_behind,
    durations.within_nothing,
    durations.bare_window,
    statement_shape.missing_then,
    durations.signal_as_unit,
    misplaced_words.read_as_name,
    misplaced_words.tolerance_as_within,
    misplaced_words.falling_feature,
    statement_shape.missing_otherwise,
    statement_shape.span_form,
    statement_shape.missing_unit,
    statement_shape.value_not_condition,
    statement_shape.half_window,
    statement_shape.unclosed_bracket,
    statement_shape.closing_nothing,
    statement_shape.number_as_class,
    misplaced_words.misspelt,
    statement_shape.missing_mark,
    foreign_signs.sign,
    misplaced_words.meant,
    statement_shape.missing_require,
    misplaced_words.split_unit,
    statement_shape.condition_not_value,
    statement_shape.window_without_word,
    statement_shape.brace_elsewhere,
    foreign_signs.stranger,
    misplaced_words.side_by_side,
)


def explain(chunk: Chunk) -> Diagnostic:
    """Return the diagnostic of a statement that does not parse."""
    at = locate_failure(chunk)
    for recognise in RECOGNISERS:
        found = recognise(at)
        if found is not None:
            return at.diagnostic(replace(found, fix=found.fix or certain_fix(at, found)))
    return at.diagnostic(_unexpected(at))


def _unexpected(at: ParseFailure) -> Explanation:
    """Return the general explanation: what was read, and what could follow instead."""
    said = describe_expected(at.accepts)
    hint = f"expected {join_alternatives(said)}"
    if not at.at_end:
        return Explanation("FKG002", f"`{at.bad}` is not expected here", hint)
    return Explanation("FKG003", f"the statement ends too early, after `{at.last}`", hint)


__all__ = ["RECOGNISERS", "explain", "explain_start", "indented_statement"]
