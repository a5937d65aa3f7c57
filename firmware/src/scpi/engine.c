#include "engine.h"

#include <string.h>

#include "error.h"
#include "output.h"

static char line[SCPI_LINE];
static size_t length;      /* bytes in it */
static bool complete;      /* it holds a whole program message */
static bool discard;       /* the rest of this line belongs to a message already refused */
static struct slice rest;  /* units of the message not executed yet */
static bool started, running;
static struct unit unit;
static struct call call;
static const struct command *command;
/* Nodes that a header without ':' continues (SCPI-99 volume 1, 6.2.4), and the header made of both. No header of ours is as long. */
static char path[96], full[192];
static size_t path_length;

static void forget(void)
{
    length = 0;
    complete = started = running = false;
}

void scpi_reset_engine(void)
{
    forget();
    discard = false;
    output_clear();
}

bool scpi_ready(void)
{
    return !complete;
}

bool scpi_waiting(void)
{
    return running;
}

void scpi_byte(char c)
{
    if (c == '\n') {
        complete = !discard && length > 0;
        if (!complete)
            length = 0;
        discard = false;
        rest = (struct slice){line, length};
        return;
    }
    if (discard)
        return;
    if (length == SCPI_LINE) {
        scpi_error(SCPI_INPUT_OVERRUN, (struct slice){line, SCPI_ERROR_DETAIL / 2});
        length = 0;
        discard = true;
        return;
    }
    line[length++] = c;
}

static bool find(void)
{
    struct slice header = unit.header;
    bool common = *header.text == '*', rooted = *header.text == ':';
    if (header.length > sizeof path)
        return false;
    if (!common && !rooted && path_length) {
        memcpy(full, path, path_length);
        memcpy(full + path_length, header.text, header.length);
        header = (struct slice){full, path_length + header.length};
    }
    for (unsigned k = 0; k < scpi_command_count; k++) {
        unsigned suffix;
        if (!scpi_match(scpi_commands[k].pattern, header, unit.query, &suffix))
            continue;
        command = &scpi_commands[k];
        call = (struct call){.unit = &unit, .argument = command->argument, .suffix = (uint8_t)(suffix < 255 ? suffix : 255)};
        if (!common) {
            size_t n = header.length;
            while (n && header.text[n - 1] != ':')
                n--;
            size_t colon = n && *header.text == ':'; /* the path does not keep the leading ':' */
            memmove(path, header.text + colon, n - colon);
            path_length = n - colon;
        }
        return true;
    }
    return false;
}

/* Whether each byte of the line is allowed in a message. Quoted strings too are ASCII only. */
static bool printable(void)
{
    for (size_t k = 0; k < length; k++)
        if ((line[k] < ' ' && line[k] != '\t' && line[k] != '\r') || line[k] > '~')
            return false;
    return true;
}

static void end_message(void)
{
    output_end_message();
    forget();
}

bool scpi_step(void)
{
    struct slice where;
    if (!complete || output_room() < OUTPUT_NEEDED)
        return false;
    if (!started) {
        started = true;
        path_length = 0;
        output_begin_message();
        if (!printable()) {
            scpi_error(SCPI_INVALID_CHARACTER, rest);
            end_message();
            return true;
        }
    }
    if (!running) {
        output_begin_unit();
        int result = scpi_lex(&rest, &unit, &where);
        if (result > 0 && !find())
            result = SCPI_UNDEFINED_HEADER;
        else if (result > 0 && unit.count > command->parameters)
            result = SCPI_PARAMETER_NOT_ALLOWED;
        if (result < 0)
            scpi_error(result, result == SCPI_UNDEFINED_HEADER ? unit.header : where);
        if (result <= 0) { /* nothing left, or a command error: the rest cannot be trusted */
            end_message();
            return true;
        }
        running = true;
    }
    if (command->handler(&call) == PENDING && !call.failed && running)
        return output_unit_wrote(); /* if it wrote something it only needs room to go on; otherwise it waits for an event */
    running = false;
    return true;
}
