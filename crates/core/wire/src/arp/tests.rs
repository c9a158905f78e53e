use super::*;

const REQUEST: Arp = Arp {
    operation: Operation::Request,
    sender_mac: Mac([2, 0, 0, 0, 0, 1]),
    sender: Addr::v4([10, 0, 0, 1]),
    target_mac: Mac::ZERO,
    target: Addr::v4([10, 0, 0, 2]),
};

#[test]
fn a_packet_comes_back_as_it_was_written() {
    for operation in [Operation::Request, Operation::Reply] {
        let arp = Arp { operation, target_mac: Mac([9; 6]), ..REQUEST };
        let mut out = [0xff; 46];
        assert_eq!(emit(&arp, &mut out), LEN);
        assert_eq!(check(&out), Ok(arp), "padding behind the packet does not matter");
    }
}

#[test]
fn the_bytes_are_those_of_the_rfc() {
    let mut out = [0; LEN];
    emit(&REQUEST, &mut out);
    assert_eq!(out[..8], [0, 1, 8, 0, 6, 4, 0, 1]);
    assert_eq!(out[14..18], [10, 0, 0, 1]);
    assert_eq!(out[24..], [10, 0, 0, 2]);
}

#[test]
fn other_hardware_protocols_lengths_and_operations_are_refused() {
    let mut good = [0; LEN];
    emit(&REQUEST, &mut good);
    for (at, value, reason) in [
        (1, 6, Malformed::ArpNotEthernetIpv4),
        (2, 0x86, Malformed::ArpNotEthernetIpv4),
        (4, 8, Malformed::ArpNotEthernetIpv4),
        (5, 16, Malformed::ArpNotEthernetIpv4),
        (7, 0, Malformed::ArpUnknownOperation),
        (7, 3, Malformed::ArpUnknownOperation),
        (6, 1, Malformed::ArpUnknownOperation),
    ] {
        let mut bad = good;
        bad[at] = value;
        assert_eq!(check(&bad), Err(reason), "byte {at} = {value}");
    }
    assert_eq!(check(&good[..27]), Err(Malformed::ArpTooShort));
}
