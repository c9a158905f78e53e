//! How much of a path a stream fills, by algorithm: rate limits, round trips, buffers and losses in
//! virtual time.

use clearway_base::{Duration, Instant, Rng};
use clearway_proto::{Config, Congestion, ConnOptions};
use clearway_sim::conditions::{Conditions, Device, Weather};
use clearway_sim::frame::Framing;
use clearway_sim::host::{HostSpec, RxKind};
use clearway_sim::link::Rules;
use clearway_sim::stage::{A, B, Stage, join};
use clearway_sim::talk::{Act, Conversation, Expect, Part};
use clearway_sim::world::World;

const MTU: u32 = 1500;
/// Payload of a full segment, beside timestamps.
const PAYLOAD: u64 = 1448;
/// What a full segment takes on the link.
const FRAME: u64 = 1514;
/// Bytes that a connection may have under way.
const STORE: u32 = 8 << 20;

/// A path.
#[derive(Clone, Copy, Debug)]
struct Path {
    /// Bits in a second.
    rate: u64,
    rtt_ms: u64,
    /// Buffer in front of it, in hundredths of what is under way when it is full.
    buffer: u64,
    /// Frames lost, in a million.
    loss: u32,
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
    fn stage(&self, seed: u64) -> Stage {
        let delay = Duration::from_micros(self.rtt_ms * 500);
        let under_way = self.rate / 8 * self.rtt_ms / 1000;
        let queue = (under_way * self.buffer / 100 / FRAME).max(10) as u32;
        let there = Rules { rate: self.rate, queue, loss: self.loss, ..Rules::clean(delay) };
        let rules = [there, Rules::clean(delay)];
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
            hosts: [host("a"), host("b")],
            near: None,
            buf_len: 2048,
        };
        let mut world = World::new(Rng::seed(seed), Instant::from_millis(1_000));
        let link = world.add_link(conditions.framing, conditions.table);
        for i in [A, B] {
            world.add_host(&conditions.hosts[i], conditions.buf_len);
            join(&mut world, &conditions, i, link, 0, rules[i]);
        }
        let mut stage = Stage { world, conditions, rng: Rng::seed(seed), listener: None };
        stage.listen();
        stage
    }

    /// Streams that begin half a second after each other run for `warm`, and then for `time`: what
    /// share of the path each got then, in thousandths.
    fn shares(&self, streams: &[ConnOptions], warm: Duration, time: Duration) -> Vec<u64> {
        let mut stage = self.stage(5);
        let begin = |n: usize| Duration::from_millis(500 * n as u64);
        let numbers: Vec<usize> = streams
            .iter()
            .enumerate()
            .map(|(n, options)| {
                let from_a = Part { options: *options, ..Part::new(vec![Act::Send(1 << 40)]) };
                let talk = Conversation::new(from_a, Part::new(vec![Act::AwaitEnd]), Expect::Whole);
                stage.converse(begin(n), talk)
            })
            .collect();
        let mut world = stage.world;
        let read = |w: &World| -> Vec<u64> {
            let ledger = w.ledger.borrow();
            numbers.iter().map(|n| ledger.conversations[*n].fates[1].read).collect()
        };
        let start = world.now + begin(streams.len()) + warm;
        world.run(start, |_| false);
        let before = read(&world);
        world.run(start + time, |_| false);
        assert_eq!(world.failure, None, "{self:?}");
        let most = u128::from(self.rate / 8) * u128::from(time.as_nanos()) * u128::from(PAYLOAD)
            / u128::from(FRAME);
        let share = |(after, before): (u64, u64)| {
            (u128::from(after - before) * 1000 * 1_000_000_000 / most) as u64
        };
        read(&world).into_iter().zip(before).map(share).collect()
    }

    fn share(&self, congestion: Congestion, warm_s: u64, time_s: u64) -> u64 {
        let stream = ConnOptions { congestion, ..ConnOptions::default() };
        self.shares(&[stream], Duration::from_secs(warm_s), Duration::from_secs(time_s))[0]
    }
}

const MBIT: u64 = 1_000_000;

#[test]
fn bbr_fills_nine_tenths_of_a_path_that_loses_one_frame_in_a_hundred() {
    // Over a long round trip each look at the shortest one (ProbeRTT) costs more of the time.
    for (rtt_ms, buffer, least) in [(1, 400, 900), (20, 100, 900), (66, 100, 900), (100, 400, 850)]
    {
        let path = Path { rate: 20 * MBIT, rtt_ms, buffer, loss: 10_000 };
        let share = path.share(Congestion::Bbr, 2, 12);
        assert!(share >= least, "{share} thousandths of {path:?}");
    }
}

#[test]
fn bbr_fills_a_path_without_losses_whatever_its_buffer() {
    for (rtt_ms, buffer) in [(1, 100), (20, 20), (20, 400), (66, 20), (100, 100)] {
        let path = Path { rate: 20 * MBIT, rtt_ms, buffer, loss: 0 };
        let share = path.share(Congestion::Bbr, 3, 12);
        assert!(share >= 900, "{share} thousandths of {path:?}");
    }
}

#[test]
fn cubic_and_reno_fill_a_path_with_a_buffer_of_one_round_trip() {
    for congestion in [Congestion::Cubic, Congestion::Reno] {
        for rtt_ms in [1, 20, 66] {
            let path = Path { rate: 20 * MBIT, rtt_ms, buffer: 100, loss: 0 };
            let share = path.share(congestion, 4, 10);
            assert!(share >= 930, "{share} thousandths of {path:?} with {congestion:?}");
        }
    }
}

#[test]
fn a_pacing_rate_bounds_any_algorithm_and_is_used_up() {
    for congestion in [Congestion::Cubic, Congestion::Reno, Congestion::Bbr] {
        let path = Path { rate: 40 * MBIT, rtt_ms: 20, buffer: 100, loss: 0 };
        let limited =
            ConnOptions { congestion, max_pacing_rate: Some(1_250_000), ..ConnOptions::default() };
        let share = path.shares(&[limited], Duration::from_secs(1), Duration::from_secs(5))[0];
        // A quarter of the path, in payload.
        assert!((230..=262).contains(&share), "{share} thousandths with {congestion:?}");
    }
}

/// Jain's index of two shares, in thousandths.
fn fairness(shares: &[u64]) -> u64 {
    let sum: u64 = shares.iter().sum();
    let squares: u64 = shares.iter().map(|share| share * share).sum();
    sum * sum * 1000 / (shares.len() as u64 * squares.max(1))
}

#[test]
fn two_streams_of_one_algorithm_share_a_path() {
    for congestion in [Congestion::Cubic, Congestion::Reno, Congestion::Bbr] {
        let path = Path { rate: 20 * MBIT, rtt_ms: 20, buffer: 100, loss: 0 };
        let stream = ConnOptions { congestion, ..ConnOptions::default() };
        let shares = path.shares(&[stream; 2], Duration::from_secs(10), Duration::from_secs(20));
        let (fair, all) = (fairness(&shares), shares.iter().sum::<u64>());
        assert!(
            fair >= 900 && all >= 900,
            "{shares:?} thousandths, fairness {fair}, with {congestion:?}"
        );
    }
}
