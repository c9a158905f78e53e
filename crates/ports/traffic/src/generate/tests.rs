use clearway_base::Duration;
use clearway_dev::{
    Facts, Fault, FaultSpec, FramePool, Mac, PairConfig, PairEnd, PoolBudget, Receive, pair,
};
use clearway_pkt::PoolBuf;

use super::*;
use crate::reflect::{Mirror, Reflector};

fn plan(end: Duration) -> Plan {
    let shape = Shape {
        macs: Some((Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2]))),
        own: "198.18.0.1".parse().unwrap(),
        peer: "198.19.0.1".parse().unwrap(),
        own_port: 10_000,
        peer_port: 9,
        tcp: false,
        run: 1,
    };
    let rate = Some(FramesPerSecond { frames: 10_000, seconds: 1 });
    let start = Instant::from_millis(5);
    Plan { shape, size: 64, flows: 10, queue: 0, queues: 1, rate, start, end: start + end }
}

fn pool() -> FramePool {
    FramePool::new(PoolBudget::of_bytes(4 << 20))
}

/// A generator and a reflector at the two ends of a link, driven in steps of `step` until nothing
/// is left.
fn play<D: Dev<Buf = PoolBuf>>(
    generator: &mut Generator,
    near: &mut D,
    far: &mut PairEnd,
    mirror: Mirror,
    step: Duration,
) {
    let mut reflector = Reflector::new(mirror);
    let (mut here, mut there) = (Burst::new(), Burst::new());
    let mut now = Instant::ZERO;
    let mut quiet = 0;
    while quiet < 20 {
        now += step;
        let worked = generator.turn(now, near, &mut here).unwrap()
            | reflector.turn(now, far, &mut there).unwrap();
        quiet = if worked || !generator.is_done() { 0 } else { quiet + 1 };
    }
}

#[test]
fn all_frames_come_back_in_every_mirror() {
    for mirror in [Mirror::AsIs, Mirror::Macs, Mirror::Addresses] {
        let (mut near, mut far) = pair(PairConfig::default(), &pool());
        let mut generator =
            Generator::new(plan(Duration::from_millis(100)), Account::new(10)).unwrap();
        play(&mut generator, &mut near, &mut far, mirror, Duration::from_micros(333));
        let (sent, came) = (generator.sent(), *generator.account().came());
        assert_eq!((sent.frames, sent.bytes, sent.short, sent.no_room), (1_000, 64_000, 0, 0));
        assert_eq!((came.frames, came.bytes), (1_000, 64_000));
        assert_eq!(
            (came.missing, came.reordered, came.duplicates, came.damaged, came.foreign),
            (0, 0, 0, 0, 0)
        );
        let latency = generator.account().latency();
        assert_eq!(latency.count(), 1_000);
        // Sent in one turn, reflected in the same step, received in the next; a stamp counts in
        // steps of 16 ns, and three digits are kept.
        assert!(
            (330_000..336_000).contains(&latency.percentile(50.0)),
            "{}",
            latency.percentile(50.0)
        );
    }
}

#[test]
fn loss_duplicates_disorder_and_damage_are_counted() {
    let pool = pool();
    let (near, mut far) = pair(PairConfig::default(), &pool);
    let fault: FaultSpec = "rx.loss=5%,rx.dup=5%,rx.corrupt=5%,rx.reorder=5%".parse().unwrap();
    let mut near = Fault::new(near, fault, 3, pool.clone());
    // One flow: the order of frames of different flows means nothing.
    let plan = Plan { flows: 1, ..plan(Duration::from_secs(1)) };
    let mut generator = Generator::new(plan, Account::new(1)).unwrap();
    play(&mut generator, &mut near, &mut far, Mirror::Macs, Duration::from_micros(700));
    let (sent, came) = (generator.sent(), *generator.account().came());
    assert_eq!(sent.frames, 10_000);
    let lost = near.counters().rx_dropped(clearway_dev::RxDrop::FaultLoss);
    assert!(
        lost > 300 && came.duplicates > 300 && came.damaged > 100 && came.reordered > 100,
        "{came:?} {lost}"
    );
    // A damaged frame may have been hit where it no longer looks like ours, and its double may be
    // damaged in its place.
    let arrived = came.frames + came.duplicates + came.damaged + came.foreign + came.stale;
    assert_eq!(arrived, near.counters().rx_packets);
    assert!(came.frames < sent.frames);
    // Only frames at the end of a flow can be missing without a trace.
    let gone = sent.frames - came.frames;
    assert!(gone >= came.missing && gone - came.missing < 10, "{gone} {}", came.missing);
}

#[test]
fn queues_share_the_flows_and_together_send_all_of_them() {
    for (flows, queues) in [(10, 3), (7, 7), (1, 1), (100, 2)] {
        let mut seen = vec![0; flows as usize];
        for queue in 0..queues {
            let (mut near, mut far) = pair(PairConfig::default(), &pool());
            let rate = plan(Duration::ZERO).rate.map(|rate| rate.split(queues as usize));
            let plan = Plan { flows, queue, queues, rate, ..plan(Duration::from_millis(100)) };
            let template = Template::new(plan.shape, plan.size).unwrap();
            let mut generator = Generator::new(plan, Account::new(flows)).unwrap();
            let mut now = Instant::ZERO;
            let mut burst: Burst<PoolBuf> = Burst::new();
            while !generator.is_done() {
                now += Duration::from_millis(1);
                generator.turn(now, &mut near, &mut Burst::new()).unwrap();
                far.rx(&mut burst).unwrap();
                for index in 0..burst.len() {
                    let crate::Look::Ours(trace) =
                        template.read(burst.peek(index).unwrap().0.bytes(), flows)
                    else {
                        panic!("not ours");
                    };
                    assert_eq!(
                        (trace.flow % queues, trace.seq),
                        (queue, seen[trace.flow as usize])
                    );
                    seen[trace.flow as usize] += 1;
                }
                burst.clear();
            }
        }
        let all: u32 = seen.iter().sum();
        assert!((1_000 - queues..=1_000).contains(&all), "{all}");
        // Each queue has its part of the rate and serves its flows alike.
        let of_queue = |queue: u32| seen.iter().skip(queue as usize).step_by(queues as usize);
        for queue in 0..queues {
            let (least, most) = (of_queue(queue).min().unwrap(), of_queue(queue).max().unwrap());
            assert!(*least > 0 && most - least <= 1, "{seen:?}");
        }
    }
}

#[test]
fn a_link_that_carries_less_is_told_of_and_nothing_counts_as_lost() {
    let (mut near, mut far) = pair(PairConfig { limit: 4, ..PairConfig::default() }, &pool());
    let mut generator = Generator::new(plan(Duration::from_secs(1)), Account::new(10)).unwrap();
    // Four frames a millisecond go through, ten are wanted.
    play(&mut generator, &mut near, &mut far, Mirror::Macs, Duration::from_millis(1));
    let (sent, came) = (generator.sent(), *generator.account().came());
    assert_eq!(sent.frames + sent.short, 10_000);
    assert!((3_900..4_100).contains(&sent.frames), "{sent:?}");
    assert!(sent.no_room > 900);
    assert_eq!((came.frames, came.missing), (sent.frames, 0));
}

#[test]
fn without_a_rate_it_fills_the_link_until_it_is_stopped() {
    let (mut near, mut far) = pair(PairConfig::default(), &pool());
    let plan = Plan { rate: None, ..plan(Duration::from_secs(1_000)) };
    let mut generator = Generator::new(plan, Account::new(10)).unwrap();
    let (mut here, mut there) = (Burst::new(), Burst::new());
    let mut reflector = Reflector::new(Mirror::Macs);
    for ms in 0..20 {
        let now = Instant::from_millis(ms);
        generator.turn(now, &mut near, &mut here).unwrap();
        reflector.turn(now, &mut far, &mut there).unwrap();
    }
    assert_eq!(
        generator.sent().frames,
        15 * 64,
        "nothing before the start, and a burst each turn from then on"
    );
    generator.stop(Instant::from_millis(20));
    for ms in 20..30 {
        generator.turn(Instant::from_millis(ms), &mut near, &mut here).unwrap();
    }
    assert!(generator.is_done());
    assert_eq!(generator.next_due(), Instant::NEVER);
    assert_eq!((generator.sent().frames, generator.account().came().frames), (15 * 64, 15 * 64));
}
