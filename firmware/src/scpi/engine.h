/* Takes bytes, executes program messages unit by unit, outputs responses. Never blocks. */
#ifndef SCPI_ENGINE_H
#define SCPI_ENGINE_H

#include "lexer.h"
#include "number.h"

#define SCPI_LINE 512 /* longest program message, without its newline */

enum progress { DONE, PENDING };

/* A command being executed. */
struct call {
    const struct unit *unit;
    uint8_t argument;   /* of the command table */
    uint8_t taken;      /* parameters taken so far */
    uint8_t suffix;     /* number at the '#' of the pattern, 1 when there is none */
    bool failed;        /* an error was queued; the rest of the command is skipped */
    uint16_t step;      /* 0 at first; the handler's own while it is PENDING */
    int64_t memory;     /* the handler's own */
};

struct command {
    const char *pattern; /* as SCPI writes it: capitals are the short form, [] optional, # a number, ? a query */
    enum progress (*handler)(struct call *call);
    uint8_t argument;
    uint8_t parameters; /* at most */
};
extern const struct command scpi_commands[];
extern const unsigned scpi_command_count;

/* Discards the input, the command under way and unread output. */
void scpi_reset_engine(void);
/* Whether it can take a byte now. */
bool scpi_ready(void);
/* A byte from the controller. */
void scpi_byte(char c);
/* Does the next step; false if there is nothing to do until a byte arrives or the event a command waits for. */
bool scpi_step(void);
/* Whether a command waits. */
bool scpi_waiting(void);

/* For handlers. Parameters are taken in order; after an error each of these does nothing and returns 0 or an empty slice. */
void call_fail(struct call *call, int error);
bool call_has_more(const struct call *call);
const struct parameter *call_take(struct call *call);
/* A number in 10^-scale of the quantity within limits; MIN, MAX, DEF name `low`, `high`, `standard`. */
int64_t call_scaled(struct call *call, enum quantity quantity, int scale, int64_t low, int64_t high, int64_t standard);
uint64_t call_unsigned(struct call *call, uint64_t low, uint64_t high);
bool call_boolean(struct call *call);
/* Index of a word in `choices` ("IMMediate|BUS|..."). */
unsigned call_choice(struct call *call, const char *choices);
struct slice call_string(struct call *call);
/* Writes the short form of choice number `k`. */
void put_choice(const char *choices, unsigned k);

/* Whether `header` is what `pattern` describes; `suffix` gets the number at its '#'. */
bool scpi_match(const char *pattern, struct slice header, bool query, unsigned *suffix);
/* Whether `word` is the mnemonic (of `length`, capitals its short form), short or long. */
bool scpi_is(struct slice word, const char *mnemonic, size_t length);

#endif
