//! What a process knows of a session: where its words and FIFOs lie, and by which attachment its
//! events come.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use arc_swap::{ArcSwapOption, Guard};
use clearway_shm::attach_socket::{self, FifoPlace, Kind, Place, SessionId};
use clearway_shm::layout::{flags, state};
use clearway_shm::lock;
use clearway_shm::{Consumer, FifoMem, Hostile, Producer, SessionView};

use crate::Errno;
use crate::socket::{Completions, StampFifos};

/// A session as all threads of this process use it.
pub(crate) struct Core {
    /// The session, and those that came in its place when a host came in place of another.
    first: Life,
    /// Which start of the host had the first one: with its name what all processes of the program
    /// know it by.
    boot: u64,
    /// What `listen` was last called with; 0: it was not called in this process.
    pub(crate) backlog: AtomicU32,
    pub(crate) kind: Kind,
    pub(crate) v6: bool,
    /// Its place in the hub.
    pub(crate) key: usize,
    /// A connection that failed and is tried again has other FIFOs.
    rx: ArcSwapOption<End<Consumer>>,
    tx: ArcSwapOption<End<Producer>>,
    /// The attachment that its events come by.
    attachment: AtomicU32,
    /// How often this process, or one that it came from, had been forked when that was so.
    forks: AtomicU32,
    /// SO_RCVLOWAT: bytes that make a stream readable.
    lowat: AtomicU32,
    /// SO_SNDBUF of a connection: bytes that may lie in its transmit FIFO, when those are fewer
    /// than there is room for.
    send_limit: AtomicU32,
    /// TCP_NOTSENT_LOWAT: bytes that may be written and not sent; u32::MAX: as many as there is
    /// room for.
    pub(crate) unsent_bound: AtomicU32,
    /// Datagrams that are longer than the path takes are refused: 1 over IPv4, 2 over IPv6.
    refuses_long: AtomicU32,
    /// What the path to the last peer took for whom that was asked, and the error word then.
    pub(crate) path: Mutex<Option<(IpAddr, u32, u32)>>,
    /// Sends with MSG_ZEROCOPY.
    pub(crate) completions: Completions,
    /// Where a stream's stamps lie, once that was asked.
    pub(crate) stamps: ArcSwapOption<StampFifos>,
    /// That the host is gone was reported as this socket's error.
    mourned: AtomicBool,
}

fn refusals(options: &attach_socket::SocketOptions) -> u32 {
    u32::from(options.refuses_longer(false)) | u32::from(options.refuses_longer(true)) << 1
}

/// A session in one start of the host. What somebody may still look at stays: as many as there were
/// starts.
struct Life {
    id: SessionId,
    /// The number of its program: this process's own, or one that handed it over.
    app: u32,
    words: SessionView,
    next: OnceLock<Box<Life>>,
}

/// Where a session's FIFOs lie, of those that it has.
pub(crate) struct Fifos {
    pub(crate) rx: Option<(FifoPlace, FifoMem)>,
    pub(crate) tx: Option<(FifoPlace, FifoMem)>,
}

/// Urgent data in the receive FIFO that was not read past.
#[derive(Clone, Copy)]
pub(crate) struct Mark {
    number: u32,
    /// Bytes before the urgent one.
    pub(crate) distance: u32,
    /// It was read with MSG_OOB.
    pub(crate) is_taken: bool,
}

/// One end of a FIFO.
pub(crate) struct End<T> {
    place: FifoPlace,
    pub(crate) mem: FifoMem,
    /// Used under the lock in the session's words only. So nobody ever waits for this one; where it
    /// is taken nevertheless, the process was forked while a thread that it does not have was at
    /// work.
    end: Mutex<T>,
}

/// An end that is used just now. It may be replaced meanwhile; its memory stays.
pub(crate) struct Used<T>(Guard<Option<Arc<End<T>>>>);

impl<T> Used<T> {
    fn of(end: &ArcSwapOption<End<T>>) -> Option<Used<T>> {
        let end = end.load();
        end.is_some().then(|| Used(end))
    }
}

impl<T> std::ops::Deref for Used<T> {
    type Target = End<T>;

    fn deref(&self) -> &End<T> {
        self.0.as_ref().expect("made with an end only")
    }
}

impl End<Consumer> {
    /// Works with the end as it is now. Call with the session's `rx_lock` held.
    pub(crate) fn with<R>(
        &self,
        _held: &lock::Guard<'_>,
        work: impl FnOnce(&mut Consumer) -> R,
    ) -> Result<R, Hostile> {
        match self.end.try_lock() {
            Ok(mut end) => {
                end.refresh()?;
                Ok(work(&mut end))
            }
            Err(_) => Ok(work(&mut Consumer::resume(self.mem.clone())?)),
        }
    }
}

impl End<Producer> {
    /// Works with the end as it is now. Call with the session's `tx_lock` held.
    pub(crate) fn with<R>(
        &self,
        _held: &lock::Guard<'_>,
        work: impl FnOnce(&mut Producer) -> R,
    ) -> Result<R, Hostile> {
        let mut resumed;
        let mut locked = self.end.try_lock();
        let end = match &mut locked {
            Ok(end) => &mut **end,
            Err(_) => {
                resumed = Producer::new(self.mem.clone());
                &mut resumed
            }
        };
        // Before it is looked at: the host gives no memory back meanwhile.
        let done = end.begin().map(|()| work(end));
        end.end_write();
        done
    }
}

impl Core {
    pub(crate) fn new(
        session: &attach_socket::Session,
        (boot, app): (u64, u32),
        words: SessionView,
        key: usize,
        forks: u32,
    ) -> Core {
        Core {
            first: Life { id: session.id, app, words, next: OnceLock::new() },
            boot,
            backlog: AtomicU32::new(0),
            kind: session.kind,
            v6: session.v6,
            key,
            rx: ArcSwapOption::empty(),
            tx: ArcSwapOption::empty(),
            attachment: AtomicU32::new(0),
            forks: AtomicU32::new(forks),
            lowat: AtomicU32::new(1),
            send_limit: AtomicU32::new(u32::MAX),
            unsent_bound: AtomicU32::new(session.options.unsent_bound().unwrap_or(u32::MAX)),
            refuses_long: AtomicU32::new(refusals(&session.options)),
            path: Mutex::new(None),
            completions: Completions::default(),
            stamps: ArcSwapOption::empty(),
            mourned: AtomicBool::new(false),
        }
    }

    fn life(&self) -> &Life {
        let mut life = &self.first;
        while let Some(next) = life.next.get() {
            life = next;
        }
        life
    }

    /// The session's name in the host that has it now.
    pub(crate) fn id(&self) -> SessionId {
        self.life().id
    }

    /// The number of the program whose session it is.
    pub(crate) fn app(&self) -> u32 {
        self.life().app
    }

    /// What all starts of the host are told that it was first.
    pub(crate) fn was(&self) -> (u64, SessionId) {
        (self.boot, self.first.id)
    }

    /// The session's words.
    pub(crate) fn words(&self) -> &SessionView {
        &self.life().words
    }

    /// Another host has it now. What the program set in its words goes along. Its FIFOs are to be
    /// set next.
    pub(crate) fn begin_life(&self, id: SessionId, app: u32, words: SessionView) {
        let old = self.words();
        words.flags.fetch_or(old.flags.load(Ordering::Acquire), Ordering::AcqRel);
        words.receive_timeout.store(old.receive_timeout.load(Ordering::Relaxed), Ordering::Relaxed);
        words.send_timeout.store(old.send_timeout.load(Ordering::Relaxed), Ordering::Relaxed);
        words.stamping.store(old.stamping.load(Ordering::Relaxed), Ordering::Relaxed);
        words.stamp_key.store(old.stamp_key.load(Ordering::Relaxed), Ordering::Relaxed);
        self.rx.store(None);
        self.tx.store(None);
        let last = self.life();
        // Who revives sockets does so alone in this process.
        let _ = last.next.set(Box::new(Life { id, app, words, next: OnceLock::new() }));
        self.mourned.store(false, Ordering::Relaxed);
    }

    /// Without its host it is not dead for good, for it is nothing that a peer knows of: a listener
    /// that still listens, or a datagram socket.
    pub(crate) fn comes_back(&self) -> bool {
        match self.kind {
            Kind::Stream => self.is_listening() && self.flags() & flags::SHUT_READ == 0,
            Kind::Datagram => self.flags() & flags::SHUT_READ == 0,
        }
    }

    /// It is a listener.
    pub(crate) fn is_listening(&self) -> bool {
        self.kind == Kind::Stream && self.state() & state::LISTENING != 0
    }

    /// The receive FIFO, once there is one.
    pub(crate) fn rx(&self) -> Option<Used<Consumer>> {
        Used::of(&self.rx)
    }

    /// The transmit FIFO, once there is one.
    pub(crate) fn tx(&self) -> Option<Used<Producer>> {
        Used::of(&self.tx)
    }

    /// Where the FIFOs lie is known, or has changed.
    pub(crate) fn set_fifos(&self, fifos: Fifos) {
        let differs = |known: Option<FifoPlace>, place: FifoPlace| known != Some(place);
        if let Some((place, mem)) =
            fifos.rx.filter(|(place, _)| differs(self.rx().map(|end| end.place), *place))
        {
            let end = Mutex::new(Consumer::new(mem.clone()));
            self.stamps.store(None);
            self.rx.store(Some(Arc::new(End { place, mem, end })));
        }
        if let Some((place, mem)) =
            fifos.tx.filter(|(place, _)| differs(self.tx().map(|end| end.place), *place))
        {
            let end = Mutex::new(Producer::new(mem.clone()));
            self.tx.store(Some(Arc::new(End { place, mem, end })));
        }
    }

    /// Its events come by this attachment from now on.
    pub(crate) fn belong(&self, attachment: u32, forks: u32) {
        self.forks.store(forks, Ordering::Relaxed);
        self.attachment.store(attachment, Ordering::Release);
    }

    /// The attachment that its events come by.
    pub(crate) fn attachment(&self) -> u32 {
        self.attachment.load(Ordering::Acquire)
    }

    /// It was inherited from a process that had been forked less often.
    pub(crate) fn is_inherited(&self, forks: u32) -> bool {
        self.forks.load(Ordering::Relaxed) != forks
    }

    /// Bits of the session's state. Of an attempt to connect that failed and was told nothing is
    /// left.
    pub(crate) fn state(&self) -> u32 {
        let state = self.words().state.load(Ordering::Acquire);
        if state & state::FAILED != 0 && self.flags() & flags::DISCONNECTED != 0 {
            return state & state::BOUND;
        }
        // The worker has not said yet what became of it.
        let is_fresh = state & (state::CONNECTING | state::CONNECTED | state::FAILED) == 0;
        if is_fresh && self.flags() & flags::CONNECT_ASKED != 0 {
            return state | state::CONNECTING;
        }
        state
    }

    /// Another process of those that share the stream has connected it: its words say so, and this
    /// process does not know yet where its FIFOs lie.
    pub(crate) fn is_unlearnt(&self) -> bool {
        let state = self.words().state.load(Ordering::Acquire);
        let begun = state & (state::CONNECTING | state::CONNECTED) != 0;
        self.kind == Kind::Stream && begun && self.rx().is_none()
    }

    /// What its words say of a stream that connects: its FIFOs, and once it is bound its names.
    pub(crate) fn described(
        &self,
        options: attach_socket::SocketOptions,
    ) -> attach_socket::Session {
        self.words().described(self.id(), Place::default(), self.v6, options)
    }

    /// The host has bound it, and said so in its words.
    pub(crate) fn is_bound(&self) -> bool {
        self.words().state.load(Ordering::Acquire) & state::BOUND != 0
    }

    pub(crate) fn flags(&self) -> u32 {
        self.words().flags.load(Ordering::Acquire)
    }

    pub(crate) fn is_nonblocking(&self) -> bool {
        self.flags() & flags::NONBLOCK != 0
    }

    /// SO_RCVLOWAT.
    pub(crate) fn lowat(&self) -> u32 {
        self.lowat.load(Ordering::Relaxed)
    }

    pub(crate) fn set_lowat(&self, lowat: u32) {
        self.lowat.store(lowat.max(1), Ordering::Relaxed);
    }

    /// SO_SNDBUF of a connection.
    pub(crate) fn send_limit(&self) -> u32 {
        self.send_limit.load(Ordering::Relaxed)
    }

    pub(crate) fn set_send_limit(&self, limit: u32) {
        self.send_limit.store(limit, Ordering::Relaxed);
    }

    /// Datagrams over this family that are longer than the path takes are refused, and not cut.
    pub(crate) fn refuses_long(&self, v6: bool) -> bool {
        self.refuses_long.load(Ordering::Relaxed) & (1 << u32::from(v6)) != 0
    }

    /// Its options are these from now on.
    pub(crate) fn heed(&self, options: &attach_socket::SocketOptions) {
        self.refuses_long.store(refusals(options), Ordering::Relaxed);
        self.unsent_bound.store(options.unsent_bound().unwrap_or(u32::MAX), Ordering::Relaxed);
        *self.path.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Errors of datagrams wait to be asked for.
    pub(crate) fn has_reports(&self) -> bool {
        self.words().error_reports.load(Ordering::Acquire) != 0
    }

    /// SO_OOBINLINE.
    pub(crate) fn is_oob_inline(&self) -> bool {
        self.flags() & flags::OOB_INLINE != 0
    }

    /// The urgent mark, while it is ahead.
    pub(crate) fn urgent(&self) -> Option<Mark> {
        let rx = self.rx()?;
        let head = rx.mem.head();
        let number = head.urgents.load(Ordering::Acquire);
        if number == head.urgent_passed.load(Ordering::Relaxed) {
            return None;
        }
        let read_to = head.head.load(Ordering::Acquire);
        let distance = head.urgent.load(Ordering::Acquire).wrapping_sub(1).wrapping_sub(read_to);
        let is_taken = number == head.urgent_taken.load(Ordering::Relaxed);
        // Half of the circle is behind us.
        (distance < 1 << 31).then_some(Mark { number, distance, is_taken })
    }

    /// Counts the urgent data that came; 0 before the first.
    pub(crate) fn urgents(&self) -> u32 {
        self.rx().map_or(0, |rx| rx.mem.head().urgents.load(Ordering::Acquire))
    }

    /// The urgent byte was read with MSG_OOB. Call with `rx_lock` held.
    pub(crate) fn take_urgent(&self, mark: Mark) {
        if let Some(rx) = self.rx() {
            rx.mem.head().urgent_taken.store(mark.number, Ordering::Relaxed);
        }
    }

    /// So many bytes were consumed where this mark lay ahead. Call with `rx_lock` held.
    pub(crate) fn passed(&self, mark: Option<Mark>, len: u32) {
        if let (Some(mark), Some(rx)) = (mark.filter(|mark| len > mark.distance), self.rx()) {
            rx.mem.head().urgent_passed.store(mark.number, Ordering::Relaxed);
        }
    }

    pub(crate) fn lock_rx(&self) -> lock::Guard<'_> {
        lock::lock(&self.words().rx_lock)
    }

    pub(crate) fn lock_tx(&self) -> lock::Guard<'_> {
        lock::lock(&self.words().tx_lock)
    }

    /// There is an error that nobody has taken.
    pub(crate) fn has_error(&self, alive: bool) -> bool {
        if !alive {
            return !self.mourned.load(Ordering::Relaxed);
        }
        let error = self.words().error.load(Ordering::Acquire);
        error != self.words().error_seen.load(Ordering::Relaxed)
    }

    /// Takes the error: the next who asks finds none. That the host is gone is an error too, once.
    pub(crate) fn take_error(&self, alive: bool) -> Option<Errno> {
        if !alive {
            let lost = match self.kind {
                // As for a connection that was reset before it could be accepted: servers go on
                // then.
                Kind::Stream if self.is_listening() => Errno::CONNABORTED,
                Kind::Stream => Errno::CONNRESET,
                Kind::Datagram => Errno::NETDOWN,
            };
            return (!self.mourned.swap(true, Ordering::Relaxed)).then_some(lost);
        }
        let error = self.words().error.load(Ordering::Acquire);
        let seen = self.words().error_seen.load(Ordering::Relaxed);
        if error == seen {
            return None;
        }
        let taken = self.words().error_seen.compare_exchange(
            seen,
            error,
            Ordering::AcqRel,
            Ordering::Relaxed,
        );
        // When another thread was quicker, it is that thread's.
        taken.ok().map(|_| Errno(i32::from(error as u16)))
    }
}
