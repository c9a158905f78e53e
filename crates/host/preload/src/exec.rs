//! Programs that this one executes. A server that hands its sockets over by `exec` often gives the
//! new program an environment of its own making; without the library the new program would find
//! Unix sockets that never say anything. So where descriptors of Clearway's go along, the variables
//! that brought the library here are put back.
//!
//! Where none go along they are put back if they were lost with all others, or another library took
//! this one's place: the program that says so knows nothing of Clearway. What took this library
//! alone out of an environment did it on purpose.

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::ptr;

use clearway_client::may_be_session_fd;
use clearway_program::{CARRIER_VARIABLE, PRELOAD, TRAPPED_VARIABLE, find, libraries, value_of};
use libc::pid_t;
use smallvec::SmallVec;

use crate::copies;
use crate::decide;
use crate::export::{guarded, is_thread};
use crate::object::{TABLE, ours};
use crate::process::is_own;
use crate::real;
use crate::secure;
use crate::start::{self, OWN};

#[cfg(test)]
mod tests;

/// Who is told of the host's socket needs no word of the folder in which it would lie.
const TOLD: &[u8] = b"CLEARWAY_SOCKET=";
const RUNTIME: &[u8] = b"XDG_RUNTIME_DIR=";

/// Variables of an environment without room of its own on the heap. A child after `vfork` has its
/// parent's heap, and would leave what it takes there behind.
type Environment = SmallVec<[*const c_char; 512]>;

/// Descriptors that are looked at in such a child, whose own the table does not show.
const LOW_DESCRIPTORS: c_int = 64;

/// How those begin that put the stack into a program: into that one, and not into all that it
/// executes.
const IN_PROCESS: &[u8] = b"CLEARWAY_INPROC";

/// Whether an environment lost the library by the way: it has none of the library's variables, or it
/// names other libraries only.
///
/// # Safety
/// `given` are C strings.
unsafe fn is_lost(variables: &[CString], given: &[*const c_char]) -> bool {
    let begins = |with: &[u8]| variables.iter().any(|line| line.as_bytes().starts_with(with));
    if !begins(OWN) || begins(IN_PROCESS) {
        return false;
    }
    let (mut listed, mut has_own) = (None, false);
    for line in given {
        // SAFETY: as the caller says.
        let line = unsafe { CStr::from_ptr(*line) }.to_bytes();
        listed = listed.or(line.strip_prefix(PRELOAD));
        // Which program is to be trapped says nothing that was kept: it is of what is executed next.
        has_own |= line.starts_with(OWN) && value_of(line, TRAPPED_VARIABLE).is_none();
    }
    let Some(listed) = listed else { return !has_own };
    let ours = variables.iter().find_map(|line| line.as_bytes().strip_prefix(PRELOAD));
    let ours = ours.and_then(|list| libraries(list).next());
    !listed.is_empty() && ours.is_some_and(|ours| libraries(listed).all(|other| other != ours))
}

/// A session's descriptor goes along into the program that is executed.
fn sessions_go_along(may_be_copied: bool) -> bool {
    if is_own() {
        decide::settle_all(!may_be_copied);
    }
    let stays_open = |fd| decide::closes_on_exec(fd) == Ok(false);
    if TABLE.range(0, c_int::MAX).any(|fd| ours(fd).is_some() && (may_be_copied || stays_open(fd)))
    {
        return true;
    }
    // After `vfork` the table is the parent's.
    // SAFETY: a number that is no descriptor is refused by the kernel.
    let is_session_fd =
        |fd: c_int| stays_open(fd) && may_be_session_fd(unsafe { BorrowedFd::borrow_raw(fd) });
    !is_own() && (0..LOW_DESCRIPTORS).any(is_session_fd)
}

/// The program that is executed with this environment is to have the library, whatever the
/// environment says. The secret that may come with it is told to nobody new: another user's program
/// is left alone.
///
/// # Safety
/// `given` are C strings.
pub(crate) unsafe fn keeps_library(given: &[*const c_char], may_be_copied: bool) -> bool {
    sessions_go_along(may_be_copied)
        || start::start().is_some_and(|start| {
            // SAFETY: as the caller says.
            start.users == start::users() && unsafe { is_lost(&start.variables, given) }
        })
}

/// The lines of an environment.
///
/// # Safety
/// `at` is null or an environment.
unsafe fn collect(mut at: *const *const c_char, into: &mut Environment) {
    // SAFETY: as the caller says.
    while let Some(&line) = unsafe { at.as_ref() }.filter(|line| !line.is_null()) {
        into.push(line);
        // SAFETY: not the end yet.
        at = unsafe { at.add(1) };
    }
}

/// The environment with what is missing in it. None: nothing is.
///
/// # Safety
/// `given` is null or an environment: C strings, and a null pointer at the end.
unsafe fn put_back(
    given: *const *const c_char,
    may_be_copied: bool,
    into: &mut Environment,
    both: &mut SmallVec<[u8; 4096]>,
) -> Option<*const *const c_char> {
    copies::may_be_made();
    let variables = &start::start().filter(|start| !start.variables.is_empty())?.variables;
    // SAFETY: as the caller says.
    unsafe { collect(given, into) };
    // SAFETY: as the caller says.
    if !unsafe { keeps_library(into, may_be_copied) } {
        return None;
    }
    let is_told = variables.iter().any(|line| line.as_bytes().starts_with(TOLD));
    for variable in variables {
        let variable = variable.as_bytes_with_nul();
        if is_told && variable.starts_with(RUNTIME) {
            continue;
        }
        let name = variable.split_inclusive(|byte| *byte == b'=').next().unwrap_or_default();
        // SAFETY: C strings of the caller's.
        let same = into
            .iter()
            .position(|line| unsafe { CStr::from_ptr(*line) }.to_bytes().starts_with(name));
        match same {
            None => into.push(variable.as_ptr().cast()),
            Some(at) if name == PRELOAD => {
                // SAFETY: as above.
                let theirs = unsafe { CStr::from_ptr(into[at]) }.to_bytes_with_nul();
                let ours = &variable[..variable.len() - 1];
                if !theirs.starts_with(ours) {
                    both.extend_from_slice(ours);
                    both.push(b':');
                    both.extend_from_slice(&theirs[PRELOAD.len()..]);
                    into[at] = both.as_ptr().cast();
                }
            }
            // Said otherwise on purpose.
            Some(_) => {}
        }
    }
    into.push(ptr::null());
    Some(into.as_ptr())
}

/// The environment of this process.
fn own() -> *const *const c_char {
    // SAFETY: the C library's variable of this name and type.
    unsafe extern "C" {
        static environ: *const *const c_char;
    }
    // SAFETY: reads a pointer; who changes it while another thread executes a program has the same
    // trouble without us.
    unsafe { environ }
}

/// What is to be executed, as the functions below are told.
#[derive(Clone, Copy)]
enum Program {
    /// A path.
    At(*const c_char),
    /// A name, looked for in the folders of PATH where it has no slash.
    Named(*const c_char),
    /// A descriptor.
    Open(c_int),
    /// A path in a folder that is open, and flags of `execveat(2)`.
    In(c_int, *const c_char, c_int),
}

impl Program {
    /// A path that leads to it, from here.
    ///
    /// # Safety
    /// Paths are null or C strings.
    unsafe fn path(self) -> Option<CString> {
        // SAFETY: as the caller says.
        let text = |path: *const c_char| (!path.is_null()).then(|| unsafe { CStr::from_ptr(path) });
        match self {
            Program::At(path) => text(path).map(CStr::to_owned),
            Program::Named(name) => {
                let found = find(OsStr::from_bytes(text(name)?.to_bytes()))?;
                CString::new(found.into_os_string().into_vec()).ok()
            }
            Program::Open(fd) => clearway_trap::path_in(fd, c"", libc::AT_EMPTY_PATH),
            Program::In(folder, path, flags) => clearway_trap::path_in(folder, text(path)?, flags),
        }
    }
}

/// What is executed in the place of a program that has to be trapped, where `clearway run --trap`
/// says so and the program is to have the library.
///
/// # Safety
/// `program` and `argv` are as the functions below have them, `envp` is null or an environment.
unsafe fn carried(
    program: Program,
    argv: *const *const c_char,
    envp: *const *const c_char,
    has_actions: bool,
) -> Option<clearway_trap::Carried> {
    let carrier = start::variable(CARRIER_VARIABLE)?;
    let carrier = CString::new(carrier.into_vec()).ok()?;
    let mut environment = Environment::new();
    // SAFETY: as the caller says.
    unsafe { collect(envp, &mut environment) };
    // SAFETY: as above.
    let is_loaded = environment
        .iter()
        .any(|line| unsafe { CStr::from_ptr(*line) }.to_bytes().starts_with(PRELOAD));
    if !is_loaded {
        return None;
    }
    // SAFETY: as the caller says.
    let path = unsafe { program.path() }?;
    if has_actions && !path.as_bytes().starts_with(b"/") {
        // They may change the folder.
        return None;
    }
    // SAFETY: as the caller says.
    unsafe { clearway_trap::carried(&path, argv, &environment, &carrier).ok()? }
}

/// Where the loader would leave the library out for the sake of who executes: the environment with
/// what the program then has to know ([`secure`]).
///
/// # Safety
/// `program` is as the functions below have it, `envp` is null or an environment.
unsafe fn effective(
    program: Program,
    envp: *const *const c_char,
    has_actions: bool,
    (line, into): (&mut secure::Line, &mut Environment),
) -> Option<secure::Ids> {
    // Files that are opened by the way are the effective user's.
    let ids = secure::mixed().filter(|_| !has_actions)?;
    // SAFETY: as the caller says.
    unsafe { collect(envp, into) };
    // SAFETY: lines of an environment.
    let text = |line: *const c_char| unsafe { CStr::from_ptr(line) }.to_bytes();
    let listed = into.iter().find_map(|line| text(*line).strip_prefix(PRELOAD));
    if !listed.is_some_and(secure::names_library) {
        return None;
    }
    // SAFETY: as the caller says.
    let path = unsafe { program.path() }?;
    let ids = secure::about_to_execute(&path, ids, line)?;
    into.retain(|line| !text(*line).starts_with(secure::VARIABLE));
    into.push(line.as_ptr().cast());
    into.push(ptr::null());
    Some(ids)
}

/// Defines functions that execute a program with the environment that `$envp` says. Nothing of ours
/// is left behind on the stack when they succeed: after `vfork` it is the parent's too. What is left
/// on its heap is the little that a program takes that has to be trapped.
macro_rules! executes {
    ($(
        $(#[$doc:meta])*
        fn $name:ident($($arg:ident: $type:ty),*), $program:expr, $argv:ident, $envp:expr,
            $copied:expr => |$new:ident| $call:expr,
            |$carrier:ident, $words:ident, $env:ident| $carried:expr;
    )*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// As for the C function of this name.
        // SAFETY: it stands in for the function of this name in the C library, with its signature.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        pub(crate) unsafe extern "C-unwind" fn $name($($arg: $type),*) -> c_int {
            let given: *const *const c_char = $envp;
            if !is_thread() {
                let $new = given;
                // SAFETY: the caller's own arguments.
                return unsafe { $call };
            }
            let (mut room, mut both) = (Environment::new(), SmallVec::new());
            // SAFETY: the caller's environment.
            let changed = guarded(|| unsafe { put_back(given, $copied, &mut room, &mut both) });
            let $new = changed.unwrap_or(given);
            let (mut line, mut with_line) = ([0; 64], Environment::new());
            // SAFETY: the caller's own arguments, and an environment.
            let ids = guarded(|| unsafe { effective($program, $new, $copied, (&mut line, &mut with_line)) });
            let $new = if ids.is_some() { with_line.as_ptr() } else { $new };
            // SAFETY: the caller's own arguments, and an environment.
            if let Some(carried) = guarded(|| unsafe { carried($program, $argv, $new, $copied) }) {
                let ($carrier, $words) = (carried.path.as_ptr(), carried.argv.as_ptr());
                let $env = carried.environment.as_ptr();
                // SAFETY: as above, with the path of a program of ours.
                return secure::as_root(ids, || unsafe { $carried });
            }
            // SAFETY: as above.
            secure::as_root(ids, || unsafe { $call })
        }
    )*};
}

executes! {
    /// `execve(2)`
    fn execve(path: *const c_char, argv: *const *const c_char, envp: *const *const c_char),
        Program::At(path), argv, envp, false => |new| real::execve(path, argv, new),
        |path, words, new| real::execve(path, words, new);

    /// `execv(3)`
    fn execv(path: *const c_char, argv: *const *const c_char),
        Program::At(path), argv, own(), false => |new| real::execve(path, argv, new),
        |path, words, new| real::execve(path, words, new);

    /// `execvp(3)`
    fn execvp(file: *const c_char, argv: *const *const c_char),
        Program::Named(file), argv, own(), false => |new| real::execvpe(file, argv, new),
        |path, words, new| real::execve(path, words, new);

    /// `execvpe(3)`
    fn execvpe(file: *const c_char, argv: *const *const c_char, envp: *const *const c_char),
        Program::Named(file), argv, envp, false => |new| real::execvpe(file, argv, new),
        |path, words, new| real::execve(path, words, new);

    /// `fexecve(3)`
    fn fexecve(fd: c_int, argv: *const *const c_char, envp: *const *const c_char),
        Program::Open(fd), argv, envp, false => |new| real::fexecve(fd, argv, new),
        |path, words, new| real::execve(path, words, new);

    /// `execveat(2)`
    fn execveat(folder: c_int, path: *const c_char, argv: *const *const c_char,
        envp: *const *const c_char, flags: c_int),
        Program::In(folder, path, flags), argv, envp,
        false => |new| real::execveat(folder, path, argv, new, flags),
        |path, words, new| real::execve(path, words, new);

    /// `posix_spawn(3)`. What its actions duplicate goes along too; they cannot be looked into.
    fn posix_spawn(pid: *mut pid_t, path: *const c_char, actions: *const c_void,
        attributes: *const c_void, argv: *const *const c_char, envp: *const *const c_char),
        Program::At(path), argv, envp,
        !actions.is_null() => |new| real::posix_spawn(pid, path, actions, attributes, argv, new),
        |path, words, new| real::posix_spawn(pid, path, actions, attributes, words, new);

    /// `posix_spawnp(3)`
    fn posix_spawnp(pid: *mut pid_t, file: *const c_char, actions: *const c_void,
        attributes: *const c_void, argv: *const *const c_char, envp: *const *const c_char),
        Program::Named(file), argv, envp,
        !actions.is_null() => |new| real::posix_spawnp(pid, file, actions, attributes, argv, new),
        |path, words, new| real::posix_spawn(pid, path, actions, attributes, words, new);
}

/// Arguments of a function that is declared with `...`: the words that came in registers, and where
/// the others begin.
struct Listed {
    registers: *const usize,
    in_registers: usize,
    rest: *const usize,
    at: usize,
}

impl Listed {
    /// # Safety
    /// There is another one.
    unsafe fn next(&mut self) -> usize {
        let at = self.at;
        self.at += 1;
        // SAFETY: as the caller says; those that do not fit the registers lie one behind the other.
        unsafe {
            match at.checked_sub(self.in_registers) {
                None => self.registers.add(at).read(),
                Some(at) => self.rest.add(at).read(),
            }
        }
    }
}

/// Which of the functions with a list was called; neither is `execl`.
struct Lists;

impl Lists {
    const SEARCH: usize = 1;
    const ENVIRONMENT: usize = 2;
}

/// `execl`, `execlp` and `execle`, whose arguments the entries below have laid into memory: the
/// list is made an array, and the rest is done by the functions that take one.
///
/// # Safety
/// The words are what a program gave to the C function: a path, its arguments, a null pointer, and
/// for `execle` an environment.
unsafe extern "C" fn execute_list(
    registers: *const usize,
    rest: *const usize,
    which: usize,
) -> c_int {
    let mut list = Listed { registers, in_registers: IN_REGISTERS, rest, at: 0 };
    let mut room: SmallVec<[*const c_char; 64]> = SmallVec::new();
    // SAFETY: the C function asks for a path, and for a list with a null pointer at its end.
    let path = unsafe { list.next() } as *const c_char;
    loop {
        // SAFETY: as above; the null pointer has not come yet.
        let argument = unsafe { list.next() } as *const c_char;
        room.push(argument);
        if argument.is_null() {
            break;
        }
    }
    // SAFETY: the caller's path and arguments, and for `execle` the environment behind them.
    unsafe {
        match which {
            Lists::SEARCH => execvp(path, room.as_ptr()),
            Lists::ENVIRONMENT => execve(path, room.as_ptr(), list.next() as *const *const c_char),
            _ => execv(path, room.as_ptr()),
        }
    }
}

/// Words of a call that are passed in registers.
#[cfg(target_arch = "x86_64")]
const IN_REGISTERS: usize = 6;
#[cfg(target_arch = "aarch64")]
const IN_REGISTERS: usize = 8;

/// Defines a function of a list. Rust cannot define one that is declared with `...`, so what came
/// in registers is laid into memory in assembly, and where the rest lies is passed on.
///
/// The library shows only symbols that Rust defines, so the one of C's name is a Rust function that
/// has nothing but a jump in it: it keeps no register, and `nostack` leaves the stack as it came.
macro_rules! takes_list {
    ($name:ident, $inner:ident, $which:expr) => {
        // The six words below the return address, the first of them lowest, and eight bytes so that
        // the stack is aligned.
        #[cfg(target_arch = "x86_64")]
        core::arch::global_asm!(
            concat!(".globl ", stringify!($inner)),
            concat!(".hidden ", stringify!($inner)),
            concat!(".type ", stringify!($inner), ", @function"),
            concat!(stringify!($inner), ":"),
            ".cfi_startproc",
            "sub rsp, 8",
            ".cfi_adjust_cfa_offset 8",
            "push r9",
            "push r8",
            "push rcx",
            "push rdx",
            "push rsi",
            "push rdi",
            ".cfi_adjust_cfa_offset 48",
            "mov rdi, rsp",
            "lea rsi, [rsp + 64]",
            "mov edx, {which}",
            "call {execute}",
            "add rsp, 56",
            ".cfi_adjust_cfa_offset -56",
            "ret",
            ".cfi_endproc",
            which = const $which,
            execute = sym execute_list,
        );
        #[cfg(target_arch = "aarch64")]
        core::arch::global_asm!(
            concat!(".globl ", stringify!($inner)),
            concat!(".hidden ", stringify!($inner)),
            concat!(".type ", stringify!($inner), ", @function"),
            concat!(stringify!($inner), ":"),
            ".cfi_startproc",
            "sub sp, sp, #80",
            ".cfi_adjust_cfa_offset 80",
            "stp x0, x1, [sp]",
            "stp x2, x3, [sp, #16]",
            "stp x4, x5, [sp, #32]",
            "stp x6, x7, [sp, #48]",
            "str x30, [sp, #64]",
            ".cfi_offset 30, -16",
            "mov x0, sp",
            "add x1, sp, #80",
            "mov x2, {which}",
            "bl {execute}",
            "ldr x30, [sp, #64]",
            "add sp, sp, #80",
            ".cfi_adjust_cfa_offset -80",
            "ret",
            ".cfi_endproc",
            which = const $which,
            execute = sym execute_list,
        );

        // SAFETY: the symbol is defined above.
        unsafe extern "C" {
            fn $inner();
        }

        /// `execl(3)` and its like.
        ///
        /// # Safety
        /// As for the C function of this name.
        // SAFETY: it stands in for the function of this name in the C library, with its signature.
        #[cfg_attr(not(test), unsafe(no_mangle))]
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

takes_list!(execl, clearway_execl, 0);
takes_list!(execlp, clearway_execlp, Lists::SEARCH);
takes_list!(execle, clearway_execle, Lists::ENVIRONMENT);
