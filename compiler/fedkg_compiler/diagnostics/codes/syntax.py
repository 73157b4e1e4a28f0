"""The syntax codes, FKG001 to FKG099."""

from __future__ import annotations

from fedkg_compiler.diagnostics.codes.code import Code
from fedkg_compiler.diagnostics.codes.syntax_checks import CHECKS
from fedkg_compiler.diagnostics.codes.syntax_forms import FORMS
from fedkg_compiler.diagnostics.codes.syntax_words import WORDS

SYNTAX: dict[str, Code] = WORDS | CHECKS | FORMS
