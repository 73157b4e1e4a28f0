/**
 * The rule language of fedkg, for editors.
 *
 * The rules have the names and the order of fkg.lark in fedkg_compiler, which defines the language:
 * change both together. A test parses the same texts with both parsers and compares the trees.
 * `src/scanner.c` lexes what depends on the left edge of the file or on the text that follows.
 */
/// <reference types="tree-sitter-cli/dsl" />
// @ts-check

// `[^\W\d_]` and `\w` of Python. \p{L} alone lacks the insides of ranges such as Han and Hangul.
const LETTER = "\\p{L}\\p{XID_Start}\\p{Nl}\\p{No}";
const WORD = LETTER + "\\p{Nd}_";
const UNIT_LETTER = `[${LETTER}°%‰€℃]`;
const UNIT_WORD = `${UNIT_LETTER}([${WORD}°%‰€℃⁻]|\\^-?[0-9])*`;
const UNIT_PART = `[0-9]*${UNIT_LETTER}([${WORD}°%‰€℃⁻]|\\^?-?[0-9])*`;
const SEPARATOR = "[.·/]";

// The scanner finds these words at the left edge, where a statement begins even if the one above is
// not complete. Elsewhere they are names.
const STATEMENTS = [
  "use", "prefix", "timeline", "rows", "signal", "output", "label", "rule", "constant",
  "template", "infer", "range", "predict", "set", "cause", "example", "shapes", "queries",
];

const begin = ($, word) => alias($["_begin_" + word], word);
const list = (item) => seq(item, repeat(seq(",", item)));

module.exports = grammar({
  name: "fkg",

  word: ($) => $.name,

  extras: ($) => [
    /[\s\u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\x1c-\x1f]/, // `\s` of Python
    $.comment,
  ],

  // In the order of the scanner. It sees each token first, because a comment may precede any.
  externals: ($) => [
    ...STATEMENTS.map((word) => $["_begin_" + word]),
    $.comment,
    $._before_unit,
    $._before_ago,
    $._follows,
    $._closed,
    $._weak,
    $._at_start,
    $._at_end,
    $._never_valid,
  ],

  supertypes: ($) => [$._statement],

  rules: {
    source_file: ($) => repeat($._statement),

    _statement: ($) =>
      choice(
        $.use, $.prefix, $.timeline, $.rows, $.signal, $.label, $.rule, $.template, $.infer,
        $.range, $.predict, $.set, $.cause, $.example, $.load, $.constant,
      ),

    use: ($) => seq(begin($, "use"), optional("rules"), list($.dotted_name)),
    prefix: ($) => seq(begin($, "prefix"), field("name", $.name), ":", $.iri),
    timeline: ($) => seq(begin($, "timeline"), repeat1(choice($.step, $.time, $.trace, $.ends))),
    step: ($) => seq("step", $.quantity),
    time: ($) => seq("time", $.column),
    trace: ($) => seq("trace", $.column),
    ends: ($) => seq("ends", $.name),
    column: ($) => seq("column", $.string),
    rows: ($) => seq(begin($, "rows"), "are", $._term),
    signal: ($) =>
      seq(
        choice(begin($, "signal"), begin($, "output")),
        $.head,
        repeat(choice($.meaning, $.unit_clause, $.bounds, $.column)),
      ),
    meaning: ($) => seq("is", $._term),
    unit_clause: ($) => seq("in", $.unit),
    bounds: ($) => seq("span", $.signed, "..", $.signed),
    label: ($) =>
      seq(begin($, "label"), field("name", $.name), repeat1(choice($.classes, $.column))),
    classes: ($) => seq("classes", $._classes),
    rule: ($) =>
      seq(
        begin($, "rule"),
        field("name", $.name),
        field("title", optional($.string)),
        repeat(choice($.quantifier, $.kind, $.weight, $.hard, $.scope, $.waiver)),
        "require",
        field("condition", $._formula),
      ),
    kind: ($) => seq("kind", $.name),
    weight: ($) => seq("weight", $.number),
    hard: (_) => "hard",
    scope: ($) => seq("scope", $.name),
    waiver: ($) => seq("allow", $.name, "because", $.string),
    constant: ($) => seq(begin($, "constant"), field("name", $.name), "=", $._arith),
    template: ($) =>
      seq(begin($, "template"), field("name", $.name), "(", $.names, ")", "=", $._formula),
    infer: ($) =>
      seq(
        begin($, "infer"), field("name", $.name), optional($.scope), "per", $.name,
        "find", $.variables, "in", $.call,
      ),
    range: ($) =>
      seq(
        begin($, "range"), "knowledge", field("name", $.name), "of", $.name,
        repeat(choice($.quantifier, $.scope)),
        choice(
          seq(repeat1($.allowed), $._allow),
          seq(choice($.in_table, $.in_model), optional($._allow)),
        ),
      ),
    _allow: ($) => seq("otherwise", "allow", $.choice),
    allowed: ($) => seq("when", $._formula, "allow", $.choice),
    choice: ($) =>
      choice(
        "any",
        $._classes,
        seq($.signed, "..", $.signed, optional($._unit)),
        $.between,
      ),
    between: ($) => seq("between", $._arith, "and", $._arith),
    predict: ($) =>
      seq(
        begin($, "predict"), "knowledge", field("name", $.name), "of", $.name,
        repeat(choice($.quantifier, $.scope)),
        choice(repeat1($.predicted), $.in_table, $.in_model),
        optional($._predict),
      ),
    _predict: ($) => seq("otherwise", "predict", $._answer),
    predicted: ($) => seq("when", $._formula, "predict", $._answer),
    _answer: ($) => choice($._arith, alias($.string, $.quoted_class)),
    set: ($) =>
      seq(
        begin($, "set"), field("name", $.name), repeat(choice($.quantifier, $.scope)),
        "keep", $.dotted_name, "in", choice($.call, $.bare),
      ),
    bare: ($) => seq(field("function", $.name), "(", ")"),
    cause: ($) =>
      seq(
        begin($, "cause"), field("name", $.name), $.quantifier,
        "allow", $.variable, "drives", $.variable, optional($.lag),
      ),
    lag: ($) => seq("lag", $.quantity),
    example: ($) =>
      seq(
        begin($, "example"), "of", field("rule", $.name), choice("holds", "fails"),
        "for", $.series, repeat(seq("and", $.series)),
      ),
    series: ($) => seq($.head, "=", choice($.numbers, $.texts)),
    numbers: ($) =>
      seq(
        optional($._unknowns), $.signed, repeat(choice($.signed, "unknown")), optional($._unit),
      ),
    texts: ($) =>
      choice(
        $._unknowns,
        seq(optional($._unknowns), $._class, repeat(choice($._class, "unknown"))),
      ),
    _unknowns: (_) => repeat1("unknown"),
    load: ($) => seq(choice(begin($, "shapes"), begin($, "queries")), $.string),

    quantifier: ($) =>
      seq(
        "for", $.variables,
        choice(seq("where", $.group), $.in_class, $.in_table, $.in_query),
      ),
    in_class: ($) => seq("in", "class", $._term),
    in_table: ($) => seq("in", "table", $.string),
    in_query: ($) => seq("in", "query", $.string),
    in_model: ($) => seq("from", "model", $.string),
    // The compiler keeps the text of a pattern whole; editors colour its terms.
    group: ($) =>
      seq(
        "{",
        repeat(
          choice(
            alias($.group, $.nested), $.variable, $.iri, $.prefixed_name, $.number,
            alias($.name, $.word), alias($._pattern_string, $.string), $._pattern_sign,
          ),
        ),
        "}",
      ),
    variables: ($) => list($.variable),
    names: ($) => list($.name),
    head: ($) => seq(choice($.name, $.quoted), optional(seq("(", $.variable, ")"))),
    _term: ($) => choice($.prefixed_name, $.iri, $.name),
    _classes: ($) => list($._class),
    _class: ($) => choice($.name, $.string),

    // Conditions.
    _formula: ($) =>
      choice($._chain, $.if_then, $.temporal, $.until, $.equivalence, $.only_after),
    if_then: ($) => seq("if", $._formula, "then", $._formula),
    temporal: ($) => seq($._mode, optional($.window), $._formula),
    until: ($) =>
      seq(
        $._chain, optional(alias($._weak, "weak")), choice("until", "since"),
        optional(alias($._closed, "closed")), optional($.window), $._chain,
      ),
    equivalence: ($) => seq($._chain, choice("iff", "xor"), $._chain),
    only_after: ($) =>
      seq($._chain, "only", "after", $._chain, optional(seq("within", $._lasting))),
    _mode: ($) =>
      choice(
        "always", "eventually", "once", "historically", "initially",
        seq(optional(alias($._weak, "weak")), choice("next", "previous")),
      ),
    _chain: ($) => choice($._held, $.all_of, $.any_of),
    all_of: ($) => seq($._held, repeat1(seq("and", $._held))),
    any_of: ($) => seq($._held, repeat1(seq("or", $._held))),
    _held: ($) => choice($.negation, $._atom),
    negation: ($) => seq("not", $._held),
    _atom: ($) =>
      choice(
        seq("(", $._formula, ")"),
        $.compare, $.is_class, $.becomes_class, $.membership, $.monotone,
        $.lasting, $.becomes, $.begins, $.at_edge, $.follows, $.over_members,
      ),
    lasting: ($) => seq($._atom, "for", "at", "least", $._lasting),
    becomes: ($) => seq($._atom, "becomes", "true"),
    begins: ($) => seq($._atom, "begins"),
    at_edge: ($) => choice(alias($._at_start, "at the start"), alias($._at_end, "at the end")),
    follows: ($) => seq(alias($._follows, "follows"), $.call),
    over_members: ($) =>
      seq(
        field("function", $.name), optional(seq("least", $.number)),
        "of", "(", $._formula, ")", "over", $.variable, $._members,
      ),
    compare: ($) =>
      seq($._arith, repeat1(seq($._comparison_sign, $._arith)), optional($.tolerance)),
    _comparison_sign: (_) => choice("<=", "≤", "≥", ">=", "==", "!=", "≠", "<", ">"),
    is_class: ($) => seq($._arith, "is", optional("not"), $._chosen),
    becomes_class: ($) => seq($._arith, "becomes", $._chosen),
    membership: ($) => seq($._member, optional("not"), "in", $._classes),
    monotone: ($) =>
      seq($._arith, "never", choice("falls", "rises"), optional($.per), optional($.as)),
    _chosen: ($) => choice($.name, $.string, $.variable),
    _member: ($) =>
      choice($.reference, $.quoted, $.variable, $.call, alias($.past_member, $.past)),
    past_member: ($) => seq("past", $._member),
    tolerance: ($) => seq(choice("+/-", "+-", "±"), $._arith),
    per: ($) => seq("per", choice($.name, $.quoted)),
    as: ($) => seq("as", $.head, "rises"),
    window: ($) => choice(seq("[", $._arith, ",", $._arith, "]"), seq("within", $._lasting)),
    _lasting: ($) => choice($.quantity, $.variable, $.reference),

    // Values.
    _arith: ($) => choice($._product, $.add, $.subtract),
    add: ($) => seq($._arith, "+", $._product),
    subtract: ($) => seq($._arith, "-", $._product),
    _product: ($) => choice($._factor, $.multiply, $.divide),
    multiply: ($) => seq($._product, "*", $._factor),
    divide: ($) => seq($._product, "/", $._factor),
    _factor: ($) => choice($._power, $.negative),
    negative: ($) => seq("-", $._factor),
    _power: ($) => choice($._lagged, $.raised),
    raised: ($) => seq($._lagged, "^", $.signed),
    _lagged: ($) => choice($._operand, $.ago),
    ago: ($) =>
      seq($._lagged, $._before_ago, $._lasting, "ago", optional(seq("initially", $._initial))),
    _initial: ($) => choice($._operand, alias($.negative_initial, $.negative)),
    negative_initial: ($) => seq("-", $._operand),
    _operand: ($) =>
      choice(
        $.quantity, $.reference, $.quoted, $.call, $.aggregate, $.value_over_time,
        $.condition_over_time, $.variable, $.past, seq("(", $._arith, ")"),
      ),
    reference: ($) => $.name,
    aggregate: ($) =>
      seq(field("function", $.name), "of", $._product, "over", $.variable, $._members),
    value_over_time: ($) => seq(field("function", $.name), "of", $._product, $._span),
    condition_over_time: ($) =>
      seq(field("function", $.name), "of", "(", $._formula, ")", $._span),
    past: ($) => seq("past", $._operand),
    _span: ($) =>
      choice(
        seq("over", choice("last", "next"), $._lasting),
        seq("since", "(", $._formula, ")"),
      ),
    _members: ($) => choice(seq("where", $.group), $.in_class),
    quantity: ($) => seq($.number, optional($._unit)),
    call: ($) => seq(field("function", $.name), "(", list($._argument), ")"),
    _argument: ($) => choice($.named, $._arith),
    named: ($) => seq(field("name", $.name), "=", $._arith),
    signed: ($) => seq(optional("-"), $.number),

    // Tokens.
    _unit: ($) => seq($._before_unit, $.unit),
    comment: (_) => /#[^\n]*/,
    number: (_) => /[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?/,
    // The precedence matters only after an error, where every token is valid.
    unit: (_) =>
      token(
        prec(
          -1,
          new RegExp(
            `(1/)?${UNIT_WORD}(${SEPARATOR}(${UNIT_PART}|` +
              `\\(${UNIT_PART}(${SEPARATOR}${UNIT_PART})*\\)))*`,
          ),
        ),
      ),
    name: (_) => new RegExp(`[${LETTER}_][${WORD}]*`),
    dotted_name: ($) =>
      seq($.name, repeat(seq(token.immediate("."), token.immediate(new RegExp(`[${WORD}]+`))))),
    quoted: (_) => /`[^`\n]+`/,
    variable: (_) => new RegExp(`\\?[${LETTER}_][${WORD}]*`),
    prefixed_name: (_) =>
      new RegExp(`[${LETTER}][${WORD}-]*:([${WORD}.-]*[${WORD}])?`),
    iri: (_) => /<[^<>"{}|^`\\\s]*>/,
    string: (_) => /"([^"\\\n]|\\[^\n])*"/,
    _pattern_string: (_) =>
      token(
        choice(
          /"([^"\\\n]|\\[^\n])*"/,
          /'([^'\\\n]|\\[^\n])*'/,
          /"""([^"]|"[^"]|""[^"])*"""/,
          /'''([^']|'[^']|''[^'])*'''/,
        ),
      ),
    _pattern_sign: (_) => new RegExp(`[^\\s{}"'#${WORD}]`),
  },
});
