/* SPDX-License-Identifier: MIT */
/*
 * fiber/switch_x86_64.S - the context switch for the System V ABI of x86-64.
 *
 * A stack pointer represents a suspended context.  It points to, lowest address first:
 *
 *     r15  r14  r13  r12  rbx  rbp  resume
 *
 * These are all callee-saved registers and the address to resume at.  The floating point control
 * words are callee-saved too: see wf_fiber_keep_fp_control.  The saved and the resumed context have
 * the same layout, so the unwind information stays valid when the stack pointer changes in between.
 *
 * The switch ends with a jump, not with ret: the CPU predicts that a ret returns to the last call,
 * and a switch never does.  A switch between two alternating fibers takes 2.2 ns with the jump and
 * 11 to 18 ns with ret.
 *
 * Shadow stacks (CET) would forbid both.  This object does not declare support for them, so the
 * linker does not declare it for the program either, and the kernel leaves them disabled.
 */

    .text

/* void *wf_context_switch(void **save, void *resume, void *message) */
    .globl  wf_context_switch
    .hidden wf_context_switch
    .type   wf_context_switch, @function
    .p2align 5
wf_context_switch:
    .cfi_startproc
    pushq   %rbp
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset rbp, 0
    pushq   %rbx
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset rbx, 0
    pushq   %r12
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset r12, 0
    pushq   %r13
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset r13, 0
    pushq   %r14
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset r14, 0
    pushq   %r15
    .cfi_adjust_cfa_offset 8
    .cfi_rel_offset r15, 0

    movq    %rsp, (%rdi)
    movq    %rsi, %rsp
    movq    %rdx, %rax

    popq    %r15
    .cfi_adjust_cfa_offset -8
    .cfi_restore r15
    popq    %r14
    .cfi_adjust_cfa_offset -8
    .cfi_restore r14
    popq    %r13
    .cfi_adjust_cfa_offset -8
    .cfi_restore r13
    popq    %r12
    .cfi_adjust_cfa_offset -8
    .cfi_restore r12
    popq    %rbx
    .cfi_adjust_cfa_offset -8
    .cfi_restore rbx
    popq    %rbp
    .cfi_adjust_cfa_offset -8
    .cfi_restore rbp
    popq    %rcx
    .cfi_adjust_cfa_offset -8
    .cfi_register rip, rcx
    jmp     *%rcx
    .cfi_endproc
    .size   wf_context_switch, . - wf_context_switch

/*
 * The first instruction of a new fiber: rbx is the fiber, rax the first message, rsp a multiple of
 * 16.  It has no caller, and the unwind information says so: a backtrace ends here, also one by
 * frame pointers (rbp is 0).  The nop is for unwinders, which use the byte before a return address.
 */
    .type   before_trampoline, @function
before_trampoline:
    .cfi_startproc
    .cfi_undefined rip
    nop
    .globl  wf_fiber_trampoline
    .hidden wf_fiber_trampoline
    .type   wf_fiber_trampoline, @function
wf_fiber_trampoline:
    movq    %rbx, %rdi
    movq    %rax, %rsi
    call    wf_fiber_main
    ud2     /* wf_fiber_main does not return */
    .cfi_endproc
    .size   wf_fiber_trampoline, . - wf_fiber_trampoline
    .size   before_trampoline, . - before_trampoline
    .hidden wf_fiber_main

    .section .note.GNU-stack, "", @progbits
