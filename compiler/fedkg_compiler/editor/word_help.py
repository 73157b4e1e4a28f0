"""What the words of the rule language mean, in one sentence each, for hovers and completions."""

from __future__ import annotations

STATEMENTS = {
    "use": "Load an ontology of the catalogue, a graph beside this file, or rules of the library.",
    "prefix": "Abbreviate the start of IRIs: `prefix plant: <https://example.org/plant#>`.",
    "timeline": "The step between rows, the time column, the column that tells traces apart.",
    "rows": "The class of the table rows: `rows are plant:Part`.",
    "signal": "A measured column, with its unit and span.",
    "output": "A column that the model predicts.",
    "label": "A column with classes that the model predicts.",
    "rule": "A condition that must be satisfied.",
    "constant": "A number with a name.",
    "template": "A condition with parameters, for `follows`.",
    "infer": "Find the parameters of a template in each client's data.",
    "range": "Knowledge about the answers that are allowed.",
    "predict": "Knowledge about the answer.",
    "set": "A set that the parameters or predictions of a client stay in.",
    "cause": "Which client may drive which.",
    "example": "Values on which a rule must hold or fail.",
    "shapes": "Load SHACL shapes from files.",
    "queries": "Load SPARQL violation queries from files.",
}
"""The words that begin a statement."""

CLAUSES = {
    "require": "The condition of the rule.",
    "for": "What the rule ranges over: a pattern, a class, a sheet or a query.",
    "kind": "The family of the rule for SCFA: `physical`, `temporal`, `causal` or `other`.",
    "weight": "How much the rule counts, 1 by default.",
    "hard": "The rule must always be satisfied: fedkg corrects answers that violate it.",
    "scope": "Who receives the rule: `public`, `server` or `client`.",
    "allow": "Suppress one warning of this rule, with a reason.",
    "span": "The usual range of values: `span 0 .. 20`.",
    "column": "The header of the column in the table.",
    "classes": "The classes of a label, separated by commas.",
}
"""The words that begin a clause."""

OPERATORS = {
    "if": "`if A then B` is satisfied where A is false.",
    "then": "The consequence of `if`.",
    "and": "Both conditions are satisfied.",
    "or": "At least one condition is satisfied.",
    "not": "The condition is false.",
    "iff": "Both conditions are true or both are false.",
    "xor": "Exactly one condition is true.",
    "always": "The condition is true at every later step (of the window).",
    "eventually": "The condition is true at some later step (of the window).",
    "once": "The condition was true at some earlier step (of the window).",
    "historically": "The condition was true at every earlier step (of the window).",
    "until": "The left condition is true until the right one is.",
    "since": "The left condition has been true since the right one was.",
    "next": "The condition is true at the next step.",
    "previous": "The condition was true at the step before.",
    "within": "The window from now on, with its length.",
    "never": "`x never falls`: each value is at least the one before it.",
    "follows": "The condition of a template.",
    "ago": "An earlier value: `x 10 min ago`.",
    "past": "The observed value at the step before.",
    "becomes": "`c becomes true`: c is true and was not at the step before.",
    "begins": "As `becomes`, and true at the first step if c is true there.",
    "over": "The window of a number over time, or the members of a sum.",
    "mean": "`mean of x over last 1 h`.",
    "sum": "`sum of x over last 1 h`, or over members.",
    "min": "The smallest of values, steps or members.",
    "max": "The largest of values, steps or members.",
    "count": "The number of steps or members with a true condition.",
    "share": "The number of steps with a true condition, divided by all steps.",
    "rate": "The change of a value divided by the time.",
    "duration": "The time for which a condition is true.",
    "starts": "How often a condition becomes true.",
    "value": "The column that a sheet names: `value(?tag)`.",
    "probability": "The probability of classes: `probability(grade, A, B)`.",
}
"""The words within conditions and values."""

WORDS = {**OPERATORS, **CLAUSES, **STATEMENTS}
