//! A host of the world: a stack, its devices, and its application.

use std::collections::VecDeque;

use clearway_base::Instant;
use clearway_pkt::{Burst, Iface, RxMeta};
use clearway_proto::store::chain::ChainRx;
use clearway_proto::store::ring::{RingRx, RingTx};
use clearway_proto::{Config, Drop, NeighbourState, Stack};

use crate::actor::{Actor, SharedLedger};
use crate::buf::{BufPool, SimBuf};
use crate::coalesce::Train;
use crate::export;
use crate::nic::{Handed, NicSink, Port, verdict};
use crate::stores::{Open, SimEnv, SimRx, SimTx};

/// Where a host keeps received bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RxKind {
    /// In the packet buffers they came in: so many buffers in all, so many bytes per connection.
    Chain {
        /// Buffers in all.
        nodes: u32,
        /// Bytes of buffers per connection.
        limit: u32,
    },
    /// Copied into chunks.
    Ring {
        /// Chunks in all.
        chunks: u32,
        /// Bytes of a chunk.
        chunk_len: u32,
        /// Bytes per connection.
        limit: u32,
    },
}

/// What a host is made of.
#[derive(Clone, Debug)]
pub struct HostSpec {
    /// What its lines in a trace begin with.
    pub name: &'static str,
    /// The stack's configuration.
    pub config: Config,
    /// Where received bytes are kept.
    pub rx: RxKind,
    /// Where bytes to send are kept: chunks, bytes of a chunk, bytes per connection.
    pub tx: (u32, u32, u32),
    /// Receive buffers of the devices.
    pub buffers: usize,
    /// Bytes that its players write at a time at most.
    pub chunk: usize,
}

/// Turns within a virtual second.
pub struct Turns {
    /// When it began.
    pub since: Instant,
    /// In which nothing happened.
    pub idle: u32,
    /// In which something did.
    pub busy: u32,
}

/// What one turn did.
#[derive(Default)]
pub struct Turn {
    /// Frames that the stack handed over.
    pub out: Vec<Handed>,
    /// Frames taken in.
    pub taken: usize,
    /// Events and timers of the application.
    pub events: usize,
    /// Frames that the stack dropped, for the trace.
    pub dropped: Vec<(Drop, Vec<u8>)>,
    /// The devices were full.
    pub refused: bool,
    /// The stack says that it has more to send.
    pub more: bool,
}

/// A frame in a device, not yet taken.
pub struct Waiting {
    /// Where it came in.
    pub iface: Iface,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// The segment size of a large segment that travelled whole; 0 otherwise.
    pub segment_size: u16,
}

/// A host.
pub struct Host {
    /// What its lines in a trace begin with.
    pub name: &'static str,
    /// The stack.
    pub stack: Stack<SimEnv>,
    /// The application.
    pub actor: Actor,
    /// Its devices, by interface.
    pub ports: Vec<Port>,
    /// Frames that wait in its devices.
    pub inbox: VecDeque<Waiting>,
    /// When frames that wait in its devices are told of.
    pub inbox_due: Instant,
    /// It has vanished: it neither takes nor sends anything.
    pub gone: bool,
    /// The device has room again, or frames that waited for others are told of.
    pub wake: Instant,
    /// Frames given to the stack.
    pub given: u64,
    /// Frames that found no receive buffer.
    pub starved: u64,
    /// The receive buffers.
    pub pool: BufPool,
    /// Open receive queues.
    pub open_rx: Open,
    /// Open transmit queues.
    pub open_tx: Open,
    /// The turns that it had lately.
    pub turns: Turns,
    /// Something was done to it from outside, so that it needs a turn.
    pub touched: bool,
    /// Segments may have been counted as sent that no link saw: they waited for a neighbour when
    /// the stack was made anew, or were dropped so before.
    pub lost_words: bool,
    spec: HostSpec,
    burst: Burst<SimBuf>,
    scratch: Vec<u8>,
    room: Vec<u32>,
}

impl Host {
    /// A host without interfaces.
    pub fn new(spec: &HostSpec, ledger: &SharedLedger, buf_len: usize) -> Host {
        let (open_rx, open_tx) = (Open::default(), Open::default());
        let pool = BufPool::new(spec.buffers, buf_len);
        let stack = stack_of(spec, &pool, &open_rx, &open_tx);
        Host {
            name: spec.name,
            stack,
            actor: Actor::new(ledger.clone(), spec.chunk),
            ports: Vec::new(),
            inbox: VecDeque::new(),
            inbox_due: Instant::ZERO,
            gone: false,
            wake: Instant::NEVER,
            given: 0,
            starved: 0,
            pool,
            open_rx,
            open_tx,
            turns: Turns { since: Instant::ZERO, idle: 0, busy: 0 },
            touched: true,
            lost_words: false,
            spec: spec.clone(),
            burst: Burst::new(),
            scratch: Vec::new(),
            room: Vec::new(),
        }
    }

    /// Exports the stack, and goes on with a new one that imports what was exported.
    pub fn renew_stack(&mut self, now: Instant) -> Result<(), String> {
        self.is_accounted_for()?;
        self.lost_words |= self.may_have_lost_words();
        let (state, left_out) = self.stack.export(now);
        if left_out > 0 {
            return Err(format!("{left_out} connections could not be exported"));
        }
        (self.open_rx, self.open_tx, self.given) = (Open::default(), Open::default(), 0);
        self.stack = stack_of(&self.spec, &self.pool, &self.open_rx, &self.open_tx);
        let made = self
            .stack
            .import(now, &state)
            .map_err(|why| format!("an import was refused: {why}"))?;
        self.touched = true;
        self.actor.renewed(&made)?;
        let again = self.stack.export(now).0;
        match export::difference(&state, &again) {
            None => Ok(()),
            Some(what) => Err(format!("what was imported is exported differently: {what}")),
        }
    }

    /// Whether every packet that was handed in was counted, once.
    pub fn is_accounted_for(&self) -> Result<(), String> {
        let counters = self.stack.counters();
        let (given, taken) = (self.given, counters.ip.packets_in);
        if given != taken {
            return Err(format!("{given} packets were handed in, and {taken} counted"));
        }
        let (delivered, dropped) = (counters.ip.delivered, counters.drops_total());
        if delivered + dropped != taken {
            return Err(format!(
                "of {taken} packets, {delivered} were delivered and {dropped} dropped"
            ));
        }
        Ok(())
    }

    /// Whether segments wait for a link address, or waited in vain: they were sent, and the link
    /// did not see them.
    pub fn may_have_lost_words(&self) -> bool {
        let asking = self.stack.neighbours().any(|n| n.state == NeighbourState::Incomplete);
        self.lost_words || asking || self.stack.counters().neighbours.frames_dropped > 0
    }

    /// When it has to have its next turn, whatever comes in until then.
    pub fn next_turn(&self) -> Instant {
        if self.gone {
            return Instant::NEVER;
        }
        if self.touched {
            return Instant::ZERO;
        }
        let inbox = if self.inbox.is_empty() { Instant::NEVER } else { self.inbox_due };
        self.stack.next_deadline().min(self.actor.next_timer()).min(self.wake).min(inbox)
    }

    /// One turn of its loop: take, look at timers, let the application act, send. `room`: frames
    /// that each device takes.
    pub fn turn(&mut self, now: Instant, room: impl Fn(usize) -> u32, tell_drops: bool) -> Turn {
        let mut turn = Turn::default();
        self.touched = false;
        if self.wake <= now {
            self.wake = Instant::NEVER;
        }
        self.take(now, &mut turn, tell_drops);
        if self.stack.next_deadline() <= now {
            self.stack.expire(now);
        }
        turn.events = self.actor.run(now, &mut self.stack);
        self.room.clear();
        self.room.extend((0..self.ports.len()).map(room));
        let mut sink = NicSink {
            room: &mut self.room,
            out: &mut turn.out,
            scratch: &mut self.scratch,
            refused: false,
        };
        turn.more = self.stack.emit(now, &mut sink);
        turn.refused = sink.refused;
        turn
    }

    fn take(&mut self, now: Instant, turn: &mut Turn, tell_drops: bool) {
        while self.burst.room() > 0 {
            let Some(mut waiting) = self.inbox.pop_front() else { break };
            let port = &self.ports[usize::from(waiting.iface.0)];
            if port.joins {
                join(port, &mut waiting, &mut self.inbox);
            }
            let Some(buf) = self.pool.copy_of(&waiting.bytes) else {
                self.starved += 1;
                continue;
            };
            let checksum = verdict(port, &waiting.bytes);
            let meta = RxMeta {
                iface: waiting.iface,
                checksum,
                segment_size: waiting.segment_size,
                ..RxMeta::default()
            };
            if self.burst.push(buf, meta).is_err() {
                break;
            }
            turn.taken += 1;
        }
        if turn.taken == 0 {
            return;
        }
        self.given += turn.taken as u64;
        if tell_drops {
            let dropped = &mut turn.dropped;
            let mut tell =
                |why: Drop, _: &RxMeta, bytes: &[u8]| dropped.push((why, bytes.to_vec()));
            self.stack.ingest_with(now, &mut self.burst, &mut tell);
        } else {
            self.stack.ingest(now, &mut self.burst);
        }
        self.burst.clear();
    }
}

/// A stack as the specification says, with queues that `open_rx` and `open_tx` count.
fn stack_of(spec: &HostSpec, pool: &BufPool, open_rx: &Open, open_tx: &Open) -> Stack<SimEnv> {
    let rx = match spec.rx {
        RxKind::Chain { nodes, limit } => SimRx::chain(ChainRx::new(nodes, limit), open_rx),
        RxKind::Ring { chunks, chunk_len, limit } => {
            SimRx::ring(RingRx::new(chunks, chunk_len, limit), open_rx)
        }
    };
    let tx = SimTx::new(RingTx::new(spec.tx.0, spec.tx.1, spec.tx.2), open_tx);
    let mut stack = Stack::new(spec.config.clone(), rx, tx);
    let spare = pool.clone();
    stack.set_buffer_maker(Box::new(move |bytes| spare.copy_of(bytes)));
    stack
}

/// Joins the frames that follow `first` in the device to it, as many as belong to it.
fn join(port: &Port, first: &mut Waiting, inbox: &mut VecDeque<Waiting>) {
    let Some(mut train) = Train::begin(port.framing, &first.bytes) else { return };
    let mut count = 0;
    while let Some(next) = inbox.front() {
        if next.iface != first.iface || !train.join(port.framing, &next.bytes) {
            break;
        }
        inbox.pop_front();
        count += 1;
    }
    if count > 0 {
        first.bytes = train.bytes;
        first.segment_size = train.segment_size;
    }
}
