//! The turn of one core, and the loop that repeats it.

mod plug;
mod receive;

use std::sync::atomic::Ordering;
use std::thread;

use clearway_base::{Duration, Instant};
use clearway_dev::{BufferSource, Dev, DevCounters, Facts, FramePool};
use clearway_pkt::Burst;
use clearway_proto::{Env, Stack};

use crate::adaptive_spin::AdaptiveSpin;
use crate::burst_limit::BurstLimit;
use crate::error::EngineError;
use crate::inspect::Inspect;
use crate::ports::{OnDeviceError, PortOptions, Ports};
use crate::team::{CoreReport, Seat};
use crate::wait::{self, Woken};
use crate::{App, Clock, Mode, NoProbe, Probe, Stage, Time, TurnTimes};

/// How often figures are left for the watcher.
const REPORT_EVERY: Duration = Duration::from_secs(1);

/// How long the application's goodbyes may take.
const STOP_WITHIN: Duration = Duration::from_millis(200);

/// How long to wait when a port takes no more frames and does not say when it will.
const PORT_FULL_PAUSE: Duration = Duration::from_micros(200);

/// What a turn has left to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Turn {
    /// Packets came or went, or the application had work.
    pub worked: bool,
    /// There is more to do at once.
    pub again: bool,
    /// When the next turn is due though nothing happens.
    pub deadline: Instant,
}

/// How one round of the loop went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// There is more to do, or it is worth looking for more: come back at once.
    Again,
    /// There was nothing to do, and the engine has slept until something happened.
    Slept,
    /// The engine was told to stop, or its application is finished: time for [`Engine::finish`].
    Stop,
}

/// One core's clock, ports, stack and application, and perhaps a probe that counts the cycles of
/// each [`Stage`].
///
/// Packets stay in whatever buffers the ports hand over, which are those that the stack is built
/// over; `M` is where a packet is put that comes by no port.
pub struct Engine<E: Env, D, A: App<E>, P = NoProbe, M = FramePool> {
    clock: Clock,
    stack: Stack<E>,
    ports: Ports<D, P>,
    app: A,
    burst: Burst<E::Buf>,
    pool: M,
    mode: Mode,
    // What `mode` and the modes of the ports come to.
    effective: Mode,
    adaptive_spin: AdaptiveSpin,
    burst_limit: BurstLimit,
    splits_bursts: bool,
    on_device_error: OnDeviceError,
    seat: Seat<A::Report>,
    turns: u64,
    sleeps: u64,
    reported: Instant,
    // Something happened since the last report.
    is_unreported: bool,
    // How long turns with work took, and when the present one began; NEVER while there is none.
    times: TurnTimes,
    busy_since: Instant,
}

impl<E: Env, D: Dev<Buf = E::Buf>, A: App<E>, M: BufferSource<Buf = E::Buf>>
    Engine<E, D, A, NoProbe, M>
{
    /// Makes each device an interface of the stack, in their order: the first is `Iface(0)`. The
    /// stack must have no interface yet. `pool` is the one that the devices use.
    ///
    /// # Errors
    /// [`EngineError::Interface`] when the stack does not take a device,
    /// [`EngineError::TooManyPorts`].
    pub fn new(
        stack: Stack<E>,
        devs: Vec<D>,
        pool: M,
        app: A,
        mode: Mode,
        seat: Seat<A::Report>,
    ) -> Result<Engine<E, D, A, NoProbe, M>, EngineError> {
        Engine::with_probe(stack, devs, pool, app, mode, seat, NoProbe)
    }
}

impl<E: Env, D: Dev<Buf = E::Buf>, A: App<E>, P: Probe, M: BufferSource<Buf = E::Buf>>
    Engine<E, D, A, P, M>
{
    /// As [`Engine::new`], with a probe.
    ///
    /// # Errors
    /// As [`Engine::new`].
    pub fn with_probe(
        mut stack: Stack<E>,
        devs: Vec<D>,
        pool: M,
        app: A,
        mode: Mode,
        seat: Seat<A::Report>,
        probe: P,
    ) -> Result<Engine<E, D, A, P, M>, EngineError> {
        // Segments that arrive in fragments are put together in buffers of the same pool.
        let spare = pool.clone();
        stack.set_buffer_maker(Box::new(move |bytes| spare.copy_of(bytes)));
        if seat.core_queues.has_others() {
            stack.share_ports(seat.index() as u16, seat.core_queues.cores() as u16);
        }
        let mut engine = Engine {
            clock: Clock::new(),
            stack,
            ports: Ports::new(probe),
            app,
            burst: Burst::new(),
            pool,
            mode,
            effective: mode,
            adaptive_spin: AdaptiveSpin::new(mode.spin()),
            burst_limit: BurstLimit::new(),
            splits_bursts: true,
            on_device_error: OnDeviceError::default(),
            seat,
            turns: 0,
            sleeps: 0,
            reported: Instant::ZERO,
            is_unreported: true,
            times: TurnTimes::new(),
            busy_since: Instant::NEVER,
        };
        for (index, dev) in devs.into_iter().enumerate() {
            engine.add_port(
                dev,
                PortOptions { name: format!("port {index}"), ..PortOptions::default() },
            )?;
        }
        Ok(engine)
    }

    /// What the engine does when there is nothing to do.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Sets what the engine does when there is nothing to do; it counts from the next turn on.
    pub fn set_mode(&mut self, mode: Mode) {
        self.mode = mode;
        self.choose_mode();
    }

    fn choose_mode(&mut self) {
        let effective = self.ports.mode(self.mode);
        if effective != self.effective {
            self.effective = effective;
            self.adaptive_spin = AdaptiveSpin::new(effective.spin());
        }
    }

    /// Lets somebody look at every frame, or nobody any more; gives back who did.
    pub fn set_inspector(
        &mut self,
        inspector: Option<Box<dyn Inspect>>,
    ) -> Option<Box<dyn Inspect>> {
        std::mem::replace(&mut self.ports.inspector, inspector)
    }

    /// Whether an engine that polls takes bursts in two halves, so that the first is answered while
    /// the second waits; it does unless told otherwise. A server gains by it when few requests are
    /// under way. Who asks, and waits for answers, leaves it to its server.
    pub fn set_splits_bursts(&mut self, splits: bool) {
        self.splits_bursts = splits;
    }

    /// Says what becomes of the engine when one of its devices is of no more use.
    pub fn set_on_device_error(&mut self, policy: OnDeviceError) {
        self.on_device_error = policy;
    }

    /// The stack, to give it addresses and routes.
    pub fn stack(&mut self) -> &mut Stack<E> {
        &mut self.stack
    }

    /// The application.
    pub fn app(&mut self) -> &mut A {
        &mut self.app
    }

    /// The stack and the application, for what concerns both.
    pub fn stack_and_app(&mut self) -> (&mut Stack<E>, &mut A) {
        (&mut self.stack, &mut self.app)
    }

    /// The probe that the engine was made with.
    pub fn probe(&mut self) -> &mut P {
        &mut self.ports.probe
    }

    /// The buffers of the ports.
    pub fn pool(&self) -> &M {
        &self.pool
    }

    /// What time it is.
    pub fn time(&mut self) -> Time {
        self.clock.read()
    }

    /// Turns of the loop so far, and how often it slept.
    pub fn turns_and_sleeps(&self) -> (u64, u64) {
        (self.turns, self.sleeps)
    }

    /// Frames that came here and were handed to the core whose they were.
    pub fn frames_handed_over(&self) -> u64 {
        self.seat.core_queues.handed_over()
    }

    /// How long turns with work took.
    pub fn turn_times(&self) -> &TurnTimes {
        &self.times
    }

    /// Runs until the team is stopped, the application is finished, or something fails:
    /// [`Engine::start`], then [`Engine::step`] again and again, then [`Engine::finish`].
    ///
    /// # Errors
    /// [`EngineError::App`] when the application could not begin, [`EngineError::Device`] when a
    /// port is of no more use, [`EngineError::Wait`] when the system does not let us sleep.
    pub fn run(&mut self) -> Result<(), EngineError> {
        self.start()?;
        let ended = loop {
            match self.step() {
                Ok(Step::Stop) => break Ok(()),
                Ok(Step::Again | Step::Slept) => {}
                Err(error) => break Err(error),
            }
        };
        let goodbye = self.finish(ended.is_ok());
        ended.and(goodbye)
    }

    /// Lets the application begin. Called once, before the first step.
    ///
    /// # Errors
    /// [`EngineError::App`] with the application's own words.
    pub fn start(&mut self) -> Result<(), EngineError> {
        let time = self.clock.read();
        self.app.start(time, &mut self.stack).map_err(EngineError::App)
    }

    /// One round of the loop: a turn, the report when it is time for one, and sleep when there is
    /// nothing to do.
    ///
    /// # Errors
    /// As [`Engine::turn`], and [`EngineError::Wait`] when the system does not let us sleep.
    pub fn step(&mut self) -> Result<Step, EngineError> {
        if self.seat.stop.load(Ordering::Acquire) {
            return Ok(Step::Stop);
        }
        let time = self.clock.read();
        self.rest(time.now);
        let turn = self.turn(time)?;
        if turn.worked {
            self.busy_since = time.now;
        }
        if self.app.is_finished() {
            return Ok(Step::Stop);
        }
        self.is_unreported |= turn.worked;
        if self.is_unreported && time.now.since(self.reported) >= REPORT_EVERY {
            self.publish(time.now);
        }
        if turn.worked {
            self.adaptive_spin.worked(time.now);
        }
        if turn.again {
            return Ok(Step::Again);
        }
        if self.effective == Mode::Polling {
            std::hint::spin_loop();
            return Ok(Step::Again);
        }
        if self.adaptive_spin.looks(time.now) {
            self.pause();
            return Ok(Step::Again);
        }
        self.sleep(time.now, turn.deadline)
    }

    /// Lets the application say goodbye, sends what that left when `send` says so, and leaves the
    /// last report.
    ///
    /// # Errors
    /// [`EngineError::Device`] when a port broke while the last packets left.
    pub fn finish(&mut self, send: bool) -> Result<(), EngineError> {
        let time = self.clock.read();
        self.app.stop(time, &mut self.stack);
        let sent = if send {
            self.run_out(time.now + STOP_WITHIN).and_then(|()| self.part())
        } else {
            Ok(())
        };
        self.publish(self.reported);
        sent
    }

    // What a peer's window kept here is not sent any more, and there will be nobody who answers:
    // the peer is told.
    fn part(&mut self) -> Result<(), EngineError> {
        self.stack.reset_unsent();
        let now = self.clock.read().now;
        self.run_out(now + STOP_WITHIN)
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

    // The turn before has ended: the one reading of the clock that each turn begins with tells
    // when.
    #[inline]
    fn rest(&mut self, now: Instant) {
        self.ports.probe.turn_ends(self.busy_since.is_set());
        if self.busy_since.is_set() {
            self.times.record(now.since(self.busy_since));
            self.busy_since = Instant::NEVER;
        }
    }

    // Between two looks.
    fn pause(&mut self) {
        let from = self.clock.read().now;
        if self.adaptive_spin.offers(from) {
            thread::yield_now();
            self.adaptive_spin.offered(from, self.clock.read().now);
        } else {
            std::hint::spin_loop();
        }
    }

    fn sleep(&mut self, now: Instant, deadline: Instant) -> Result<Step, EngineError> {
        if self.ports.all_working().any(Facts::must_poll) {
            return Ok(Step::Again);
        }
        if self.busy_since.is_set() {
            // What follows is no work.
            let now = self.clock.read().now;
            self.rest(now);
        }
        // Whoever watches sees the last figures of a busy second, and after that the sleep is as
        // long as it can be.
        let report = if self.is_unreported { self.reported + REPORT_EVERY } else { Instant::NEVER };
        let may_sleep = self.app.may_sleep();
        let slept = if may_sleep {
            self.sleeps += 1;
            wait::sleep(
                &self.seat.notifier,
                self.app.wait_fd(),
                self.ports.places_working(),
                now,
                deadline.min(report),
            )
        } else {
            // Who left something may have notified us for the sleep that did not come.
            Ok(Woken { rung: true, quiet: 0 })
        };
        self.app.woke(slept.as_ref().map_or(true, |woken| woken.rung));
        self.ports.quiet = slept.map_err(EngineError::Wait)?.quiet;
        Ok(if may_sleep { Step::Slept } else { Step::Again })
    }

    /// One turn at `time`: packets in, timers, application, packets out. Public for tests that
    /// bring their own time.
    ///
    /// # Errors
    /// [`EngineError::Device`] when a port is of no more use, and the application does not go on
    /// without it.
    pub fn turn(&mut self, time: Time) -> Result<Turn, EngineError> {
        self.turns += 1;
        self.ports.time = time;
        let (received, full) = self.receive(time)?;
        self.ports.probe.enter(Stage::Timers);
        self.stack.set_unread(time.now, full);
        if self.stack.next_deadline() <= time.now {
            self.stack.expire(time.now);
        }
        self.ports.probe.enter(Stage::App);
        self.app.on_turn(self.times.sum());
        self.app.on_events(time, &mut self.stack);
        if self.stack.reaches_out() {
            self.seat.core_queues.reach_out();
        }
        self.ports.probe.enter(Stage::StackOut);
        self.ports.committed = 0;
        self.tell_calendar();
        let unsent = self.stack.wants_emit() && self.stack.emit(time.now, &mut self.ports);
        let sent = self.ports.committed > 0;
        self.ports.probe.enter(Stage::DriverOut);
        let flushed = self.ports.flush();
        self.ports.probe.enter(Stage::App);
        self.app.on_sent(&mut self.stack);
        self.ports.probe.enter(Stage::Other);
        let mut deadline = self.stack.next_deadline().min(self.app.next_deadline()).min(flushed);
        if unsent && !sent {
            deadline = deadline.min(time.now + PORT_FULL_PAUSE);
        }
        let worked = received || sent || self.app.had_work();
        Ok(Turn { worked, again: full || (unsent && sent) || deadline <= time.now, deadline })
    }

    /// Tells the stack what the calendar shows, if somebody wants packets stamped.
    #[inline]
    fn tell_calendar(&mut self) {
        if self.stack.wants_calendar() {
            self.stack.set_calendar(Clock::calendar());
        }
    }

    fn publish(&mut self, now: Instant) {
        let mut dev = DevCounters::default();
        for (_, port) in self.ports.iter() {
            dev.add(&port.dev.counters());
        }
        self.seat.publish(CoreReport {
            turns: self.turns,
            sleeps: self.sleeps,
            dev,
            stack: self.stack.counters().clone(),
            core_queue_lost: self.seat.core_queues.lost(),
            stages: self.ports.probe.told(),
            app: self.app.report(),
        });
        self.reported = now;
        self.is_unreported = false;
    }
}

#[cfg(test)]
mod tests;
