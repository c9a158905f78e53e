//! This process and its host: attached when first needed, and what to do when there is none.

use std::ffi::c_int;
use std::os::fd::BorrowedFd;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Once, OnceLock};
use std::time::{Duration, Instant};

use clearway_client::{AppConfig, AttachError, Client, ConfigError};
use clearway_errors::Code;

use crate::cancel;
use crate::decide;
use crate::export::depth;
use crate::inside;
use crate::lock::Lock;
use crate::object::TABLE;
use crate::real;
use crate::signals::held;
use crate::start;
use crate::undecided;
use crate::wait::replaced;

/// After an attempt to attach failed, the next one is not made before this time has passed.
const TIME_LIMIT: Duration = Duration::from_secs(1);

/// What there is behind this process.
#[derive(Clone, Copy)]
pub(crate) enum Host {
    /// The host.
    Here(&'static Arc<Client>),
    /// None, and the program may use the kernel.
    Absent,
    /// None that lets us in, and the program must not use the kernel where Clearway was meant.
    Closed,
}

static CLIENT: AtomicPtr<Arc<Client>> = AtomicPtr::new(ptr::null_mut());
static ATTACHING: Lock = Lock::new();
/// What the last attempt came to, when it was not attached: milliseconds since the first attempt,
/// plus 1.
static FAILED_AT: AtomicU64 = AtomicU64::new(0);
static CLOSED: AtomicBool = AtomicBool::new(false);
static TOLD: AtomicBool = AtomicBool::new(false);
/// The process that this library's tables belong to.
static PID: AtomicI32 = AtomicI32::new(0);

/// The client, when this process is attached already.
#[inline]
pub(crate) fn client() -> Option<&'static Arc<Client>> {
    // SAFETY: what was stored is never freed.
    unsafe { CLIENT.load(Ordering::Acquire).as_ref() }
}

/// The host of this process; attaches when it was not yet, and from time to time again when that
/// failed.
pub(crate) fn host() -> Host {
    if let Some(client) = client() {
        return Host::Here(client);
    }
    let locked = ATTACHING.lock();
    if let Some(client) = client() {
        return Host::Here(client);
    }
    let now = since_start();
    let failed_at = FAILED_AT.load(Ordering::Relaxed);
    if failed_at == 0 || now >= failed_at + TIME_LIMIT.as_millis() as u64 {
        if let Some(client) = attach() {
            return Host::Here(client);
        }
        FAILED_AT.store(since_start(), Ordering::Relaxed);
    }
    drop(locked);
    if CLOSED.load(Ordering::Relaxed) { Host::Closed } else { Host::Absent }
}

/// What the host answers to who only asks, where this process' settings want that. By that this process becomes a part of no program: it is
/// one by itself from its first socket on, or of the program whose socket it is given before that
/// ([`host_of`]), and until then it comes and goes. None: there is no host, or none lets it in.
pub(crate) fn in_passing<R>(
    wanted: impl FnOnce(&AppConfig) -> bool,
    ask: impl FnOnce(&Client) -> R,
) -> Option<R> {
    if let Some(client) = client() {
        return wanted(client.config()).then(|| ask(client));
    }
    let config = config().ok().filter(wanted)?;
    if inside::settings().is_none() {
        return Some(ask(&*Client::attach(config).ok()?));
    }
    match host() {
        Host::Here(client) => Some(ask(client)),
        Host::Absent | Host::Closed => None,
    }
}

/// Milliseconds since this was first asked, plus 1.
fn since_start() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_millis() as u64 + 1
}

/// The host of a process that `exec` gave this descriptor to, when that is a session fd of the
/// host's. What is wrong otherwise is told when a socket is made.
pub(crate) fn host_of(session_fd: BorrowedFd<'_>) -> Option<&'static Arc<Client>> {
    if let Some(client) = client() {
        return Some(client);
    }
    if inside::settings().is_some() {
        // Sockets of a stack inside of another process are of no use here.
        return None;
    }
    let _locked = ATTACHING.lock();
    let client = Client::attach_as_inheritor(config().ok()?, session_fd).ok()??;
    Some(keep(client))
}

/// What the environment said when the program was started: many programs empty or overwrite theirs
/// before they open their first socket.
fn config() -> Result<AppConfig, ConfigError> {
    AppConfig::from_variables(start::variable)
}

fn keep(client: Arc<Client>) -> &'static Arc<Client> {
    client.on_renewal(crate::decide::renew);
    tell_if_left_out(&client);
    let kept: &'static mut Arc<Client> = Box::leak(Box::new(client));
    CLIENT.store(kept, Ordering::Release);
    kept
}

fn attach() -> Option<&'static Arc<Client>> {
    let config = match config() {
        Ok(config) => config,
        Err(error) => {
            CLOSED.store(true, Ordering::Relaxed);
            let said = format!("{error}; sockets that are not on the machine's own loopback fail");
            tell_once(&error.code().before(said).to_string());
            return None;
        }
    };
    if let Some(settings) = inside::settings() {
        return match inside::attach(settings, config) {
            Ok(client) => Some(keep(client)),
            Err(sentence) => {
                CLOSED.store(true, Ordering::Relaxed);
                let said =
                    format!("{sentence}; sockets that are not on the machine's own loopback fail");
                tell_once(&Code::Failed.before(said).to_string());
                None
            }
        };
    }
    let (explicit, required) = (config.explicit, config.required);
    match Client::attach(config) {
        Ok(client) => Some(keep(client)),
        Err(error) => {
            // A host that does not let this user in was meant nevertheless.
            let absent = matches!(error, AttachError::NoHost { .. });
            CLOSED.store(!absent || required, Ordering::Relaxed);
            if !absent || required {
                let said =
                    format!("{error}; sockets that are not on the machine's own loopback fail");
                tell_once(&error.code().before(said).to_string());
            } else if explicit {
                let said = format!("{error}; all sockets stay with the kernel");
                tell_once(&error.code().before(said).to_string());
            }
            None
        }
    }
}

/// Whose sockets from before this process are dead hears why.
fn tell_if_left_out(client: &Client) {
    if let Some(why) = client.left_out() {
        let said = format!("{why}; sockets that this process has from another one fail");
        tell_once(&why.code().before(said).to_string());
    }
}

/// Says one thing on standard error, once.
fn tell_once(what: &str) {
    if !TOLD.swap(true, Ordering::Relaxed) {
        tell(what);
    }
}

/// Says something on standard error.
pub(crate) fn tell(what: &str) {
    let line = format!("clearway: {what}\n");
    // SAFETY: the line is that long.
    unsafe { real::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len()) };
}

/// Makes forks safe. Called before `main`, and before the first descriptor comes into the table,
/// which constructors of other libraries may bring there earlier.
pub(crate) fn watch_forks() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        PID.store(pid(), Ordering::Relaxed);
        // SAFETY: the handlers only take and give locks of this library and of the client, store
        // words, and enter the host.
        unsafe {
            libc::pthread_atfork(
                Some(before_fork),
                Some(after_fork_in_parent),
                Some(after_fork_in_child),
            )
        };
        if let Some(mark) = wiped_page() {
            // SAFETY: the page is ours, writable, and never unmapped.
            unsafe { &*mark }.store(1, Ordering::Relaxed);
            MARK.store(mark, Ordering::Release);
        }
    });
}

/// A word that is 1, and 0 in a child that has a copy of this process's memory and did not come by
/// `fork(3)`: by a bare `clone`, `clone3`, `fork` or `_Fork`.
static MARK: AtomicPtr<AtomicU32> = AtomicPtr::new(ptr::null_mut());

/// Between the handlers around a `fork(3)`, which say themselves what has to be said.
static FORKING: AtomicBool = AtomicBool::new(false);

/// From `asm-generic/mman-common.h`: the page is zero in a forked child.
const MADV_WIPEONFORK: c_int = 18;

/// A new page that a fork leaves zeroed in the child. None where the kernel has no such memory
/// (before Linux 4.14): then only `fork(3)` is known.
fn wiped_page() -> Option<*mut AtomicU32> {
    const LEN: usize = 4096;
    // SAFETY: new memory, at an address that the kernel chooses, which is asked for by system calls
    // that take no other pointers.
    unsafe {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let page = libc::mmap(
            ptr::null_mut(),
            LEN,
            protection,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        if page == libc::MAP_FAILED {
            return None;
        }
        if libc::madvise(page, LEN, MADV_WIPEONFORK) != 0 {
            libc::munmap(page, LEN);
            return None;
        }
        Some(page.cast())
    }
}

/// Looks whether this is a child that nobody announced, and then does for it what is done after a
/// fork.
#[inline]
pub(crate) fn notice_clone() {
    // SAFETY: null, or a page that is never unmapped.
    if let Some(mark) = unsafe { MARK.load(Ordering::Acquire).as_ref() } {
        if mark.load(Ordering::Relaxed) == 0 {
            cloned(mark);
        }
    }
}

#[cold]
fn cloned(mark: &AtomicU32) {
    if FORKING.load(Ordering::Relaxed) || mark.swap(1, Ordering::Relaxed) != 0 {
        return;
    }
    let errno = crate::errno::get();
    PID.store(pid(), Ordering::Relaxed);
    cancel::after_fork_in_child();
    replaced::after_fork_in_child();
    // One is the call that noticed it.
    if depth() == 1 {
        forget_threads();
    }
    if let Some(client) = client() {
        client.after_clone_in_child();
        tell_if_left_out(client);
    }
    inside::forget_sockets();
    if depth() == 1 {
        undecided::after_fork_in_child();
    }
    crate::errno::set(errno);
}

/// The program is about to change what it may do: its user, its groups, its root. It enters the
/// host now if it did not before, since it may not be able to afterwards; a host that is not there,
/// or that refuses, is no matter before a socket is asked for.
pub(crate) fn before_change() {
    if !is_own_or_unwatched() {
        return;
    }
    let errno = crate::errno::get();
    watch_forks();
    if client().is_none() {
        let _locked = ATTACHING.lock();
        if client().is_none() {
            if let Ok(config) = config() {
                let client = match inside::settings() {
                    // The ports may be out of reach afterwards.
                    Some(settings) => inside::attach(settings, config).ok(),
                    None => Client::attach(config).ok(),
                };
                client.map(keep);
            }
        }
    }
    if let Some(client) = client() {
        client.before_change();
    }
    crate::errno::set(errno);
}

/// The program is about to take from itself what sockets need: descriptors, system calls.
pub(crate) fn before_confinement(prepare: impl FnOnce(&Client)) {
    if !is_own_or_unwatched() {
        return;
    }
    let errno = crate::errno::get();
    if let Some(client) = client() {
        prepare(client);
    }
    crate::errno::set(errno);
}

/// Not a child between `vfork` and `exec`, which has this memory but is another process.
pub(crate) fn is_own_or_unwatched() -> bool {
    PID.load(Ordering::Relaxed) == 0 || is_own()
}

pub(crate) fn pid() -> c_int {
    // SAFETY: takes nothing; not through the C library's function, which others may stand in for.
    unsafe { libc::syscall(libc::SYS_getpid) as c_int }
}

/// Is this the process that the tables belong to? Between `vfork` and `exec` a child runs in its
/// parent's memory: what it closes or duplicates there is its own, and the parent's table must not
/// change.
pub(crate) fn is_own() -> bool {
    PID.load(Ordering::Relaxed) == pid()
}

extern "C" fn before_fork() {
    let errno = crate::errno::get();
    // Until the locks are given back: a handler may need them.
    held::enter();
    if is_own() {
        decide::settle_all(false);
    }
    FORKING.store(true, Ordering::Relaxed);
    ATTACHING.take();
    if let Some(client) = client() {
        client.before_fork();
    }
    TABLE.lock().take();
    replaced::lock().take();
    cancel::lock().take();
    crate::errno::set(errno);
}

extern "C" fn after_fork_in_parent() {
    let errno = crate::errno::get();
    cancel::lock().give();
    replaced::lock().give();
    TABLE.lock().give();
    if let Some(client) = client() {
        client.after_fork_in_parent();
    }
    ATTACHING.give();
    FORKING.store(false, Ordering::Relaxed);
    inside::tell_of_fork();
    held::leave();
    crate::errno::set(errno);
}

/// The parent's other threads are not in this child, and neither is what they were about to do to
/// descriptors: a session fd that one of them was closing would keep its session here.
fn forget_threads() {
    for fd in TABLE.after_fork_in_child() {
        // SAFETY: only asks what the descriptor is; where it is closed already that is an error.
        if clearway_client::may_be_session_fd(unsafe { BorrowedFd::borrow_raw(fd) }) {
            // SAFETY: closes the copy of a descriptor that the program was closing, and that
            // nobody in this child knows.
            unsafe { libc::syscall(libc::SYS_close, fd) };
        }
    }
}

extern "C" fn after_fork_in_child() {
    let errno = crate::errno::get();
    PID.store(pid(), Ordering::Relaxed);
    // SAFETY: null, or a page that is never unmapped.
    if let Some(mark) = unsafe { MARK.load(Ordering::Acquire).as_ref() } {
        mark.store(1, Ordering::Relaxed);
    }
    cancel::lock().give();
    cancel::after_fork_in_child();
    replaced::lock().give();
    replaced::after_fork_in_child();
    TABLE.lock().give();
    // One is the fork. Within another call of ours, that one goes on in the child.
    if depth() == 1 {
        forget_threads();
    }
    if let Some(client) = client() {
        client.after_fork_in_child();
        tell_if_left_out(client);
    }
    inside::forget_sockets();
    ATTACHING.give();
    FORKING.store(false, Ordering::Relaxed);
    if depth() == 1 {
        undecided::after_fork_in_child();
    }
    held::leave();
    crate::errno::set(errno);
}
