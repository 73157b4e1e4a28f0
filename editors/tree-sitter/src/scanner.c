// Tokens of the rule language that a regular expression cannot find, because they depend on the
// left edge of the file or on the text that follows. fkg.lark, which defines the language, writes
// the latter as lookaheads. No token contains the spaces before it.

#include "tree_sitter/parser.h"

#include <stdlib.h>

// The order of STATEMENTS in grammar.js.
static const char *const STATEMENTS[] = {
    "use",      "prefix", "timeline", "rows",    "signal", "output", "label",   "rule",
    "constant", "template", "infer",  "range",   "predict", "set",   "cause",   "example",
    "shapes",   "queries",
};
// Words of the language that may follow a number: they are not its unit.
static const char *const AFTER_NUMBER[] = {
    "ago",        "allow",  "always",    "and",   "becomes",  "begins", "ends",  "eventually",
    "for",        "if",     "iff",       "is",    "initially", "historically",   "never",
    "next",       "not",    "once",      "only",  "or",       "otherwise",       "over",
    "past",       "predict", "previous", "since", "step",     "then",   "time",  "trace",
    "unknown",    "until",  "when",      "within", "xor",     NULL,
};
// Further ones that may follow a name: `x in A` has no unit, `5 in` is five inches.
static const char *const AFTER_NAME[] = {
    "column",  "from",  "hard", "in",     "keep", "kind", "least", "of",
    "require", "scope", "span", "weight", NULL,
};
#define COUNT(array) (sizeof(array) / sizeof(*(array)))

// The order of `externals` in grammar.js.
enum {
  FIRST_STATEMENT = 0,
  COMMENT = COUNT(STATEMENTS),
  BEFORE_UNIT,
  BEFORE_AGO,
  FOLLOWS,
  CLOSED,
  WEAK,
  AT_START,
  AT_END,
  NEVER_VALID,
};

#define LONGEST_WORD 15
#define NO_EDGE 255
#define NOT_TRIED (-1)

// The column at which statements begin: the least indentation of any so far. It is not 0 in a text
// that is indented as a whole.
typedef struct {
  unsigned char edge;
} Scanner;

static bool is_space(int32_t c) {
  return c == ' ' || (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x1f) || c == 0x85 ||
         c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
         c == 0x202f || c == 0x205f || c == 0x3000;
}

static bool is_digit(int32_t c) { return c >= '0' && c <= '9'; }

// Whether a character belongs to a word. Beyond ASCII every character does but spaces, punctuation
// and the signs of the language, because `iswalnum` depends on the locale of the editor.
static bool in_word(int32_t c) {
  if (c < 0x80)
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  return !is_space(c) && !(c >= 0x2000 && c <= 0x206f) && !(c >= 0x2200 && c <= 0x22ff) &&
         c != 0xb0 && c != 0xb1 && c != 0xb7 && c != 0xd7 && c != 0xf7 && c != 0x20ac &&
         c != 0x207b;
}

// Whether a unit may begin with a character: a letter, or one of % ° ‰ €.
static bool begins_unit(int32_t c) {
  if (c == '%' || c == 0xb0 || c == 0x2030 || c == 0x20ac) return true;
  return in_word(c) && !is_digit(c) && c != '_';
}

static void advance(TSLexer *lexer) { lexer->advance(lexer, false); }

// Reads a word. The result is "" for a word that no word of the language can be.
static void read_word(TSLexer *lexer, char word[LONGEST_WORD + 1]) {
  unsigned length = 0;
  bool other = false;
  while (in_word(lexer->lookahead)) {
    if (lexer->lookahead >= 0x80 || length == LONGEST_WORD)
      other = true;
    else
      word[length++] = (char)lexer->lookahead;
    advance(lexer);
  }
  word[other ? 0 : length] = '\0';
}

static bool same(const char *one, const char *other) {
  while (*one && *one == *other) one++, other++;
  return *one == *other;
}

static bool one_of(const char *word, const char *const *words) {
  for (; *words; words++)
    if (same(word, *words)) return true;
  return false;
}

// Reads spaces and comments, and returns whether there were any.
static bool read_gap(TSLexer *lexer) {
  bool any = false;
  for (;;) {
    if (lexer->lookahead == '#')
      while (lexer->lookahead != '\n' && !lexer->eof(lexer)) advance(lexer);
    else if (is_space(lexer->lookahead))
      advance(lexer);
    else
      return any;
    any = true;
  }
}

static bool read_next_word(TSLexer *lexer, char word[LONGEST_WORD + 1]) {
  if (!read_gap(lexer)) return false;
  read_word(lexer, word);
  return true;
}

// After `follows`: a name and its parenthesis.
static bool begins_call(TSLexer *lexer) {
  char word[LONGEST_WORD + 1];
  if (!read_gap(lexer) || !in_word(lexer->lookahead) || is_digit(lexer->lookahead)) return false;
  read_word(lexer, word);
  while (is_space(lexer->lookahead)) advance(lexer);
  return lexer->lookahead == '(';
}

// After `closed`: whether it is the name of a signal, which a comparison or an operator follows.
static bool continues_value(TSLexer *lexer) {
  static const char *const WORDS[] = {"is", "in", "never", "of", NULL};
  char word[LONGEST_WORD + 1];
  if (lexer->lookahead == '(') return true;
  read_gap(lexer);
  switch (lexer->lookahead) {
    case '-': case '+': case '*': case '/': case '^': case '<': case '>': case '=': case '!':
    case 0x2264: case 0x2265: case 0x2260: // ≤ ≥ ≠
      return true;
  }
  read_word(lexer, word);
  if (same(word, "not")) return read_next_word(lexer, word) && same(word, "in");
  return one_of(word, WORDS);
}

// The token of a word that is a name unless a certain text follows: NEVER_VALID where it is a name,
// NOT_TRIED for all other words.
static int find_word_with_lookahead(TSLexer *lexer, const bool *valid, const char *word) {
  static const char *const WEAKENED[] = {"until", "since", "next", "previous", NULL};
  char next[LONGEST_WORD + 1];
  if (valid[FOLLOWS] && same(word, "follows")) {
    lexer->mark_end(lexer);
    return begins_call(lexer) ? FOLLOWS : NEVER_VALID;
  }
  if (valid[CLOSED] && same(word, "closed")) {
    lexer->mark_end(lexer);
    return continues_value(lexer) ? NEVER_VALID : CLOSED;
  }
  if (valid[WEAK] && same(word, "weak")) {
    lexer->mark_end(lexer);
    return read_next_word(lexer, next) && one_of(next, WEAKENED) ? WEAK : NEVER_VALID;
  }
  if (valid[AT_START] && same(word, "at")) {
    if (!read_next_word(lexer, next) || !same(next, "the")) return NEVER_VALID;
    if (!read_next_word(lexer, next)) return NEVER_VALID;
    lexer->mark_end(lexer);
    return same(next, "start") ? AT_START : same(next, "end") ? AT_END : NEVER_VALID;
  }
  return NOT_TRIED;
}

// At a number: whether `ago` follows it, or its unit and `ago`.
static bool is_time_ago(TSLexer *lexer) {
  char word[LONGEST_WORD + 1];
  while (is_digit(lexer->lookahead) || lexer->lookahead == '.') advance(lexer);
  if (lexer->lookahead == 'e' || lexer->lookahead == 'E') {
    advance(lexer);
    if (lexer->lookahead == '+' || lexer->lookahead == '-') advance(lexer);
    while (is_digit(lexer->lookahead)) advance(lexer);
  }
  read_gap(lexer);
  read_word(lexer, word);
  if (same(word, "ago")) return true;
  while (!is_space(lexer->lookahead) && lexer->lookahead != '#' && !lexer->eof(lexer))
    advance(lexer);
  return read_next_word(lexer, word) && same(word, "ago");
}

void *tree_sitter_fkg_external_scanner_create(void) {
  Scanner *scanner = malloc(sizeof(Scanner));
  scanner->edge = NO_EDGE;
  return scanner;
}

void tree_sitter_fkg_external_scanner_destroy(void *payload) { free(payload); }

unsigned tree_sitter_fkg_external_scanner_serialize(void *payload, char *buffer) {
  buffer[0] = (char)((Scanner *)payload)->edge;
  return 1;
}

void tree_sitter_fkg_external_scanner_deserialize(
    void *payload, const char *buffer, unsigned length) {
  ((Scanner *)payload)->edge = length ? (unsigned char)buffer[0] : NO_EDGE;
}

bool tree_sitter_fkg_external_scanner_scan(void *payload, TSLexer *lexer, const bool *valid) {
  Scanner *scanner = payload;
  bool first = scanner->edge == NO_EDGE;
  bool new_line = false;
  char word[LONGEST_WORD + 1], next[LONGEST_WORD + 1];

  while (is_space(lexer->lookahead)) {
    new_line |= lexer->lookahead == '\n';
    lexer->advance(lexer, true);
  }
  if ((first || new_line) && (in_word(lexer->lookahead) || lexer->lookahead == '@')) {
    unsigned column = lexer->get_column(lexer);
    if (column < NO_EDGE && column <= scanner->edge) {
      // A new statement, even where the one above is not complete: the error ends there.
      scanner->edge = (unsigned char)column;
      bool at = lexer->lookahead == '@';
      if (at) advance(lexer);
      read_word(lexer, word);
      lexer->mark_end(lexer);
      lexer->result_symbol = NEVER_VALID;
      for (TSSymbol i = 0; i < COUNT(STATEMENTS); i++)
        if (!at && same(word, STATEMENTS[i])) lexer->result_symbol = FIRST_STATEMENT + i;
      return true;
    }
  }
  // After an error every token is valid; then only statements are found here.
  if (valid[NEVER_VALID]) return false;

  // Zero-width tokens end here. The letters of a unit follow, or a duration with `ago`.
  lexer->mark_end(lexer);
  if (is_digit(lexer->lookahead)) {
    if (!valid[BEFORE_UNIT] && !valid[BEFORE_AGO]) return false;
    if (valid[BEFORE_UNIT] && lexer->lookahead == '1') { // 1/min
      advance(lexer);
      if (lexer->lookahead == '/') {
        advance(lexer);
        lexer->result_symbol = BEFORE_UNIT;
        return begins_unit(lexer->lookahead);
      }
    }
    lexer->result_symbol = BEFORE_AGO;
    return valid[BEFORE_AGO] && is_time_ago(lexer);
  }
  if (lexer->lookahead == '?') {
    if (!valid[BEFORE_AGO]) return false;
    advance(lexer);
    read_word(lexer, word);
    lexer->result_symbol = BEFORE_AGO;
    return read_next_word(lexer, next) && same(next, "ago");
  }
  bool unit = valid[BEFORE_UNIT] && begins_unit(lexer->lookahead);
  read_word(lexer, word);
  int found = find_word_with_lookahead(lexer, valid, word);
  if (found != NOT_TRIED) {
    lexer->result_symbol = (TSSymbol)found;
    return found != NEVER_VALID;
  }
  if (unit && !one_of(word, AFTER_NUMBER)) {
    lexer->result_symbol = BEFORE_UNIT;
    return true;
  }
  lexer->result_symbol = BEFORE_AGO;
  return valid[BEFORE_AGO] && !one_of(word, AFTER_NUMBER) && !one_of(word, AFTER_NAME) &&
         read_next_word(lexer, next) && same(next, "ago");
}
