//! One flow over a long and fast path: windows and queues grow until it is full.

use clearway_base::{Duration, Instant, Rng};
use clearway_sim::conditions::{Conditions, Device, Wants, Weather};
use clearway_sim::host::RxKind;
use clearway_sim::link::Rules;
use clearway_sim::stage::{B, Stage, join};
use clearway_sim::talk::{Act, Conversation, Expect, Part, Reading};
use clearway_sim::world::World;

const MIB: u32 = 1 << 20;

/// How a flow over a path of 10 Gbit/s fared.
struct Fared {
    /// Bytes that arrived in the last part of the time, as a part of what the path carries then.
    filled: f64,
    /// The window that the receiver offers at the end.
    window: u32,
    /// Bytes that nobody has read then.
    unread: u32,
}

/// Lets `a` send to `b` over 10 Gbit/s and a round trip of `rtt`, from a device that holds `queue`
/// pieces of 64 KiB, in which up to `most` bytes may be offered, and written, and looks at what
/// arrives in the last `last` of `time`.
fn flow(
    (rtt, queue): (Duration, u32),
    most: u32,
    (time, last): (Duration, Duration),
    reading: Reading,
) -> Fared {
    const RATE: u64 = 10_000_000_000;
    let mut rng = Rng::seed(1);
    let wants = Wants { weather: Weather::Clear, small: false, rate: false, trusting: true };
    let mut conditions = Conditions::draw(&mut rng, &wants);
    // Large segments travel whole, so that a gigabyte is few of them.
    (conditions.device, conditions.mtu, conditions.buf_len) = (Device::PassesLarge, 9_000, 65_600);
    (conditions.joins, conditions.moderation, conditions.near) = (false, Duration::ZERO, None);
    let rules = Rules {
        rate: RATE,
        queue,
        backpressure: true,
        ..Rules::clean(Duration::from_nanos(rtt.as_nanos() / 2))
    };
    conditions.rules = [rules; 2];
    for host in &mut conditions.hosts {
        let tcp = &mut host.config.tcp;
        *tcp = clearway_proto::TcpConfig::default();
        (tcp.max_receive_window, tcp.max_send_buffer) = (most, most);
        host.rx = RxKind::Chain { nodes: 60_000, limit: 2 * most };
        host.tx = (most / 65_536, 65_536, most);
        (host.buffers, host.chunk) = (60_000, 4 << 20);
    }
    let began = Instant::from_millis(1_000);
    let mut world = World::new(rng.fork(), began);
    let link = world.add_link(conditions.framing, conditions.table);
    for (i, spec) in conditions.hosts.iter().enumerate() {
        world.add_host(spec, conditions.buf_len);
        join(&mut world, &conditions, i, link, 0, conditions.rules[i]);
    }
    let mut stage = Stage { world, conditions, rng, listener: None };
    stage.listen();
    let mut receives = Part::new(vec![Act::AwaitEnd]);
    receives.reading = reading;
    let talk = Conversation::new(Part::new(vec![Act::Send(1 << 40)]), receives, Expect::Prefix);
    stage.converse(Duration::ZERO, talk);
    let mut w = stage.world;
    let read = |w: &World| w.ledger.borrow().conversations[0].fates[1].read;
    w.run(began + (time - last), |_| false);
    let before = read(&w);
    w.run(began + time, |_| false);
    assert!(w.failure.is_none(), "{:?}", w.failure);
    let stack = &w.hosts[B].stack;
    let info =
        stack.connections().find_map(|c| stack.info(c.conn)).expect("the connection is open");
    let carried = RATE as f64 / 8.0 * last.as_nanos() as f64 / 1e9;
    Fared {
        filled: (read(&w) - before) as f64 / carried,
        window: info.rcv_wnd,
        unread: info.unread,
    }
}

#[test]
fn one_flow_fills_ten_gigabits_over_a_round_trip_of_100_ms() {
    let time = (Duration::from_millis(1_900), Duration::from_millis(200));
    let fared = flow((Duration::from_millis(100), 100), 512 * MIB, time, Reading::Eager);
    assert!(
        fared.filled > 0.95,
        "{} of the path was used, in a window of {}",
        fared.filled,
        fared.window
    );
    assert!(fared.window > 125_000_000, "{}", fared.window);
}

#[test]
fn a_flow_over_a_short_path_keeps_a_small_window() {
    let time = (Duration::from_millis(200), Duration::from_millis(100));
    let fared = flow((Duration::from_micros(20), 16), 512 * MIB, time, Reading::Eager);
    assert!(
        fared.filled > 0.95,
        "{} of the path was used, in a window of {}",
        fared.filled,
        fared.window
    );
    assert!(fared.window <= 8 * MIB, "{}", fared.window);
}

#[test]
fn a_reader_that_does_not_read_is_not_sent_more_than_the_first_window() {
    let time = (Duration::from_millis(2_000), Duration::from_millis(500));
    let fared = flow((Duration::from_millis(10), 100), 512 * MIB, time, Reading::Never);
    assert!(fared.unread > 0 && fared.unread <= MIB, "{} bytes wait", fared.unread);
}
