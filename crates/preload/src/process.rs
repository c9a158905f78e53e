//! This process and its host: attached when first needed, and what to do when there is none.

use std::ffi::c_int;
use std::os::fd::BorrowedFd;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, Once, OnceLock};
use std::time::{Duration, Instant};

use clearway_client::{AppConfig, AttachError, Client};

use crate::cancel;
use crate::lock::Lock;
use crate::object::TABLE;
use crate::real;

/// After an attempt to attach failed, the next one is not made before this time has passed.
const PATIENCE: Duration = Duration::from_secs(1);

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
/// What the last attempt came to, when it was not attached: milliseconds since the first attempt, plus 1.
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

/// The host of this process; attaches when it was not yet, and from time to time again when that failed.
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
    if failed_at == 0 || now >= failed_at + PATIENCE.as_millis() as u64 {
        if let Some(client) = attach() {
            return Host::Here(client);
        }
        FAILED_AT.store(since_start(), Ordering::Relaxed);
    }
    drop(locked);
    if CLOSED.load(Ordering::Relaxed) { Host::Closed } else { Host::Absent }
}

/// Milliseconds since this was first asked, plus 1.
fn since_start() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_millis() as u64 + 1
}

/// The host of a process that `exec` gave this descriptor to, when that is a lifeline of the host's. What is wrong otherwise is told when a socket is made.
pub(crate) fn host_of(lifeline: BorrowedFd<'_>) -> Option<&'static Arc<Client>> {
    if let Some(client) = client() {
        return Some(client);
    }
    let _locked = ATTACHING.lock();
    let client = Client::attach_as_heir(AppConfig::from_env().ok()?, lifeline).ok()??;
    Some(keep(client))
}

fn keep(client: Arc<Client>) -> &'static Arc<Client> {
    let kept: &'static mut Arc<Client> = Box::leak(Box::new(client));
    CLIENT.store(kept, Ordering::Release);
    kept
}

fn attach() -> Option<&'static Arc<Client>> {
    let config = match AppConfig::from_env() {
        Ok(config) => config,
        Err(error) => {
            CLOSED.store(true, Ordering::Relaxed);
            tell(&format!("{error}; sockets that are not on the machine's own loopback fail"));
            return None;
        }
    };
    let (explicit, required) = (config.explicit, config.required);
    match Client::attach(config) {
        Ok(client) => Some(keep(client)),
        Err(error) => {
            let absent = matches!(error, AttachError::NoHost { .. });
            CLOSED.store(!absent || required, Ordering::Relaxed);
            if !absent || required {
                tell(&format!("{error}; sockets that are not on the machine's own loopback fail"));
            } else if explicit {
                tell(&format!("{error}; all sockets stay with the kernel"));
            }
            None
        }
    }
}

/// Says one thing on standard error, once.
fn tell(what: &str) {
    if !TOLD.swap(true, Ordering::Relaxed) {
        let line = format!("clearway: {what}\n");
        // SAFETY: the line is that long.
        unsafe { real::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len()) };
    }
}

/// Makes forks safe. Called before the first descriptor comes into the table.
pub(crate) fn watch_forks() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        PID.store(pid(), Ordering::Relaxed);
        // SAFETY: the handlers only take and give locks of this library and of the client, and store words.
        unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork_in_parent), Some(after_fork_in_child)) };
    });
}

fn pid() -> c_int {
    // SAFETY: takes nothing; not through the C library's function, which others may stand in for.
    unsafe { libc::syscall(libc::SYS_getpid) as c_int }
}

/// Is this the process that the tables belong to? Between `vfork` and `exec` a child runs in its parent's memory: what it closes or
/// duplicates there is its own, and the parent's table must not change.
pub(crate) fn is_own() -> bool {
    PID.load(Ordering::Relaxed) == pid()
}

extern "C" fn before_fork() {
    ATTACHING.take();
    if let Some(client) = client() {
        client.before_fork();
    }
    TABLE.lock().take();
    cancel::lock().take();
}

extern "C" fn after_fork_in_parent() {
    cancel::lock().give();
    TABLE.lock().give();
    if let Some(client) = client() {
        client.after_fork_in_parent();
    }
    ATTACHING.give();
}

extern "C" fn after_fork_in_child() {
    PID.store(pid(), Ordering::Relaxed);
    cancel::lock().give();
    cancel::after_fork_in_child();
    TABLE.lock().give();
    if let Some(client) = client() {
        client.after_fork_in_child();
    }
    ATTACHING.give();
}
