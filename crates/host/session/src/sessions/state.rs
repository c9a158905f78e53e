//! What a worker knows of its sessions, and what every verb begins with: finding one, and telling
//! its processes.

use std::cell::Cell;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use clearway_base::{Handle, Instant, Slab};
use clearway_pkt::Iface;
use clearway_probes::Text;
use clearway_proto::{BindId, ConnId, Datagram, RouterNews, Table, UdpId};
use clearway_shm::attach_socket::{Kind, SessionId, SocketOptions};
use clearway_shm::layout::{Message, state};
use clearway_shm::notifier::NotifierSet;
use clearway_shm::{HostPage, SessionView};
use clearway_wire::{Addr, Endpoint};
use nix::errno::Errno;

use super::datagram_fifos::{self, Datagrams};
use super::hold::When;
use super::listening::Listening;
use super::queue_pair::QueuePair;
use super::remote::{Forwarder, MAX_FORWARDERS, MAX_REMOTE_LISTENERS, RemoteListener};
use super::rounds::Reclaim;
pub(super) use crate::env::HostStack;
use crate::errno::{Refusal, refuse};
use crate::interfaces::Interfaces;
use crate::memory::Block;
use crate::program::Program;
use crate::quota::Permit;
use crate::store::{FifoBlocks, FifoPlan};
use crate::traffic::Known;

/// Slots are 24 bits of a session's name.
pub const MAX_SESSIONS: u32 = 1 << 24;

/// Something to be done to the sessions of another worker.
pub type SessionJob = Box<dyn FnOnce(&mut Sessions, &mut HostStack) + Send>;

/// Hears what comes to a datagram socket of the host.
pub type Hears = Box<dyn FnMut(&Datagram<'_>) + Send>;

/// Hears what routers say, on interfaces that are configured by them.
pub type HearsRouters = Box<dyn FnMut(&RouterNews<'_>) + Send>;

/// The word of the host's own sockets: no handle has it, for a handle has a generation.
pub(super) const HOST_TOKEN: u64 = 1;

/// Says whether something was asked of the worker that it has not done.
pub(super) type IsAsked = Box<dyn Fn() -> bool + Send>;

/// What a worker's sessions need of the rest of the host.
pub trait HostContext: Send + Sync {
    /// How many workers there are.
    fn workers(&self) -> usize;

    /// Has a worker do something between two turns.
    fn to_worker(&self, worker: usize, job: SessionJob);

    /// Whether session fds have hung up of which not all workers were told yet.
    fn has_hung_up(&self) -> bool;

    /// Has a worker connect a session ([`Sessions::connect_asked`]) behind what it was asked
    /// before, and, where that is wanted, when all were told of the session fds that have hung up
    /// by now.
    fn connect_later(
        &self,
        worker: usize,
        behind_hangups: bool,
        session: (Arc<Program>, SessionId),
    );

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
    pub(super) id: SessionId,
    pub(super) program: Arc<Program>,
    pub(super) permit: Permit,
    pub(super) head: SessionView,
    pub(super) head_block: Block,
    pub(super) kind: Kind,
    pub(super) v6: bool,
    pub(super) table: Table,
    /// The namespace's interface, from whose addresses connections come that are bound to none.
    pub(super) interface: Option<Iface>,
    pub(super) options: SocketOptions,
    pub(super) what: What,
    /// FIFOs of a stream that was opened ahead of need.
    pub(super) fifos_ahead: Option<Box<(FifoBlocks, FifoBlocks)>>,
    /// It is to be connected behind the ends of session fds ([`HostContext::connect_later`]).
    pub(super) connects_later: bool,
    /// The port that it reserved.
    pub(super) bind: Option<BindId>,
    /// The address that it is bound to without a port (IP_BIND_ADDRESS_NO_PORT).
    pub(super) bound_address: Option<Addr>,
    pub(super) local: Option<SocketAddr>,
    pub(super) remote: Option<SocketAddr>,
    /// Processes that hear of it.
    pub(super) subscribers: Vec<u32>,
    pub(super) errors: u32,
    /// A peer's SYN began its connection.
    pub(super) is_incoming: bool,
    /// The listener that it waits at, perhaps on another worker, until a process claims it.
    pub(super) parent: Option<SessionId>,
    /// The other end of its connection, when both pass their bytes by themselves.
    pub(super) cut_through: Option<CutThrough>,
    /// The ends under which it waits for the other end.
    pub(super) offered: Option<Ends>,
    /// Nobody has it any more, and it waits so long for its bytes to be passed on.
    pub(super) leaves_at: Option<Instant>,
    /// Rounds in which its peer moved too little while memory was short.
    pub(super) stuck: u8,
    /// What happened while nobody had it, for who claims it.
    pub(super) untold: u32,
    /// Bytes that went round the stack: that its process read, and wrote.
    pub(super) passed: (u64, u64),
    /// What its namespace's counts know of what it has carried.
    pub(super) known: Known,
    /// Its program asks when data came and left, and all workers were told so.
    pub(super) asks_stamps: bool,
    pub(super) asks_everywhere: bool,
}

/// What a session has in the stack.
pub(super) enum What {
    Fresh,
    Listener(Box<Listening>),
    Conn(ConnId),
    Datagrams(Box<Datagrams>),
}

/// All sessions of one worker.
pub struct Sessions {
    pub(super) index: usize,
    pub(super) context: Arc<dyn HostContext>,
    /// Whether something was asked of the worker that it has not done.
    pub(super) is_asked: IsAsked,
    /// A question is about to be answered, behind all that came before it.
    pub(super) answers: bool,
    pub(super) fifo_plan: FifoPlan,
    pub(super) table: Slab<Session>,
    pub(super) queue_pairs: Vec<QueuePair>,
    /// Whose messages are taken first in the next turn.
    pub(super) next_queue_pair: usize,
    pub(super) notifier_set: NotifierSet,
    /// What listens here for listeners of other workers.
    pub(super) remote_listeners: Slab<RemoteListener>,
    /// What holds ports here for datagram sessions of other workers.
    pub(super) forwarders: Slab<Forwarder>,
    /// Sockets of the host itself.
    pub(super) host_sockets: Vec<(UdpId, Hears)>,
    /// Who hears routers.
    pub(super) hears_routers: Option<HearsRouters>,
    /// Listeners whose program had no room for one more session.
    pub(super) stalled: Vec<Handle<Session>>,
    /// Datagram sessions that had more to send than one turn takes.
    pub(super) unfinished: Vec<Handle<Session>>,
    /// Connections of programs that asked for cut-through, whose other end was not seen yet.
    pub(super) offers: HashMap<Ends, Vec<Handle<Session>>>,
    /// Sessions that had more to pass on than one turn takes.
    pub(super) unpassed: Vec<Handle<Session>>,
    /// Sessions that nobody has any more, and whose bytes wait for room.
    pub(super) leavers: Leavers,
    pub(super) reclaim: Reclaim,
    pub(super) scratch: Box<[u8]>,
    pub(super) had_work: bool,
    /// It said that its worker may sleep, and has not heard of the end of that.
    pub(super) sleeps: bool,
    /// When this turn began, and whether the notifier of any process was held at the end of the
    /// last one.
    pub(super) now: Instant,
    pub(super) holds_notifiers: bool,
    /// Listeners of which some processes were woken, and not all, in the order in which they are
    /// looked at again.
    pub(super) partly_woken: VecDeque<PartlyWoken>,
    pub(super) report: SessionsReport,
    /// Things asked of other workers.
    pub(super) handed_over: Cell<u64>,
    /// Sessions whose packets are stamped here.
    pub(super) stamped: u32,
}

/// What a worker's sessions have come to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SessionsReport {
    /// Sessions now.
    pub sessions: u32,
    /// Messages taken from processes.
    pub messages: u64,
    /// Messages that named no session of their sender's: most come from sessions that were just
    /// closed.
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
    /// Things asked of other workers: none for a request where each flow is at home.
    pub handed_over: u64,
}

/// The other end of a connection, when that is ours too.
#[derive(Clone, Copy)]
pub(super) struct CutThrough {
    pub(super) peer: Handle<Session>,
    /// What is to be done when the last byte is passed.
    pub(super) ending: Ending,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    Open,
    /// The process writes no more.
    Shut,
    /// Nobody has the session any more.
    Closed,
}

/// Both ends of a connection, ours first.
pub(super) type Ends = (Endpoint, Endpoint);

/// Sessions that were closed before their bytes were passed. There may be as many as a program has
/// sessions, so nothing walks them.
#[derive(Default)]
pub(super) struct Leavers {
    /// Until when each may stay so, the first to go first.
    pub(super) by_time: BTreeSet<(Instant, u64)>,
    /// Whose time begins now: they were just closed, or some of their bytes were taken.
    pub(super) fresh: Vec<Handle<Session>>,
}

impl Leavers {
    /// The session waits from now on, or begins anew.
    pub(super) fn begin(&mut self, handle: Handle<Session>) {
        self.fresh.push(handle);
    }

    /// None waits to be told until when it may stay.
    pub(super) fn have_their_time(&self) -> bool {
        self.fresh.is_empty()
    }
}

/// Some processes of a listener were woken for what waits there.
pub(super) struct PartlyWoken {
    pub(super) listener: Handle<Session>,
    /// When the others are woken too,
    pub(super) due: Instant,
    /// if this one waits still.
    pub(super) oldest: SessionId,
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
            answers: false,
            fifo_plan,
            table: Slab::new(most.min(MAX_SESSIONS)),
            queue_pairs: Vec::new(),
            next_queue_pair: 0,
            notifier_set: NotifierSet::new()?,
            remote_listeners: Slab::new(MAX_REMOTE_LISTENERS),
            forwarders: Slab::new(MAX_FORWARDERS),
            host_sockets: Vec::new(),
            hears_routers: None,
            stalled: Vec::new(),
            unfinished: Vec::new(),
            offers: HashMap::new(),
            unpassed: Vec::new(),
            leavers: Leavers::default(),
            reclaim: Reclaim::default(),
            scratch: vec![0; datagram_fifos::SCRATCH].into_boxed_slice(),
            had_work: false,
            sleeps: false,
            now: Instant::ZERO,
            holds_notifiers: false,
            partly_woken: VecDeque::new(),
            report: SessionsReport::default(),
            handed_over: Cell::new(0),
            stamped: 0,
        })
    }

    /// Has another worker do something between two of its turns.
    pub(super) fn to_worker(&self, worker: usize, job: SessionJob) {
        self.handed_over.set(self.handed_over.get() + u64::from(worker != self.index));
        self.context.to_worker(worker, job);
    }

    /// How many there are.
    pub fn count(&self) -> u32 {
        self.table.len()
    }

    pub(super) fn handle_of(&self, id: SessionId) -> Option<Handle<Session>> {
        if clearway_shm::attach_socket::worker_of(id) != self.index {
            return None;
        }
        let slot = (id >> 32) & u64::from(MAX_SESSIONS - 1);
        Handle::from_bits(id << 32 | slot)
    }

    /// The session of this name, if it is this program's.
    pub(super) fn find(&self, program: &Arc<Program>, id: SessionId) -> Option<Handle<Session>> {
        let handle = self.handle_of(id)?;
        self.table.get(handle).filter(|s| Arc::ptr_eq(&s.program, program)).map(|_| handle)
    }

    /// The session of this name, if the process behind a queue pair may use it.
    pub(super) fn find_for(&self, at: usize, id: SessionId) -> Option<Handle<Session>> {
        let handle = self.handle_of(id)?;
        let QueuePair { program, process, .. } = &self.queue_pairs[at];
        let may_use = |session: &&Session| session.program.admits(program, *process);
        self.table.get(handle).filter(may_use).map(|_| handle)
    }

    /// Whose session this is.
    pub fn program_of(&self, id: SessionId) -> Option<&Arc<Program>> {
        let session = self.handle_of(id).and_then(|handle| self.table.get(handle))?;
        Some(&session.program)
    }

    /// Whose process this is where the session is concerned: one that joined its program is that
    /// program's.
    pub fn acts_for(&self, program: &Arc<Program>, process: u32, id: SessionId) -> Arc<Program> {
        let joined = self.program_of(id).filter(|of| of.foreign.has(process));
        Arc::clone(joined.unwrap_or(program))
    }

    /// Leaves a mark for every process that has the session. Those that sleep are woken at the end
    /// of the turn.
    pub(super) fn tell(&mut self, handle: Handle<Session>, what: u32) {
        self.tell_when(handle, what, When::Now);
    }

    /// As [`Sessions::tell`], for what may wait a moment.
    pub(super) fn tell_when(&mut self, handle: Handle<Session>, what: u32, when: When) {
        let Sessions { table, queue_pairs, report, .. } = self;
        let Some(session) = table.get_mut(handle) else { return };
        if session.parent.is_some() {
            session.untold |= what;
        }
        for process in &session.subscribers {
            if let Some(queue_pair) =
                queue_pairs.iter_mut().find(|queue_pair| queue_pair.process == *process)
            {
                queue_pair.leave(Message { session: session.id, what, aux: 0 }, when);
                report.events += 1;
            }
        }
    }

    /// What the processes that have the session were told already waits no longer.
    pub(super) fn flush(&mut self, handle: Handle<Session>) {
        let Sessions { table, queue_pairs, .. } = self;
        let Some(session) = table.get(handle) else { return };
        for queue_pair in queue_pairs
            .iter_mut()
            .filter(|queue_pair| session.subscribers.contains(&queue_pair.process))
        {
            queue_pair.hold.flush();
        }
    }

    pub(super) fn queue_pair(&mut self, process: u32) -> Option<&mut QueuePair> {
        self.queue_pairs.iter_mut().find(|queue_pair| queue_pair.process == process)
    }

    /// A program is served no more. The supervisor closes its sockets, and its sessions end by
    /// that.
    pub(super) fn cut_off(&mut self, program: &Arc<Program>, why: &'static str) {
        if !program.is_cut.swap(true, Ordering::AcqRel) {
            self.report.cut_off += 1;
            self.context.cut_off(program.number, why);
        }
    }
}

/// The name of a session, to processes.
pub(super) fn id_of(worker: usize, handle: Handle<Session>) -> SessionId {
    (worker as u64) << 56 | u64::from(handle.index()) << 32 | u64::from(handle.generation().get())
}

impl Session {
    /// What probes tell of a connection.
    pub(super) fn traced(&self) -> (u64, Text, Text, Text) {
        let (local, remote) = (Text::of_any(self.local), Text::of_any(self.remote));
        (self.id, local, remote, Text::of(&self.program.name))
    }

    pub(super) fn token(handle: Handle<Session>) -> u64 {
        handle.to_bits()
    }

    pub(super) fn set_state(&self, bits: u32) {
        self.head.state.fetch_or(bits, Ordering::AcqRel);
    }

    pub(super) fn clear_state(&self, bits: u32) {
        self.head.state.fetch_and(!bits, Ordering::AcqRel);
    }

    /// Sets SO_ERROR.
    pub(super) fn set_error(&mut self, errno: Errno) {
        self.errors = self.errors.wrapping_add(1) & 0xffff;
        // A counter of 0 would look like no error.
        self.errors = self.errors.max(1);
        self.head.error.store(self.errors << 16 | errno as u32, Ordering::Release);
    }

    pub(super) fn fail(&mut self, errno: Errno) {
        self.set_error(errno);
        self.set_state(state::FAILED);
        self.clear_state(state::CONNECTING);
    }
}

/// What is answered of a name that is nobody's.
pub(super) fn gone() -> Refusal {
    refuse(Errno::EBADF, "there is no such session of this program")
}
