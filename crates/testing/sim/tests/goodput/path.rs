//! Streams over one path in virtual time, for tests of how much they get of it.

use clearway_base::{Duration, Instant, Rng};
use clearway_proto::{Config, Congestion, ConnOptions, EcnMode, ListenSpec, Table};
use clearway_sim::conditions::{Conditions, Device, Weather};
use clearway_sim::frame::Framing;
use clearway_sim::host::{HostSpec, RxKind};
use clearway_sim::link::{Managed, Rules};
use clearway_sim::stage::{A, B, PORT, Stage, address, connect, join, third};
use clearway_sim::talk::{Act, Conversation, Expect, Part};
use clearway_sim::world::World;
use clearway_wire::Endpoint;

/// The number of the far host.
const FAR: u8 = 3;
const MTU: u32 = 1500;
/// Payload of a full segment, beside timestamps.
const PAYLOAD: u64 = 1448;
/// What a full segment takes on the link.
const FRAME: u64 = 1514;
/// Bytes that a connection may have under way.
const STORE: u32 = 8 << 20;

/// A path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path {
    /// Bits in a second.
    pub rate: u64,
    pub rtt_ms: u64,
    /// Buffer in front of it, in hundredths of what is under way when it is full.
    pub buffer: u64,
    /// Frames lost, in a million.
    pub loss: u32,
    /// What can be marked is, when it waits for longer than this.
    pub marks: Option<Duration>,
    /// Who manages the queue in front of it.
    pub managed: Managed,
    /// From half of the warm time on what can be marked is when it waits for longer than this.
    pub later: Option<Duration>,
    /// The round trip of all streams behind the first, which end at another host; 0: the same.
    pub far_ms: u64,
    /// What the way back varies by.
    pub jitter_us: u64,
    /// Whom the losses are drawn by.
    pub seed: u64,
}

/// What streams came to.
pub(crate) struct Outcome {
    /// Of the path, in thousandths, by stream.
    pub shares: Vec<u64>,
    /// Frames that found the queue full, from the beginning on.
    pub overflowed: u64,
    /// What 99 of 100 frames have waited at most, where there are marks.
    pub queue_us: u32,
    /// How often the sender took the queue for a classic one.
    pub fallbacks: u64,
    /// Segments that the receiver sends for a thousand that it gets.
    pub acks: u64,
    /// How long the receiver's window has held the senders back, from the beginning on.
    pub held_by_window: Duration,
}

fn host(name: &'static str) -> HostSpec {
    let mut config = Config::new([7; 32]);
    config.limits.connections = 64;
    config.limits.half_open = 64;
    config.limits.time_wait = 64;
    config.tcp.max_receive_window = STORE;
    let rx = RxKind::Ring { chunks: 16 * (STORE >> 12), chunk_len: 4096, limit: STORE };
    HostSpec {
        name,
        config,
        rx,
        tx: (16 * (STORE >> 12), 4096, STORE),
        buffers: 20_000,
        chunk: 1 << 20,
    }
}

impl Path {
    /// With a buffer of one round trip, that drops what it has no place for.
    pub(crate) const fn of(rate: u64, rtt_ms: u64) -> Path {
        Path {
            rate,
            rtt_ms,
            buffer: 100,
            loss: 0,
            marks: None,
            managed: Managed::No,
            later: None,
            far_ms: 0,
            jitter_us: 0,
            seed: 5,
        }
    }

    fn stage(&self, change: impl FnOnce(&mut Config)) -> Stage {
        let delay = Duration::from_micros(self.rtt_ms * 500);
        let under_way = self.rate / 8 * self.rtt_ms / 1000;
        let queue = (under_way * self.buffer / 100 / FRAME).max(10) as u32;
        let there = Rules {
            rate: self.rate,
            queue,
            loss: self.loss,
            mark_above: self.marks,
            managed: self.managed,
            ..Rules::clean(delay)
        };
        let jitter = Duration::from_micros(self.jitter_us);
        let rules = [there, Rules { jitter, ..Rules::clean(delay) }];
        let mut hosts = [host("a"), host("b")];
        change(&mut hosts[0].config);
        let conditions = Conditions {
            v6: false,
            framing: Framing::Ethernet,
            mtu: MTU,
            table: 0,
            device: Device::Plain,
            joins: false,
            moderation: Duration::ZERO,
            weather: Weather::Clear,
            rules,
            storm: Duration::ZERO,
            hosts,
            near: None,
            buf_len: 2048,
        };
        let mut world = World::new(Rng::seed(self.seed), Instant::from_millis(1_000));
        let link = world.add_link(conditions.framing, conditions.table);
        for i in [A, B] {
            world.add_host(&conditions.hosts[i], conditions.buf_len);
            join(&mut world, &conditions, i, link, 0, rules[i]);
        }
        let mut stage = Stage { world, conditions, rng: Rng::seed(self.seed), listener: None };
        let accepts = ConnOptions { ecn: EcnMode::AcceptAccurate, ..ConnOptions::default() };
        stage.listen_as(128, Duration::ZERO, accepts);
        if self.far_ms > 0 {
            self.add_far(&mut stage, link, accepts);
        }
        stage
    }

    /// Another host that listens, from which the way back is longer.
    fn add_far(&self, stage: &mut Stage, link: usize, options: ConnOptions) {
        let spec = third(&stage.conditions.hosts[B]);
        let world = &mut stage.world;
        let far = world.add_host(&spec, stage.conditions.buf_len);
        let back = Duration::from_micros(self.far_ms * 1000 - self.rtt_ms * 500);
        join(world, &stage.conditions, far, link, 0, Rules::clean(back));
        let local = Endpoint::new(address(false, 0, far as u8 + 1), PORT);
        let spec = ListenSpec {
            table: Table::default(),
            local,
            v6_only: false,
            backlog: 128,
            token: 0,
            options,
        };
        let host = &mut world.hosts[far];
        host.actor.listen(&mut host.stack, spec, Duration::ZERO).expect("it listens");
    }

    /// Adds a conversation that begins after a while, to the far host if there is one.
    fn converse(&self, stage: &mut Stage, wait: Duration, n: usize, talk: Conversation) -> usize {
        if n == 0 || self.far_ms == 0 {
            return stage.converse(wait, talk);
        }
        let number = stage.world.ledger.borrow_mut().add(talk);
        let spec = stage.connect_spec(None, Endpoint::new(address(false, 0, FAR), PORT));
        stage.world.after(wait, move |w| connect(w, A, number, 0, spec));
        number
    }

    /// Streams that begin half a second after each other run for `warm`, and then for `time`, which
    /// is what the outcome is of.
    pub(crate) fn run(&self, streams: &[ConnOptions], warm: Duration, time: Duration) -> Outcome {
        self.run_with(streams, warm, time, |_| {})
    }

    /// The same, with other settings of the sender's stack.
    pub(crate) fn run_with(
        &self,
        streams: &[ConnOptions],
        warm: Duration,
        time: Duration,
        change: impl FnOnce(&mut Config),
    ) -> Outcome {
        let mut stage = self.stage(change);
        let begin = |n: usize| Duration::from_millis(500 * n as u64);
        let numbers: Vec<usize> = streams
            .iter()
            .enumerate()
            .map(|(n, options)| {
                let from_a = Part { options: *options, ..Part::new(vec![Act::Send(1 << 40)]) };
                let talk = Conversation::new(from_a, Part::new(vec![Act::AwaitEnd]), Expect::Whole);
                self.converse(&mut stage, begin(n), n, talk)
            })
            .collect();
        let mut world = stage.world;
        let read = |w: &World| -> Vec<u64> {
            let ledger = w.ledger.borrow();
            numbers.iter().map(|n| ledger.conversations[*n].fates[1].read).collect()
        };
        let start = world.now + begin(streams.len()) + warm;
        if self.later.is_some() {
            world.run(world.now + begin(streams.len()) + warm.per(2), |_| false);
            world.links[0].ends[A].2.rules.mark_above = self.later;
        }
        world.run(start, |_| false);
        let before = read(&world);
        let segments = |w: &World| {
            let tcp = &w.hosts[B].stack.counters().tcp;
            (tcp.segs_out, tcp.segs_in)
        };
        let (sent_before, got_before) = segments(&world);
        world.links[0].ends[A].2.waits.clear();
        world.run(start + time, |_| false);
        assert_eq!(world.failure, None, "{self:?}");
        let most = u128::from(self.rate / 8) * u128::from(time.as_nanos()) * u128::from(PAYLOAD)
            / u128::from(FRAME);
        let share = |(after, before): (u64, u64)| {
            (u128::from(after - before) * 1000 * 1_000_000_000 / most) as u64
        };
        let shares = read(&world).into_iter().zip(before).map(share).collect();
        let link = &mut world.links[0].ends[A].2;
        link.waits.sort_unstable();
        let queue_us = link.waits.get(link.waits.len() * 99 / 100).copied().unwrap_or(0);
        let overflowed = link.tally.overflowed;
        let fallbacks = world.hosts[A].stack.counters().tcp.prague_fallbacks;
        let (sent, got) = segments(&world);
        let acks = (sent - sent_before) * 1000 / (got - got_before).max(1);
        let stack = &world.hosts[A].stack;
        let held = stack.conn_ids().filter_map(|conn| stack.info(conn)).map(|i| i.rwnd_limited);
        let held_by_window = held.fold(Duration::ZERO, |all, one| all + one);
        Outcome { shares, overflowed, queue_us, fallbacks, acks, held_by_window }
    }

    pub(crate) fn share(&self, congestion: Congestion, warm_s: u64, time_s: u64) -> u64 {
        let stream = ConnOptions { congestion, ..ConnOptions::default() };
        self.run(&[stream], Duration::from_secs(warm_s), Duration::from_secs(time_s)).shares[0]
    }
}

/// Jain's index of shares, in thousandths.
pub(crate) fn fairness(shares: &[u64]) -> u64 {
    let sum: u64 = shares.iter().sum();
    let squares: u64 = shares.iter().map(|share| share * share).sum();
    sum * sum * 1000 / (shares.len() as u64 * squares.max(1))
}

pub(crate) const MBIT: u64 = 1_000_000;
