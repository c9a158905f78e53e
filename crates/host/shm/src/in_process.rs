//! A stack inside of the program's own process: how the library that stands in for the C library's
//! functions calls the one that holds the stack.
//!
//! Both are loaded into the same process and share no code, so what they say to each other is a
//! table of C functions. Requests, events and bytes pass as between a program and a host: by the
//! attach socket, the rings and the FIFOs, of memory that is this process's alone.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// The symbol by which the table is found.
pub const SYMBOL: &std::ffi::CStr = c"clearway_in_process";

/// The version of the table.
pub const VERSION: u32 = 3;

/// The environment's word for the settings of the stack, in the language of the host's settings
/// file. Where it is set, the process has its stack inside.
pub const SETTINGS_VARIABLE: &str = "CLEARWAY_INPROC";

/// The environment's word for the library that holds the stack.
pub const LIBRARY_VARIABLE: &str = "CLEARWAY_INPROC_LIBRARY";

/// Descriptors of a stack's ports at most that threads sleep on.
pub const MAX_DESCRIPTORS: usize = 64;

/// [`Calls::turn`]: the supervisor is to look at what was asked, and at session fds that were
/// closed.
pub const ATTEND: u32 = 1;

/// Answer of [`Calls::turn`]: there was work, and there may be more.
pub const WORKED: u32 = 1;
/// Answer of [`Calls::turn`]: another thread turns, and does this caller's work too before it
/// stops.
pub const BUSY: u32 = 2;
/// Answer of [`Calls::turn`]: the stack has failed, and is of no more use.
pub const FAILED: u32 = 4;

/// Answer of [`Calls::about_to_sleep`]: there was work instead.
pub const LOOK_AGAIN: u32 = 0;
/// Answer of [`Calls::about_to_sleep`]: the thread sleeps on the descriptors that bring work.
pub const WATCH: u32 = 1;
/// Answer of [`Calls::about_to_sleep`]: another thread does, or is about to; this one sleeps until
/// it is woken by who turned, or called by [`Calls::recall_descriptor`].
pub const ASIDE: u32 = 2;

/// Called whenever a thread of the library's own has turned. Answers 1 when what came has woken a
/// thread that slept, and 0 when all of it is for threads that are awake.
pub type OnEvents = extern "C" fn() -> u32;

/// What the library with the stack can be asked. All but `start` and `leave` may be called from any
/// thread at any time.
#[repr(C)]
pub struct Calls {
    /// [`VERSION`].
    pub version: u32,
    /// Makes the stack of these settings. Answers 0, or the length of a sentence that was written
    /// to `why`.
    pub start: unsafe extern "C" fn(
        settings: *const u8,
        settings_len: usize,
        on_events: OnEvents,
        why: *mut u8,
        why_len: usize,
    ) -> usize,
    /// A connection as if to an attach socket, or an error number below zero.
    pub connect: extern "C" fn() -> i32,
    /// Writes the descriptors that bring work, at most so many, and says how many there are.
    pub descriptors: unsafe extern "C" fn(out: *mut i32, most: usize) -> usize,
    /// Turns once, unless another thread does.
    pub turn: extern "C" fn(how: u32) -> u32,
    /// A descriptor by which all who sleep aside are called: they look again.
    pub recall_descriptor: extern "C" fn() -> i32,
    /// This thread is about to sleep. `handed_over` (1: yes): it has just watched, what came was
    /// for others, and it has woken one of them. Answers one of [`LOOK_AGAIN`], [`WATCH`] and
    /// [`ASIDE`].
    pub about_to_sleep: extern "C" fn(handed_over: u32) -> u32,
    /// It is awake again, and had slept so ([`WATCH`] or [`ASIDE`]).
    pub woke: extern "C" fn(slept: u32),
    /// Threads sleep on the descriptors, who would not hear of what this one left. 1: so it is.
    pub is_slept_on: extern "C" fn() -> u32,
    /// In a forked child: lets go of the ports. Nothing else is called there.
    pub leave: extern "C" fn(),
    /// The process ends: all sockets are closed, and what they accepted is sent for so many
    /// milliseconds at most.
    pub end: extern "C" fn(within_ms: u32),
}

/// The stack of this process.
#[derive(Clone, Copy)]
pub struct Stack(&'static Calls);

/// How a turn went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Turned(u32);

/// How a thread sleeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rest {
    /// On the descriptors that bring work, among others.
    Watch,
    /// Until somebody wakes it who turned.
    Aside,
}

impl Turned {
    /// There was work, and there may be more.
    pub fn worked(self) -> bool {
        self.0 & WORKED != 0
    }

    /// The stack has failed.
    pub fn failed(self) -> bool {
        self.0 & FAILED != 0
    }
}

impl Stack {
    /// The stack of a library that was loaded. None: it is of another version.
    ///
    /// # Safety
    /// The pointer is null, or to the table of a library that stays loaded.
    pub unsafe fn of(table: *const Calls) -> Option<Stack> {
        // SAFETY: as the caller says.
        let calls = unsafe { table.as_ref() }?;
        (calls.version == VERSION).then_some(Stack(calls))
    }

    /// Makes the stack.
    ///
    /// # Errors
    /// A sentence for the user.
    pub fn start(self, settings: &str, on_events: OnEvents) -> Result<(), String> {
        let mut why = [0u8; 1024];
        // SAFETY: both are as long as is said, and read and written during the call only.
        let len = unsafe {
            (self.0.start)(
                settings.as_ptr(),
                settings.len(),
                on_events,
                why.as_mut_ptr(),
                why.len(),
            )
        };
        match len {
            0 => Ok(()),
            len => Err(String::from_utf8_lossy(&why[..len.min(why.len())]).into_owned()),
        }
    }

    /// A connection as if to an attach socket.
    ///
    /// # Errors
    /// As the system says.
    pub fn connect(self) -> io::Result<OwnedFd> {
        match (self.0.connect)() {
            error if error < 0 => Err(io::Error::from_raw_os_error(-error)),
            // SAFETY: the library made it for the caller, and keeps none of it.
            fd => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        }
    }

    /// The descriptors that bring work.
    pub fn descriptors(self) -> Vec<RawFd> {
        let mut out = [0; MAX_DESCRIPTORS];
        // SAFETY: there is room for as many as is said.
        let count = unsafe { (self.0.descriptors)(out.as_mut_ptr(), out.len()) };
        out[..count.min(out.len())].to_vec()
    }

    /// Turns once, unless another thread does.
    pub fn turn(self) -> Turned {
        Turned((self.0.turn)(0))
    }

    /// The same, and the supervisor looks what was asked and what was closed.
    pub fn turn_and_attend(self) -> Turned {
        Turned((self.0.turn)(ATTEND))
    }

    /// A descriptor by which all who sleep aside are called.
    pub fn recall_descriptor(self) -> RawFd {
        (self.0.recall_descriptor)()
    }

    /// This thread is about to sleep; `handed_over`: it has just watched, what came was for others,
    /// and it has woken one of them. None: there was work, so it must look again first.
    pub fn about_to_sleep(self, handed_over: bool) -> Option<Rest> {
        match (self.0.about_to_sleep)(handed_over.into()) {
            LOOK_AGAIN => None,
            ASIDE => Some(Rest::Aside),
            _ => Some(Rest::Watch),
        }
    }

    /// It is awake again, or did not sleep after all.
    pub fn woke(self, slept: Rest) {
        (self.0.woke)(match slept {
            Rest::Watch => WATCH,
            Rest::Aside => ASIDE,
        });
    }

    /// Threads sleep on the descriptors.
    pub fn is_slept_on(self) -> bool {
        (self.0.is_slept_on)() != 0
    }

    /// In a forked child: the ports are the parent's alone.
    pub fn leave(self) {
        (self.0.leave)();
    }

    /// The process ends.
    pub fn end(self, within: Duration) {
        (self.0.end)(u32::try_from(within.as_millis()).unwrap_or(u32::MAX));
    }
}
