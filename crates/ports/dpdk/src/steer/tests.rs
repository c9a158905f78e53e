use super::*;

fn v4(proto: u8, from: ([u8; 4], u16), to: ([u8; 4], u16), fragment: u16) -> Vec<u8> {
    let mut frame = vec![0; 14];
    frame[12..14].copy_from_slice(&[0x08, 0x00]);
    frame.extend([0x45, 0, 0, 40, 0, 0]);
    frame.extend(fragment.to_be_bytes());
    frame.extend([64, proto, 0, 0]);
    frame.extend(from.0);
    frame.extend(to.0);
    frame.extend(from.1.to_be_bytes());
    frame.extend(to.1.to_be_bytes());
    frame.extend([0; 16]);
    frame
}

fn v6(next: u8, from: ([u8; 16], u16), to: ([u8; 16], u16)) -> Vec<u8> {
    let mut frame = vec![0; 12];
    frame.extend([0x81, 0x00, 0, 7, 0x86, 0xdd, 0x60, 0, 0, 0, 0, 20, next, 64]);
    frame.extend(from.0);
    frame.extend(to.0);
    frame.extend(from.1.to_be_bytes());
    frame.extend(to.1.to_be_bytes());
    frame.extend([0; 16]);
    frame
}

#[test]
fn a_flow_is_the_same_both_ways_and_differs_from_its_neighbours() {
    let (a, b) = (([10, 0, 0, 1], 80), ([10, 0, 0, 2], 40_000));
    let flow = |frame: &[u8]| flow_of(frame, 7).unwrap();
    assert_eq!(flow(&v4(6, a, b, 0)), flow(&v4(6, b, a, 0)));
    assert_ne!(flow(&v4(6, a, b, 0)), flow(&v4(6, a, (b.0, 40_001), 0)));
    assert_ne!(flow(&v4(6, a, b, 0)), flow_of(&v4(6, a, b, 0), 8).unwrap());
    let (c, d) = (([1; 16], 80), ([2; 16], 40_000));
    assert_eq!(flow(&v6(17, c, d)), flow(&v6(17, d, c)));
    assert_ne!(flow(&v6(17, c, d)), flow(&v6(17, c, (d.0, 1))));
}

#[test]
fn all_fragments_of_a_datagram_are_one_flow_and_what_has_no_ports_is_none() {
    let (a, b) = (([10, 0, 0, 1], 80), ([10, 0, 0, 2], 40_000));
    let first = flow_of(&v4(17, a, b, 0x2000), 7).unwrap();
    let later = flow_of(&v4(17, (a.0, 1), (b.0, 2), 0x0010), 7).unwrap();
    assert_eq!(first, later);
    assert_eq!(flow_of(&v4(1, a, b, 0), 7), None);
    assert_eq!(flow_of(&v6(58, ([1; 16], 0), ([2; 16], 0)), 7), None);
    let mut arp = v4(6, a, b, 0);
    arp[13] = 6;
    assert_eq!(flow_of(&arp, 7), None);
}

#[test]
fn no_cut_frame_makes_looking_at_it_panic() {
    let (a, b) = (([10, 0, 0, 1], 80), ([10, 0, 0, 2], 40_000));
    for frame in [
        v4(6, a, b, 0),
        v4(17, a, b, 1),
        v6(6, ([1; 16], 1), ([2; 16], 2)),
        v6(44, ([1; 16], 1), ([2; 16], 2)),
    ] {
        for len in 0..frame.len() {
            let _ = flow_of(&frame[..len], 7);
            let _ = ends(&frame[..len]);
        }
    }
}

#[test]
fn flows_spread_evenly() {
    let mut counts = [0; 4];
    for port in 0..4_000 {
        let flow =
            flow_of(&v4(6, ([10, 0, 0, 1], 80), ([10, 0, 0, 2], 1_024 + port), 0), 99).unwrap();
        counts[(((flow >> 32) * 4) >> 32) as usize] += 1;
    }
    assert!(counts.iter().all(|count| (850..1_150).contains(count)), "{counts:?}");
}

#[test]
fn remembered_flows_are_found_and_the_oldest_give_way() {
    let flows = Flows::new();
    let at = |step: u64| Instant::from_millis(step * 17);
    assert_eq!(flows.find(1, at(0)), None);
    for number in 1..=LINE as u64 {
        flows.remember(number, 3, at(number));
    }
    // The first is used again, so the second is the oldest when a ninth comes into the same line.
    assert_eq!(flows.find(1, at(20)), Some(3));
    flows.remember(100, 0, at(21));
    assert_eq!(
        (flows.find(1, at(22)), flows.find(2, at(22)), flows.find(100, at(22))),
        (Some(3), None, Some(0))
    );
    // A core whose clock was read earlier does not take what was just used for old.
    flows.remember(101, 2, at(10));
    assert_eq!(
        (flows.find(100, at(22)), flows.find(1, at(22)), flows.find(101, at(22))),
        (Some(0), Some(3), Some(2))
    );
    // Another core takes a flow over: one entry, the new owner.
    flows.remember(100, 1, at(23));
    assert_eq!(flows.find(100, at(23)), Some(1));
}

#[test]
fn flows_that_have_ended_give_way_before_one_that_stays_and_is_silent() {
    let flows = Flows::new();
    let at = |step: u64| Instant::from_millis(step * 17);
    flows.remember(1, 3, at(0));
    for number in 2..1_000 {
        flows.remember(number, 2, at(number));
        assert_eq!(flows.find(number, at(number)), Some(2));
        flows.mark(number, true);
        assert_eq!(flows.find(number, at(number)), Some(2), "what is on its way still comes home");
    }
    assert_eq!(flows.find(1, at(1_000)), Some(3));
    // The same ends begin anew.
    flows.mark(999, false);
    for number in 2_000..2_100 {
        flows.remember(number, 2, at(number));
        flows.mark(number, true);
    }
    assert_eq!((flows.find(1, at(2_100)), flows.find(999, at(2_100))), (Some(3), Some(2)));
}

#[test]
fn flows_that_two_cores_begin_at_once_are_both_remembered() {
    let flows = Flows::new();
    for round in 0..500u64 {
        // Eight for one line, and no other round's.
        let flow = |number: u64| round << 51 | number;
        std::thread::scope(|scope| {
            for core in 0..2 {
                let flows = &flows;
                scope.spawn(move || {
                    (0..4).for_each(|at| {
                        flows.remember(flow(1 + 2 * at + core), core as usize, Instant::ZERO)
                    })
                });
            }
        });
        for number in 1..=8 {
            let found = flows.find(flow(number), Instant::ZERO);
            assert_eq!(found, Some((number as usize - 1) % 2), "flow {number} in round {round}");
        }
    }
}

#[test]
fn the_ends_of_a_flow_are_seen_in_both_families() {
    let (a, b) = (([10, 0, 0, 1], 80), ([10, 0, 0, 2], 40_000));
    for (flags, ended) in [
        (0x10, None),
        (0x02, Some(false)),
        (0x12, Some(false)),
        (0x11, Some(true)),
        (0x14, Some(true)),
    ] {
        let mut frame = v4(6, a, b, 0);
        frame[14 + 20 + 13] = flags;
        assert_eq!(ends(&frame), ended, "{flags:#x}");
        let mut frame = v6(6, ([1; 16], 80), ([2; 16], 40_000));
        frame[18 + 40 + 13] = flags;
        assert_eq!(ends(&frame), ended, "{flags:#x}");
    }
    let mut udp = v4(17, a, b, 0);
    udp[14 + 20 + 13] = 1;
    assert_eq!(ends(&udp), None);
}
