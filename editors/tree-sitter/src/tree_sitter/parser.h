// What the generated parser and the scanner need of tree-sitter: the layout of a language of its
// version 14, and the macros in which the generator writes. Written for fedkg after this interface,
// so that an editor can build the grammar without the generator, which has a header of its own.

#ifndef FEDKG_TREE_SITTER_PARSER_H
#define FEDKG_TREE_SITTER_PARSER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint16_t TSStateId;
typedef uint16_t TSSymbol;
typedef uint16_t TSFieldId;

// The text at the place of the lexer, as the editor passes it.
typedef struct TSLexer TSLexer;
struct TSLexer {
  int32_t lookahead;
  TSSymbol result_symbol;
  void (*advance)(TSLexer *lexer, bool skip);
  void (*mark_end)(TSLexer *lexer);
  uint32_t (*get_column)(TSLexer *lexer);
  bool (*is_at_included_range_start)(const TSLexer *lexer);
  bool (*eof)(const TSLexer *lexer);
};

typedef struct {
  int32_t first;
  int32_t last;
} TSCharacterRange;

typedef struct {
  TSFieldId field_id;
  uint8_t child_index;
  bool inherited;
} TSFieldMapEntry;

typedef struct {
  uint16_t index;
  uint16_t length;
} TSFieldMapSlice;

typedef struct {
  bool visible;
  bool named;
  bool supertype;
} TSSymbolMetadata;

typedef struct {
  uint16_t lex_state;
  uint16_t external_lex_state;
} TSLexMode;

enum { FKG_SHIFT, FKG_REDUCE, FKG_ACCEPT, FKG_RECOVER };

typedef union {
  uint8_t type;
  struct {
    uint8_t type;
    TSStateId state;
    bool extra;
    bool repetition;
  } shift;
  struct {
    uint8_t type;
    uint8_t child_count;
    TSSymbol symbol;
    int16_t dynamic_precedence;
    uint16_t production_id;
  } reduce;
} TSParseAction;

// The number of actions of a cell, before them.
typedef union {
  TSParseAction action;
  struct {
    uint8_t count;
    bool reusable;
  } entry;
} TSParseActionEntry;

typedef struct {
  uint32_t version;
  uint32_t symbol_count;
  uint32_t alias_count;
  uint32_t token_count;
  uint32_t external_token_count;
  uint32_t state_count;
  uint32_t large_state_count;
  uint32_t production_id_count;
  uint32_t field_count;
  uint16_t max_alias_sequence_length;
  const uint16_t *parse_table;
  const uint16_t *small_parse_table;
  const uint32_t *small_parse_table_map;
  const TSParseActionEntry *parse_actions;
  const char *const *symbol_names;
  const char *const *field_names;
  const TSFieldMapSlice *field_map_slices;
  const TSFieldMapEntry *field_map_entries;
  const TSSymbolMetadata *symbol_metadata;
  const TSSymbol *public_symbol_map;
  const uint16_t *alias_map;
  const TSSymbol *alias_sequences;
  const TSLexMode *lex_modes;
  bool (*lex_fn)(TSLexer *lexer, TSStateId state);
  bool (*keyword_lex_fn)(TSLexer *lexer, TSStateId state);
  TSSymbol keyword_capture_token;
  struct {
    const bool *states;
    const TSSymbol *symbol_map;
    void *(*create)(void);
    void (*destroy)(void *scanner);
    bool (*scan)(void *scanner, TSLexer *lexer, const bool *valid);
    unsigned (*serialize)(void *scanner, char *buffer);
    void (*deserialize)(void *scanner, const char *buffer, unsigned length);
  } external_scanner;
  const TSStateId *primary_state_ids;
} TSLanguage;

#define ts_builtin_sym_end 0

// The lexer: a state machine that remembers the longest token so far.
#define START_LEXER()                                                                              \
  bool found = false, skip = false, eof = false;                                                   \
  (void)eof;                                                                                       \
  int32_t lookahead;                                                                               \
  goto look;                                                                                       \
  step:                                                                                            \
  lexer->advance(lexer, skip);                                                                     \
  look:                                                                                            \
  skip = false;                                                                                    \
  lookahead = lexer->lookahead

#define ADVANCE(next)                                                                              \
  {                                                                                                \
    state = next;                                                                                  \
    goto step;                                                                                     \
  }
#define SKIP(next)                                                                                 \
  {                                                                                                \
    skip = true;                                                                                   \
    state = next;                                                                                  \
    goto step;                                                                                     \
  }
// Pairs of a character and the next state.
#define ADVANCE_MAP(...)                                                                           \
  {                                                                                                \
    static const int32_t pairs[] = {__VA_ARGS__};                                                  \
    for (size_t i = 0; i < sizeof(pairs) / sizeof(*pairs); i += 2)                                 \
      if (pairs[i] == lookahead) ADVANCE((TSStateId)pairs[i + 1])                                  \
  }
#define ACCEPT_TOKEN(symbol)                                                                       \
  {                                                                                                \
    found = true;                                                                                  \
    lexer->result_symbol = symbol;                                                                 \
    lexer->mark_end(lexer);                                                                        \
  }
#define END_STATE() return found

// Whether a character is in one of the sorted ranges.
static inline bool set_contains(const TSCharacterRange *ranges, uint32_t count, int32_t c) {
  while (count) {
    uint32_t half = count / 2;
    if (c < ranges[half].first) {
      count = half;
    } else if (c > ranges[half].last) {
      ranges += half + 1;
      count -= half + 1;
    } else {
      return true;
    }
  }
  return false;
}

// The parse table.
#define STATE(id) id
#define SMALL_STATE(id) ((id) - LARGE_STATE_COUNT)
#define ACTIONS(id) id
#define SHIFT(next) {.action = {.shift = {.type = FKG_SHIFT, .state = next}}}
#define SHIFT_REPEAT(next)                                                                         \
  {.action = {.shift = {.type = FKG_SHIFT, .state = next, .repetition = true}}}
#define SHIFT_EXTRA() {.action = {.shift = {.type = FKG_SHIFT, .extra = true}}}
#define REDUCE(name, children, precedence, production)                                             \
  {                                                                                                \
    .action = {                                                                                    \
      .reduce = {                                                                                  \
        .type = FKG_REDUCE,                                                                        \
        .child_count = children,                                                                   \
        .symbol = name,                                                                            \
        .dynamic_precedence = precedence,                                                          \
        .production_id = production,                                                               \
      }                                                                                            \
    }                                                                                              \
  }
#define ACCEPT_INPUT() {.action = {.type = FKG_ACCEPT}}
#define RECOVER() {.action = {.type = FKG_RECOVER}}

#endif
