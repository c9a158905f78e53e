//! What one socket is ready for, and which tasks wait for that.

use std::future::poll_fn;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use slab::Slab;
use tokio::io::{Interest, Ready};

/// Something may be read, accepted, or learned of reading's end.
pub(crate) const READ: u8 = 1;
/// Something may be written, or learned of writing's end.
pub(crate) const WRITE: u8 = 2;
/// The peer, or the socket itself, reads or writes no more.
const READ_CLOSED: u8 = 4;
const WRITE_CLOSED: u8 = 8;
/// Nobody drives it any more.
const ABANDONED: u8 = 16;

/// Readiness that is believed until a call finds nothing: edges set it, EAGAIN takes it back, and
/// an edge between a call and its EAGAIN is not lost.
#[derive(Default)]
pub(crate) struct Readiness(Mutex<State>);

struct State {
    bits: u8,
    /// How many edges there were.
    edges: u64,
    /// The tasks that polled last for reading, and for writing.
    polled: [Option<Waker>; 2],
    /// Futures that wait, each for these bits.
    waiting: Slab<(u8, Waker)>,
}

impl Default for State {
    fn default() -> State {
        // The first call tries.
        State { bits: READ | WRITE, edges: 0, polled: [None, None], waiting: Slab::new() }
    }
}

impl Readiness {
    /// An event of the socket came, with what it is ready for: POLL* bits.
    pub(crate) fn edge(&self, events: u32) {
        let has = |bits: i32| events & bits as u32 != 0;
        let over = has(libc::EPOLLHUP | libc::EPOLLERR);
        let mut bits = 0;
        if over || has(libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLPRI) {
            bits |= READ;
        }
        if over || has(libc::EPOLLOUT) {
            bits |= WRITE;
        }
        if has(libc::EPOLLHUP | libc::EPOLLRDHUP) {
            bits |= READ_CLOSED;
        }
        if has(libc::EPOLLHUP) {
            bits |= WRITE_CLOSED;
        }
        self.set(bits);
    }

    /// From now on nobody tells what it is ready for: whoever waits fails.
    pub(crate) fn abandon(&self) {
        self.set(READ | WRITE | ABANDONED);
    }

    fn set(&self, bits: u8) {
        let mut state = self.lock();
        state.bits |= bits;
        state.edges += 1;
        let polled = [READ, WRITE].map(|bit| bits & bit != 0);
        let polled: [Option<Waker>; 2] =
            [0, 1].map(|at| if polled[at] { state.polled[at].take() } else { None });
        let waiting: Vec<Waker> = state
            .waiting
            .iter()
            .filter(|(_, (wanted, _))| wanted & bits != 0)
            .map(|(_, (_, waker))| waker.clone())
            .collect();
        drop(state);
        polled.into_iter().flatten().chain(waiting).for_each(Waker::wake);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it is ready for any of the bits, and after how many edges. An error: nobody drives
    /// it.
    fn now(state: &State, wanted: u8) -> std::io::Result<Option<u64>> {
        if state.bits & ABANDONED != 0 {
            return Err(std::io::Error::other(
                "the runtime in which this socket was made is not there any more",
            ));
        }
        Ok((state.bits & wanted != 0).then_some(state.edges))
    }

    /// As [`Readiness::now`], for who does not wait.
    pub(crate) fn look(&self, wanted: u8) -> std::io::Result<Option<u64>> {
        Readiness::now(&self.lock(), wanted)
    }

    /// The call found nothing after so many edges. Without another since, it is not ready.
    pub(crate) fn found_nothing(&self, wanted: u8, edges: u64) {
        let mut state = self.lock();
        if state.edges == edges {
            state.bits &= !wanted;
        }
    }

    /// For `poll_read` and its like: the task that polls last is woken.
    pub(crate) fn poll(&self, cx: &mut Context<'_>, wanted: u8) -> Poll<std::io::Result<u64>> {
        let mut state = self.lock();
        match Readiness::now(&state, wanted)? {
            Some(edges) => Poll::Ready(Ok(edges)),
            None => {
                let slot = &mut state.polled[usize::from(wanted & WRITE != 0)];
                match slot {
                    Some(waker) if waker.will_wake(cx.waker()) => {}
                    slot => *slot = Some(cx.waker().clone()),
                }
                Poll::Pending
            }
        }
    }

    /// Waits until it is ready for any of the bits. Any number of tasks may wait.
    pub(crate) async fn wait(&self, wanted: u8) -> std::io::Result<u64> {
        let mut place = Place { readiness: self, key: None };
        poll_fn(|cx| place.poll(cx, wanted)).await
    }

    /// What it is ready for, of what is asked for.
    pub(crate) fn ready(&self, interest: Interest) -> Ready {
        let bits = self.lock().bits;
        let mut ready = Ready::EMPTY;
        if interest.is_readable() {
            ready |= if bits & READ != 0 { Ready::READABLE } else { Ready::EMPTY };
            ready |= if bits & READ_CLOSED != 0 { Ready::READ_CLOSED } else { Ready::EMPTY };
        }
        if interest.is_writable() {
            ready |= if bits & WRITE != 0 { Ready::WRITABLE } else { Ready::EMPTY };
            ready |= if bits & WRITE_CLOSED != 0 { Ready::WRITE_CLOSED } else { Ready::EMPTY };
        }
        ready
    }
}

/// One who waits, until it is dropped.
struct Place<'a> {
    readiness: &'a Readiness,
    key: Option<usize>,
}

impl Place<'_> {
    fn poll(&mut self, cx: &mut Context<'_>, wanted: u8) -> Poll<std::io::Result<u64>> {
        let mut state = self.readiness.lock();
        if let Some(edges) = Readiness::now(&state, wanted)? {
            return Poll::Ready(Ok(edges));
        }
        match self.key {
            Some(key) => state.waiting[key].1.clone_from(cx.waker()),
            None => self.key = Some(state.waiting.insert((wanted, cx.waker().clone()))),
        }
        Poll::Pending
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.readiness.lock().waiting.remove(key);
        }
    }
}
