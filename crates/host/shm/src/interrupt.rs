//! Signals that come while a call looks, and has not gone to sleep.
//!
//! The kernel ends a call that waits with EINTR when a handler runs, however early in the call that
//! is. Our calls are only partly in the kernel: they look, spin, turn a stack, and then sleep. A
//! handler that runs before the sleep would end nothing, and the call would sleep without end.
//!
//! So who installs handlers for the program ([`handled`] is called by each of them) has them
//! counted for the thread, a call remembers the count at its beginning ([`enter`]), and who sleeps
//! compares the two. Between the comparison and the kernel lies one instruction: where a handler
//! interrupts there, it moves the thread past the kernel.

use std::ffi::{c_long, c_void};
use std::io;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

#[cfg(test)]
mod tests;

/// What a thread knows of handlers that ran on it. Only the thread itself touches it; handlers
/// interrupt it, so the words are atomics.
struct Handled {
    /// How many ran.
    count: AtomicU32,
    /// How many of them were installed without SA_RESTART.
    ending: AtomicU32,
    /// Both, as they were when the call began in which the thread is.
    at_entry: [AtomicU32; 2],
    /// Not 0: `at_entry` holds for the next call already ([`hold`]).
    held: AtomicU32,
}

thread_local! {
    // No destructor and no lazy start: a handler may be the first who asks for it.
    static HANDLED: Handled = const {
        Handled {
            count: AtomicU32::new(0),
            ending: AtomicU32::new(0),
            at_entry: [const { AtomicU32::new(0) }; 2],
            held: AtomicU32::new(0),
        }
    };
}

/// The handler that the kernel has for each of which [`handled`] is told; 0: there is none.
static ENTRY: AtomicUsize = AtomicUsize::new(0);

/// Whoever the kernel calls at this address tells [`handled`]. There is one such address; who says
/// another one stands before all handlers from then on.
pub fn enters_by(handler: usize) {
    ENTRY.store(handler, Ordering::Relaxed);
}

/// Would be known to have run ([`came`]).
pub(crate) fn is_counted(handler: usize) -> bool {
    handler == ENTRY.load(Ordering::Relaxed)
}

/// What [`leave`] puts back: a call may be made in a handler that interrupted another call.
#[derive(Clone, Copy, Debug)]
pub struct Entered([u32; 2]);

/// A call begins: from now on a handler that runs interrupts it.
#[inline]
pub fn enter() -> Entered {
    HANDLED.with(|handled| {
        let outer = handled.at_entry.each_ref().map(|word| word.load(Ordering::Relaxed));
        if handled.held.load(Ordering::Relaxed) == 0 {
            handled.rebase();
        } else {
            handled.held.store(0, Ordering::Relaxed);
        }
        Entered(outer)
    })
}

/// A handler that runs from now on interrupts the call that is entered next: for who takes a system
/// call over, and knows of it before the function does that makes it.
pub fn hold() {
    HANDLED.with(|handled| {
        handled.rebase();
        handled.held.store(1, Ordering::Relaxed);
    });
}

/// The call that [`enter`] began has ended.
#[inline]
pub fn leave(entered: Entered) {
    HANDLED.with(|handled| {
        for (word, outer) in handled.at_entry.iter().zip(entered.0) {
            word.store(outer, Ordering::Relaxed);
        }
    });
}

impl Handled {
    #[inline]
    fn rebase(&self) {
        self.at_entry[0].store(self.count.load(Ordering::Relaxed), Ordering::Relaxed);
        self.at_entry[1].store(self.ending.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    fn came(&self) -> bool {
        self.count.load(Ordering::Relaxed) != self.at_entry[0].load(Ordering::Relaxed)
    }
}

/// A handler ran since the call began.
pub fn came() -> bool {
    HANDLED.with(Handled::came)
}

/// Whether the call shall begin again, because each handler that ran in it has SA_RESTART. None: no
/// handler ran of which this is known. When the answer is yes they are forgotten.
pub fn restarts() -> Option<bool> {
    HANDLED.with(|handled| {
        if !handled.came() {
            return None;
        }
        let restarts =
            handled.ending.load(Ordering::Relaxed) == handled.at_entry[1].load(Ordering::Relaxed);
        if restarts {
            handled.rebase();
        }
        Some(restarts)
    })
}

/// A handler runs on this thread, installed with SA_RESTART or without.
///
/// # Safety
/// `context` is what the kernel gave to the handler as its third argument, or null.
pub unsafe fn handled(restarts: bool, context: *mut c_void) {
    HANDLED.with(|handled| {
        handled.count.fetch_add(1, Ordering::Relaxed);
        handled.ending.fetch_add(u32::from(!restarts), Ordering::Relaxed);
    });
    // SAFETY: as the caller says.
    if let Some(context) = unsafe { context.cast::<libc::ucontext_t>().as_mut() } {
        code::pass_by(context);
    }
}

/// A system call that waits, with up to six arguments. It fails with EINTR at once when a handler
/// ran since the call of the program began.
///
/// # Safety
/// As the system call asks; it is one of those that fail with EINTR and do nothing then.
pub unsafe fn wait(number: c_long, arguments: [u64; 6]) -> io::Result<usize> {
    let answer = HANDLED.with(|handled| {
        let at_entry = handled.at_entry[0].load(Ordering::Relaxed);
        // SAFETY: as the caller says.
        unsafe { code::wait(&handled.count, at_entry, number, arguments) }
    });
    usize::try_from(answer).map_err(|_| io::Error::from_raw_os_error(-answer as i32))
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod code {
    use std::arch::global_asm;
    use std::ffi::c_long;
    use std::sync::atomic::AtomicU32;

    use libc::ucontext_t;

    /// The arguments of the system call, and the count at the beginning of the program's call.
    type Words = [u64; 7];

    // The comparison and the kernel's call lie between `checked` and `called`; nothing there writes
    // memory or the stack, so a thread can be moved from any place in it to `interrupted`.
    #[cfg(target_arch = "x86_64")]
    global_asm!(
        ".hidden clearway_wait, clearway_wait_checked, clearway_wait_called, \
         clearway_wait_interrupted",
        ".globl clearway_wait, clearway_wait_checked, clearway_wait_called, \
         clearway_wait_interrupted",
        ".type clearway_wait, @function",
        "clearway_wait:",
        ".cfi_startproc",
        "mov r11, rdi",
        "mov rax, rsi",
        "mov rcx, rdx",
        "mov rdi, [rcx]",
        "mov rsi, [rcx + 8]",
        "mov rdx, [rcx + 16]",
        "mov r10, [rcx + 24]",
        "mov r8, [rcx + 32]",
        "mov r9, [rcx + 40]",
        "mov rcx, [rcx + 48]",
        "clearway_wait_checked:",
        "cmp ecx, dword ptr [r11]",
        "jne clearway_wait_interrupted",
        "syscall",
        "clearway_wait_called:",
        "ret",
        "clearway_wait_interrupted:",
        "mov rax, -4",
        "ret",
        ".cfi_endproc",
        ".size clearway_wait, . - clearway_wait",
    );

    #[cfg(target_arch = "aarch64")]
    global_asm!(
        ".hidden clearway_wait",
        ".hidden clearway_wait_checked",
        ".hidden clearway_wait_called",
        ".hidden clearway_wait_interrupted",
        ".globl clearway_wait",
        ".globl clearway_wait_checked",
        ".globl clearway_wait_called",
        ".globl clearway_wait_interrupted",
        ".type clearway_wait, @function",
        "clearway_wait:",
        ".cfi_startproc",
        "mov x9, x0",
        "mov x8, x1",
        "mov x10, x2",
        "ldp x0, x1, [x10]",
        "ldp x2, x3, [x10, #16]",
        "ldp x4, x5, [x10, #32]",
        "ldr x11, [x10, #48]",
        "clearway_wait_checked:",
        "ldr w12, [x9]",
        "cmp w12, w11",
        "b.ne clearway_wait_interrupted",
        "svc #0",
        "clearway_wait_called:",
        "ret",
        "clearway_wait_interrupted:",
        "mov x0, #-4",
        "ret",
        ".cfi_endproc",
        ".size clearway_wait, . - clearway_wait",
    );

    // SAFETY: defined above, with these types; of the last three only the addresses are used.
    unsafe extern "C" {
        fn clearway_wait(count: *const AtomicU32, number: c_long, words: *const Words) -> i64;
        fn clearway_wait_checked();
        fn clearway_wait_called();
        fn clearway_wait_interrupted();
    }

    /// # Safety
    /// As the system call asks.
    pub(super) unsafe fn wait(
        count: &AtomicU32,
        at_entry: u32,
        number: c_long,
        [a, b, c, d, e, f]: [u64; 6],
    ) -> i64 {
        let words: Words = [a, b, c, d, e, f, at_entry.into()];
        // SAFETY: the pointers are to live words; for the rest as the caller says.
        unsafe { clearway_wait(count, number, &words) }
    }

    #[cfg(target_arch = "x86_64")]
    fn place(context: &mut ucontext_t) -> &mut i64 {
        &mut context.uc_mcontext.gregs[libc::REG_RIP as usize]
    }

    #[cfg(target_arch = "aarch64")]
    fn place(context: &mut ucontext_t) -> &mut u64 {
        &mut context.uc_mcontext.pc
    }

    /// Where the thread was interrupted between the comparison and the kernel, it goes on behind
    /// the kernel's call, as if that had been interrupted.
    pub(super) fn pass_by(context: &mut ucontext_t) {
        let place = place(context);
        let address = *place as usize;
        let checked = clearway_wait_checked as *const () as usize;
        let called = clearway_wait_called as *const () as usize;
        if (checked..called).contains(&address) {
            *place = (clearway_wait_interrupted as *const () as usize) as _;
        }
    }

    #[cfg(test)]
    pub(super) mod places {
        use super::*;

        pub(in super::super) fn of(context: &mut ucontext_t) -> usize {
            *place(context) as usize
        }

        pub(in super::super) fn set(context: &mut ucontext_t, address: usize) {
            *place(context) = address as _;
        }

        pub(in super::super) fn checked() -> usize {
            clearway_wait_checked as *const () as usize
        }

        pub(in super::super) fn called() -> usize {
            clearway_wait_called as *const () as usize
        }

        pub(in super::super) fn interrupted() -> usize {
            clearway_wait_interrupted as *const () as usize
        }
    }
}
