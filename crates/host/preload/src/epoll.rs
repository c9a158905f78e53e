//! epoll: sets of the kernel's, some members of which are Clearway's.
//!
//! A set stays the kernel's own until a socket of Clearway joins it. Then the client waits for it,
//! for the kernel's members and its own together. Threads that wait in the kernel at that moment
//! are woken by a notifier that is put into the kernel's set for them.

use std::ffi::c_int;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use clearway_client::{EpollEvent, EpollSet, interrupt};
use libc::{epoll_event, sigset_t, timespec};

use crate::cancel::while_blocked;
use crate::errno::{Answer, check, fail};
use crate::export::{Inside, guarded, interpose};
use crate::given;
use crate::object::{Object, TABLE, ours};
use crate::process;
use crate::real;
use crate::reused;
use crate::table::Held;
use crate::wait::{limit_of_millis, limit_of_timespec, mask_of};

/// An epoll set of the program's.
pub(crate) struct Set {
    inner: OnceLock<Arc<EpollSet>>,
    /// The kernel's set has, or had, members.
    kernels: AtomicBool,
    waiting: Mutex<Waiting>,
    /// Sets of the kernel's that it is a member of, as long as it is the kernel's alone: the set's
    /// descriptor, its own, and what for.
    outer: Mutex<Vec<(c_int, c_int, EpollEvent)>>,
}

/// Threads that wait in the kernel for a set that had no member of Clearway when they began.
#[derive(Default)]
struct Waiting {
    threads: usize,
    /// Rung once, when the first member of Clearway joins; taken out with the last thread.
    notifier: Option<OwnedFd>,
}

/// Threads that were notified for are awake long before this has passed, unless one of them is what
/// we were called from, by a signal.
const WAKING: Duration = Duration::from_millis(100);

/// The word that the notifier's events carry. A program's member with the same word and EPOLLIN
/// would be taken for the notifier while threads are woken.
const NOTIFIER: u64 = 0xc1ea_55a7_be11_0000;

impl Set {
    /// A set of the program's; `kernels`: it may have members of the kernel already.
    fn new(kernels: bool) -> Set {
        Set {
            inner: OnceLock::new(),
            kernels: AtomicBool::new(kernels),
            waiting: Mutex::default(),
            outer: Mutex::default(),
        }
    }

    /// A member of the kernel's joins the kernel's set.
    fn kernels_join(&self) {
        if !self.kernels.swap(true, Ordering::SeqCst) {
            if let Some(inner) = self.inner.get() {
                inner.has_kernel_members();
            }
        }
    }

    /// The client's side of the set, when a socket of Clearway ever joined.
    pub(crate) fn inner(&self) -> Option<&Arc<EpollSet>> {
        self.inner.get()
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The client's side of the set, made now if it was not there.
    fn inner_made(&self, epfd: c_int) -> Answer<&Arc<EpollSet>> {
        if let Some(inner) = self.inner.get() {
            return Ok(inner);
        }
        let Some(client) = process::client() else { return fail(libc::EINVAL) };
        let mut waiting = self.waiting();
        if self.inner.get().is_none() {
            let made = EpollSet::new(client, epfd)?;
            let kept = self.inner.get_or_init(|| made);
            if self.kernels.load(Ordering::SeqCst) {
                kept.has_kernel_members();
            }
            if waiting.threads > 0 {
                waiting.notifier = Some(notify(epfd)?);
            }
        }
        drop(waiting);
        self.wait_for_waiting();
        self.tell_outer();
        self.inner.get().map_or_else(|| fail(libc::ENOMEM), Ok)
    }

    /// The sets that this one is in know nothing of its members of Clearway: they become its
    /// members there, too.
    fn tell_outer(&self) {
        let outer = std::mem::take(&mut *self.outer());
        for (epfd, fd, event) in outer {
            let is_set = matches!(TABLE.get(epfd).as_deref(), Some(Object::Set(_)));
            // SAFETY: takes a member out of a set; it fails when either is closed by now, or is
            // another by its number.
            let is_out = is_set
                && unsafe {
                    real::epoll_ctl(epfd, libc::EPOLL_CTL_DEL, fd, std::ptr::null_mut()) == 0
                };
            if is_out {
                rejoin(epfd, fd, event);
            }
        }
    }

    fn outer(&self) -> std::sync::MutexGuard<'_, Vec<(c_int, c_int, EpollEvent)>> {
        self.outer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The client puts members of its own into the kernel's set, which only it may see: nobody else
    /// waits there any more.
    pub(crate) fn wait_for_waiting(&self) {
        let until = Instant::now() + WAKING;
        while self.waiting().threads > 0 && Instant::now() < until {
            std::thread::yield_now();
        }
    }

    /// A thread is about to wait in the kernel. False: it shall not, for the set has members of
    /// Clearway by now.
    fn enter(&self) -> bool {
        let mut waiting = self.waiting();
        let plain = self.inner.get().is_none();
        waiting.threads += usize::from(plain);
        plain
    }

    /// The thread is back.
    fn leave(&self, epfd: c_int) {
        let mut waiting = self.waiting();
        waiting.threads -= 1;
        if waiting.threads == 0 {
            if let Some(notifier) = waiting.notifier.take() {
                // SAFETY: takes a member out of a set.
                unsafe {
                    real::epoll_ctl(
                        epfd,
                        libc::EPOLL_CTL_DEL,
                        notifier.as_raw_fd(),
                        std::ptr::null_mut(),
                    )
                };
            }
        }
    }
}

/// A thread that is about to wait in the kernel for a set without members of Clearway, together
/// with other things.
pub(crate) struct Visit<'a> {
    set: &'a Set,
    epfd: c_int,
}

impl<'a> Visit<'a> {
    /// None: it shall not, for the set has members of Clearway by now.
    pub(crate) fn begin(set: &'a Set, epfd: c_int) -> Option<Visit<'a>> {
        // Made only then: it leaves when it is dropped.
        set.enter().then(|| Visit { set, epfd })
    }

    /// The set has members of Clearway since: what the kernel found there may be the notifier, and
    /// is to be asked for anew.
    pub(crate) fn was_rung(&self) -> bool {
        self.set.inner().is_some()
    }
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        self.set.leave(self.epfd);
    }
}

/// A member of the kernel's set that is always readable.
fn notify(epfd: c_int) -> Answer<OwnedFd> {
    let mut event = epoll_event { events: libc::EPOLLIN as u32, u64: NOTIFIER };
    // SAFETY: makes an event counter that is not zero, which nobody else knows, and puts it into a
    // set.
    unsafe {
        let notifier =
            OwnedFd::from_raw_fd(check(libc::eventfd(1, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK))?);
        check(real::epoll_ctl(epfd, libc::EPOLL_CTL_ADD, notifier.as_raw_fd(), &mut event))?;
        Ok(notifier)
    }
}

fn remember(epfd: c_int, kernels: bool) -> c_int {
    if epfd >= 0 {
        guarded(|| {
            process::watch_forks();
            if process::is_own() {
                TABLE.put(epfd, Some(TABLE.make(Object::Set(Set::new(kernels)))));
            }
        });
    }
    epfd
}

/// `epoll_create(2)`
///
/// # Safety
/// Takes no pointers.
// SAFETY: it stands in for the function of this name in the C library, with its signature.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C-unwind" fn epoll_create(size: c_int) -> c_int {
    // SAFETY: takes no pointers.
    remember(reused::given_out(unsafe { real::epoll_create(size) }), false)
}

/// `epoll_create1(2)`
///
/// # Safety
/// Takes no pointers.
// SAFETY: it stands in for the function of this name in the C library, with its signature.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C-unwind" fn epoll_create1(flags: c_int) -> c_int {
    // SAFETY: takes no pointers.
    remember(reused::given_out(unsafe { real::epoll_create1(flags) }), false)
}

interpose! {
    /// `epoll_ctl(2)`
    fn epoll_ctl(set: c_int, what: c_int, fd: c_int, event: *mut epoll_event) -> c_int,
        if TABLE.has(fd) || TABLE.has(set) => control(set, what, fd, event);

    /// `epoll_wait(2)`
    fn epoll_wait(set: c_int, events: *mut epoll_event, count: c_int, timeout: c_int) -> c_int,
        if TABLE.has(set) => {
        wait(set, events, count, limit_of_millis(timeout), std::ptr::null())
    };

    /// `epoll_pwait(2)`
    fn epoll_pwait(set: c_int, events: *mut epoll_event, count: c_int, timeout: c_int,
        mask: *const sigset_t) -> c_int, if TABLE.has(set) => {
        wait(set, events, count, limit_of_millis(timeout), mask)
    };

    /// `epoll_pwait2(2)`
    fn epoll_pwait2(set: c_int, events: *mut epoll_event, count: c_int, timeout: *const timespec,
        mask: *const sigset_t) -> c_int, if TABLE.has(set) => {
        match limit_of_timespec(timeout) {
            Ok(limit) => wait(set, events, count, limit, mask),
            Err(errno) => Some(Err(errno)),
        }
    };
}

/// # Safety
/// The pointers are what the program gave to the C function that this serves, and valid as that
/// function asks.
unsafe fn control(epfd: c_int, what: c_int, fd: c_int, event: *mut epoll_event) -> Inside<c_int> {
    let member = TABLE.get(fd);
    match member.as_deref() {
        // SAFETY: the caller's own arguments.
        Some(Object::Pending(_)) => return unsafe { control_pending(epfd, what, fd, event) },
        None | Some(Object::Route(_)) => {
            if what == libc::EPOLL_CTL_ADD {
                kernels_join(epfd);
            }
            return None;
        }
        Some(Object::Set(nested)) if nested.inner().is_none() => {
            let mut outer = nested.outer();
            // Its first socket may have come just now.
            if nested.inner().is_none() {
                // SAFETY: the caller's own arguments.
                return Some(unsafe { control_in_kernel(epfd, what, fd, event, &mut outer) });
            }
        }
        Some(Object::Ours(_) | Object::Set(_)) => {}
    }
    if epfd == fd {
        return Some(fail(libc::EINVAL));
    }
    let held = match TABLE.get(epfd) {
        Some(held) => held,
        // A set that was not made by the functions of the C library, or that an exec brought along.
        None if is_epoll(epfd) => {
            remember(epfd, true);
            TABLE.get(epfd)?
        }
        None => return Some(not_a_set(epfd)),
    };
    let Object::Set(set) = &*held else { return Some(fail(libc::EINVAL)) };
    // SAFETY: null, or the caller's, and any bytes are an event.
    let event = unsafe { given::read(event) }
        .map(|event| EpollEvent { events: event.events, data: event.u64 });
    Some(control_ours(epfd, set, what, fd, event).map(|()| 0))
}

fn kernels_join(epfd: c_int) {
    if let Some(Object::Set(set)) = TABLE.get(epfd).as_deref() {
        set.kernels_join();
    }
}

/// Members of Clearway: a socket, or another set that has some.
fn control_ours(
    epfd: c_int,
    set: &Set,
    what: c_int,
    fd: c_int,
    event: Answer<EpollEvent>,
) -> Answer<()> {
    match what {
        libc::EPOLL_CTL_ADD => {
            let event = event?;
            let inner = set.inner_made(epfd)?;
            join(inner, fd, event)
        }
        libc::EPOLL_CTL_MOD => match set.inner() {
            Some(inner) => inner.modify(fd, event?),
            None => fail(libc::ENOENT),
        },
        libc::EPOLL_CTL_DEL => match set.inner() {
            Some(inner) => {
                if let Some(mine) = ours(fd) {
                    mine.leave_set(fd, inner);
                }
                inner.remove(fd)
            }
            None => fail(libc::ENOENT),
        },
        _ => fail(libc::EINVAL),
    }
}

fn join(inner: &Arc<EpollSet>, fd: c_int, event: EpollEvent) -> Answer<()> {
    if let Some(mine) = ours(fd) {
        inner.add(fd, &mine.socket, event)?;
        mine.join_set(fd, inner);
        return Ok(());
    }
    match TABLE.get(fd).as_deref() {
        Some(Object::Set(nested)) => match nested.inner() {
            Some(nested) => inner.add_set(fd, nested, event),
            None => fail(libc::EINVAL),
        },
        _ => fail(libc::EBADF),
    }
}

/// A socket that was a member of a set became Clearway's: it is a member again.
pub(crate) fn rejoin(epfd: c_int, fd: c_int, event: EpollEvent) {
    if let Some(Object::Set(set)) = TABLE.get(epfd).as_deref() {
        if let Ok(inner) = set.inner_made(epfd) {
            // The set may know another socket by this number, which is the program's mistake.
            let _ = join(inner, fd, event);
        }
    }
}

/// A socket that was Clearway's and a member of these sets is the kernel's.
pub(crate) fn rejoin_kernels(fd: c_int, members: Vec<(Arc<EpollSet>, EpollEvent)>) {
    for (inner, EpollEvent { events, data }) in members {
        let is_it = |held: &Held<Object>| match &**held {
            Object::Set(set) => set.inner().is_some_and(|of| Arc::ptr_eq(of, &inner)),
            _ => false,
        };
        let known =
            TABLE.range(0, c_int::MAX).find(|&epfd| TABLE.get(epfd).as_ref().is_some_and(is_it));
        let Some(epfd) = known else { continue };
        let mut event = epoll_event { events, u64: data };
        // SAFETY: the event is valid for the call; it fails when either is closed by now, and that
        // is well.
        unsafe { real::epoll_ctl(epfd, libc::EPOLL_CTL_ADD, fd, &raw mut event) };
        kernels_join(epfd);
    }
}

/// A pending socket is a member of the kernel's set, which is remembered for the case that it
/// becomes Clearway's.
///
/// # Safety
/// The pointers are what the program gave to the C function that this serves, and valid as that
/// function asks.
unsafe fn control_pending(
    epfd: c_int,
    what: c_int,
    fd: c_int,
    event: *mut epoll_event,
) -> Inside<c_int> {
    let held = TABLE.get(fd)?;
    let Object::Pending(pending) = &*held else { return None };
    let mut state = pending.state();
    if state.decided {
        return None;
    }
    // SAFETY: the caller's own arguments.
    Some(unsafe { control_in_kernel(epfd, what, fd, event, &mut state.sets) })
}

/// The same of the kernel's set alone, noted for when that changes.
///
/// # Safety
/// As for [`control_pending`].
unsafe fn control_in_kernel(
    epfd: c_int,
    what: c_int,
    fd: c_int,
    event: *mut epoll_event,
    noted: &mut Vec<(c_int, c_int, EpollEvent)>,
) -> Answer<c_int> {
    // SAFETY: the caller's own arguments.
    let answer = check(unsafe { real::epoll_ctl(epfd, what, fd, event) });
    if answer.is_ok() {
        kernels_join(epfd);
        noted.retain(|&(set, member, _)| (set, member) != (epfd, fd));
        // SAFETY: null, or the caller's, and any bytes are an event.
        let event = unsafe { given::read(event) };
        if let (libc::EPOLL_CTL_ADD | libc::EPOLL_CTL_MOD, Ok(event)) = (what, event) {
            noted.push((epfd, fd, EpollEvent { events: event.events, data: event.u64 }));
        }
    }
    answer
}

/// Is this descriptor an epoll set of the kernel's?
fn is_epoll(fd: c_int) -> bool {
    let mut target = [0u8; 64];
    let path = format!("/proc/self/fd/{fd}\0");
    // SAFETY: the path ends in NUL, and the buffer is that long.
    let len =
        unsafe { libc::readlink(path.as_ptr().cast(), target.as_mut_ptr().cast(), target.len()) };
    usize::try_from(len).is_ok_and(|len| target[..len] == *b"anon_inode:[eventpoll]")
}

fn not_a_set<T>(fd: c_int) -> Answer<T> {
    // SAFETY: reads a flag.
    match unsafe { real::fcntl(fd, libc::F_GETFD, 0) } {
        -1 => fail(libc::EBADF),
        _ => fail(libc::EINVAL),
    }
}

/// # Safety
/// The pointers are what the program gave to the C function that this serves, and valid as that
/// function asks.
unsafe fn wait(
    epfd: c_int,
    events: *mut epoll_event,
    count: c_int,
    limit: Option<Duration>,
    mask: *const sigset_t,
) -> Inside<c_int> {
    let held = TABLE.get(epfd)?;
    let Object::Set(set) = &*held else { return None };
    let until = limit.map(|limit| Instant::now() + limit);
    if set.enter() {
        // SAFETY: the caller's own arguments.
        let found = while_blocked(|| unsafe { wait_in_kernel(epfd, events, count, limit, mask) });
        let woken = set.inner().is_some();
        set.leave(epfd);
        // SAFETY: the kernel has filled in so many.
        match (woken, found) {
            // SAFETY: the kernel has filled in so many.
            (true, Ok(found)) => match unsafe { without_notifier(events, found) } {
                0 => {}
                rest => return Some(Ok(rest)),
            },
            (_, found) => return Some(found),
        }
    }
    let inner = set.inner()?;
    let room = match usize::try_from(count) {
        Ok(room) if room > 0 => room,
        _ => return Some(fail(libc::EINVAL)),
    };
    // What comes after the first is where that is, or it is found out too late.
    if let Err(errno) = given::writable(events.cast(), size_of::<epoll_event>()) {
        return Some(Err(errno));
    }
    let left = until.map(|until| until.saturating_duration_since(Instant::now()));
    // SAFETY: the caller has room for so many, and the client's events are laid out as the
    // kernel's.
    let out = unsafe { std::slice::from_raw_parts_mut(events.cast::<EpollEvent>(), room) };
    // SAFETY: null, or the caller's.
    let mask = unsafe { mask_of(mask) };
    Some(while_blocked(|| inner.wait(epfd, out, left, mask)).map(|found| found as c_int))
}

const _: () = assert!(size_of::<EpollEvent>() == size_of::<epoll_event>());

/// The kernel's wait, by the system call, so that no thread is cancelled in the midst of our own
/// frames.
///
/// # Safety
/// The pointers are what the program gave to the C function that this serves, and valid as that
/// function asks.
unsafe fn wait_in_kernel(
    epfd: c_int,
    events: *mut epoll_event,
    count: c_int,
    limit: Option<Duration>,
    mask: *const sigset_t,
) -> Answer<c_int> {
    let (set, room) = (epfd as u64, count as u64);
    let (events, mask, mask_len) = (events as u64, mask as u64, size_of::<u64>() as u64);
    let found = match limit {
        Some(limit) if limit.subsec_nanos() % 1_000_000 != 0 => {
            let limit =
                timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() };
            let limit = (&raw const limit) as u64;
            // SAFETY: the caller's own arguments, which the kernel checks, and a time that lives.
            unsafe {
                interrupt::wait(libc::SYS_epoll_pwait2, [set, events, room, limit, mask, mask_len])
            }
        }
        limit => {
            let millis =
                limit.map_or(-1, |limit| c_int::try_from(limit.as_millis()).unwrap_or(c_int::MAX));
            let millis = millis as u64;
            // SAFETY: as above.
            unsafe {
                interrupt::wait(libc::SYS_epoll_pwait, [set, events, room, millis, mask, mask_len])
            }
        }
    };
    Ok(found? as c_int)
}

/// Takes the notifier out of what the kernel found.
///
/// # Safety
/// The pointers are what the program gave to the C function that this serves, and valid as that
/// function asks.
unsafe fn without_notifier(events: *mut epoll_event, found: c_int) -> c_int {
    // SAFETY: the kernel has filled in so many.
    let found = unsafe { std::slice::from_raw_parts_mut(events, found.max(0) as usize) };
    let mut kept = 0;
    for at in 0..found.len() {
        if { found[at].u64 } != NOTIFIER {
            found[kept] = found[at];
            kept += 1;
        }
    }
    kept as c_int
}
