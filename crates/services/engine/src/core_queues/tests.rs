use super::*;

fn ends(n: usize) -> Vec<CoreQueues> {
    CoreQueues::between((0..n).map(|_| Notifier::new().unwrap()).collect())
}

fn ethernet(ethertype: u16, packet: &[u8]) -> Vec<u8> {
    [&[0u8; 12][..], &ethertype.to_be_bytes(), packet].concat()
}

fn ipv4_icmp(kind: u8) -> Vec<u8> {
    let mut packet = vec![0u8; 28];
    packet[0] = 0x45;
    packet[9] = 1;
    packet[20] = kind;
    packet
}

fn ipv6_icmp(kind: u8) -> Vec<u8> {
    let mut packet = vec![0u8; 48];
    packet[0] = 0x60;
    packet[6] = 58;
    packet[40] = kind;
    packet
}

#[test]
fn answers_concern_all_cores_and_requests_do_not() {
    let arp = |operation: u8| ethernet(0x0806, &[0, 1, 8, 0, 6, 4, 0, operation]);
    assert!(concerns_all(true, &arp(2)) && !concerns_all(true, &arp(1)));
    for kind in [3, 11, 12] {
        assert!(concerns_all(true, &ethernet(0x0800, &ipv4_icmp(kind))));
        assert!(concerns_all(false, &ipv4_icmp(kind)));
    }
    assert!(!concerns_all(false, &ipv4_icmp(8)) && !concerns_all(false, &ipv4_icmp(0)));
    for kind in [1, 2, 3, 4, 136] {
        assert!(concerns_all(true, &ethernet(0x86dd, &ipv6_icmp(kind))));
        assert!(concerns_all(false, &ipv6_icmp(kind)));
    }
    for kind in [128, 129, 133, 134, 135] {
        assert!(!concerns_all(false, &ipv6_icmp(kind)));
    }
}

#[test]
fn questions_of_multicast_routers_concern_all_cores() {
    let mut igmp = ipv4_icmp(0);
    igmp[9] = 2;
    assert!(concerns_all(true, &ethernet(0x0800, &igmp)) && concerns_all(false, &igmp));
    for (kind, all) in
        [(130, true), (131, true), (132, true), (143, true), (128, false), (135, false)]
    {
        let mut mld = vec![0; 72];
        (mld[0], mld[40], mld[48]) = (0x60, 58, kind);
        assert_eq!(concerns_all(true, &ethernet(0x86dd, &mld)), all, "{kind}");
        assert_eq!(concerns_all(false, &mld), all, "{kind}");
    }
}

#[test]
fn a_vlan_tag_is_looked_behind() {
    let tagged = [&[0u8; 12][..], &[0x81, 0, 0, 5, 8, 6], &[0, 1, 8, 0, 6, 4, 0, 2]].concat();
    assert!(concerns_all(true, &tagged));
}

#[test]
fn short_frames_concern_nobody() {
    let whole = ethernet(0x0800, &ipv4_icmp(3));
    for len in 0..34 {
        assert!(!concerns_all(true, &whole[..len]), "{len} bytes");
    }
}

#[test]
fn a_frame_reaches_every_other_core_once() {
    let core_queues = ends(3);
    let frame = ethernet(0x0806, &[0, 1, 8, 0, 6, 4, 0, 2]);
    core_queues[1].share(Iface(4), true, &frame);
    for reader in [0, 2] {
        let meta = RxMeta { iface: Iface(4), ..RxMeta::default() };
        assert_eq!(core_queues[reader].take(), [Frame { meta, frame: frame.clone() }]);
        assert!(core_queues[reader].take().is_empty());
    }
    assert!(core_queues[1].take().is_empty());
}

#[test]
fn a_full_box_loses_frames_and_counts_them() {
    let core_queues = ends(2);
    for _ in 0..LIMIT + 3 {
        core_queues[0].share(Iface(0), false, &ipv4_icmp(3));
    }
    assert_eq!((core_queues[1].take().len(), core_queues[1].lost()), (LIMIT, 3));
}

#[test]
fn what_belongs_to_another_core_is_handed_to_it_alone_and_does_not_keep_answers_out() {
    let core_queues = ends(3);
    let meta = RxMeta { iface: Iface(1), segment_size: 1_400, ..RxMeta::default() };
    core_queues[0].hand_over(2, meta, &[7; 3_000]);
    core_queues[0].hand_over(0, meta, &[7; 30]);
    core_queues[0].hand_over(9, meta, &[7; 30]);
    assert!(core_queues[0].take().is_empty() && core_queues[1].take().is_empty());
    assert_eq!(core_queues[2].take(), [Frame { meta, frame: vec![7; 3_000] }]);
    for _ in 0..LIMIT {
        core_queues[0].hand_over(1, meta, &[7; 60]);
    }
    core_queues[0].share(Iface(0), false, &ipv4_icmp(3));
    assert_eq!(
        (core_queues[1].take().len(), core_queues[1].lost()),
        (MISDELIVERED + 1, (LIMIT - MISDELIVERED) as u64)
    );
    for _ in 0..20 {
        core_queues[0].hand_over(1, meta, &[7; 65_000]);
    }
    assert_eq!(core_queues[1].take().len(), MISDELIVERED_BYTES / 65_000);
}

#[test]
fn that_one_core_reaches_out_is_known_to_all() {
    let core_queues = ends(2);
    assert!(!core_queues[0].is_reaching());
    core_queues[1].reach_out();
    assert!(core_queues[0].is_reaching() && core_queues[1].is_reaching());
}
