//! The turn of one core, and the loop that repeats it.

use std::fmt;
use std::io;
use std::sync::atomic::Ordering;

use clearway_base::{Duration, Instant};
use clearway_dev::{Dev, DevCounters, DevError, FramePool};
use clearway_pkt::{Burst, Iface, PoolBuf};
use clearway_proto::{AddError, Env, InterfaceSpec, Link, Stack, Table};
use clearway_wire::Mac;

use crate::patience::Patience;
use crate::ports::Ports;
use crate::team::{CoreReport, Seat};
use crate::wait::{self, MAX_WAITED};
use crate::{App, Clock, Time};

/// What the engine does when there is nothing to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Asks the ports again and again; the core is never idle.
    Polling,
    /// Sleeps at once.
    Interrupt,
    /// Goes on asking for this long after the last packet, then sleeps; sleeps at once while packets come at longer intervals than that.
    Adaptive(Duration),
}

/// How often figures are left for the watcher.
const REPORT_EVERY: Duration = Duration::from_secs(1);

/// How long the application's goodbyes may take.
const STOP_WITHIN: Duration = Duration::from_millis(200);

/// How long to wait when a port takes no more frames and does not say when it will.
const PORT_FULL_PAUSE: Duration = Duration::from_micros(200);

/// Why an engine ended.
#[derive(Debug)]
pub enum EngineError {
    /// A port is of no more use.
    Device(DevError),
    /// The system does not let us sleep.
    Wait(io::Error),
    /// The application could not begin; in its own words.
    App(String),
    /// A port could not become an interface of the stack.
    Interface(usize, AddError),
    /// More ports than one engine drives.
    TooManyPorts,
}

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EngineError::Device(error) => error.fmt(f),
            EngineError::Wait(error) => write!(f, "cannot wait for packets: {error}"),
            EngineError::App(sentence) => f.write_str(sentence),
            EngineError::Interface(port, error) => write!(f, "port {port} cannot be an interface: {error:?}"),
            EngineError::TooManyPorts => write!(f, "one engine drives {MAX_WAITED} ports at most"),
        }
    }
}

impl std::error::Error for EngineError {}

impl From<DevError> for EngineError {
    fn from(error: DevError) -> EngineError {
        EngineError::Device(error)
    }
}

/// What a turn has left to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Turn {
    /// Packets came or went.
    pub worked: bool,
    /// There is more to do at once.
    pub again: bool,
    /// When the next turn is due though nothing happens.
    pub deadline: Instant,
}

/// One core's clock, ports, stack and application.
pub struct Engine<E: Env<Buf = PoolBuf>, D, A: App<E>> {
    clock: Clock,
    stack: Stack<E>,
    ports: Ports<D>,
    app: A,
    burst: Burst<PoolBuf>,
    pool: FramePool,
    mode: Mode,
    seat: Seat<A::Report>,
    turns: u64,
    sleeps: u64,
    reported: Instant,
    // Something happened since the last report.
    news: bool,
}

impl<E: Env<Buf = PoolBuf>, D: Dev<Buf = PoolBuf>, A: App<E>> Engine<E, D, A> {
    /// Makes each device an interface of the stack, in their order: the first is `Iface(0)`. The stack must have no interface yet. `pool` is
    /// the one that the devices use.
    pub fn new(
        mut stack: Stack<E>,
        devs: Vec<D>,
        pool: FramePool,
        app: A,
        mode: Mode,
        seat: Seat<A::Report>,
    ) -> Result<Engine<E, D, A>, EngineError> {
        if devs.len() > MAX_WAITED {
            return Err(EngineError::TooManyPorts);
        }
        for (index, dev) in devs.iter().enumerate() {
            let offloads = dev.offloads();
            let link = match dev.mac() {
                Some(mac) => Link::Ethernet(Mac(mac.0)),
                None if offloads.trusted_link => Link::Loopback,
                None => Link::Raw,
            };
            let mtu = u32::try_from(dev.mtu()).unwrap_or(u32::MAX).min(65_535);
            let spec = InterfaceSpec { link, mtu, offloads, table: Table(0) };
            stack.add_interface(spec).map_err(|error| EngineError::Interface(index, error))?;
        }
        // Segments that arrive in fragments are put together in buffers of the same pool.
        let spare = pool.clone();
        stack.set_buffer_maker(Box::new(move |bytes| spare.copy_of(bytes)));
        Ok(Engine {
            clock: Clock::new(),
            stack,
            ports: Ports::new(devs),
            app,
            burst: Burst::new(),
            pool,
            mode,
            seat,
            turns: 0,
            sleeps: 0,
            reported: Instant::ZERO,
            news: true,
        })
    }

    /// The stack, to give it addresses and routes.
    pub fn stack(&mut self) -> &mut Stack<E> {
        &mut self.stack
    }

    /// The application.
    pub fn app(&mut self) -> &mut A {
        &mut self.app
    }

    /// What time it is.
    pub fn time(&mut self) -> Time {
        self.clock.read()
    }

    /// Runs until the team is stopped, the application is finished, or something fails.
    pub fn run(&mut self) -> Result<(), EngineError> {
        let time = self.clock.read();
        self.app.start(time, &mut self.stack).map_err(EngineError::App)?;
        let ended = self.run_turns();
        let time = self.clock.read();
        self.app.stop(time, &mut self.stack);
        let goodbye = if ended.is_ok() { self.run_out(time.now + STOP_WITHIN) } else { Ok(()) };
        self.publish(self.reported);
        ended.and(goodbye)
    }

    fn run_turns(&mut self) -> Result<(), EngineError> {
        let mut patience = Patience::new(match self.mode {
            Mode::Adaptive(spin) => spin,
            Mode::Interrupt | Mode::Polling => Duration::ZERO,
        });
        while !self.seat.stop.load(Ordering::Acquire) {
            let time = self.clock.read();
            let turn = self.turn(time)?;
            if self.app.is_finished() {
                break;
            }
            self.news |= turn.worked;
            if self.news && time.now.since(self.reported) >= REPORT_EVERY {
                self.publish(time.now);
            }
            if turn.worked {
                patience.worked(time.now);
            }
            if turn.again {
                continue;
            }
            if patience.looks(time.now) || self.mode == Mode::Polling {
                std::hint::spin_loop();
            } else {
                self.sleep(time.now, turn.deadline)?;
            }
        }
        Ok(())
    }

    // The last turns: until nothing is left to send.
    fn run_out(&mut self, until: Instant) -> Result<(), EngineError> {
        loop {
            let time = self.clock.read();
            let turn = self.turn(time)?;
            if time.now >= until || !(turn.again || self.stack.wants_emit()) {
                return Ok(());
            }
        }
    }

    fn sleep(&mut self, now: Instant, deadline: Instant) -> Result<(), EngineError> {
        if self.ports.devs.iter().any(Dev::must_poll) {
            return Ok(());
        }
        // Whoever watches sees the last figures of a busy second, and after that the sleep is as long as it can be.
        let report = if self.news { self.reported + REPORT_EVERY } else { Instant::NEVER };
        self.sleeps += 1;
        wait::sleep(&self.seat.bell, &self.ports.devs, now, deadline.min(report)).map_err(EngineError::Wait)
    }

    /// One turn at `time`: packets in, timers, application, packets out. Public for tests that bring their own time.
    pub fn turn(&mut self, time: Time) -> Result<Turn, EngineError> {
        self.turns += 1;
        let (received, full) = self.receive(time.now)?;
        if self.stack.next_deadline() <= time.now {
            self.stack.expire(time.now);
        }
        self.app.on_events(time, &mut self.stack);
        self.ports.committed = 0;
        let unsent = self.stack.wants_emit() && self.stack.emit(time.now, &mut self.ports);
        let sent = self.ports.committed > 0;
        let mut deadline = self.stack.next_deadline().min(self.app.next_deadline());
        for dev in &mut self.ports.devs {
            dev.flush();
            deadline = deadline.min(dev.next_deadline());
        }
        if unsent && !sent {
            deadline = deadline.min(time.now + PORT_FULL_PAUSE);
        }
        let worked = received || sent;
        Ok(Turn { worked, again: full || (unsent && sent) || deadline <= time.now, deadline })
    }

    // One burst from every port. Answers whether anything came, and whether a port may have more.
    fn receive(&mut self, now: Instant) -> Result<(bool, bool), EngineError> {
        let (mut received, mut full) = (false, false);
        let shares = self.seat.mail.has_others();
        for (index, dev) in self.ports.devs.iter_mut().enumerate() {
            let iface = Iface(index as u16);
            dev.set_now(now);
            dev.rx(&mut self.burst)?;
            if self.burst.is_empty() {
                continue;
            }
            received = true;
            full |= self.burst.room() == 0;
            if index != 0 {
                self.burst.set_iface(iface);
            }
            if shares {
                let ethernet = dev.mac().is_some();
                for (frame, _) in (0..self.burst.len()).filter_map(|at| self.burst.peek(at)) {
                    self.seat.mail.share(iface, ethernet, clearway_pkt::Buf::bytes(frame));
                }
            }
            self.stack.ingest(now, &mut self.burst);
            self.burst.clear();
        }
        if shares {
            received |= self.read_mail(now);
        }
        Ok((received, full))
    }

    fn read_mail(&mut self, now: Instant) -> bool {
        let mut letters = self.seat.mail.take();
        let any = !letters.is_empty();
        while !letters.is_empty() {
            while let Some((iface, frame)) = letters.pop_front() {
                if let Some(buf) = self.pool.copy_of(&frame) {
                    let meta = clearway_pkt::RxMeta { iface, ..Default::default() };
                    // The burst has room: it is emptied as soon as it is full.
                    let _ = self.burst.push(buf, meta);
                }
                if self.burst.room() == 0 {
                    break;
                }
            }
            self.stack.ingest(now, &mut self.burst);
            self.burst.clear();
        }
        any
    }

    fn publish(&mut self, now: Instant) {
        let mut dev = DevCounters::default();
        for port in &self.ports.devs {
            dev.add(&port.counters());
        }
        self.seat.publish(CoreReport {
            turns: self.turns,
            sleeps: self.sleeps,
            dev,
            stack: self.stack.counters().clone(),
            mail_lost: self.seat.mail.lost(),
            app: self.app.report(),
        });
        self.reported = now;
        self.news = false;
    }
}

#[cfg(test)]
mod tests;
