; The words have the classes of the TextMate grammar and the Pygments lexer: words of statements and
; clauses, words within conditions and values. No node has two patterns, because editors differ in
; which one wins. Names of captures are those that Neovim and Helix share.

(comment) @comment
(string) @string
(quoted_class) @string
(number) @constant.numeric @number
(unit) @constant.builtin

[
  "use" "prefix" "timeline" "rows" "signal" "output" "label" "rule" "constant" "template" "infer"
  "range" "predict" "set" "cause" "example" "shapes" "queries"
  "rules" "knowledge"
] @keyword

[
  "allow" "any" "are" "as" "because" "between" "class" "classes" "column" "drives" "ends" "fails"
  "find" "for" "from" "holds" "in" "is" "keep" "kind" "lag" "model" "of" "otherwise" "per" "query"
  "require" "scope" "span" "step" "table" "time" "trace" "unknown" "weight" "when" "where"
  (hard)
] @keyword

[
  "after" "ago" "always" "and" "at" "at the end" "at the start" "becomes" "begins" "closed"
  "eventually" "falls" "follows" "historically" "if" "iff" "initially" "last" "least" "never"
  "next" "not" "once" "only" "or" "over" "past" "previous" "rises" "since" "then" "true" "until"
  "weak" "within" "xor"
] @keyword.operator

["<=" "≤" "≥" ">=" "==" "!=" "≠" "<" ">" "="] @operator
["+" "-" "*" "/" "^" "+/-" "+-" "±" ".."] @operator
["(" ")" "[" "]" "{" "}"] @punctuation.bracket
["," ":" "."] @punctuation.delimiter

(variable) @variable.parameter
(quoted) @variable
(reference (name) @variable)
(head (name) @variable)
(per (name) @variable)
(names (name) @variable.parameter)
(named name: (name) @variable.parameter)

(prefixed_name) @type
(iri) @string.special.url
(meaning (name) @type)
(rows (name) @type)
(in_class (name) @type)

; `sum of`, `all of (...)`, calls and templates.
(_ function: (name) @function)

; What a statement declares, and where an example names its rule.
(rule name: (name) @function)
(template name: (name) @function)
(infer name: (name) @function)
(range name: (name) @function)
(predict name: (name) @function)
(set name: (name) @function)
(cause name: (name) @function)
(example rule: (name) @function)
(label name: (name) @variable)
(constant name: (name) @constant)
(prefix name: (name) @type)

; Classes of a category.
(classes (name) @constant)
(choice (name) @constant)
(texts (name) @constant)
(membership (name) @constant)
(is_class (name) @constant)
(becomes_class (name) @constant)
