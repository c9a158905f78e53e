//! Who holds a lock, and whether it lives.

use std::cell::Cell;
use std::io::Write;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use rustix::process::Pid;

#[cfg(test)]
mod tests;

/// Bits of the thread's number.
const NUMBER_BITS: u32 = 22;
const NUMBER: u32 = (1 << NUMBER_BITS) - 1;

/// Values of the birth mark: 1 to this. 0: not known.
const BIRTHS: u64 = (1 << (31 - NUMBER_BITS)) - 1;

/// A thread, as a lock word names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Holder(u32);

thread_local! {
    /// This thread's name, and the value of the fork mark for which it is right.
    static ME: Cell<(u32, u32)> = const { Cell::new((0, 0)) };
}

impl Holder {
    /// This thread.
    pub(super) fn current() -> Holder {
        let Some(mark) = fork_mark() else { return Holder::find() };
        let (known_for, word) = ME.get();
        let mut now = mark.load(Ordering::Relaxed);
        if now == 0 {
            // The first use in this process, or the first one after it was forked. Only this thread
            // can have a name from before the fork.
            let new = known_for.wrapping_add(1).max(1);
            now = mark
                .compare_exchange(0, new, Ordering::Relaxed, Ordering::Relaxed)
                .map_or_else(|set| set, |_| new);
        } else if now == known_for {
            return Holder(word);
        }
        let me = Holder::find();
        ME.set((now, me.0));
        me
    }

    /// The thread that a word names.
    pub(super) fn of(word: u32) -> Holder {
        Holder(word)
    }

    /// The word that names it.
    pub(super) fn word(self) -> u32 {
        self.0
    }

    fn find() -> Holder {
        let number = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let birth = Stat::read(number).map_or(0, |stat| stat.birth);
        Holder((birth << NUMBER_BITS) | (number & NUMBER))
    }

    fn number(self) -> u32 {
        self.0 & NUMBER
    }

    fn birth(self) -> u32 {
        self.0 >> NUMBER_BITS
    }

    /// False when it has surely died.
    pub(super) fn is_alive(self) -> bool {
        let Some(number) = Pid::from_raw(self.number() as i32) else { return false };
        if rustix::process::test_kill_process(number) == Err(Errno::SRCH) {
            return false;
        }
        // Without /proc there is nothing more to find out.
        let Some(stat) = Stat::read(self.number()) else { return true };
        let same = stat.birth == self.birth() || stat.birth == 0 || self.birth() == 0;
        same && !stat.dead
    }
}

/// What `/proc/N/stat` says of a thread.
struct Stat {
    /// It has ended, and nobody has asked for its exit status yet.
    dead: bool,
    /// Some bits of the time when it started.
    birth: u32,
}

impl Stat {
    fn read(number: u32) -> Option<Stat> {
        let mut path = [0; 32];
        let mut rest = &mut path[..];
        write!(rest, "/proc/{number}/stat").ok()?;
        let unused = rest.len();
        let path = &path[..path.len() - unused];
        let fd = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
        let mut text = [0; 1024];
        let len = rustix::io::read(&fd, &mut text).ok()?;
        Stat::parse(&text[..len])
    }

    /// proc(5): number, name in parentheses, state, …, and in field 22 the time in clock ticks when
    /// it started.
    fn parse(text: &[u8]) -> Option<Stat> {
        let name_end = text.iter().rposition(|byte| *byte == b')')?;
        let mut fields =
            text[name_end + 1..].split(|byte| *byte == b' ').filter(|field| !field.is_empty());
        let state = fields.next()?;
        let started = std::str::from_utf8(fields.nth(18)?).ok()?.parse::<u64>().ok()?;
        Some(Stat {
            dead: matches!(state, b"Z" | b"X" | b"x"),
            birth: 1 + (started % BIRTHS) as u32,
        })
    }
}

/// A word that is 0 again in a forked child, so that the child's thread does not go by its parent's
/// name. None when the kernel has no such memory.
fn fork_mark() -> Option<&'static AtomicU32> {
    // Not a `OnceLock`: in a child that is forked while another thread is inside, it would wait for
    // ever.
    static MARK: AtomicPtr<AtomicU32> = AtomicPtr::new(ptr::null_mut());
    let mut mark = MARK.load(Ordering::Acquire);
    if mark.is_null() {
        let page = NonNull::new(wiped_page()?)?;
        mark = match MARK.compare_exchange(
            ptr::null_mut(),
            page.as_ptr(),
            Ordering::AcqRel,
            Ordering::Acquire,
        ) {
            Ok(_) => page.as_ptr(),
            // Another thread was faster. Our page stays mapped, untouched: it costs an address.
            Err(theirs) => theirs,
        };
    }
    // SAFETY: aligned to a page, zeroed, and never unmapped.
    Some(unsafe { &*mark })
}

/// A new page that a fork leaves zeroed in the child.
fn wiped_page() -> Option<*mut AtomicU32> {
    let len = rustix::param::page_size();
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: new memory, at an address that the kernel chooses.
    let page =
        unsafe { rustix::mm::mmap_anonymous(ptr::null_mut(), len, protection, MapFlags::PRIVATE) }
            .ok()?;
    // SAFETY: the page that was just mapped; nothing is in it yet.
    match unsafe { rustix::mm::madvise(page, len, Advice::LinuxWipeOnFork) } {
        Ok(()) => Some(page.cast()),
        Err(_) => {
            // SAFETY: as above; it is of no use.
            let _ = unsafe { rustix::mm::munmap(page, len) };
            None
        }
    }
}
