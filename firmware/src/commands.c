/* The command table, generated from commands.def. */
#include "handlers.h"
#include "meter_commands.h"
#include "settings.h"
#include "store.h"

#define SECTION(title, text)
#define COMMAND(pattern, handler, argument, parameters, syntax, meaning) {pattern, handler, argument, parameters},
#define SETTING(pattern, setting, syntax, meaning)          \
    {pattern, setting_set, SETTING_##setting, 1},           \
    {pattern "?", setting_get, SETTING_##setting, 1},
const struct command scpi_commands[] = {
#include "commands.def"
};
const unsigned scpi_command_count = sizeof scpi_commands / sizeof *scpi_commands;
