//! Devices that need neither a peer nor a card, in this process: a ring that gives back what it was
//! given, and one that swallows everything.

use std::sync::atomic::{AtomicU32, Ordering};

use clearway_base::{Duration, Instant};
use clearway_dev::{
    DpdkSpec, Facts, FramePool, Mac, PoolBudget, Receive, RxDrop, Transmit, TxDrop,
};
use clearway_dpdk::{DpdkFd, DpdkQueue, Share, open};
use clearway_pkt::{Buf, Burst, PoolBuf, TxMeta};

/// A name that no other test has: all of them share one DPDK.
fn device(driver: &str) -> DpdkSpec {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    DpdkSpec::new(format!("{driver}{}", NEXT.fetch_add(1, Ordering::Relaxed)), "")
}

fn pool() -> FramePool {
    FramePool::new(PoolBudget::of_bytes(8 << 20))
}

fn one(spec: &DpdkSpec) -> DpdkQueue {
    open(spec, 1, Share::Flows).unwrap().remove(0).into_queue(pool())
}

/// Commits a frame; false when the queue has no room.
fn send(queue: &mut DpdkQueue, frame: &[u8]) -> bool {
    let Some(room) = queue.reserve(frame.len()) else { return false };
    room[..frame.len()].copy_from_slice(frame);
    queue.commit(frame.len(), TxMeta::default());
    true
}

fn receive(queue: &mut DpdkQueue) -> Vec<Vec<u8>> {
    let mut burst: Burst<PoolBuf> = Burst::new();
    queue.rx(&mut burst).unwrap();
    (0..burst.len()).filter_map(|at| burst.take(at)).map(|(buf, _)| buf.bytes().to_vec()).collect()
}

/// A UDP packet of this flow, with the number at its end. The host with the smaller port has the
/// smaller address.
fn packet(from: u16, to: u16, number: u32) -> Vec<u8> {
    let mut frame = vec![2; 12];
    frame.extend([0x08, 0x00, 0x45, 0, 0, 32, 0, 0, 0x40, 0, 64, 17, 0, 0]);
    let (source, destination) = if from < to { (1, 2) } else { (2, 1) };
    frame.extend([10, 0, 0, source, 10, 0, 0, destination]);
    frame.extend(from.to_be_bytes());
    frame.extend(to.to_be_bytes());
    frame.extend([0, 12, 0, 0]);
    frame.extend(number.to_be_bytes());
    frame
}

#[test]
fn a_ring_gives_back_what_it_was_given_and_no_buffer_is_lost() {
    let mut queue = one(&device("net_ring"));
    let free = queue.driver_buffers().unwrap().free;
    for round in 0..500u32 {
        let frames: Vec<Vec<u8>> = (0..64).map(|at| packet(1, 2, round * 64 + at)).collect();
        for frame in &frames {
            assert!(send(&mut queue, frame));
        }
        queue.flush();
        let mut got = receive(&mut queue);
        if got.len() < frames.len() {
            got.extend(receive(&mut queue));
        }
        assert_eq!(got, frames);
    }
    let counters = queue.counters();
    assert_eq!((counters.rx_packets, counters.tx_packets), (32_000, 32_000));
    assert_eq!((counters.rx_bytes, counters.tx_bytes), (32_000 * 46, 32_000 * 46));
    assert_eq!((counters.rx_dropped_total(), counters.tx_dropped_total()), (0, 0));
    // A few lie ready to be written into, and DPDK keeps some back for this thread.
    let left = queue.driver_buffers().unwrap().free;
    assert!(free - left <= 1_024, "{free} buffers were free, {left} are left");
}

#[test]
fn frames_go_back_in_the_buffers_that_they_came_in() {
    let mut queue = one(&device("net_ring"));
    let free = queue.driver_buffers().unwrap().free;
    for number in 0..64 {
        assert!(send(&mut queue, &packet(1, 2, number)));
    }
    queue.flush();
    for round in 0..500u16 {
        let mut numbers = Vec::new();
        while numbers.len() < 64 {
            let came = queue.send_back(|len, _, frame| {
                let frame = frame.unwrap();
                assert_eq!((len, frame[34..36].to_vec()), (46, (round + 1).to_be_bytes().to_vec()));
                numbers.push(frame[45]);
                // Another source port each round.
                frame[34..36].copy_from_slice(&(round + 2).to_be_bytes());
                true
            });
            assert!(
                came.unwrap().is_some_and(|came| came > 0),
                "round {round}: {} came",
                numbers.len()
            );
            queue.flush();
        }
        assert_eq!(numbers, (0..64).collect::<Vec<u8>>());
    }
    assert_eq!(queue.counters().tx_packets, 64 + 32_000);
    // Those that shall not go are free again.
    while queue.send_back(|_, _, _| false).unwrap() != Some(0) {}
    assert!(receive(&mut queue).is_empty());
    let left = queue.driver_buffers().unwrap().free;
    assert!(free - left <= 1_024, "{free} buffers were free, {left} are left");
}

#[test]
fn a_frame_in_pieces_goes_back_whole_and_one_without_room_is_told_of() {
    let mut queue = one(&DpdkSpec { mtu: Some(9_000), ..device("net_ring") });
    let long: Vec<u8> = (0..9_000u32).map(|at| at as u8).collect();
    let free = queue.driver_buffers().unwrap().free;
    assert!(send(&mut queue, &long));
    queue.flush();
    let back = queue.send_back(|len, _, frame| {
        assert_eq!(len, long.len());
        frame.unwrap()[8_999] = 1;
        true
    });
    assert_eq!(back.unwrap(), Some(1));
    queue.flush();
    let got = receive(&mut queue);
    assert_eq!((got.len(), got[0][8_999], &got[0][..8_999]), (1, 1, &long[..8_999]));

    queue.set_now(Instant::from_millis(1));
    let mut sent = 0;
    while send(&mut queue, &packet(1, 2, sent)) {
        sent += 1;
    }
    // What is taken off the full ring makes room for what waits, and nothing for more.
    let (mut went, mut stayed) = (0, 0);
    let came = queue.send_back(|len, _, frame| {
        assert_eq!(len, 46);
        *if frame.is_some() { &mut went } else { &mut stayed } += 1;
        true
    });
    assert_eq!((came.unwrap(), went + stayed), (Some(64), 64));
    while queue.send_back(|_, _, _| false).unwrap() != Some(0) {
        queue.flush();
    }
    let left = queue.driver_buffers().unwrap().free;
    assert!(free - left <= 1_024, "{free} buffers were free, {left} are left");
}

#[test]
fn a_full_device_takes_no_more_and_loses_nothing() {
    let mut queue = one(&device("net_ring"));
    let mut sent = 0;
    queue.set_now(Instant::from_millis(1));
    while sent < 100_000 && send(&mut queue, &packet(1, 2, sent)) {
        sent += 1;
    }
    assert!((1_000..100_000).contains(&sent), "{sent}");
    assert!(queue.next_deadline() <= Instant::from_millis(2), "what waits is offered again soon");
    let mut got = 0;
    while got < sent {
        queue.flush();
        let frames = receive(&mut queue);
        assert!(!frames.is_empty(), "{got} of {sent} came back");
        for frame in frames {
            assert_eq!(frame, packet(1, 2, got));
            got += 1;
        }
    }
    assert_eq!(queue.counters().tx_dropped_total(), 0);
    assert!(send(&mut queue, &packet(1, 2, sent)), "there is room again");
}

#[test]
fn what_a_device_does_not_take_for_long_is_dropped_and_counted() {
    let mut queue = one(&device("net_ring"));
    queue.set_now(Instant::from_millis(1));
    while send(&mut queue, &packet(1, 2, 0)) {}
    for ms in 2..700 {
        queue.set_now(Instant::from_millis(ms));
        queue.flush();
    }
    assert_eq!(queue.counters().tx_dropped(TxDrop::QueueFull), 64);
}

#[test]
fn what_is_too_long_or_asks_for_nonsense_is_dropped_under_one_name() {
    let mut queue = one(&device("net_null"));
    assert!(queue.reserve(70_000).is_none());
    assert!(send(&mut queue, &[0; 1_522]));
    assert!(send(&mut queue, &[0; 1_523]));
    queue.commit(60, TxMeta::default());
    let _ = queue.reserve(60).unwrap();
    queue.commit(60, TxMeta { checksum_start: 34, checksum_offset: 6, ..TxMeta::default() });
    queue.flush();
    let counters = queue.counters();
    assert_eq!((counters.tx_packets, counters.tx_bytes), (1, 1_522));
    assert_eq!(
        (counters.tx_dropped(TxDrop::TooLong), counters.tx_dropped(TxDrop::BadRequest)),
        (1, 2)
    );
}

#[test]
fn a_device_has_the_mtu_and_the_address_that_were_asked_for() {
    let spec =
        DpdkSpec { mtu: Some(9_000), mac: Some(Mac([2, 0, 0, 0, 0, 9])), ..device("net_ring") };
    let mut queue = one(&spec);
    assert_eq!((queue.mtu(), queue.mac()), (9_000, Some(Mac([2, 0, 0, 0, 0, 9]))));
    let long = vec![7; 9_014];
    assert!(send(&mut queue, &long));
    queue.flush();
    assert_eq!(receive(&mut queue), [long]);
    let plain = device("net_ring");
    let first = one(&plain).mac();
    assert_eq!(one(&plain).mac(), first, "without mac= the address is the same at each start");
}

#[test]
fn a_device_is_gone_when_its_last_queue_is_and_its_name_is_free_again() {
    let spec = device("net_null");
    for _ in 0..50 {
        let queues = open(&spec, 2, Share::Queues).unwrap();
        assert_eq!(queues.len(), 2);
        let taken = open(&spec, 1, Share::Queues).err().unwrap().to_string();
        assert!(taken.contains("already"), "{taken}");
    }
}

#[test]
fn a_driver_that_has_rss_spreads_flows_itself_and_one_that_has_not_is_helped() {
    // What net_null receives has no headers, but it takes a key and a table as a card does.
    let with = open(&device("net_null"), 2, Share::Flows).unwrap();
    assert_eq!(with.iter().map(DpdkFd::is_spread_by_device).collect::<Vec<_>>(), [true, true]);
    let without = open(&device("net_ring"), 2, Share::Flows).unwrap();
    assert_eq!(without.iter().map(DpdkFd::is_spread_by_device).collect::<Vec<_>>(), [false, false]);
}

#[test]
fn a_vhost_port_comes_and_goes_without_a_trace() {
    let folder = std::env::temp_dir().join(format!("cwdpdk-cycles-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let mut spec = device("net_vhost");
    spec.args = format!("iface={}", folder.join("v").display());
    let files = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    drop(open(&spec, 1, Share::Flows).unwrap());
    let before = files();
    for _ in 0..CYCLES {
        let mut queue = one(&spec);
        assert!(!queue.link_up());
        assert!(receive(&mut queue).is_empty());
    }
    // Other tests of this process open and close devices meanwhile.
    assert!(files() < before + CYCLES / 2, "{before} files were open, {} are now", files());
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Times that a port is opened and closed.
const CYCLES: usize = 200;

#[test]
fn the_drivers_own_counters_can_be_read() {
    let mut queue = one(&device("net_null"));
    assert!(send(&mut queue, &packet(1, 2, 3)));
    queue.flush();
    let counters = queue.driver_counters();
    let find = |name: &str| counters.iter().find(|(key, _)| key == name).map(|(_, value)| *value);
    assert_eq!(find("tx_good_packets"), Some(1), "{counters:?}");
}

#[test]
fn each_flow_belongs_to_one_core_whatever_core_receives_it() {
    let (mut first, second, mut peer) = two_cores();
    let mut second = second.into_queue(pool());
    let mut look = |first: &mut DpdkQueue, got: &mut [Vec<Vec<u8>>; 2]| {
        got[0].extend(receive(first));
        got[1].extend(receive(&mut second));
    };
    let mut got = [Vec::new(), Vec::new()];
    for number in 0..10u32 {
        for port in 0..64u16 {
            // Both directions of a flow belong to the same core.
            let frame = if number % 2 == 0 {
                packet(port, 9_000, number)
            } else {
                packet(9_000, port, number)
            };
            assert!(send(&mut peer, &frame));
            peer.flush();
            look(&mut first, &mut got);
        }
    }
    look(&mut first, &mut got);
    let flows =
        |frames: &[Vec<u8>]| -> Vec<u16> { frames.iter().map(|frame| port_of(frame)).collect() };
    let [mine, theirs] = [flows(&got[0]), flows(&got[1])];
    assert_eq!(mine.len() + theirs.len(), 640, "frames were lost");
    assert!(mine.len() >= 100 && theirs.len() >= 100, "{} and {}", mine.len(), theirs.len());
    assert!(mine.iter().all(|flow| !theirs.contains(flow)), "a flow came to both cores");
}

#[test]
fn what_a_core_sends_makes_the_flow_its_own() {
    let (mut first, second, mut peer) = two_cores();
    let mut second = second.into_queue(pool());
    for by_first in [true, false] {
        let mut answers = [0, 0];
        for port in 0..64 {
            let sender = if by_first { &mut first } else { &mut second };
            sender.set_now(Instant::from_millis(1));
            assert!(send(sender, &packet(port, 7_000, 0)));
            // The second core has a queue of its own that leads nowhere, and finds that out by
            // itself.
            let mut now = Instant::from_millis(1);
            let mut arrived = Vec::new();
            while arrived.is_empty() {
                assert!(now < Instant::from_millis(400), "what the core sends does not arrive");
                now += Duration::from_micros(100);
                sender.set_now(now);
                sender.flush();
                arrived = receive(&mut peer);
            }
            assert!(send(&mut peer, &packet(7_000, port, 1)));
            peer.flush();
            answers[0] += receive(&mut first).len();
            answers[1] += receive(&mut second).len();
        }
        assert_eq!(answers, if by_first { [64, 0] } else { [0, 64] });
    }
}

#[test]
fn a_core_that_takes_nothing_costs_only_its_own_frames() {
    let (mut first, second, mut peer) = two_cores();
    let mut got = 0;
    for number in 0..8_000u32 {
        assert!(send(&mut peer, &packet(number as u16, 9_000, number)));
        peer.flush();
        got += receive(&mut first).len() as u64;
    }
    let counters = first.counters();
    let lost = counters.rx_dropped(RxDrop::CoreFull);
    assert!(got > 3_000 && lost > 1_000, "{got} received, {lost} lost");
    assert_eq!(counters.rx_dropped_total(), lost);
    let mut second = second.into_queue(pool());
    let mut theirs = 0;
    loop {
        match receive(&mut second).len() {
            0 => break,
            count => theirs += count as u64,
        }
    }
    assert_eq!(got + lost + theirs, 8_000);
}

/// A link in shared memory whose one end belongs to two cores, and the other end.
fn two_cores() -> (DpdkQueue, DpdkFd, DpdkQueue) {
    let (mut shared, mut peer) = (device("net_memif"), device("net_memif"));
    let socket = format!("cwdpdk-{}-{}", std::process::id(), shared.device);
    shared.args = format!("role=server,socket={socket}");
    peer.args = format!("role=client,socket={socket}");
    let mut ends: Vec<DpdkFd> = open(&shared, 2, Share::Flows).unwrap();
    // The peer has one queue, so the second core receives only what the first hands over, and both
    // send on the same one.
    assert_eq!(ends.len(), 2);
    let second = ends.remove(1);
    let first = ends.remove(0).into_queue(pool());
    let peer = one(&peer);
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while !(first.link_up() && peer.link_up()) {
        assert!(std::time::Instant::now() < deadline, "the link does not come up");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    (first, second, peer)
}

fn port_of(frame: &[u8]) -> u16 {
    let port = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
    port(34).min(port(36))
}

#[test]
fn a_queue_that_is_quiet_for_long_is_looked_at_less_often() {
    let mut queue = one(&device("net_ring"));
    let look = |queue: &mut DpdkQueue, now: Instant| {
        queue.set_now(now);
        let got = receive(queue).len();
        (got, queue.next_deadline().since(now))
    };
    let start = Instant::from_millis(10);
    queue.set_now(start);
    assert!(send(&mut queue, &packet(1, 2, 3)));
    queue.flush();
    let (got, soon) = look(&mut queue, start);
    assert_eq!(got, 1);
    let (_, later) = look(&mut queue, start + Duration::from_millis(1));
    let (_, last) = look(&mut queue, start + Duration::from_secs(1));
    assert!(soon < later && later < last, "{soon:?} {later:?} {last:?}");
    assert!(last <= Duration::from_millis(1));
    assert!(!queue.must_poll());
}
