//! The descriptors that this crate holds for itself.
//!
//! They stand at high numbers, so that a program that counts on low ones finds them, and they are
//! known, so that one that closes whatever is open can be kept from closing these.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use crate::Errno;

/// Numbers from here on are preferred, when the process may have so many.
const PREFERRED: u64 = 900;

/// Numbers up to here can be known.
const MOST: usize = 1 << 16;

static KNOWN: [AtomicU64; MOST / 64] = [const { AtomicU64::new(0) }; MOST / 64];

/// The descriptor is one that this crate holds for itself in this process. A program must not close
/// or replace it.
pub fn is_internal(fd: i32) -> bool {
    place(fd).is_some_and(|(word, bit)| word.load(Ordering::Relaxed) & bit != 0)
}

fn place(fd: i32) -> Option<(&'static AtomicU64, u64)> {
    let fd = usize::try_from(fd).ok().filter(|fd| *fd < MOST)?;
    Some((&KNOWN[fd / 64], 1 << (fd % 64)))
}

/// Descriptors that are held for when the process has no other left: a session that comes from the
/// host, and a segment for its FIFOs, need one each for a moment, and the first sleep two for good
/// and one more for a moment. On Linux, neither connecting nor waiting takes one.
static SPARES: Mutex<Vec<Internal>> = Mutex::new(Vec::new());
const MOST_SPARES: usize = 5;

/// Holds what is missing of the spares, as copies of any descriptor, while there are others left.
/// They are of use where a new descriptor could have their numbers: below `limit`, when that is what
/// the process is about to be limited to.
pub(crate) fn hold_spares(of: BorrowedFd<'_>, limit: Option<u64>) {
    // Who does so at the same time does it for this one too; in a child of a fork it may be nobody.
    let Ok(mut spares) = SPARES.try_lock() else { return };
    if let Some(limit) = limit {
        spares.retain(|spare| (spare.as_fd().as_raw_fd() as u64) < limit);
    }
    if spares.len() == MOST_SPARES {
        // Nothing to ask the kernel for: so it is at nearly every socket.
        return;
    }
    let Some(from) = limit.map_or_else(lowest, below) else { return };
    while spares.len() < MOST_SPARES {
        let Ok(copy) = clearway_shm::socket::copy_from(of, from, true) else { return };
        spares.push(Internal::known(copy));
    }
}

/// Does what needs descriptors, and where there are none again without a spare, until it has as many
/// as it needs.
pub(crate) fn with_spares<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno::MFILE) if give_up_a_spare() => {}
            answer => return answer,
        }
    }
}

/// False: there was none.
fn give_up_a_spare() -> bool {
    SPARES.try_lock().is_ok_and(|mut spares| spares.pop().is_some())
}

/// A descriptor of ours.
#[derive(Debug)]
pub(crate) struct Internal {
    fd: Option<OwnedFd>,
}

impl Internal {
    /// Takes a descriptor into our keeping, at a high number when there is one.
    pub(crate) fn new(fd: OwnedFd) -> Internal {
        Internal::known(raise(&fd).unwrap_or(fd))
    }
}

impl Internal {
    /// Takes several at once.
    pub(crate) fn several(fds: Vec<OwnedFd>) -> Vec<Internal> {
        let from = lowest();
        let raised =
            |fd: &OwnedFd| from.and_then(|from| rustix::io::fcntl_dupfd_cloexec(fd, from).ok());
        let (mut known, mut low) = (Vec::with_capacity(fds.len()), Vec::with_capacity(fds.len()));
        for fd in fds {
            match raised(&fd) {
                Some(high) => {
                    low.push(fd);
                    known.push(Internal::known(high));
                }
                None => known.push(Internal::known(fd)),
            }
        }
        clearway_shm::socket::close_all(low);
        known
    }

    /// A copy of the program's at a high number, where there is one: nowhere else it would be in
    /// the program's way.
    pub(crate) fn copy_of(fd: BorrowedFd<'_>) -> Option<Internal> {
        // The limit may have changed since; then the system refuses the number, or gives one that
        // is as good. Not a `OnceLock`, which a child of a fork might find in another thread's
        // hands.
        static LOWEST: AtomicI32 = AtomicI32::new(UNKNOWN);
        const UNKNOWN: i32 = -1;
        let from = match LOWEST.load(Ordering::Relaxed) {
            UNKNOWN => lowest().inspect(|lowest| LOWEST.store(*lowest, Ordering::Relaxed))?,
            lowest => lowest,
        };
        clearway_shm::socket::copy_from(fd, from, true).ok().map(Internal::known)
    }

    /// It becomes the program's.
    pub(crate) fn release(mut self) -> OwnedFd {
        self.forget().expect("taken away by this and drop only")
    }

    fn known(fd: OwnedFd) -> Internal {
        if let Some((word, bit)) = place(fd.as_raw_fd()) {
            word.fetch_or(bit, Ordering::Relaxed);
        }
        Internal { fd: Some(fd) }
    }

    fn forget(&mut self) -> Option<OwnedFd> {
        let fd = self.fd.take();
        if let Some((word, bit)) = fd.as_ref().and_then(|fd| place(fd.as_raw_fd())) {
            word.fetch_and(!bit, Ordering::Relaxed);
        }
        fd
    }
}

impl AsFd for Internal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_ref().expect("taken away by drop only").as_fd()
    }
}

impl Drop for Internal {
    fn drop(&mut self) {
        // Forgotten first: the number can be the program's as soon as it is closed.
        drop(self.forget());
    }
}

/// The same at a high number.
fn raise(fd: &OwnedFd) -> Option<OwnedFd> {
    rustix::io::fcntl_dupfd_cloexec(fd, lowest()?).ok()
}

/// The lowest number that is high.
fn lowest() -> Option<i32> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    below(limit.current.unwrap_or(u64::MAX))
}

/// The lowest number that is high below a limit.
fn below(limit: u64) -> Option<i32> {
    i32::try_from(PREFERRED.min(limit / 4 * 3)).ok()
}
