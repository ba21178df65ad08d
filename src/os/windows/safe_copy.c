/* SPDX-License-Identifier: MIT */
/*
 * Copies of memory that may not be there: an instruction that copies, and a handler of exceptions
 * that goes on behind it if that instruction, and no other, has met missing memory.
 */
#include <errno.h>

#include "os/windows/descriptor.h"

/* Returns 0, or a value that the handler has put into the register of results. Behind the copy
 * nothing depends on how far it came. */
int vipl_copy_or_fault(void *to, const void *from, size_t bytes);
extern const char vipl_copy_instruction[]; /* of that function: the one that copies */
extern const char vipl_copy_end[];         /* of that function: behind it */

#if defined(__x86_64__)
/* The arguments are in rcx, rdx and r8. The function does not use the stack, so that nothing has to
 * be known of it to unwind. */
#define REGISTER(context, name) ((context)->R##name)
__asm__(".text\n"
        ".globl vipl_copy_or_fault\n"
        ".globl vipl_copy_instruction\n"
        ".globl vipl_copy_end\n"
        "vipl_copy_or_fault:\n"
        "    mov %rdi, %r10\n"
        "    mov %rsi, %r11\n"
        "    mov %rcx, %rdi\n"
        "    mov %rdx, %rsi\n"
        "    mov %r8, %rcx\n"
        "    xor %eax, %eax\n"
        "vipl_copy_instruction:\n"
        "    rep movsb\n"
        "vipl_copy_end:\n"
        "    mov %r10, %rdi\n"
        "    mov %r11, %rsi\n"
        "    ret\n");
#elif defined(__i386__)
/* The arguments are on the stack, and names in C begin with an underscore. */
#define REGISTER(context, name) ((context)->E##name)
__asm__(".text\n"
        ".globl _vipl_copy_or_fault\n"
        ".globl _vipl_copy_instruction\n"
        ".globl _vipl_copy_end\n"
        "_vipl_copy_or_fault:\n"
        "    mov %edi, %edx\n"
        "    push %esi\n"
        "    mov 8(%esp), %edi\n"
        "    mov 12(%esp), %esi\n"
        "    mov 16(%esp), %ecx\n"
        "    xor %eax, %eax\n"
        "_vipl_copy_instruction:\n"
        "    rep movsb\n"
        "_vipl_copy_end:\n"
        "    pop %esi\n"
        "    mov %edx, %edi\n"
        "    ret\n");
#else
#error "the copy is written for x86"
#endif

static LONG CALLBACK on_exception(EXCEPTION_POINTERS *what)
{
    CONTEXT *context = what->ContextRecord;
    DWORD code = what->ExceptionRecord->ExceptionCode;
    if (REGISTER(context, ip) != (uintptr_t)vipl_copy_instruction ||
        (code != EXCEPTION_ACCESS_VIOLATION && code != EXCEPTION_IN_PAGE_ERROR &&
         code != EXCEPTION_GUARD_PAGE)) {
        return EXCEPTION_CONTINUE_SEARCH;
    }
    REGISTER(context, ax) = EFAULT;
    REGISTER(context, ip) = (uintptr_t)vipl_copy_end;
    return EXCEPTION_CONTINUE_EXECUTION;
}

static BOOL CALLBACK add_handler(INIT_ONCE *once, void *argument, void **result)
{
    (void)once;
    (void)argument;
    (void)result;
    return AddVectoredExceptionHandler(1, on_exception) != NULL;
}

int vipl_copy_checked(void *to, const void *from, size_t bytes)
{
    static INIT_ONCE added = INIT_ONCE_STATIC_INIT; /* the handler */
    if (!InitOnceExecuteOnce(&added, add_handler, NULL, NULL)) {
        return ENOMEM;
    }
    return vipl_copy_or_fault(to, from, bytes);
}
