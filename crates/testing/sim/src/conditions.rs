//! Under what conditions a run takes place: everything about hosts and links that a seed draws and
//! that a scenario does not care about.

use clearway_base::{Duration, Rng};
use clearway_pkt::Offloads;
use clearway_proto::{Config, Congestion, EcnMode, Limits};
use clearway_wire::eth;

use crate::frame::Framing;
use crate::host::{HostSpec, RxKind};
use crate::link::{Bursts, Rules};

/// What the devices do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Device {
    /// Nothing.
    Plain,
    /// They look at checksums on the way in.
    Checks,
    /// They fill in checksums, too.
    Fills,
    /// They cut large segments, too.
    Cuts,
    /// Large segments travel whole.
    PassesLarge,
    /// Checksums are neither made nor looked at.
    Trusted,
}

/// How bad the link is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Weather {
    /// No fault at all.
    Clear,
    /// Now and then a loss or a frame out of order.
    Fair,
    /// Everything happens often.
    Foul,
}

/// Near which number sequence numbers begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NearWrap {
    /// The number: 0 for 2^32, or 2^31.
    pub number: u32,
    /// How far before it.
    pub before: u32,
    /// Of the side that accepts instead of the one that connects.
    pub accepting: bool,
}

/// What a scenario asks of its conditions.
#[derive(Clone, Copy, Debug)]
pub struct Wants {
    /// The worst weather.
    pub weather: Weather,
    /// Stores may be small.
    pub small: bool,
    /// The link may be slow.
    pub rate: bool,
    /// Large segments may travel whole, and checksums may be left out.
    pub trusting: bool,
}

impl Default for Wants {
    fn default() -> Wants {
        Wants { weather: Weather::Foul, small: true, rate: true, trusting: true }
    }
}

/// The conditions of a run.
#[derive(Clone, Debug)]
pub struct Conditions {
    /// IPv6 instead of IPv4.
    pub v6: bool,
    /// Ethernet or bare packets.
    pub framing: Framing,
    /// The MTU of the link.
    pub mtu: u32,
    /// The routing table that everything is in.
    pub table: u16,
    /// What the devices do.
    pub device: Device,
    /// The devices join received segments.
    pub joins: bool,
    /// The devices let frames wait for others before they tell of them.
    pub moderation: Duration,
    /// How bad the link is.
    pub weather: Weather,
    /// Each direction of the link.
    pub rules: [Rules; 2],
    /// How long the weather lasts.
    pub storm: Duration,
    /// The two hosts.
    pub hosts: [HostSpec; 2],
    /// Where sequence numbers begin.
    pub near: Option<NearWrap>,
    /// Bytes of a receive buffer.
    pub buf_len: usize,
}

/// What bounds how fast a conversation goes on a link without faults.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bounds {
    /// There and back, with the time that an ACK may wait.
    pub round_trip: Duration,
    /// Bytes that the smallest store takes.
    pub store: u32,
    /// What is shorter than this is one segment wherever it goes.
    pub mtu: u32,
    /// A handshake whose ECN bits became others may have left one end with a count where the other
    /// one sees a mark on every segment, for as long as they live: two segments in a round trip.
    pub may_seem_marked: bool,
}

impl Bounds {
    /// How long `bytes` take at the most, in segments no longer than `max_segment` unless 0.
    ///
    /// A window is half of the store, and the ends of it that make no segment are not sent.
    pub fn time_of(&self, bytes: u64, max_segment: u16) -> Duration {
        let longest = self.mtu.saturating_sub(100).max(1);
        let segment = if max_segment == 0 { longest } else { longest.min(max_segment.into()) };
        let window = if self.may_seem_marked { 0 } else { self.store / 4 };
        self.round_trip.times(bytes / u64::from(window.max(segment)))
    }
}

impl Conditions {
    /// What bounds how fast a conversation goes when the weather is over.
    pub fn bounds(&self) -> Bounds {
        let [a, b] = &self.rules;
        let delack = self.hosts.iter().map(|host| host.config.tcp.delayed_ack).max();
        let store = |host: &HostSpec| {
            let (RxKind::Chain { limit, .. } | RxKind::Ring { limit, .. }) = host.rx;
            let scaled = if host.config.tcp.window_scaling { u32::MAX } else { 65_535 };
            limit.min(host.tx.2).min(host.config.tcp.max_receive_window).min(scaled)
        };
        Bounds {
            round_trip: a.delay + b.delay + delack.unwrap_or_default(),
            store: self.hosts.iter().map(store).min().unwrap_or(0),
            mtu: self.mtu,
            may_seem_marked: self.rules.iter().any(|rules| rules.turn > 0),
        }
    }

    /// Draws conditions that suit a scenario.
    pub fn draw(rng: &mut Rng, wants: &Wants) -> Conditions {
        let v6 = rng.chance(500_000);
        let framing = if rng.chance(600_000) { Framing::Ethernet } else { Framing::Raw };
        let odd = rng.between(1280, 9000) as u32;
        let mtu = *pick(rng, &[1500, 1500, 1500, 1280, 1400, 9000, odd]);
        let weather = draw_weather(rng, wants.weather);
        let device = draw_device(rng, wants, weather);
        let delay = *pick(rng, &DELAYS);
        let rate = if wants.rate { *pick(rng, &RATES) } else { 0 };
        let rules = [draw_rules(rng, weather, delay, rate), draw_rules(rng, weather, delay, rate)];
        let storm = Duration::from_millis(rng.between(1_000, 40_000));
        let buf_len = mtu as usize + eth::HEADER_LEN;
        let hosts = [draw_host(rng, "a", wants, buf_len), draw_host(rng, "b", wants, buf_len)];
        let near = rng.chance(400_000).then(|| NearWrap {
            number: *pick(rng, &[0, 1 << 31]),
            before: rng.between(0, 100_000) as u32,
            accepting: rng.chance(500_000),
        });
        let table = if rng.chance(100_000) { 1 } else { 0 };
        let joins = rng.chance(250_000);
        let moderation = Duration::from_micros(*pick(rng, &[0, 0, 0, 20, 500]));
        Conditions {
            v6,
            framing,
            mtu,
            table,
            device,
            joins,
            moderation,
            weather,
            rules,
            storm,
            hosts,
            near,
            buf_len,
        }
    }

    /// How many bytes a scenario should move at most, so that a slow link does not make it last for
    /// ever.
    pub fn bytes(&self, rng: &mut Rng, most: u64) -> u64 {
        let rate = self.rules.iter().map(|r| r.rate).filter(|r| *r > 0).min().unwrap_or(u64::MAX);
        // Ten seconds' worth of the link, and two hundred windows: with a long way and late
        // acknowledgements, each takes up to a second.
        let most = most.min((rate / 8).saturating_mul(10)).min(self.window() * 200);
        let small = [0, 1, 100, 1459, 1460, 1461, 10_000];
        if rng.chance(200_000) { *pick(rng, &small) } else { rng.between(1, most) }
    }

    /// The least that a host is sure to have under way at a time, in bytes.
    fn window(&self) -> u64 {
        let rx = |spec: &HostSpec| match spec.rx {
            // Each buffer may hold a segment of no more than a hundred bytes.
            RxKind::Chain { limit, .. } => limit / self.buf_len as u32 * 50,
            RxKind::Ring { limit, .. } => limit,
        };
        u64::from(self.hosts.iter().map(|spec| rx(spec).min(spec.tx.2)).min().unwrap_or(0))
    }

    /// What the devices offer the stack.
    pub fn offloads(&self) -> Offloads {
        let mut offloads = Offloads::default();
        match self.device {
            Device::Plain | Device::Checks => {}
            Device::Fills => offloads.tx_checksum = true,
            Device::Trusted => offloads.trusted_link = true,
            Device::Cuts | Device::PassesLarge => {
                offloads.tx_checksum = true;
                offloads.tso4 = true;
                offloads.tso6 = true;
                offloads.max_segmented_frame = 65_535;
            }
        }
        offloads
    }
}

/// One of several.
pub fn pick<'a, T>(rng: &mut Rng, from: &'a [T]) -> &'a T {
    &from[rng.below(from.len() as u64) as usize]
}

const DELAYS: [Duration; 6] = [
    Duration::ZERO,
    Duration::from_micros(10),
    Duration::from_micros(500),
    Duration::from_millis(5),
    Duration::from_millis(40),
    Duration::from_millis(250),
];

/// Bits per second; 0: no limit.
const RATES: [u64; 5] = [0, 0, 1_000_000, 20_000_000, 1_000_000_000];

fn draw_weather(rng: &mut Rng, worst: Weather) -> Weather {
    let drawn = *pick(rng, &[Weather::Clear, Weather::Fair, Weather::Fair, Weather::Foul]);
    drawn.min(worst)
}

fn draw_device(rng: &mut Rng, wants: &Wants, weather: Weather) -> Device {
    use Device::{Checks, Cuts, Fills, PassesLarge, Plain, Trusted};
    // Damage would not be noticed where nobody looks at checksums.
    if wants.trusting && weather != Weather::Foul {
        *pick(rng, &[Plain, Checks, Fills, Cuts, PassesLarge, Trusted])
    } else {
        *pick(rng, &[Plain, Checks, Fills, Cuts])
    }
}

/// Rules for one direction.
pub fn draw_rules(rng: &mut Rng, weather: Weather, delay: Duration, rate: u64) -> Rules {
    let mut rules = Rules::clean(delay);
    rules.rate = rate;
    rules.queue = rng.between(20, 400) as u32;
    rules.backpressure = rng.chance(500_000);
    if rng.chance(300_000) {
        rules.jitter = Duration::from_nanos(rng.below(delay.as_nanos() + 100_000));
    }
    if rng.chance(200_000) {
        rules.mark_above = Some(Duration::from_micros(rng.between(200, 20_000)));
    }
    if weather != Weather::Clear && rng.chance(250_000) {
        rules.mark = *pick(rng, &[0, 1_000, 50_000, 1_000_000]);
        rules.bleach = *pick(rng, &[0, 0, 20_000, 1_000_000]);
        rules.turn = *pick(rng, &[0, 0, 20_000, 1_000_000]);
    }
    let most = match weather {
        Weather::Clear => return rules,
        Weather::Fair => 10_000,
        Weather::Foul => 100_000,
    };
    let mut some =
        |most: u32| if rng.chance(600_000) { rng.below(u64::from(most)) as u32 } else { 0 };
    rules.loss = some(most);
    rules.duplicate = some(most);
    rules.reorder = some(most * 2);
    if weather == Weather::Foul {
        rules.corrupt = some(most / 4);
        rules.truncate = some(most / 10);
    }
    rules.reorder_by = Duration::from_nanos(rng.between(1_000, delay.as_nanos() * 3 + 1_000_000));
    if rng.chance(150_000) {
        rules.bursts = Some(Bursts {
            begin: most / 10,
            end: rng.between(50_000, 500_000) as u32,
            loss: 900_000,
        });
    }
    rules
}

fn draw_host(rng: &mut Rng, name: &'static str, wants: &Wants, buf_len: usize) -> HostSpec {
    let mut secret = [0; 32];
    rng.fill(&mut secret);
    let mut config = Config::new(secret);
    config.limits = draw_limits(rng);
    let tcp = &mut config.tcp;
    tcp.window_scaling = rng.chance(800_000);
    tcp.timestamps = rng.chance(700_000);
    tcp.sack = rng.chance(700_000);
    tcp.rto_max = Duration::from_secs(*pick(rng, &[60, 120]));
    tcp.initial_window = *pick(rng, &[1, 2, 4, 10, 10, 10]);
    tcp.delayed_ack = Duration::from_millis(*pick(rng, &[0, 10, 40, 40, 200]));
    tcp.quantum = *pick(rng, &[1500, 16 * 1024, 256 * 1024]);
    tcp.max_receive_window = *pick(rng, &[32 * 1024, 256 * 1024, 4 * 1024 * 1024]);
    // Small ones, so that windows and queues have to grow.
    tcp.initial_receive_window = *pick(rng, &[4 * 1024, 64 * 1024, 512 * 1024]);
    tcp.initial_send_buffer = *pick(rng, &[2 * 1024, 256 * 1024]);
    let small = wants.small && rng.chance(300_000);
    let rx = draw_rx(rng, small, buf_len);
    let tx_limit =
        if small { rng.between(500, 20_000) as u32 } else { rng.between(20_000, 1_000_000) as u32 };
    let tx_chunk = *pick(rng, &[64, 512, 2048, 4096]);
    // Chunks for a hundred full queues.
    let tx = ((tx_limit / tx_chunk + 2) * 100, tx_chunk, tx_limit);
    let chunk = *pick(rng, &[1, 100, 1460, 10_000, 1_000_000]);
    let chunk = if chunk == 1 && !small { 1000 } else { chunk };
    HostSpec { name, config, rx, tx, buffers: 20_000, chunk }
}

fn draw_rx(rng: &mut Rng, small: bool, buf_len: usize) -> RxKind {
    if rng.chance(500_000) {
        let buffers = if small { rng.between(12, 30) } else { rng.between(20, 500) };
        RxKind::Chain { nodes: 16_384, limit: buffers as u32 * buf_len as u32 }
    } else {
        let limit = if small {
            rng.between(600, 20_000) as u32
        } else {
            rng.between(20_000, 4_000_000) as u32
        };
        let chunk_len = *pick(rng, &[256, 2048, 4096]);
        RxKind::Ring { chunks: (limit / chunk_len + 2) * 100, chunk_len, limit }
    }
}

/// Tables far smaller than those of a server, so that a run does not spend its time making them;
/// sometimes tiny, so that they run full.
fn draw_limits(rng: &mut Rng) -> Limits {
    let mut limits = Limits {
        connections: 1024,
        half_open: 256,
        time_wait: 1024,
        orphans: 256,
        listeners: 16,
        reassembly_maps: 256,
        sack_maps: 256,
        paced: 256,
        udp_sockets: 16,
        udp_queue_bytes: 256 * 1024,
        routes: 64,
        neighbours: 64,
        fragments: 16,
        fragment_bytes: 512 * 1024,
        ..Limits::default()
    };
    if rng.chance(200_000) {
        limits.reassembly_maps = rng.between(1, 3) as u32;
        limits.sack_maps = rng.between(1, 3) as u32;
        limits.paced = rng.between(1, 3) as u32;
        limits.time_wait = rng.between(1, 4) as u32;
        limits.half_open = rng.between(1, 8) as u32;
        limits.replies = rng.between(4, 16) as u16;
        limits.neighbour_queue = 1;
    }
    limits
}

/// Congestion control and the like, for one connection.
pub fn draw_options(rng: &mut Rng) -> clearway_proto::ConnOptions {
    clearway_proto::ConnOptions {
        nodelay: rng.chance(300_000),
        congestion: *pick(
            rng,
            &[
                Congestion::Reno,
                Congestion::Cubic,
                Congestion::Bbr,
                Congestion::Prague,
                Congestion::Bbr1,
            ],
        ),
        ecn: EcnMode::ALL[rng.below(EcnMode::ALL.len() as u64) as usize],
        max_pacing_rate: if rng.chance(100_000) {
            Some(rng.between(100_000, 100_000_000))
        } else {
            None
        },
        max_segment: if rng.chance(100_000) { rng.between(100, 1400) as u16 } else { 0 },
        ..clearway_proto::ConnOptions::default()
    }
}
