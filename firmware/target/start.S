/* Start and crash of the firmware. There is no interrupt handler: WFI ends with interrupts disabled too. */
#include "registers.h"

    .option arch, +zicsr /* multilibs are named without it */
    .section .start, "ax"
    .globl _start
_start:
    la sp, stack_top
    la t0, crash
    csrw mtvec, t0
    /* external interrupt 0 of VexRiscv's array, for WFI; mstatus.MIE stays 0 */
    li t0, 1
    csrw 0xBC0, t0
    li t0, 0x800
    csrw mie, t0
    la t0, bss_begin
    la t1, bss_end
1:  bgeu t0, t1, 2f
    sw zero, 0(t0)
    addi t0, t0, 4
    j 1b
2:  call main

/* Every exception ends here: it is recorded and the core restarted. The drive's power is held by hardware and stays on. */
    .align 2
crash:
    li t0, WB_BASE
    csrr t1, mcause
    addi t1, t1, 1 /* 0 means none */
    sw t1, 4 * WB_CRASH_CAUSE(t0)
    csrr t1, mepc
    sw t1, 4 * WB_CRASH_PC(t0)
    li t1, WB_RESTART_KEY
    sw t1, 4 * WB_RESTART(t0)
3:  j 3b
