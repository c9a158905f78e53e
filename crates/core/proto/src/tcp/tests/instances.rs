//! One rule, several instances: what the fast path does with a segment or a write is what the
//! general functions do, and what header prediction does is what the steps do one by one. The same
//! random peer and owner are played to three stacks, which must not differ in a bit of the record
//! or of what leaves.

use clearway_base::Rng;
use clearway_wire::Ecn;

use super::*;
use crate::tcp::cold::Cold;
use crate::tcp::conn::Conn;
use crate::tcp::context::{Instances, Pools};
use crate::tcp::held::Held;
use crate::testing::TestEnv;

/// Everything in the record but what names other tables.
fn picture(c: &Conn<TestEnv>, p: &Pools<TestEnv>) -> std::string::String {
    std::format!(
        "{:?} {:?} {:?} {:?} {:?} {} {} {} {} {:?} {:?} {} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} \
         {:?} {:?} {:?} {} {} {} {:?}",
        c.state,
        c.events,
        c.marks,
        c.rcv,
        c.snd,
        c.ts_recent,
        c.mss,
        c.rcv_mss,
        c.segs_in,
        c.heard,
        c.delack,
        c.data_segs_in,
        c.data_heard,
        c.congestion(p),
        c.rtt,
        c.recovery(p),
        c.times,
        c.snd_ahead,
        c.rcv_ahead,
        Cold { sack: Held::NONE, reasm: Held::NONE, ..c.cold(p) },
        c.timed_seq,
        c.delivered_then,
        c.rate,
        c.segs_out,
        c.data_segs_out,
        c.busy_ms,
        c.failure,
    )
}

/// What the peer and the owner do next.
#[derive(Clone, Debug)]
enum Act {
    Arrives(Segment, Vec<u8>, Ecn),
    Writes(usize),
    Reads,
    Waits(Duration),
}

/// The peer's side of what it plays, in sequence numbers.
struct Peer {
    rng: Rng,
    nxt: Seq,
}

impl Peer {
    /// Mostly what everybody expects, and now and then something else.
    fn next(&mut self, b: &Bench) -> Act {
        let c = b.net.stack.tcp.owned(b.id()).expect("it lives as long as nobody ends it");
        let (una, nxt, taken) = (c.snd.una, c.snd.nxt, c.rcv.nxt);
        if taken.gt(self.nxt) {
            self.nxt = taken;
        }
        match self.rng.below(10) {
            0..3 => {
                let most = if self.rng.below(4) == 0 { 9000 } else { 900 };
                return Act::Writes(self.rng.between(1, most) as usize);
            }
            3 => return Act::Reads,
            4 => {
                let most = if self.rng.below(8) == 0 { 400 } else { 8 };
                return Act::Waits(ms(self.rng.between(1, most)));
            }
            _ => {}
        }
        let out = nxt.since(una);
        let ack = match self.rng.below(8) {
            0 => una,
            1 => una - self.rng.below(100) as u32,
            2 => una + self.rng.below(u64::from(out) + 1) as u32,
            _ => nxt,
        };
        let len = if self.rng.below(3) == 0 { 0 } else { self.rng.between(1, 1400) as usize };
        let seq = match self.rng.below(16) {
            0 => self.nxt + 700,
            1 => self.nxt - 300,
            _ => self.nxt,
        };
        let wnd = if self.rng.below(12) == 0 {
            self.rng.below(3000) as u16
        } else {
            40_000 + self.rng.below(9000) as u16
        };
        let flags = if self.rng.below(2) == 0 { ACK } else { ACK | PSH };
        let mut seg = Segment { seq, ack, ..b.segment(flags, 0, 0, wnd) };
        if let Some((val, _)) = &mut seg.opts.ts {
            *val = b.net.now.as_millis() as u32 - if self.rng.below(20) == 0 { 3000 } else { 0 };
        }
        let mark = Ecn::of(self.rng.next_u32() as u8);
        if self.rng.below(4) == 0 {
            seg.flags |= Flags::of_ace(self.rng.next_u32() as u8);
        }
        Act::Arrives(seg, pattern(len), mark)
    }
}

fn play(b: &mut Bench, act: &Act) -> Vec<Vec<u8>> {
    match act {
        Act::Arrives(seg, data, mark) => {
            b.put_marked(*mark, *seg, data);
        }
        Act::Writes(n) => {
            b.send(&pattern(*n));
        }
        Act::Reads => {
            b.read_all();
        }
        Act::Waits(time) => {
            b.net.now += *time;
            b.net.stack.expire(b.net.now);
        }
    }
    b.net.emit()
}

/// `ecn`: what the peer's SYN asks for, and its first ACK says.
fn bench(stamps: bool, sack: bool, nodelay: bool, (asked, told): (u8, u8)) -> Bench {
    let config = if stamps { config() } else { plain() };
    let mut b = Bench::new(config);
    b.listen_for(EcnMode::AcceptAccurate);
    let ts = stamps.then_some((10_000, 0));
    let opts = TcpOptions { mss: Some(1400), sack_permitted: sack, ts, ..TcpOptions::NONE };
    b.handshake_with((Flags::of_ace(asked), Flags::of_ace(told)), opts, 40_000);
    let id = b.id();
    let options = b.net.stack.options(id).expect("it is there");
    b.net.stack.set_options(id, ConnOptions { nodelay, ..options });
    b
}

#[test]
fn all_instances_of_the_path_in_and_out_do_the_same() {
    for seed in 0..144 {
        let ecn = [(0, 0), (0b011, 0), (0b111, 0b010)][seed as usize % 3];
        let kind = |bit: u64| seed >> bit & 1 == 1;
        let mut benches: Vec<Bench> =
            (0..3).map(|_| bench(kind(0), kind(1), kind(2), ecn)).collect();
        for (b, which) in
            benches.iter_mut().zip([Instances::All, Instances::NoFastPath, Instances::StepByStep])
        {
            b.net.stack.tcp.pools.instances = which;
        }
        let mut peer = Peer { rng: Rng::seed(seed), nxt: benches[0].peer_iss + 1 };
        for step in 0..300 {
            let act = peer.next(&benches[0]);
            let seen: Vec<_> = benches
                .iter_mut()
                .map(|b| {
                    let left = play(b, &act);
                    let c = b.net.stack.tcp.owned(b.id()).expect("it lives");
                    let drops = core::mem::take(&mut b.net.drops);
                    let ecn = c.ecn(&b.net.stack.tcp.pools);
                    (
                        std::format!("{} {ecn:?}", picture(c, &b.net.stack.tcp.pools)),
                        drops,
                        std::format!("{:?}", b.net.stack.counters().tcp),
                        left,
                    )
                })
                .collect();
            for other in &seen[1..] {
                let of = std::format!("seed {seed}, step {step}");
                assert_eq!(seen[0].0, other.0, "{of}");
                assert_eq!((&seen[0].1, &seen[0].2), (&other.1, &other.2), "{of}");
                assert!(seen[0].3 == other.3, "{of}: other bytes left");
            }
        }
    }
}
