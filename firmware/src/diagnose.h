/* Self-test, registers by address, identity. */
#ifndef DIAGNOSE_H
#define DIAGNOSE_H

/* Aborts a self-test that is under way. */
void diagnose_abort(void);

#endif
