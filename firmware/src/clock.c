/* SYSTem:DATE and TIME: the tick counter and an offset. The rig has no battery: until it is set, time begins at power-on, in 1970. */
#include "handlers.h"
#include "scpi/output.h"
#include "ticks.h"

#define DAY 86400

static int64_t epoch_s; /* Unix time of tick 0 */

static int64_t unix_now(void)
{
    return epoch_s + ticks_now() / TICKS_S;
}

static int32_t today(void)
{
    return (int32_t)(unix_now() / DAY);
}

static int32_t second_of_day(void)
{
    return (int32_t)(unix_now() % DAY);
}

/* Days since 1970-01-01; years that begin in March put the leap day last. */
static int32_t days_of(int32_t year, int32_t month, int32_t day)
{
    year -= month <= 2;
    int32_t era = year / 400, of_era = year % 400;
    int32_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

static void date_of(int32_t days, int32_t *year, int32_t *month, int32_t *day)
{
    days += 719468;
    int32_t era = days / 146097, of_era = days % 146097;
    int32_t y = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    int32_t of_year = of_era - (365 * y + y / 4 - y / 100), m = (5 * of_year + 2) / 153;
    *day = of_year - (153 * m + 2) / 5 + 1;
    *month = m < 10 ? m + 3 : m - 9;
    *year = y + era * 400 + (*month <= 2);
}

enum progress system_set_date(struct call *call)
{
    int32_t year = (int32_t)call_scaled(call, PLAIN, 0, 1970, 2199, 1970), month = (int32_t)call_scaled(call, PLAIN, 0, 1, 12, 1);
    int32_t day = (int32_t)call_scaled(call, PLAIN, 0, 1, 31, 1);
    if (!call->failed)
        epoch_s += (int64_t)(days_of(year, month, day) - today()) * DAY;
    return DONE;
}

enum progress system_get_date(struct call *call)
{
    (void)call;
    int32_t year, month, day;
    date_of(today(), &year, &month, &day);
    put_integer(year);
    put_char(',');
    put_integer(month);
    put_char(',');
    put_integer(day);
    return DONE;
}

enum progress system_set_time(struct call *call)
{
    int32_t hour = (int32_t)call_scaled(call, PLAIN, 0, 0, 23, 0), minute = (int32_t)call_scaled(call, PLAIN, 0, 0, 59, 0);
    int32_t second = (int32_t)call_scaled(call, PLAIN, 0, 0, 59, 0);
    if (!call->failed)
        epoch_s += (hour * 60 + minute) * 60 + second - second_of_day();
    return DONE;
}

enum progress system_get_time(struct call *call)
{
    (void)call;
    int32_t second = second_of_day();
    put_integer(second / 3600);
    put_char(',');
    put_integer(second / 60 % 60);
    put_char(',');
    put_integer(second % 60);
    return DONE;
}

enum progress system_tick(struct call *call)
{
    (void)call;
    put_integer(ticks_now());
    return DONE;
}
