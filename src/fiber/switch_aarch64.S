/* SPDX-License-Identifier: MIT */
/*
 * fiber/switch_aarch64.S - the context switch for the procedure call standard of AArch64.
 *
 * A stack pointer represents a suspended context.  It points to, lowest address first:
 *
 *     x29  x30  x19 to x28  d8 to d15
 *
 * These are all callee-saved registers; of the vector registers they are the lower halves of v8 to
 * v15.  x18 belongs to the platform and is not touched.  The saved and the resumed context have the
 * same layout, so the unwind information stays valid when the stack pointer changes.  In it d8 has
 * the number 72, d9 73, and so on.
 *
 * The switch ends with ret, although the CPU mispredicts it: with branch target identification
 * (BTI) any other indirect jump would need a landing pad after every call.  Signed return addresses
 * (PAC) stay valid, because stacks do not move and the threads of a process share their keys.  x30
 * is saved unsigned, as in every leaf function.
 */

    .text

/* void *wf_context_switch(void **save, void *resume, void *message) */
    .globl  wf_context_switch
    .hidden wf_context_switch
    .type   wf_context_switch, %function
    .p2align 5
wf_context_switch:
    .cfi_startproc
    hint    #34 /* bti c: allows calls through a pointer; a nop on CPUs without BTI */
    stp     x29, x30, [sp, #-160]!
    .cfi_def_cfa_offset 160
    .cfi_offset x29, -160
    .cfi_offset x30, -152
    stp     x19, x20, [sp, #16]
    .cfi_offset x19, -144
    .cfi_offset x20, -136
    stp     x21, x22, [sp, #32]
    .cfi_offset x21, -128
    .cfi_offset x22, -120
    stp     x23, x24, [sp, #48]
    .cfi_offset x23, -112
    .cfi_offset x24, -104
    stp     x25, x26, [sp, #64]
    .cfi_offset x25, -96
    .cfi_offset x26, -88
    stp     x27, x28, [sp, #80]
    .cfi_offset x27, -80
    .cfi_offset x28, -72
    stp     d8, d9, [sp, #96]
    .cfi_offset 72, -64
    .cfi_offset 73, -56
    stp     d10, d11, [sp, #112]
    .cfi_offset 74, -48
    .cfi_offset 75, -40
    stp     d12, d13, [sp, #128]
    .cfi_offset 76, -32
    .cfi_offset 77, -24
    stp     d14, d15, [sp, #144]
    .cfi_offset 78, -16
    .cfi_offset 79, -8

    mov     x9, sp
    str     x9, [x0]
    mov     sp, x1
    mov     x0, x2

    ldp     d14, d15, [sp, #144]
    ldp     d12, d13, [sp, #128]
    ldp     d10, d11, [sp, #112]
    ldp     d8, d9, [sp, #96]
    ldp     x27, x28, [sp, #80]
    ldp     x25, x26, [sp, #64]
    ldp     x23, x24, [sp, #48]
    ldp     x21, x22, [sp, #32]
    ldp     x19, x20, [sp, #16]
    ldp     x29, x30, [sp], #160
    .cfi_def_cfa_offset 0
    .cfi_restore x29
    .cfi_restore x30
    .cfi_restore x19
    .cfi_restore x20
    .cfi_restore x21
    .cfi_restore x22
    .cfi_restore x23
    .cfi_restore x24
    .cfi_restore x25
    .cfi_restore x26
    .cfi_restore x27
    .cfi_restore x28
    .cfi_restore 72
    .cfi_restore 73
    .cfi_restore 74
    .cfi_restore 75
    .cfi_restore 76
    .cfi_restore 77
    .cfi_restore 78
    .cfi_restore 79
    ret
    .cfi_endproc
    .size   wf_context_switch, . - wf_context_switch

/*
 * The first instruction of a new fiber: x19 is the fiber, x0 the first message, x29 is 0.  It has
 * no caller, and the unwind information says so: a backtrace ends here.  The nop is for unwinders,
 * which use the instruction before a return address.
 */
    .type   before_trampoline, %function
before_trampoline:
    .cfi_startproc
    .cfi_undefined x30
    nop
    .globl  wf_fiber_trampoline
    .hidden wf_fiber_trampoline
    .type   wf_fiber_trampoline, %function
wf_fiber_trampoline:
    mov     x1, x0
    mov     x0, x19
    mov     x30, xzr
    bl      wf_fiber_main
    brk     #1 /* wf_fiber_main does not return */
    .cfi_endproc
    .size   wf_fiber_trampoline, . - wf_fiber_trampoline
    .size   before_trampoline, . - before_trampoline
    .hidden wf_fiber_main

/* The linker enables BTI and PAC for a program only if every object declares support for them. */
#if defined(__ARM_FEATURE_BTI_DEFAULT)
    .section .note.gnu.property, "a"
    .p2align 3
    .word   4          /* length of the name */
    .word   16         /* length of the descriptor */
    .word   5          /* NT_GNU_PROPERTY_TYPE_0 */
    .asciz  "GNU"
    .word   0xc0000000 /* GNU_PROPERTY_AARCH64_FEATURE_1_AND */
    .word   4
    .word   3          /* BTI, PAC */
    .word   0
#endif

    .section .note.GNU-stack, "", %progbits
