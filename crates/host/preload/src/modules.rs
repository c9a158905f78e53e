//! Libraries that a program loads while it runs. One that is loaded with RTLD_DEEPBIND, as PHP loads
//! its extensions, looks for functions in itself and in its own libraries first, of which the C
//! library is one: its sockets would be the kernel's. So that flag is taken out.
//!
//! And functions that a program looks up in the C library itself, by the handle of it or of a library
//! that has it, as Python's ctypes and Java's linker do: it is given those of this library.
//!
//! `dlopen` looks for a library where its caller's RUNPATH says, and loads it where the caller is, so
//! it is jumped to and finds whom it served before; so is `dlsym` where the caller matters.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::{self, MaybeUninit};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::real;

/// The C library's functions; null: it was not looked for yet.
static REAL_DLOPEN: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
static REAL_DLSYM: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// The flags that are kept.
const KEPT: c_int = !libc::RTLD_DEEPBIND;

/// Finds the C library's function.
extern "C" fn find_dlopen() -> *mut c_void {
    let found = real::find(&REAL_DLOPEN, c"dlopen");
    if found.is_null() { missing as *mut c_void } else { found }
}

/// The versions of its symbol in the C libraries of x86-64 and of aarch64, the newest first: it cannot
/// be looked up by itself.
const VERSIONS: [&CStr; 3] = [c"GLIBC_2.34", c"GLIBC_2.17", c"GLIBC_2.2.5"];

/// Finds the C library's function.
extern "C" fn find_dlsym() -> *mut c_void {
    let known = REAL_DLSYM.load(Ordering::Acquire);
    if !known.is_null() {
        return known;
    }
    let found = VERSIONS.iter().find_map(|version| {
        // SAFETY: both are C strings; RTLD_NEXT asks for the definition behind this library.
        let found = unsafe { libc::dlvsym(libc::RTLD_NEXT, c"dlsym".as_ptr(), version.as_ptr()) };
        (!found.is_null()).then_some(found)
    });
    let found = found.unwrap_or(missing as *mut c_void);
    REAL_DLSYM.store(found, Ordering::Release);
    found
}

/// What the C library finds; this library is the caller.
///
/// # Safety
/// As `dlsym` asks.
pub(crate) unsafe fn look_up(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    // SAFETY: that is its type, and no caller's frame is in between.
    let function = unsafe {
        mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void>(
            find_dlsym(),
        )
    };
    // SAFETY: as the caller says.
    unsafe { function(handle, name) }
}

/// Where a loaded library begins, of which this is a part.
fn base_of(part: *const c_void) -> Option<(*mut c_void, *const c_char)> {
    let mut info = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: only asks; all-zero is what it writes to.
    unsafe {
        let found = libc::dladdr(part, info.as_mut_ptr()) != 0;
        let info = info.assume_init();
        found.then_some((info.dli_fbase, info.dli_fname))
    }
}

/// A name's function in this library, if it has one of its own.
///
/// # Safety
/// The name is a C string.
unsafe fn own(name: *const c_char) -> Option<*mut c_void> {
    /// This library; null: nobody asked yet.
    static OWN: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
    let (base, path) = base_of((&raw const OWN).cast())?;
    let mut library = OWN.load(Ordering::Acquire);
    if library.is_null() {
        // SAFETY: the path is of a library that is loaded, and stays so.
        library = unsafe { real::dlopen(path, libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        OWN.store(library, Ordering::Release);
        if library.is_null() {
            return None;
        }
    }
    // SAFETY: as the caller says. What is found may be of a library that this one needs.
    let found = unsafe { look_up(library, name) };
    (!found.is_null() && base_of(found)?.0 == base).then_some(found)
}

/// `dlsym(3)` of a library's handle. Where this library has a function of that name, and calls in its
/// turn what is found there, it is given. (A library between, which stands in for the C library as
/// this one does, finds what it looked for.)
///
/// # Safety
/// As for the C function of this name.
unsafe extern "C" fn symbol(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    // SAFETY: the caller's own arguments. What the C library says of an error is of its last call.
    unsafe {
        let own = if name.is_null() { None } else { own(name) };
        let next = own.map(|_| look_up(libc::RTLD_NEXT, name));
        let found = look_up(handle, name);
        match own {
            Some(own) if !found.is_null() && next == Some(found) => own,
            _ => found,
        }
    }
}

/// In the place of a function that the C library does not have.
extern "C" fn missing() -> *mut c_void {
    ptr::null_mut()
}

// The arguments are kept while the function is looked for, and the stack is aligned for that.
#[cfg(target_arch = "x86_64")]
macro_rules! jumps {
    ($name:literal, $($first:literal,)* $real:path, $find:path, $($operand:tt)*) => {
        core::arch::global_asm!(
            concat!(".globl ", $name),
            concat!(".hidden ", $name),
            concat!(".type ", $name, ", @function"),
            concat!($name, ":"),
            ".cfi_startproc",
            $($first,)*
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
            real = sym $real,
            find = sym $find,
            $($operand)*
        );
    };
}
#[cfg(target_arch = "aarch64")]
macro_rules! jumps {
    ($name:literal, $($first:literal,)* $real:path, $find:path, $($operand:tt)*) => {
        core::arch::global_asm!(
            concat!(".globl ", $name),
            concat!(".hidden ", $name),
            concat!(".type ", $name, ", @function"),
            concat!($name, ":"),
            ".cfi_startproc",
            $($first,)*
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
            real = sym $real,
            find = sym $find,
            $($operand)*
        );
    };
}

#[cfg(target_arch = "x86_64")]
jumps!("clearway_dlopen", "and esi, {kept}", REAL_DLOPEN, find_dlopen, kept = const KEPT,);
#[cfg(target_arch = "aarch64")]
jumps!("clearway_dlopen", "and w1, w1, #{kept}", REAL_DLOPEN, find_dlopen, kept = const KEPT,);

// What is looked for everywhere (0) finds this library first, and what is looked for behind a library
// (−1) is meant to: these are the C library's, which looks at who called.
#[cfg(target_arch = "x86_64")]
jumps!(
    "clearway_dlsym",
    "lea rax, [rdi + 1]",
    "cmp rax, 1",
    "ja {inside}",
    REAL_DLSYM,
    find_dlsym,
    inside = sym symbol,
);
#[cfg(target_arch = "aarch64")]
jumps!(
    "clearway_dlsym",
    "add x16, x0, #1",
    "cmp x16, #1",
    "b.hi {inside}",
    REAL_DLSYM,
    find_dlsym,
    inside = sym symbol,
);

// SAFETY: the symbol is defined above.
unsafe extern "C" {
    fn clearway_dlopen();
    fn clearway_dlsym();
}

/// `dlopen(3)`
///
/// The library shows only symbols that Rust defines, so the one of C's name is a Rust function that
/// has nothing but a jump in it: the arguments stay where they came, `nostack` leaves the stack as it
/// is, and it is never inlined, for then it would leave another function's frame.
///
/// # Safety
/// As for the C function of this name.
// SAFETY: it stands in for the function of this name in the C library, with its signature.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[inline(never)]
pub(crate) unsafe extern "C" fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void {
    // SAFETY: registers and stack are as they came, and the other function returns to our caller.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        core::arch::asm!("jmp {inner}", inner = sym clearway_dlopen, in("rdi") path, in("rsi") flags,
            options(noreturn, nostack))
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        core::arch::asm!("b {inner}", inner = sym clearway_dlopen, in("x0") path, in("x1") flags,
            options(noreturn, nostack))
    }
}

/// `dlsym(3)`, a jump likewise.
///
/// # Safety
/// As for the C function of this name.
// SAFETY: it stands in for the function of this name in the C library, with its signature.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[inline(never)]
pub(crate) unsafe extern "C" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    // SAFETY: registers and stack are as they came, and the other function returns to our caller.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        core::arch::asm!("jmp {inner}", inner = sym clearway_dlsym, in("rdi") handle, in("rsi") name,
            options(noreturn, nostack))
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        core::arch::asm!("b {inner}", inner = sym clearway_dlsym, in("x0") handle, in("x1") name,
            options(noreturn, nostack))
    }
}
