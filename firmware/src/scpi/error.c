#include "error.h"

#include <string.h>

#include "output.h"
#include "status.h"

static struct {
    int16_t number;
    char detail[SCPI_ERROR_DETAIL + 1];
} queue[SCPI_ERROR_QUEUE];
static unsigned oldest, count;

static uint8_t class_bit(int number)
{
    if (number <= -400 && number > -500)
        return ESR_QUERY;
    if (number <= -200 && number > -300)
        return ESR_EXECUTION;
    return number <= -100 && number > -200 ? ESR_COMMAND : ESR_DEVICE;
}

void scpi_error(int number, struct slice about)
{
    status_event(class_bit(number));
    if (count == SCPI_ERROR_QUEUE) {
        unsigned newest = (oldest + count - 1) % SCPI_ERROR_QUEUE;
        queue[newest].number = SCPI_QUEUE_OVERFLOW;
        queue[newest].detail[0] = 0;
        status_event(ESR_DEVICE);
        return;
    }
    unsigned k = (oldest + count++) % SCPI_ERROR_QUEUE;
    size_t length = about.length < SCPI_ERROR_DETAIL ? about.length : SCPI_ERROR_DETAIL;
    queue[k].number = (int16_t)number;
    for (size_t n = 0; n < length; n++) {
        char c = about.text[n];
        queue[k].detail[n] = c < ' ' || c > '~' ? '.' : c == '"' ? '\'' : c;
    }
    while (length && (queue[k].detail[length - 1] == ' ' || queue[k].detail[length - 1] == ';'))
        length--;
    queue[k].detail[length] = 0;
}

void scpi_error_text(int number, const char *about)
{
    scpi_error(number, (struct slice){about, strlen(about)});
}

#define SCPI_ERROR_TEXT(name, number, text) {number, text},
static const struct {
    int16_t number;
    const char *text;
} texts[] = {SCPI_ERRORS(SCPI_ERROR_TEXT)};
#undef SCPI_ERROR_TEXT

static const char *text_of(int number)
{
    for (unsigned k = 0; k < sizeof texts / sizeof *texts; k++)
        if (texts[k].number == number)
            return texts[k].text;
    return "Device-specific error";
}

void scpi_error_next(void)
{
    int number = count ? queue[oldest].number : SCPI_NO_ERROR;
    put_integer(number);
    put_text(",\"");
    put_text(text_of(number));
    if (count) {
        if (queue[oldest].detail[0]) {
            put_char(';');
            put_text(queue[oldest].detail);
        }
        oldest = (oldest + 1) % SCPI_ERROR_QUEUE;
        count--;
    }
    put_char('"');
}

unsigned scpi_error_count(void)
{
    return count;
}

void scpi_error_clear(void)
{
    count = 0;
}
