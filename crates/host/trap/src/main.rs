//! `clearway-trap`: the process that a statically linked program is started in.
//!
//! The loader puts `libclearway_preload.so` into it as into any program; this then asks the library
//! to map the program that CLEARWAY_TRAP_PROGRAM names and to go on as it. There is no `main` of
//! Rust's, whose runtime would change signals before.

#![no_main]

use std::ffi::{c_char, c_int, c_void};

/// Function of the library, see `crates/host/preload/src/trap.rs`. It returns when it could not.
type Start = unsafe extern "C" fn(*mut *mut c_char) -> c_int;

/// # Safety
/// Called by the C library with the arguments as the kernel laid them out.
// SAFETY: the C library calls the function of this name, with this type.
#[unsafe(no_mangle)]
unsafe extern "C" fn main(_: c_int, argv: *mut *mut c_char) -> c_int {
    // SAFETY: the name is a C string.
    let start = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"clearway_trap_start".as_ptr()) };
    if start.is_null() {
        let line = "clearway-trap: `clearway run --trap` starts this, with its library\n";
        // SAFETY: the line is that long.
        unsafe { libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len()) };
        return 127;
    }
    // SAFETY: the library defines it with this type.
    let start = unsafe { std::mem::transmute::<*mut c_void, Start>(start) };
    // SAFETY: the arguments lie where the kernel put them.
    unsafe { start(argv) }
}
