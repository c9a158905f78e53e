//! A service over the kernel's sockets, with epoll and one thread: what our stack is compared with.
//! It is written to be fast, because a slow rival proves nothing: a request that finds its socket
//! ready costs one epoll_wait for many, one read and one write.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd as _;

use anyhow::Context as _;
use clearway_base::{Handle, Instant, Slab, Wheel};
use clearway_engine::{Clock, CoreReport, Ended, Io, Next, Service};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

use crate::signals::Signals;
use crate::team::Watch;

/// Where connections come from.
pub(crate) enum Source<'a> {
    /// Others connect to these.
    Listen(&'a [SocketAddr]),
    /// We connect there, so many times.
    Connect(SocketAddr, u32),
}

/// Bytes read at a time.
const INBOX: usize = 128 * 1024;

/// Sockets looked at per epoll_wait.
const EVENTS: usize = 256;

/// Ticks of 2^24 ns, about 17 ms.
const TICK_SHIFT: u32 = 24;

/// Names of listeners begin here, where no handle's bits reach.
const LISTENERS: u64 = u64::MAX - 1_000;

/// The name of the signals.
const SIGNALS: u64 = u64::MAX;

struct Socket {
    stream: TcpStream,
    inbox: Box<[u8]>,
    start: usize,
    end: usize,
    /// The peer's FIN was read.
    ended: bool,
    /// The last send was cut short.
    full: bool,
    /// A read or write failed.
    failed: bool,
    /// What epoll watches for.
    watched: EpollFlags,
}

struct Place<T> {
    socket: Socket,
    talk: T,
}

impl Socket {
    fn new(stream: TcpStream) -> std::io::Result<Socket> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let inbox = vec![0; INBOX].into_boxed_slice();
        let watched = EpollFlags::EPOLLIN;
        Ok(Socket {
            stream,
            inbox,
            start: 0,
            end: 0,
            ended: false,
            full: false,
            failed: false,
            watched,
        })
    }

    /// Reads once; true when there may be more.
    fn fill(&mut self) -> bool {
        if self.ended || self.end == self.inbox.len() {
            return false;
        }
        match self.stream.read(&mut self.inbox[self.end..]) {
            Ok(0) => self.ended = true,
            Ok(n) => {
                self.end += n;
                return self.end == self.inbox.len();
            }
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => self.failed = true,
        }
        false
    }

    /// What epoll should watch for now.
    fn wanted(&self) -> EpollFlags {
        let mut wanted = EpollFlags::empty();
        wanted.set(EpollFlags::EPOLLIN, !self.ended && self.end < self.inbox.len());
        wanted.set(EpollFlags::EPOLLOUT, self.full);
        wanted
    }
}

impl Io for Socket {
    fn recv(&self) -> &[u8] {
        &self.inbox[self.start..self.end]
    }

    fn consumed(&mut self, n: usize) {
        self.start += n;
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
    }

    fn peer_closed(&self) -> bool {
        self.ended
    }

    fn room(&self) -> usize {
        // The kernel does not say; it takes what it takes.
        usize::MAX
    }

    fn send(&mut self, bytes: &[u8]) -> usize {
        let mut sent = 0;
        while sent < bytes.len() {
            match self.stream.write(&bytes[sent..]) {
                Ok(n) => sent += n,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    self.full = true;
                    self.failed |= error.kind() != ErrorKind::WouldBlock;
                    break;
                }
            }
        }
        sent
    }

    fn shutdown(&mut self) {
        // A socket that is gone already needs no end.
        let _ = self.stream.shutdown(Shutdown::Write);
    }
}

struct Loop<S: Service> {
    epoll: Epoll,
    service: S,
    places: Slab<Place<S::Talk>>,
    timers: Wheel,
    listeners: Vec<TcpListener>,
}

impl<S: Service> Loop<S> {
    fn add(&mut self, now: Instant, stream: TcpStream) {
        let talk = self.service.begin(now);
        let Ok(socket) = Socket::new(stream) else {
            self.service.end(Some(talk), Some(Ended::Failed(None)));
            return;
        };
        let Some(handle) = self.places.insert(Place { socket, talk }) else {
            self.service.end(None, Some(Ended::NoRoom));
            return;
        };
        if let Some(place) = self.places.get(handle) {
            let event = EpollEvent::new(place.socket.watched, handle.to_bits());
            if self.epoll.add(place.socket.stream.as_fd(), event).is_err() {
                self.remove(handle, Some(Ended::Failed(None)));
                return;
            }
        }
        self.step(now, handle, S::on_ready);
    }

    fn remove(&mut self, handle: Handle<Place<S::Talk>>, why: Option<Ended>) {
        self.timers.disarm(handle.index());
        // Closing the descriptor takes it out of the epoll set.
        if let Some(place) = self.places.remove(handle) {
            self.service.end(Some(place.talk), why);
        }
    }

    fn step(
        &mut self,
        now: Instant,
        handle: Handle<Place<S::Talk>>,
        step: impl FnOnce(&mut S, Instant, &mut S::Talk, &mut Socket) -> Next,
    ) {
        let Some(Place { socket, talk }) = self.places.get_mut(handle) else { return };
        let next = step(&mut self.service, now, talk, socket);
        if socket.failed {
            self.remove(handle, Some(Ended::Failed(None)));
            return;
        }
        match next {
            Next::Wait => {
                self.timers.arm_if_earlier(handle.index(), self.service.deadline(talk));
                let wanted = socket.wanted();
                if wanted != socket.watched {
                    socket.watched = wanted;
                    let mut event = EpollEvent::new(wanted, handle.to_bits());
                    // The descriptor is in the set as long as it is open.
                    let _ = self.epoll.modify(socket.stream.as_fd(), &mut event);
                }
            }
            Next::Close | Next::Abort => self.remove(handle, None),
        }
    }

    fn on_socket(&mut self, now: Instant, handle: Handle<Place<S::Talk>>, events: EpollFlags) {
        let mut more = true;
        while more {
            let Some(Place { socket, .. }) = self.places.get_mut(handle) else { return };
            socket.full = false;
            more = events
                .intersects(EpollFlags::EPOLLIN | EpollFlags::EPOLLHUP | EpollFlags::EPOLLERR)
                && socket.fill();
            self.step(now, handle, S::on_ready);
        }
    }

    fn on_timers(&mut self, now: Instant) {
        while let Some(index) = self.timers.next_expired(now) {
            let Some(handle) = self.places.handle_at(index) else { continue };
            let due = self
                .places
                .get(handle)
                .is_some_and(|place| self.service.deadline(&place.talk) <= now);
            let step = if due {
                S::on_timeout::<Socket>
            } else {
                |_: &mut S, _, _: &mut S::Talk, _: &mut Socket| Next::Wait
            };
            self.step(now, handle, step);
        }
    }
}

impl<S: Service> Loop<S> {
    fn new(service: S, places: u32, now: Instant) -> anyhow::Result<Loop<S>> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let timers = Wheel::with_tick_shift(places, TICK_SHIFT, now);
        Ok(Loop { epoll, service, places: Slab::new(places), timers, listeners: Vec::new() })
    }

    /// Listens, or connects.
    fn open(&mut self, now: Instant, source: Source<'_>) -> anyhow::Result<()> {
        match source {
            Source::Listen(addresses) => {
                for (index, address) in addresses.iter().enumerate() {
                    let listener = TcpListener::bind(address).with_context(|| {
                        format!(
                            "cannot listen on {address}. Choose a free port with -p, and \
                            addresses of this machine"
                        )
                    })?;
                    listener.set_nonblocking(true)?;
                    let event = EpollEvent::new(EpollFlags::EPOLLIN, LISTENERS + index as u64);
                    self.epoll.add(listener.as_fd(), event)?;
                    self.listeners.push(listener);
                }
            }
            Source::Connect(address, count) => {
                for _ in 0..count {
                    let stream = TcpStream::connect(address)
                        .with_context(|| format!("cannot connect to {address}"))?;
                    self.add(now, stream);
                }
            }
        }
        Ok(())
    }

    /// Waits until `until` at most and does what there is to do; false when a signal asks for the
    /// end.
    fn turn(&mut self, clock: &mut Clock, now: Instant, until: Instant) -> anyhow::Result<bool> {
        let wait = until.min(self.timers.next_deadline()).since(now);
        // Rounded up, so that a wait that ends is over.
        let millis = u16::try_from(wait.as_millis() + 1).unwrap_or(u16::MAX);
        let mut events = [EpollEvent::empty(); EVENTS];
        let count = match self.epoll.wait(&mut events, EpollTimeout::from(millis)) {
            Ok(count) => count,
            Err(nix::errno::Errno::EINTR) => 0,
            Err(errno) => return Err(errno.into()),
        };
        let time = clock.read();
        self.service.tick(time);
        for event in &events[..count] {
            match event.data() {
                SIGNALS => return Ok(false),
                name if name >= LISTENERS => self.accept(time.now, (name - LISTENERS) as usize),
                bits => {
                    if let Some(handle) = Handle::from_bits(bits) {
                        self.on_socket(time.now, handle, event.events());
                    }
                }
            }
        }
        self.on_timers(time.now);
        Ok(true)
    }

    fn accept(&mut self, now: Instant, listener: usize) {
        while let Some(Ok((stream, _))) = self.listeners.get(listener).map(TcpListener::accept) {
            self.add(now, stream);
        }
    }

    fn report(&self) -> [CoreReport<S::Report>; 1] {
        [CoreReport { app: self.service.report(), ..CoreReport::default() }]
    }
}

/// Runs `service` until it is finished, a signal comes or `duration` is over.
pub(crate) fn run<S: Service>(
    service: S,
    source: Source<'_>,
    places: u32,
    duration: Option<std::time::Duration>,
    watch: &mut impl Watch<S::Report>,
) -> anyhow::Result<()> {
    let signals = Signals::take()?;
    let mut clock = Clock::new();
    let started = clock.read().now;
    let mut state = Loop::new(service, places, started)?;
    state.epoll.add(signals.as_fd(), EpollEvent::new(EpollFlags::EPOLLIN, SIGNALS))?;
    state.open(started, source)?;
    watch.ready()?;
    let end = duration.map_or(Instant::NEVER, |duration| started + duration.into());
    let mut second = started;
    while !state.service.is_finished() {
        let now = clock.read().now;
        if now >= end {
            break;
        }
        let next_second = second + clearway_base::Duration::from_secs(1);
        if now >= next_second {
            watch.second(now.since(second).as_nanos() as f64 / 1e9, &state.report())?;
            second = now;
        } else if !state.turn(&mut clock, now, next_second.min(end))? {
            break;
        }
    }
    let seconds = clock.read().now.since(started).as_nanos() as f64 / 1e9;
    watch.summary(seconds, &state.report())
}
