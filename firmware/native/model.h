/* A model of the registers for the firmware's own tests: it follows docs/registers.md, not the gateware.
 *
 * Simplifications: only the first 4096 conversions of a gate are simulated and then scaled; the totals see a rail without noise; the
 * trigger looks at the rail only when it is armed and when the rail changes; the bus carries only the self-test's commands. */
#ifndef MODEL_H
#define MODEL_H

#include <stdbool.h>
#include <stdint.h>

/* Power-on: every register to its reset value, the EEPROM as it is. `seed` draws gain, offset and noise of the board. */
void model_power_on(uint32_t seed);
/* Restart of the core alone, for `cause` (bits of RESET_CAUSE). */
void model_restart(uint32_t cause);
void model_set_rail(double volts, double amperes);
/* Errors of an otherwise perfect board: relative gain error, offset in codes, noise in codes (RMS). */
void model_set_channel(int channel, double gain_error, double offset_codes);
void model_set_noise(double codes);
void model_set_fine(bool there);
/* Whether devices respond on I2C. */
void model_set_i2c(bool eeprom, bool sensor);
/* For so long the EEPROM does not respond, as while it writes a page. */
void model_set_eeprom_busy(int64_t ns);
void model_set_temperature(double celsius);
void model_set_rail_good(bool possible);
/* Makes a stage of the self-test fail: 1 no records, 2 no step, 4 the step is late by 200 ns, 8 it never ends. */
void model_break_test(unsigned stages);
uint8_t *model_eeprom(void);
/* The page after a power failure interrupted its writing: its first `how` bytes new (0: the old page, 32: the new one), all
 * erased, or old and new bits mixed. false: the EEPROM was not writing. */
enum { TEAR_ERASED = 33, TEAR_WEAK = 34 };
bool model_tear_page(int how);
/* The core stops at the moment of its access number `count` from now; 0: never. `on_i2c`: only bytes sent on I2C are counted.
 * `stop`, if not 0, is called then and must not return. */
void model_stop_at(unsigned count, bool on_i2c, void (*stop)(void));
/* Whether it has stopped; forgets it. */
bool model_take_stop(void);
/* How often the registers were accessed, and I2C_COMMAND written, so far. */
unsigned model_accesses(bool on_i2c);
uint32_t model_peek(unsigned address);
void model_poke(unsigned address, uint32_t value);
/* An edge or event that the trigger may watch: source number and its argument (level, or bit). */
void model_event(unsigned source, unsigned argument);
int64_t model_now(void);
/* hal_wait advances time no further than this. */
void model_limit(int64_t tick);
/* Advances time. */
void model_tick(int64_t ns);
/* Whether the core's interrupt is high. */
bool model_irq(void);
/* Whether the core was asked to restart, or the watchdog bit; forgets it. */
uint32_t model_take_restart(void);

/* The console's other end. The input takes all; the output has room for `model_set_room` bytes that were not taken. */
void model_feed(const char *bytes, unsigned count);
unsigned model_unread(void);
unsigned model_take(char *bytes, unsigned size);
void model_set_room(unsigned bytes);

#endif
