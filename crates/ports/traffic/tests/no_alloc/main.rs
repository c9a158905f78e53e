//! Once they are made, generator and reflector allocate nothing, whatever happens to the frames
//! between them.

#[path = "../../../../testing/sim/tests/no_alloc/counting_alloc.rs"]
mod counting_alloc;

use clearway_base::{Duration, Instant};
use clearway_dev::{Dev, Fault, FramePool, Mac, PairConfig, PoolBudget, pair};
use clearway_pkt::{Burst, PoolBuf};
use clearway_traffic::{Account, FramesPerSecond, Generator, Mirror, Plan, Reflector, Shape};
use counting_alloc::{Counting, allocations};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const FLOWS: u32 = 1_000;

fn generator(tcp: bool, size: usize) -> Generator {
    let shape = Shape {
        macs: Some((Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2]))),
        own: "198.18.0.1".parse().unwrap(),
        peer: "198.19.0.1".parse().unwrap(),
        own_port: 10_000,
        peer_port: 9,
        tcp,
        run: 1,
    };
    let rate = Some(FramesPerSecond { frames: 100_000, seconds: 1 });
    let end = Instant::from_nanos(1_000_000_000);
    let plan =
        Plan { shape, size, flows: FLOWS, queue: 0, queues: 1, rate, start: Instant::ZERO, end };
    Generator::new(plan, Account::new(FLOWS)).unwrap()
}

/// A second of frames there and back, in turns of 250 us.
fn a_second<D: Dev<Buf = PoolBuf>>(
    generator: &mut Generator,
    near: &mut D,
    far: &mut D,
    mirror: Mirror,
) {
    let mut reflector = Reflector::new(mirror);
    let (mut here, mut there) = (Burst::new(), Burst::new());
    let mut now = Instant::ZERO;
    for _ in 0..5_000 {
        now += Duration::from_micros(250);
        generator.turn(now, near, &mut here).unwrap();
        reflector.turn(now, far, &mut there).unwrap();
    }
}

#[test]
fn frames_cost_no_allocation_there_or_back() {
    for (mirror, tcp, size) in
        [(Mirror::Macs, false, 64), (Mirror::Addresses, true, 1_514), (Mirror::AsIs, true, 64)]
    {
        let (mut near, mut far) =
            pair(PairConfig::default(), &FramePool::new(PoolBudget::of_bytes(16 << 20)));
        let mut generator = generator(tcp, size);
        let (count, ()) = allocations(|| a_second(&mut generator, &mut near, &mut far, mirror));
        assert_eq!(
            (generator.sent().frames, generator.account().came().frames),
            (100_000, 100_000)
        );
        assert_eq!(count, 0, "{mirror:?}");
    }
}

#[test]
fn loss_and_damage_cost_none_either() {
    let pool = FramePool::new(PoolBudget::of_bytes(16 << 20));
    let (near, far) = pair(PairConfig::default(), &pool);
    let fault = "loss=5%,dup=5%,corrupt=5%".parse().unwrap();
    let (mut near, mut far) =
        (Fault::new(near, fault, 1, pool.clone()), Fault::new(far, fault, 2, pool.clone()));
    let mut first = generator(false, 256);
    // The faults' own memory is not what this is about: it is taken in the first second.
    a_second(&mut first, &mut near, &mut far, Mirror::Macs);
    let mut generator = generator(false, 256);
    let (count, ()) = allocations(|| a_second(&mut generator, &mut near, &mut far, Mirror::Macs));
    let came = generator.account().came();
    assert!(came.frames > 60_000 && came.damaged > 1_000 && came.duplicates > 1_000, "{came:?}");
    assert_eq!(count, 0);
}
