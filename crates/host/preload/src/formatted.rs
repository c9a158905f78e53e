//! `dprintf(3)` and its like over a socket: since glibc 2.37 the C library writes what they format by
//! an instruction of its own.

use std::ffi::{c_char, c_int, c_void};
use std::mem::ManuallyDrop;

use libc::{size_t, ssize_t};

use crate::object::TABLE;
use crate::{real, stdio};

/// `va_list`, as functions take one: the address of this.
#[cfg(target_arch = "x86_64")]
type List = [u64; 3];
#[cfg(target_arch = "aarch64")]
type List = [u64; 4];

/// Formats of up to this length need no memory.
const SHORT: usize = 1024;

// SAFETY: the signature is the C library's, where `va_list` is an array or passed by reference.
unsafe extern "C-unwind" {
    fn vsnprintf(into: *mut c_char, room: size_t, format: *const c_char, list: *mut List) -> c_int;
}

/// `vdprintf(3)`
///
/// # Safety
/// As for the C function of this name.
// SAFETY: it stands in for the function of this name in the C library, with its signature.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C-unwind" fn vdprintf(
    fd: c_int,
    format: *const c_char,
    list: *mut c_void,
) -> c_int {
    if !TABLE.has(fd) {
        // SAFETY: the caller's own arguments.
        return unsafe { real::vdprintf(fd, format, list) };
    }
    // SAFETY: the list is the caller's, and the C library reads it once for each copy; there is so
    // much room.
    unsafe {
        let list = list.cast::<List>().read_unaligned();
        let mut short = [0_u8; SHORT];
        let len = vsnprintf(short.as_mut_ptr().cast(), SHORT, format, &mut list.clone());
        match usize::try_from(len) {
            Err(_) => -1,
            Ok(len) if len < SHORT => written(fd, &short[..len]),
            Ok(len) => {
                // A thread that is cancelled while it writes is unwound through here.
                let mut long = ManuallyDrop::new(vec![0_u8; len + 1]);
                vsnprintf(long.as_mut_ptr().cast(), len + 1, format, &mut list.clone());
                let answer = written(fd, &long[..len]);
                ManuallyDrop::drop(&mut long);
                answer
            }
        }
    }
}

/// Writes all of it, or fails.
fn written(fd: c_int, bytes: &[u8]) -> c_int {
    // SAFETY: there are so many bytes.
    let written = unsafe { stdio::write_all(fd, bytes.as_ptr(), bytes.len()) };
    if written == bytes.len() as ssize_t { written as c_int } else { -1 }
}

/// `vdprintf` of a program compiled with `_FORTIFY_SOURCE`.
///
/// # Safety
/// As for the C function of this name.
// SAFETY: it stands in for the function of this name in the C library, with its signature.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C-unwind" fn __vdprintf_chk(
    fd: c_int,
    flag: c_int,
    format: *const c_char,
    list: *mut c_void,
) -> c_int {
    if !TABLE.has(fd) {
        // SAFETY: the caller's own arguments.
        return unsafe { real::__vdprintf_chk(fd, flag, format, list) };
    }
    // SAFETY: as the caller says.
    unsafe { vdprintf(fd, format, list) }
}

/// Defines a function with arguments of any number behind `$fixed` words, which makes a list of them
/// as C's `va_start` does, and calls the one that takes the list in the register behind those.
macro_rules! takes_any {
    ($name:ident, $inner:ident, $fixed:literal, $x86:literal, $arm:literal => $listed:ident) => {
        #[cfg(target_arch = "x86_64")]
        core::arch::global_asm!(
            concat!(".globl ", stringify!($inner)),
            concat!(".hidden ", stringify!($inner)),
            concat!(".type ", stringify!($inner), ", @function"),
            concat!(stringify!($inner), ":"),
            ".cfi_startproc",
            "sub rsp, 216",
            ".cfi_adjust_cfa_offset 216",
            "mov [rsp + 32], rdi",
            "mov [rsp + 40], rsi",
            "mov [rsp + 48], rdx",
            "mov [rsp + 56], rcx",
            "mov [rsp + 64], r8",
            "mov [rsp + 72], r9",
            // In AL is whether there are numbers of floating point.
            "test al, al",
            "jz 2f",
            "movaps [rsp + 80], xmm0",
            "movaps [rsp + 96], xmm1",
            "movaps [rsp + 112], xmm2",
            "movaps [rsp + 128], xmm3",
            "movaps [rsp + 144], xmm4",
            "movaps [rsp + 160], xmm5",
            "movaps [rsp + 176], xmm6",
            "movaps [rsp + 192], xmm7",
            "2:",
            "mov dword ptr [rsp + 8], {fixed} * 8",
            "mov dword ptr [rsp + 12], 48",
            "lea rax, [rsp + 224]",
            "mov [rsp + 16], rax",
            "lea rax, [rsp + 32]",
            "mov [rsp + 24], rax",
            "lea rax, [rsp + 8]",
            concat!("mov ", $x86, ", rax"),
            "call {listed}",
            "add rsp, 216",
            ".cfi_adjust_cfa_offset -216",
            "ret",
            ".cfi_endproc",
            fixed = const $fixed,
            listed = sym $listed,
        );
        #[cfg(target_arch = "aarch64")]
        core::arch::global_asm!(
            concat!(".globl ", stringify!($inner)),
            concat!(".hidden ", stringify!($inner)),
            concat!(".type ", stringify!($inner), ", @function"),
            concat!(stringify!($inner), ":"),
            ".cfi_startproc",
            "sub sp, sp, #240",
            ".cfi_adjust_cfa_offset 240",
            "str x30, [sp]",
            ".cfi_offset 30, -240",
            "stp x0, x1, [sp, #48]",
            "stp x2, x3, [sp, #64]",
            "stp x4, x5, [sp, #80]",
            "stp x6, x7, [sp, #96]",
            "stp q0, q1, [sp, #112]",
            "stp q2, q3, [sp, #144]",
            "stp q4, q5, [sp, #176]",
            "stp q6, q7, [sp, #208]",
            "add x9, sp, #240",
            "add x10, sp, #112",
            "stp x9, x10, [sp, #16]",
            "str x9, [sp, #32]",
            "mov w9, #({fixed} - 8) * 8",
            "mov w10, #-128",
            "stp w9, w10, [sp, #40]",
            "add x9, sp, #16",
            concat!("mov ", $arm, ", x9"),
            "bl {listed}",
            "ldr x30, [sp]",
            "add sp, sp, #240",
            ".cfi_adjust_cfa_offset -240",
            "ret",
            ".cfi_endproc",
            fixed = const $fixed,
            listed = sym $listed,
        );

        // SAFETY: the symbol is defined above.
        unsafe extern "C" {
            fn $inner();
        }

        /// `dprintf(3)`, or that of a program compiled with `_FORTIFY_SOURCE`.
        ///
        /// # Safety
        /// As for the C function of this name.
        // SAFETY: it stands in for the function of this name in the C library, with its signature.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        #[inline(never)]
        pub(crate) unsafe extern "C" fn $name() -> c_int {
            // SAFETY: registers and stack are as they came, and the other function returns to our
            // caller.
            #[cfg(target_arch = "x86_64")]
            unsafe {
                core::arch::asm!("jmp {inner}", inner = sym $inner, options(noreturn, nostack))
            }
            // SAFETY: as above.
            #[cfg(target_arch = "aarch64")]
            unsafe {
                core::arch::asm!("b {inner}", inner = sym $inner, options(noreturn, nostack))
            }
        }
    };
}

takes_any!(dprintf, clearway_dprintf, 2, "rdx", "x2" => vdprintf);
takes_any!(__dprintf_chk, clearway_dprintf_chk, 3, "rcx", "x3" => __vdprintf_chk);
