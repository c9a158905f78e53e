//! Libraries that a program loads while it runs. One that is loaded with RTLD_DEEPBIND, as PHP loads
//! its extensions, looks for functions in itself and in its own libraries first, of which the C
//! library is one: its sockets would be the kernel's. So that flag is taken out.
//!
//! `dlopen` looks for a library where its caller's RUNPATH says, and loads it where the caller is, so
//! it is jumped to and finds whom it served before.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::AtomicPtr;

use crate::real;

/// The C library's function; null: it was not looked for yet.
static REAL: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// The flags that are kept.
const KEPT: c_int = !libc::RTLD_DEEPBIND;

/// Finds the C library's function.
extern "C" fn find() -> *mut c_void {
    let found = real::find(&REAL, c"dlopen");
    if found.is_null() { missing as *mut c_void } else { found }
}

/// In the place of a function that the C library does not have.
extern "C" fn missing() -> *mut c_void {
    ptr::null_mut()
}

// The arguments are kept while the function is looked for, and the stack is aligned for that.
#[cfg(target_arch = "x86_64")]
core::arch::global_asm!(
    ".globl clearway_dlopen",
    ".hidden clearway_dlopen",
    ".type clearway_dlopen, @function",
    "clearway_dlopen:",
    ".cfi_startproc",
    "and esi, {kept}",
    "mov rax, [rip + {real}]",
    "test rax, rax",
    "jnz 2f",
    "push rdi",
    "push rsi",
    "sub rsp, 8",
    ".cfi_adjust_cfa_offset 24",
    "call {find}",
    "add rsp, 8",
    "pop rsi",
    "pop rdi",
    ".cfi_adjust_cfa_offset -24",
    "2:",
    "jmp rax",
    ".cfi_endproc",
    kept = const KEPT,
    real = sym REAL,
    find = sym find,
);
#[cfg(target_arch = "aarch64")]
core::arch::global_asm!(
    ".globl clearway_dlopen",
    ".hidden clearway_dlopen",
    ".type clearway_dlopen, @function",
    "clearway_dlopen:",
    ".cfi_startproc",
    "and w1, w1, #{kept}",
    "adrp x16, {real}",
    "ldr x16, [x16, :lo12:{real}]",
    "cbnz x16, 2f",
    "stp x0, x1, [sp, #-32]!",
    ".cfi_adjust_cfa_offset 32",
    "str x30, [sp, #16]",
    ".cfi_offset 30, -16",
    "bl {find}",
    "mov x16, x0",
    "ldr x30, [sp, #16]",
    "ldp x0, x1, [sp], #32",
    ".cfi_adjust_cfa_offset -32",
    ".cfi_restore 30",
    "2:",
    "br x16",
    ".cfi_endproc",
    kept = const KEPT,
    real = sym REAL,
    find = sym find,
);

// SAFETY: the symbol is defined above.
unsafe extern "C" {
    fn clearway_dlopen();
}

/// `dlopen(3)`
///
/// The library shows only symbols that Rust defines, so the one of C's name is a Rust function that
/// has nothing but a jump in it: it keeps no register, and `nostack` leaves the stack as it came.
///
/// # Safety
/// As for the C function of this name.
// SAFETY: it stands in for the function of this name in the C library, with its signature.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C" fn dlopen() -> *mut c_void {
    // SAFETY: registers and stack are as they came, and the other function returns to our caller.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        core::arch::asm!("jmp {inner}", inner = sym clearway_dlopen, options(noreturn, nostack))
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        core::arch::asm!("b {inner}", inner = sym clearway_dlopen, options(noreturn, nostack))
    }
}
