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
    for frame in
        [v4(6, a, b, 0), v4(17, a, b, 1), v6(6, ([1; 16], 1), ([2; 16], 2)), v6(44, ([1; 16], 1), ([2; 16], 2))]
    {
        for len in 0..frame.len() {
            let _ = flow_of(&frame[..len], 7);
        }
    }
}

#[test]
fn flows_spread_evenly() {
    let mut counts = [0; 4];
    for port in 0..4_000 {
        let flow = flow_of(&v4(6, ([10, 0, 0, 1], 80), ([10, 0, 0, 2], 1_024 + port), 0), 99).unwrap();
        counts[(((flow >> 32) * 4) >> 32) as usize] += 1;
    }
    assert!(counts.iter().all(|count| (850..1_150).contains(count)), "{counts:?}");
}

#[test]
fn remembered_flows_are_found_and_the_oldest_give_way() {
    let flows = Flows::new();
    let at = |second: u64| Instant::from_millis(second * 1_024);
    assert_eq!(flows.find(1, at(0)), None);
    for number in 1..=LINE as u64 {
        flows.remember(number, 3, at(number));
    }
    // The first is used again, so the second is the oldest when a ninth comes into the same line.
    assert_eq!(flows.find(1, at(20)), Some(3));
    flows.remember(100, 0, at(21));
    assert_eq!((flows.find(1, at(22)), flows.find(2, at(22)), flows.find(100, at(22))), (Some(3), None, Some(0)));
    // Another core takes a flow over: one entry, the new owner.
    flows.remember(100, 1, at(23));
    assert_eq!(flows.find(100, at(23)), Some(1));
}
