//! poll and select, over descriptors of the kernel and sockets of Clearway together.

use std::ffi::{c_int, c_ulong};
use std::time::{Duration, Instant};

use clearway_client::{Errno, PollEntry, PollFd, Target, poll as wait_for, sleep_poll};
use libc::{fd_set, nfds_t, pollfd, sigset_t, timespec, timeval};
use smallvec::SmallVec;

use crate::cancel::while_blocked;
use crate::epoll::{Set, Visit};
use crate::errno::{Answer, RESTART, fail};
use crate::export::{Inside, interpose};
use crate::given;
use crate::object::{Object, TABLE};
use crate::process;
use crate::table::Held;
use crate::wait::replaced::Waiter;

pub(crate) mod replaced;
#[cfg(test)]
mod tests;

/// Descriptors that are kept on the stack.
const FEW: usize = 16;

/// Bits of a word of an `fd_set`.
const WORD: usize = c_ulong::BITS as usize;

/// What makes a descriptor readable, writable and exceptional to select, as Linux has it
/// (`fs/select.c`).
const IN: u16 =
    (libc::POLLRDNORM | libc::POLLRDBAND | libc::POLLIN | libc::POLLHUP | libc::POLLERR) as u16;
const OUT: u16 = (libc::POLLWRBAND | libc::POLLWRNORM | libc::POLLOUT | libc::POLLERR) as u16;
const EXCEPT: u16 = libc::POLLPRI as u16;

interpose! {
    /// `poll(2)`
    fn poll(fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int, if any_known(fds, count) => {
        poll_inside(fds, count, limit_of_millis(timeout), std::ptr::null())
    };

    /// `ppoll(2)`
    fn ppoll(fds: *mut pollfd, count: nfds_t, timeout: *const timespec,
        mask: *const sigset_t) -> c_int, if any_known(fds, count) => {
        match limit_of_timespec(timeout) {
            Ok(limit) => poll_inside(fds, count, limit, mask),
            Err(errno) => Some(Err(errno)),
        }
    };

    /// `select(2)`. As on Linux, the time that is left comes back in `timeout`.
    fn select(count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set,
        timeout: *mut timeval) -> c_int, if Sets::new(count, [read, write, except]).any_known() => {
        select_timeval(&Sets::new(count, [read, write, except]), timeout)
    };

    /// `pselect(2)`
    fn pselect(count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set,
        timeout: *const timespec, mask: *const sigset_t) -> c_int,
            if Sets::new(count, [read, write, except]).any_known() => {
        match limit_of_timespec(timeout) {
            Ok(limit) => select_inside(&Sets::new(count, [read, write, except]), limit, mask),
            Err(errno) => Some(Err(errno)),
        }
    };
}

/// A time limit in milliseconds; a negative one is none.
pub(crate) fn limit_of_millis(millis: c_int) -> Option<Duration> {
    u64::try_from(millis).ok().map(Duration::from_millis)
}

/// A time limit; null is none.
///
/// # Safety
/// `limit` is null or points to a `timespec`.
pub(crate) unsafe fn limit_of_timespec(limit: *const timespec) -> Answer<Option<Duration>> {
    // SAFETY: null, or the caller's.
    let Some(limit) = (unsafe { limit.as_ref() }) else { return Ok(None) };
    match (u64::try_from(limit.tv_sec), u32::try_from(limit.tv_nsec)) {
        (Ok(seconds), Ok(nanos)) if nanos < 1_000_000_000 => {
            Ok(Some(Duration::new(seconds, nanos)))
        }
        _ => fail(libc::EINVAL),
    }
}

/// The signals that are blocked while a call waits, as the kernel has them: one bit each.
///
/// # Safety
/// `mask` is null or points to a set of signals.
pub(crate) unsafe fn mask_of(mask: *const sigset_t) -> Option<u64> {
    // SAFETY: not null, and the first 64 signals are the first eight bytes.
    (!mask.is_null()).then(|| unsafe { mask.cast::<u64>().read_unaligned() })
}

/// Objects of the table, held while a call waits.
type Holds = SmallVec<[Option<Held<Object>>; FEW]>;

fn any_known(fds: *const pollfd, count: nfds_t) -> bool {
    let len = (count as usize).saturating_mul(size_of::<pollfd>());
    let is_known = |at| {
        // SAFETY: the caller of `poll` has so many there, as far as the kernel would read.
        TABLE.has(unsafe { (*fds.add(at)).fd })
    };
    given::readable(fds.cast(), len).is_ok() && (0..count as usize).any(is_known)
}

/// What the client shall wait for. None: it is a matter of the kernel's.
fn target(held: Option<&Held<Object>>, fd: c_int) -> Target<'_> {
    match held.map(|held| &**held) {
        Some(Object::Ours(mine)) => Target::Ours(&mine.socket),
        Some(Object::Set(set)) => {
            set.inner().map_or(Target::Kernel(fd), |inner| Target::Epoll(inner, fd))
        }
        Some(Object::Pending(_) | Object::Route(_)) | None => Target::Kernel(fd),
    }
}

/// Waits, if there is anything but the kernel's in it.
fn wait(
    wanted: &[(c_int, u16)],
    limit: Option<Duration>,
    mask: Option<u64>,
    take: impl FnMut(usize, u16),
) -> Inside<usize> {
    let mut take = take;
    // A time that no clock shows is never.
    let until = limit.and_then(|limit| Instant::now().checked_add(limit));
    let mut left = limit;
    loop {
        let holds: Holds = wanted.iter().map(|&(fd, _)| TABLE.get(fd)).collect();
        let visits = visits(&holds, wanted, left);
        let waiters = waiters(&holds, left);
        if !waiters.is_empty() && !are(&holds, wanted) {
            continue;
        }
        let entry = |at: usize, (fd, events)| {
            // Who visits a set asks the kernel, whatever has joined the set since.
            let target = if visits[at].is_some() {
                Target::Kernel(fd)
            } else {
                target(holds[at].as_ref(), fd)
            };
            PollEntry { target, events, found: 0 }
        };
        let notified = waiters.iter().map(|waiter| PollEntry {
            target: Target::Kernel(waiter.fd()),
            events: IN,
            found: 0,
        });
        let mut entries: SmallVec<[PollEntry<'_>; FEW]> =
            wanted.iter().enumerate().map(|(at, &wish)| entry(at, wish)).chain(notified).collect();
        let answer = match entries.iter().all(|entry| matches!(entry.target, Target::Kernel(_))) {
            true if visits.iter().all(Option::is_none) && waiters.is_empty() => return None,
            true => while_blocked(|| wait_in_kernel(&mut entries, left, mask)),
            false => {
                let client = process::client()?;
                while_blocked(|| wait_for(client, &mut entries, left, mask))
            }
        };
        let (entries_wanted, notified) = entries.split_at(wanted.len());
        let is_other = visits.iter().flatten().any(Visit::was_rung)
            || notified.iter().any(|entry| entry.found != 0);
        if answer.is_err() || !is_other {
            return Some(answer.inspect(|_| {
                for (at, entry) in entries_wanted.iter().enumerate() {
                    take(at, entry.found);
                }
            }));
        }
        drop(entries);
        drop(visits);
        sets(&holds).for_each(|(_, set)| set.wait_for_waiting());
        left = limit.map(|limit| {
            until.map_or(limit, |until| until.saturating_duration_since(Instant::now()))
        });
    }
}

/// Waits until the socket is readable or the limit has passed (EAGAIN), whatever is put in its place
/// meanwhile. At once, if it is not one that another is put in the place of.
pub(crate) fn until_readable(fd: c_int, limit: Option<Duration>) -> Answer<()> {
    match wait(&[(fd, IN)], limit, None, |_, _| {}) {
        Some(Ok(0)) => fail(libc::EAGAIN),
        Some(Err(Errno(libc::EINTR))) if limit.is_none() => Err(RESTART),
        Some(Err(errno)) => Err(errno),
        Some(Ok(_)) | None => Ok(()),
    }
}

/// These are still what the descriptors are.
fn are(holds: &Holds, wanted: &[(c_int, u16)]) -> bool {
    holds.iter().zip(wanted).all(|(held, &(fd, _))| match (held, TABLE.get(fd)) {
        (Some(held), Some(now)) => held.same(&now),
        (held, now) => held.is_none() && now.is_none(),
    })
}

/// A waiter for each socket that another may be put in the place of. Nobody is one who does not
/// wait.
fn waiters(holds: &Holds, limit: Option<Duration>) -> SmallVec<[Waiter; 1]> {
    if limit == Some(Duration::ZERO) {
        return SmallVec::new();
    }
    holds.iter().flatten().filter_map(Waiter::begin).collect()
}

/// The sets among the objects, and where they stand.
fn sets(holds: &Holds) -> impl Iterator<Item = (usize, &Set)> {
    holds.iter().enumerate().filter_map(|(at, held)| match held.as_deref() {
        Some(Object::Set(set)) => Some((at, set)),
        _ => None,
    })
}

/// Sets that are the kernel's alone as yet: while a thread waits for one, it is woken when the
/// first socket of Clearway joins. Nobody visits who does not wait.
fn visits<'a>(
    holds: &'a Holds,
    wanted: &[(c_int, u16)],
    limit: Option<Duration>,
) -> SmallVec<[Option<Visit<'a>>; FEW]> {
    let mut visits: SmallVec<[Option<Visit<'a>>; FEW]> = wanted.iter().map(|_| None).collect();
    if limit != Some(Duration::ZERO) {
        sets(holds).for_each(|(at, set)| visits[at] = Visit::begin(set, wanted[at].0));
    }
    visits
}

/// The kernel's wait, by the system call, so that no thread is cancelled in the midst of our own
/// frames.
fn wait_in_kernel(
    entries: &mut [PollEntry<'_>],
    limit: Option<Duration>,
    mask: Option<u64>,
) -> Answer<usize> {
    let fd = |entry: &PollEntry<'_>| match entry.target {
        Target::Kernel(fd) => PollFd { fd, events: entry.events as i16, found: 0 },
        Target::Ours(_) | Target::Epoll(..) => unreachable!("all are the kernel's"),
    };
    let mut fds: SmallVec<[PollFd; FEW]> = entries.iter().map(fd).collect();
    let found = sleep_poll(&mut fds, limit, mask)?;
    for (entry, fd) in entries.iter_mut().zip(&fds) {
        entry.found = fd.found as u16;
    }
    Ok(found)
}

/// # Safety
/// The pointers are what the program gave to the C function that this serves, and valid as that
/// function asks.
unsafe fn poll_inside(
    fds: *mut pollfd,
    count: nfds_t,
    limit: Option<Duration>,
    mask: *const sigset_t,
) -> Inside<c_int> {
    if let Err(errno) = given::writable(fds.cast(), count as usize * size_of::<pollfd>()) {
        return Some(Err(errno));
    }
    // SAFETY: not null, so the caller's.
    let fds = unsafe { std::slice::from_raw_parts_mut(fds, count as usize) };
    let wanted: SmallVec<[(c_int, u16); FEW]> =
        fds.iter().map(|entry| (entry.fd, entry.events as u16)).collect();
    // SAFETY: null, or the caller's.
    let mask = unsafe { mask_of(mask) };
    let answer = wait(&wanted, limit, mask, |at, found| fds[at].revents = found as i16)?;
    Some(answer.map(|found| found as c_int))
}

/// The three sets of a `select`, which may be longer than `fd_set` when the program made room for
/// more.
struct Sets {
    words: usize,
    count: usize,
    sets: [*mut c_ulong; 3],
}

impl Sets {
    fn new(count: c_int, sets: [*mut fd_set; 3]) -> Sets {
        let count = usize::try_from(count).unwrap_or(0);
        Sets { words: count.div_ceil(WORD), count, sets: sets.map(<*mut fd_set>::cast) }
    }

    /// A word of a set; only bits below the count.
    fn word(&self, set: usize, at: usize) -> c_ulong {
        if self.sets[set].is_null() {
            return 0;
        }
        // SAFETY: the caller of `select` has room for `count` bits in each set that is not null.
        let word = unsafe { self.sets[set].add(at).read_unaligned() };
        let bits = self.count - at * WORD;
        if bits >= WORD { word } else { word & ((1 << bits) - 1) }
    }

    /// Each descriptor that is in any set, and what is wanted of it.
    fn wanted(&self) -> impl Iterator<Item = (c_int, u16)> + '_ {
        (0..self.words).flat_map(move |at| {
            let words = [self.word(0, at), self.word(1, at), self.word(2, at)];
            let all = words[0] | words[1] | words[2];
            (0..WORD).filter(move |bit| all >> bit & 1 != 0).map(move |bit| {
                let is_in = |set: usize| words[set] >> bit & 1 != 0;
                let pick = |set: usize, events: u16| if is_in(set) { events } else { 0 };
                ((at * WORD + bit) as c_int, pick(0, IN) | pick(1, OUT) | pick(2, EXCEPT))
            })
        })
    }

    fn any_known(&self) -> bool {
        self.are(|set, len| given::readable(set.cast(), len)).is_ok()
            && self.wanted().any(|(fd, _)| TABLE.has(fd))
    }

    /// Whether all sets that there are can be used in this way.
    fn are(&self, can: impl Fn(*mut c_ulong, usize) -> Answer<()>) -> Answer<()> {
        let len = self.words * size_of::<c_ulong>();
        self.sets.iter().filter(|set| !set.is_null()).try_for_each(|set| can(*set, len))
    }

    /// Replaces the sets by what was found; counts the bits.
    fn store(&self, found: &[(c_int, u16, u16)]) -> c_int {
        let mut bits = 0;
        for (set, events) in [IN, OUT, EXCEPT].into_iter().enumerate() {
            if self.sets[set].is_null() {
                continue;
            }
            for at in 0..self.words {
                // SAFETY: as in `word`.
                unsafe { self.sets[set].add(at).write_unaligned(0) };
            }
            for &(fd, wanted, found) in found {
                // Each set's own bit tells whether this one was asked for: POLLERR alone is in two.
                if wanted & own(set) == 0 || found & events == 0 {
                    continue;
                }
                let (at, bit) = (fd as usize / WORD, fd as usize % WORD);
                // SAFETY: as in `word`.
                unsafe {
                    let place = self.sets[set].add(at);
                    place.write_unaligned(place.read_unaligned() | 1 << bit);
                }
                bits += 1;
            }
        }
        bits
    }
}

/// The bit by which a wish for this set is known.
fn own(set: usize) -> u16 {
    [libc::POLLIN as u16, libc::POLLOUT as u16, EXCEPT][set]
}

/// # Safety
/// The pointers are what the program gave to the C function that this serves, and valid as that
/// function asks.
unsafe fn select_inside(
    sets: &Sets,
    limit: Option<Duration>,
    mask: *const sigset_t,
) -> Inside<c_int> {
    if let Err(errno) = sets.are(|set, len| given::writable(set.cast(), len)) {
        return Some(Err(errno));
    }
    let wanted: SmallVec<[(c_int, u16); FEW]> = sets.wanted().collect();
    let mut found: SmallVec<[(c_int, u16, u16); FEW]> = SmallVec::new();
    // SAFETY: null, or the caller's.
    let mask = unsafe { mask_of(mask) };
    let answer =
        wait(&wanted, limit, mask, |at, bits| found.push((wanted[at].0, wanted[at].1, bits)))?;
    Some(answer.and_then(|_| {
        if found.iter().any(|entry| entry.2 & libc::POLLNVAL as u16 != 0) {
            return fail(libc::EBADF);
        }
        Ok(sets.store(&found))
    }))
}

/// # Safety
/// The pointers are what the program gave to the C function that this serves, and valid as that
/// function asks.
unsafe fn select_timeval(sets: &Sets, timeout: *mut timeval) -> Inside<c_int> {
    // SAFETY: null, or the caller's.
    let Some(timeout) = (unsafe { timeout.as_mut() }) else {
        // SAFETY: no mask.
        return unsafe { select_inside(sets, None, std::ptr::null()) };
    };
    let limit = match (u64::try_from(timeout.tv_sec), u64::try_from(timeout.tv_usec)) {
        // Linux takes more than a second's worth of microseconds.
        (Ok(seconds), Ok(micros)) => {
            Duration::from_secs(seconds).saturating_add(Duration::from_micros(micros))
        }
        _ => return Some(fail(libc::EINVAL)),
    };
    let began = Instant::now();
    // SAFETY: no mask.
    let answer = unsafe { select_inside(sets, Some(limit), std::ptr::null()) }?;
    let left = limit.saturating_sub(began.elapsed());
    timeout.tv_sec = i64::try_from(left.as_secs()).unwrap_or(i64::MAX);
    timeout.tv_usec = left.subsec_micros().into();
    Some(answer)
}
