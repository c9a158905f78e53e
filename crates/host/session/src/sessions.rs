//! The sessions of one worker: what the processes' sockets are here.

mod claim;
mod close;
mod cut_throughs;
mod datagram;
mod errors;
mod facts;
mod forwarder;
mod groups;
mod hold;
mod info;
mod listener;
mod messages;
mod place;
mod queue_pair;
mod reclaim;
mod remote_listener;
mod stream;
mod verbs;

pub use groups::Wish;
pub use info::{SessionInfo, SessionKind};
pub use queue_pair::{QUEUE_PAIR_SLOTS, QueuePair};

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use clearway_base::{Handle, Instant, Slab};
use clearway_engine::{App, Time};
use clearway_proto::{BindId, ConnId, Event, Stack, Table};
use clearway_shm::attach_socket::{Kind, SessionId, SocketOptions};
use clearway_shm::layout::{Message, event, state};
use clearway_shm::notifier::NotifierSet;
use clearway_shm::sleep;
use clearway_shm::{HostPage, SessionView};
use clearway_wire::Addr;
use nix::errno::Errno;

use crate::env::HostEnv;
use crate::interfaces::Interfaces;
use crate::memory::Block;
use crate::program::Program;
use crate::quota::Permit;
use crate::store::FifoPlan;

use cut_throughs::{CutThrough, Ends, Leavers};
use datagram::Datagrams;
use forwarder::{Forwarder, MAX_FORWARDERS};
use hold::When;
use listener::{Listening, PartlyWoken};
use reclaim::Reclaim;
use remote_listener::{MAX_REMOTE_LISTENERS, RemoteListener};

/// Slots are 24 bits of a session's name.
pub const MAX_SESSIONS: u32 = 1 << 24;

type HostStack = Stack<HostEnv>;

/// Something to be done to the sessions of another worker.
pub type SessionJob = Box<dyn FnOnce(&mut Sessions, &mut HostStack) + Send>;

/// Says whether something was asked of the worker that it has not done.
type IsAsked = Box<dyn Fn() -> bool + Send>;

/// What a worker's sessions need of the rest of the host.
pub trait HostContext: Send + Sync {
    /// How many workers there are.
    fn workers(&self) -> usize;

    /// Has a worker do something between two turns.
    fn to_worker(&self, worker: usize, job: SessionJob);

    /// What all processes read.
    fn page(&self) -> &HostPage;

    /// The names of the interfaces.
    fn interfaces(&self) -> &Mutex<Interfaces>;

    /// Whether the other workers listen for this session, too, from now on.
    fn set_branched(&self, session: SessionId, is_branched: bool);

    /// The program of this number wrote something impossible, and is served no more.
    fn cut_off(&self, program: u32, why: &'static str);

    /// It is time to compare what the system gave programs with what is charged to them.
    fn check_memory(&self);
}

/// One session.
pub struct Session {
    id: SessionId,
    program: Arc<Program>,
    permit: Permit,
    head: SessionView,
    head_block: Block,
    kind: Kind,
    v6: bool,
    table: Table,
    /// The namespace's first address of each family; what connections come from when they do not say.
    source: [Option<Addr>; 2],
    options: SocketOptions,
    what: What,
    /// The port that it reserved.
    bind: Option<BindId>,
    local: Option<SocketAddr>,
    remote: Option<SocketAddr>,
    /// Processes that hear of it.
    subscribers: Vec<u32>,
    errors: u32,
    /// The listener that it waits at, perhaps on another worker, until a process claims it.
    parent: Option<SessionId>,
    /// The other end of its connection, when both pass their bytes by themselves.
    cut_through: Option<CutThrough>,
    /// The ends under which it waits for the other end.
    offered: Option<Ends>,
    /// Nobody has it any more, and it waits so long for its bytes to be passed on.
    leaves_at: Option<Instant>,
    /// Rounds in which its peer moved too little while memory was short.
    stuck: u8,
    /// What happened while nobody had it, for who claims it.
    untold: u32,
}

/// What a session has in the stack.
enum What {
    Fresh,
    Listener(Box<Listening>),
    Conn(ConnId),
    Datagrams(Box<Datagrams>),
}

/// All sessions of one worker.
pub struct Sessions {
    index: usize,
    context: Arc<dyn HostContext>,
    /// Whether something was asked of the worker that it has not done.
    is_asked: IsAsked,
    fifo_plan: FifoPlan,
    table: Slab<Session>,
    queue_pairs: Vec<QueuePair>,
    /// Whose messages are taken first in the next turn.
    next_queue_pair: usize,
    notifier_set: NotifierSet,
    /// What listens here for listeners of other workers.
    remote_listeners: Slab<RemoteListener>,
    /// What holds ports here for datagram sessions of other workers.
    forwarders: Slab<Forwarder>,
    /// Listeners whose program had no room for one more session.
    stalled: Vec<Handle<Session>>,
    /// Datagram sessions that had more to send than one turn takes.
    unfinished: Vec<Handle<Session>>,
    /// Connections of programs that asked for cut-through, whose other end was not seen yet.
    offers: HashMap<Ends, Vec<Handle<Session>>>,
    /// Sessions that had more to pass on than one turn takes.
    unpassed: Vec<Handle<Session>>,
    /// Sessions that nobody has any more, and whose bytes wait for room.
    leavers: Leavers,
    reclaim: Reclaim,
    scratch: Box<[u8]>,
    had_work: bool,
    /// When this turn began, and whether the notifier of any process was held at the end of the last one.
    now: Instant,
    holds_notifiers: bool,
    /// Listeners of which some processes were woken, and not all, in the order in which they are looked at again.
    partly_woken: VecDeque<PartlyWoken>,
    report: SessionsReport,
}

/// What a worker's sessions have come to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SessionsReport {
    /// Sessions now.
    pub sessions: u32,
    /// Messages taken from processes.
    pub messages: u64,
    /// Messages that named no session of their sender's: most come from sessions that were just closed.
    pub stray_messages: u64,
    /// Events left for processes.
    pub events: u64,
    /// Notifiers notified.
    pub notifiers: u64,
    /// Bytes that went from program to program without the stack.
    pub passed: u64,
    /// Programs cut off, because they wrote something impossible.
    pub cut_off: u64,
    /// Datagrams of sessions that ended before the stack took them.
    pub datagrams_lost: u64,
}

impl Sessions {
    /// The sessions of the worker of this number, at most so many.
    pub fn new(
        index: usize,
        context: Arc<dyn HostContext>,
        is_asked: IsAsked,
        fifo_plan: FifoPlan,
        most: u32,
    ) -> io::Result<Sessions> {
        Ok(Sessions {
            index,
            context,
            is_asked,
            fifo_plan,
            table: Slab::new(most.min(MAX_SESSIONS)),
            queue_pairs: Vec::new(),
            next_queue_pair: 0,
            notifier_set: NotifierSet::new()?,
            remote_listeners: Slab::new(MAX_REMOTE_LISTENERS),
            forwarders: Slab::new(MAX_FORWARDERS),
            stalled: Vec::new(),
            unfinished: Vec::new(),
            offers: HashMap::new(),
            unpassed: Vec::new(),
            leavers: Leavers::default(),
            reclaim: Reclaim::default(),
            scratch: vec![0; datagram::SCRATCH].into_boxed_slice(),
            had_work: false,
            now: Instant::ZERO,
            holds_notifiers: false,
            partly_woken: VecDeque::new(),
            report: SessionsReport::default(),
        })
    }

    /// How many there are.
    pub fn count(&self) -> u32 {
        self.table.len()
    }

    fn handle_of(&self, id: SessionId) -> Option<Handle<Session>> {
        if clearway_shm::attach_socket::worker_of(id) != self.index {
            return None;
        }
        let slot = (id >> 32) & u64::from(MAX_SESSIONS - 1);
        Handle::from_bits(id << 32 | slot)
    }

    /// The session of this name, if it is this program's.
    fn find(&self, program: &Arc<Program>, id: SessionId) -> Option<Handle<Session>> {
        let handle = self.handle_of(id)?;
        self.table.get(handle).filter(|s| Arc::ptr_eq(&s.program, program)).map(|_| handle)
    }

    /// Leaves a mark for every process that has the session. Those that sleep are woken at the end of the turn.
    fn tell(&mut self, handle: Handle<Session>, what: u32) {
        self.tell_when(handle, what, When::Now);
    }

    /// As [`Sessions::tell`], for what may wait a moment.
    fn tell_when(&mut self, handle: Handle<Session>, what: u32, when: When) {
        let Sessions { table, queue_pairs, report, .. } = self;
        let Some(session) = table.get_mut(handle) else { return };
        if session.parent.is_some() {
            session.untold |= what;
        }
        for process in &session.subscribers {
            if let Some(queue_pair) = queue_pairs.iter_mut().find(|queue_pair| queue_pair.process == *process) {
                queue_pair.leave(Message { session: session.id, what, aux: 0 }, when);
                report.events += 1;
            }
        }
    }

    /// What the processes that have the session were told already waits no longer.
    fn flush(&mut self, handle: Handle<Session>) {
        let Sessions { table, queue_pairs, .. } = self;
        let Some(session) = table.get(handle) else { return };
        for queue_pair in queue_pairs.iter_mut().filter(|queue_pair| session.subscribers.contains(&queue_pair.process))
        {
            queue_pair.hold.flush();
        }
    }

    fn queue_pair(&mut self, process: u32) -> Option<&mut QueuePair> {
        self.queue_pairs.iter_mut().find(|queue_pair| queue_pair.process == process)
    }

    fn on_event(&mut self, stack: &mut HostStack, event: Event) {
        match event {
            Event::Incoming { token, .. } => {
                if let Some(remote_listener) = remote_listener::handle_of(token) {
                    self.accept_at_remote_listener(stack, remote_listener);
                } else if let Some(handle) = Handle::from_bits(token) {
                    self.accept(stack, handle);
                }
            }
            Event::Conn { conn, token, what } => self.on_conn(stack, token, conn, what),
            Event::Udp { token, what, .. } => {
                if let Some(forwarder) = forwarder::handle_of(token) {
                    self.carry_home(stack, forwarder);
                } else if let Some(handle) = Handle::from_bits(token) {
                    self.on_udp(stack, handle, what);
                }
            }
        }
    }

    /// Writers whose FIFOs have room again are told.
    fn tell_writable(&mut self, stack: &mut HostStack) {
        while let Some(token) = stack.stores().1.next_writable() {
            if let Some(handle) = Handle::from_bits(token) {
                self.tell(handle, event::WRITABLE);
            }
        }
    }

    /// Programs whose FIFOs held something impossible are cut off.
    fn cut_hostile(&mut self, stack: &mut HostStack) {
        let (rx, tx) = stack.stores_ref();
        if !(rx.has_hostile() || tx.has_hostile()) {
            return;
        }
        for token in rx.take_hostile().into_iter().chain(tx.take_hostile()) {
            let session = Handle::from_bits(token).and_then(|handle| self.table.get(handle));
            if let Some(program) = session.map(|s| Arc::clone(&s.program)) {
                self.cut_off(&program, "an impossible position in a FIFO");
            }
        }
    }

    /// A program is served no more. The supervisor closes its sockets, and its sessions end by that.
    fn cut_off(&mut self, program: &Arc<Program>, why: &'static str) {
        if !program.is_cut.swap(true, Ordering::AcqRel) {
            self.report.cut_off += 1;
            self.context.cut_off(program.number, why);
        }
    }

    /// Wakes the processes whose notifiers are not held.
    fn notify_sleepers(&mut self) {
        self.holds_notifiers = false;
        for queue_pair in &mut self.queue_pairs {
            self.report.notifiers += u64::from(queue_pair.notify(self.now));
            self.holds_notifiers |= queue_pair.hold.has_news();
        }
    }

    /// Wakes all that there is news for: nobody may come back to notify it that are held.
    fn notify_all(&mut self) {
        self.queue_pairs.iter_mut().for_each(|queue_pair| queue_pair.hold.flush());
        self.notify_sleepers();
    }

    /// When a notifier that is held must be notified.
    fn notifiers_deadline(&self) -> Instant {
        let ends =
            self.queue_pairs.iter().filter(|_| self.holds_notifiers).filter_map(|queue_pair| queue_pair.hold.ends_at());
        ends.min().unwrap_or(Instant::NEVER)
    }
}

/// The name of a session, to processes.
fn id_of(worker: usize, handle: Handle<Session>) -> SessionId {
    (worker as u64) << 56 | u64::from(handle.index()) << 32 | u64::from(handle.generation().get())
}

impl Session {
    fn token(handle: Handle<Session>) -> u64 {
        handle.to_bits()
    }

    fn set_state(&self, bits: u32) {
        self.head.state.fetch_or(bits, Ordering::AcqRel);
    }

    fn clear_state(&self, bits: u32) {
        self.head.state.fetch_and(!bits, Ordering::AcqRel);
    }

    /// Sets SO_ERROR.
    fn set_error(&mut self, errno: Errno) {
        self.errors = self.errors.wrapping_add(1) & 0xffff;
        // A counter of 0 would look like no error.
        self.errors = self.errors.max(1);
        self.head.error.store(self.errors << 16 | errno as u32, Ordering::Release);
    }

    fn fail(&mut self, errno: Errno) {
        self.set_error(errno);
        self.set_state(state::FAILED);
        self.clear_state(state::CONNECTING);
    }
}

impl App<HostEnv> for Sessions {
    type Report = SessionsReport;

    fn start(&mut self, _time: Time, _stack: &mut HostStack) -> Result<(), String> {
        Ok(())
    }

    fn on_events(&mut self, time: Time, stack: &mut HostStack) {
        self.now = time.now;
        self.had_work = self.take_messages(time, stack);
        for handle in std::mem::take(&mut self.unfinished) {
            self.had_work = true;
            self.send_datagrams(stack, handle);
        }
        self.had_work |= self.pass_all(time.now, stack);
        let mut had_events = false;
        while let Some(event) = stack.next_event() {
            had_events = true;
            self.on_event(stack, event);
        }
        self.had_work |= !self.unpassed.is_empty();
        self.tell_writable(stack);
        self.wake_the_others();
        if self.had_work || had_events {
            self.reclaim.wake(time.now);
        }
        self.had_work |= self.reclaim(time.now, stack);
    }

    /// Notifiers are notified last: a process that is woken on this core may take it at once, and what it waits for should be on its way by then.
    fn on_sent(&mut self, stack: &mut HostStack) {
        self.cut_hostile(stack);
        self.notify_sleepers();
    }

    fn next_deadline(&self) -> Instant {
        let sessions = self.passing_deadline().min(self.wake_deadline());
        sessions.min(self.notifiers_deadline()).min(self.reclaim.deadline())
    }

    fn had_work(&self) -> bool {
        self.had_work
    }

    fn may_sleep(&mut self) -> bool {
        self.notify_all();
        sleep::about_to_sleep(self.context.page().sleeps(self.index));
        !(self.is_asked)()
            && self.unfinished.is_empty()
            && self.unpassed.is_empty()
            // Each gets its time in the next turn.
            && self.leavers.have_their_time()
            && self.queue_pairs.iter().all(|queue_pair| queue_pair.is_quiet())
    }

    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.notifier_set.as_fd())
    }

    fn woke(&mut self) {
        sleep::all_awake(self.context.page().sleeps(self.index));
        self.notifier_set.settle();
    }

    fn stop(&mut self, _time: Time, stack: &mut HostStack) {
        let all: Vec<_> = self.table.iter().map(|(handle, _)| handle).collect();
        for handle in all {
            // Datagrams have the turns that are left.
            if !self.sends_first(stack, handle) {
                self.end(stack, handle, true);
            }
        }
    }

    fn report(&self) -> SessionsReport {
        SessionsReport { sessions: self.table.len(), ..self.report }
    }
}
