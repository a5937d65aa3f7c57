/* Declares the handlers named in commands.def: a command is a line there and a function in any module. */
#ifndef HANDLERS_H
#define HANDLERS_H

#include "scpi/engine.h"

#define SECTION(title, text)
#define COMMAND(pattern, handler, argument, parameters, syntax, meaning) enum progress handler(struct call *call);
#define SETTING(pattern, setting, syntax, meaning)
#include "commands.def"
#undef SECTION
#undef COMMAND
#undef SETTING

#endif
