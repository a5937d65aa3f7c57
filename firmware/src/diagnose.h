/* Self-test, registers by address, identity. */
#ifndef DIAGNOSE_H
#define DIAGNOSE_H

#include "scpi/engine.h"

/* Ends a self-test that is under way. */
void diagnose_abort(void);
enum progress diagnose_test(struct call *call);
enum progress diagnose_skew(struct call *call);
enum progress diagnose_set_register(struct call *call);
enum progress diagnose_get_register(struct call *call);
enum progress diagnose_set_identity(struct call *call);

#endif
