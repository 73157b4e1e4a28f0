"""Explanations of syntax errors: where the mistake is, and what to write instead."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from fedkg_compiler.diagnostics.record import Diagnostic
from fedkg_compiler.frontends.fkg.syntax.explain import (
    clause_value_mistakes,
    declaration_header_errors,
    inference_template_mistakes,
    keyword_mistakes,
    knowledge_and_set_mistakes,
    member_condition_errors,
    misplaced_durations,
    operator_and_punctuation_mistakes,
    pasted_characters,
    statement_shape_mistakes,
    worded_comparison_errors,
)
from fedkg_compiler.frontends.fkg.syntax.explain.certain_fixes import certain_fix
from fedkg_compiler.frontends.fkg.syntax.explain.expected_tokens import (
    describe_expected,
    join_alternatives,
)
from fedkg_compiler.frontends.fkg.syntax.explain.failure_location import (
    Explanation,
    ParseFailure,
    locate_failure,
)
from fedkg_compiler.frontends.fkg.syntax.explain.statement_start_mistakes import (
    explain_start,
    indented_statement,
)
from fedkg_compiler.frontends.fkg.syntax.statement_grammar import Chunk

# The order matters: the first recogniser that matches explains the error.
RECOGNISERS: tuple[Callable[[ParseFailure], Explanation | None], ...] = (
    statement_shape_mistakes.unclosed_brace,
    declaration_header_errors.rule_head,
    statement_shape_mistakes.missing_name,
    clause_value_mistakes.waiver_reason,
    declaration_header_errors.template_head,
    declaration_header_errors.example_head,
    declaration_header_errors.quantifier_head,
    knowledge_and_set_mistakes.clause,
    clause_value_mistakes.example_values,
    operator_and_punctuation_mistakes.number_form,
    operator_and_punctuation_mistakes.quoted_number,
    pasted_characters.quoted_name,
    pasted_characters.fraction,
    pasted_characters.dashed_range,
    pasted_characters.like_sign,
    pasted_characters.early_tolerance,
    pasted_characters.ellipsis,
    inference_template_mistakes.template_of_inference,
    operator_and_punctuation_mistakes.torn_sign,
    operator_and_punctuation_mistakes.dashed_comment,
    operator_and_punctuation_mistakes.unclosed_text,
    keyword_mistakes.header_spelling,
    keyword_mistakes.mixed_and_or,
    keyword_mistakes.misspelt_operator,
    misplaced_durations.lasting,
    misplaced_durations.time_behind,
    misplaced_durations.time_as_condition,
    keyword_mistakes.late_option,
    keyword_mistakes.inner_prefix,
    keyword_mistakes.second_statement,
    member_condition_errors.aggregate_over_time,
    worded_comparison_errors.range_in_words,
    worded_comparison_errors.comparison_in_words,
    declaration_header_errors.signal_head,
    clause_value_mistakes.bare_option,
    clause_value_mistakes.bare_set,
    clause_value_mistakes.late_closed,
    clause_value_mistakes.knowledge_source,
    clause_value_mistakes.range_ends,
    member_condition_errors.class_list,
    member_condition_errors.follows_call,
    member_condition_errors.over_members,
    member_condition_errors.members_of_values,
    misplaced_durations.within_behind,
    misplaced_durations.within_nothing,
    misplaced_durations.bare_window,
    statement_shape_mistakes.missing_then,
    misplaced_durations.signal_as_unit,
    keyword_mistakes.read_as_name,
    keyword_mistakes.tolerance_as_within,
    keyword_mistakes.falling_feature,
    statement_shape_mistakes.missing_otherwise,
    statement_shape_mistakes.span_form,
    statement_shape_mistakes.missing_unit,
    statement_shape_mistakes.value_not_condition,
    statement_shape_mistakes.half_window,
    statement_shape_mistakes.unclosed_bracket,
    statement_shape_mistakes.closing_nothing,
    statement_shape_mistakes.number_as_class,
    keyword_mistakes.misspelt,
    statement_shape_mistakes.missing_mark,
    operator_and_punctuation_mistakes.sign,
    keyword_mistakes.meant,
    statement_shape_mistakes.missing_require,
    keyword_mistakes.split_unit,
    statement_shape_mistakes.condition_not_value,
    statement_shape_mistakes.window_without_word,
    statement_shape_mistakes.brace_elsewhere,
    operator_and_punctuation_mistakes.stranger,
    keyword_mistakes.side_by_side,
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
