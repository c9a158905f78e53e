//! An application that ends without breaking anything off when it is asked to.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use clearway_base::{Duration, Instant};
use clearway_engine::{App, Stores, Time};
use clearway_proto::{Holder, Stack, State};
use clearway_wire::Endpoint;

/// How long a peer that has all of ours may take to end its own side: that long we are there to
/// acknowledge it, and a peer that never does keeps nobody from ending.
const PARTING: Duration = Duration::from_millis(500);

/// A connection that a drain cut off when its patience was over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Left {
    /// Our side.
    pub local: Endpoint,
    /// The peer's side.
    pub remote: Endpoint,
    /// How far it was.
    pub state: State,
}

/// How long a run may take to end, once somebody said so, and what was left then.
#[derive(Clone)]
pub(crate) struct Patience(Arc<Asked>);

struct Asked {
    nanos: AtomicU64,
    left: Mutex<Vec<Left>>,
}

/// Nobody said so.
const NOT_ASKED: u64 = u64::MAX;

impl Default for Patience {
    fn default() -> Patience {
        let (nanos, left) = (AtomicU64::new(NOT_ASKED), Mutex::default());
        Patience(Arc::new(Asked { nanos, left }))
    }
}

impl Patience {
    pub(crate) fn set(&self, patience: Duration) {
        self.0.nanos.store(patience.as_nanos().min(NOT_ASKED - 1), Ordering::Release);
    }

    fn get(&self) -> Option<Duration> {
        let nanos = self.0.nanos.load(Ordering::Acquire);
        (nanos != NOT_ASKED).then(|| Duration::from_nanos(nanos))
    }

    pub(crate) fn left(&self) -> Vec<Left> {
        self.0.left.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// An application, and whether it was asked to end.
pub(crate) struct Drained<A> {
    app: A,
    patience: Patience,
    /// When it was asked.
    since: Option<Instant>,
    until: Instant,
    /// Since when everything of ours has been acknowledged.
    parted: Option<Instant>,
    is_over: bool,
}

/// How far the connections of a stack are from being over.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rest {
    /// Some have an owner, or something that was not acknowledged.
    Open,
    /// Peers have all of ours, and have not ended their sides.
    Parting,
    /// There are none, or they are in TIME-WAIT.
    Nothing,
}

fn is_open(state: State, holder: Holder) -> bool {
    match state {
        State::Closed => false,
        // The end was acknowledged, and nobody reads what the peer still says.
        State::FinWait2 => matches!(holder, Holder::Owner(_)),
        _ => true,
    }
}

fn rest(stack: &Stack<Stores>) -> Rest {
    if stack.population().connections == 0 {
        return Rest::Nothing;
    }
    let mut rest = Rest::Nothing;
    // As far as the first one that is open: whoever drains asks in each turn.
    for conn in stack.connections().filter(|conn| conn.state != State::Closed) {
        rest = Rest::Parting;
        if is_open(conn.state, conn.holder) {
            return Rest::Open;
        }
    }
    rest
}

impl<A: App<Stores>> Drained<A> {
    pub(crate) fn new(app: A, patience: Patience) -> Drained<A> {
        let (since, until, parted) = (None, Instant::NEVER, None);
        Drained { app, patience, since, until, parted, is_over: false }
    }

    #[cold]
    fn go_on(&mut self, time: Time, stack: &mut Stack<Stores>, patience: Duration) {
        let since = *self.since.get_or_insert(time.now);
        self.until = since + patience;
        let is_over = (self.app.drain(time, stack) || self.app.is_finished())
            && match rest(stack) {
                Rest::Nothing => true,
                Rest::Open => false,
                Rest::Parting => {
                    let parted = *self.parted.get_or_insert(time.now) + PARTING;
                    self.until = self.until.min(parted);
                    false
                }
            };
        self.is_over = is_over || time.now >= self.until;
    }
}

impl<A: App<Stores>> App<Stores> for Drained<A> {
    type Report = A::Report;

    fn start(&mut self, time: Time, stack: &mut Stack<Stores>) -> Result<(), String> {
        self.app.start(time, stack)
    }

    #[inline]
    fn on_events(&mut self, time: Time, stack: &mut Stack<Stores>) {
        self.app.on_events(time, stack);
        if let Some(patience) = self.patience.get() {
            self.go_on(time, stack, patience);
        }
    }

    #[inline]
    fn on_sent(&mut self, stack: &mut Stack<Stores>) {
        self.app.on_sent(stack);
    }

    #[inline]
    fn on_turn(&mut self, busy: Duration) {
        self.app.on_turn(busy);
    }

    fn next_deadline(&self) -> Instant {
        self.app.next_deadline().min(self.until)
    }

    fn had_work(&self) -> bool {
        self.app.had_work()
    }

    fn may_sleep(&mut self) -> bool {
        self.app.may_sleep()
    }

    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        self.app.wait_fd()
    }

    #[inline]
    fn woke(&mut self, rung: bool) {
        self.app.woke(rung);
    }

    fn is_finished(&self) -> bool {
        // One that is drained has ended when its last bytes have been acknowledged.
        self.is_over || (self.since.is_none() && self.app.is_finished())
    }

    fn drain(&mut self, time: Time, stack: &mut Stack<Stores>) -> bool {
        self.app.drain(time, stack)
    }

    fn stop(&mut self, time: Time, stack: &mut Stack<Stores>) {
        // Somebody may ask for both before this thread has seen the first.
        if self.since.is_some() || self.patience.get().is_some() {
            let open = stack.connections().filter(|conn| is_open(conn.state, conn.holder));
            let left = open.map(|c| Left { local: c.local, remote: c.remote, state: c.state });
            self.patience.0.left.lock().unwrap_or_else(PoisonError::into_inner).extend(left);
        }
        self.app.stop(time, stack);
    }

    fn report(&self) -> A::Report {
        self.app.report()
    }
}
