//! Client and server over the kernel's sockets, with epoll and a thread for each core: so that the
//! client can drive any server, and our server has one to be compared with. A slow rival proves
//! nothing, so a request that finds its socket ready costs a part of an `epoll_wait`, one read and
//! one write: sockets are watched edge by edge, and a read that was not filled says that there is
//! no more.

mod client;
mod server;

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};

use clearway_base::{Duration, Instant};
use clearway_engine::{Clock, CoreReport, Seat};
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};

pub use client::run_client;
pub use server::{bind, run_server};

/// Sockets looked at per `epoll_wait`.
const EVENTS: usize = 256;

/// Bytes read at a time.
const SCRATCH: usize = 64 * 1024;

/// What the notifier is known by in the epoll set: no handle makes this number.
const NOTIFIER: u64 = 0;

/// How often a thread looks how much of the processor it got.
const LOOK_AT_CPU: Duration = Duration::from_millis(10);

/// How often figures are left for the watcher.
const REPORT_EVERY: Duration = Duration::from_secs(1);

/// The longest sleep.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// Allows so many open files and some besides, as far as the system lets us; a sentence when it
/// does not.
pub fn allow_open_files(sockets: u64) -> Result<(), String> {
    let wanted = sockets + 64;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|now| now >= wanted) {
        return Ok(());
    }
    let maximum = limit.maximum.map_or(wanted, |maximum| maximum.max(wanted));
    // Root may raise the hard limit as well.
    let raised = [limit.maximum.filter(|&most| most >= wanted), Some(maximum)]
        .into_iter()
        .flatten()
        .any(|maximum| {
            setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: Some(maximum) })
                .is_ok()
        });
    if raised {
        return Ok(());
    }
    Err(format!(
        "{sockets} sockets are more than this process may open. Raise the limit with `ulimit -n \
         {wanted}`"
    ))
}

/// How many sockets this process may open at most without anybody's help, some kept for other
/// files.
pub fn sockets_allowed() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    limit.maximum.or(limit.current).unwrap_or(u64::MAX).saturating_sub(64)
}

fn socket(address: &SocketAddr, kind: SocketType) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let fd =
        rustix::net::socket_with(family, kind, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC, None)?;
    if kind == SocketType::STREAM {
        sockopt::set_tcp_nodelay(&fd, true)?;
    }
    Ok(fd)
}

/// One thread's epoll set, and how long it was busy.
struct Watch<R> {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
    clock: Clock,
    seat: Seat<R>,
    now: Instant,
    /// Time that went by in looking for events that had not come.
    looked_in_vain: Duration,
    busy: Duration,
    cpu_looked_at: Instant,
    reported: Instant,
    rounds: u64,
    sleeps: u64,
}

impl<R: Clone + Default + Send + 'static> Watch<R> {
    fn new(seat: Seat<R>) -> io::Result<Watch<R>> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(
            &epoll,
            seat.notifier().as_fd(),
            epoll::EventData::new_u64(NOTIFIER),
            epoll::EventFlags::IN,
        )?;
        let mut clock = Clock::new();
        let now = clock.read().now;
        Ok(Watch {
            epoll,
            events: Vec::with_capacity(EVENTS),
            clock,
            seat,
            now,
            looked_in_vain: Duration::ZERO,
            busy: Duration::ZERO,
            cpu_looked_at: Instant::ZERO,
            // The first report comes at once: those who watch see that there is something.
            reported: Instant::ZERO,
            rounds: 0,
            sleeps: 0,
        })
    }

    fn add(&self, fd: impl AsFd, name: u64, flags: epoll::EventFlags) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, fd, epoll::EventData::new_u64(name), flags)?)
    }

    /// Waits for events, until `deadline` at most; not at all when that is less than a millisecond
    /// away, which is as exact as the system waits. False when the team is to stop.
    fn wait(&mut self, deadline: Instant) -> io::Result<bool> {
        let before = self.clock.read().now;
        let wait = deadline.since(before).min(LONGEST_WAIT);
        let millis = wait.as_millis();
        self.events.clear();
        let timeout = Timespec {
            tv_sec: (millis / 1_000) as i64,
            tv_nsec: (millis % 1_000 * 1_000_000) as i64,
        };
        match epoll::wait(
            &self.epoll,
            rustix::buffer::spare_capacity(&mut self.events),
            Some(&timeout),
        ) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        self.now = self.clock.read().now;
        self.rounds += 1;
        self.sleeps += u64::from(millis > 0);
        if millis == 0 && self.events.is_empty() {
            self.looked_in_vain = self.looked_in_vain + self.now.since(before);
        }
        if self.now.since(self.cpu_looked_at) >= LOOK_AT_CPU {
            self.look_at_cpu();
        }
        Ok(!self.seat.is_stopped())
    }

    fn look_at_cpu(&mut self) {
        let used = clock_gettime(ClockId::ThreadCPUTime);
        let used = Duration::from_nanos(used.tv_sec as u64 * 1_000_000_000 + used.tv_nsec as u64);
        self.busy = used - self.looked_in_vain;
        self.cpu_looked_at = self.now;
    }

    fn wants_report(&self) -> bool {
        self.now.since(self.reported) >= REPORT_EVERY
    }

    fn publish(&mut self, app: R) {
        self.seat.publish(CoreReport {
            turns: self.rounds,
            sleeps: self.sleeps,
            app,
            ..CoreReport::default()
        });
        self.reported = self.now;
    }
}
