use clearway_client::{Interface, InterfaceCounts};

use super::netlink::single::{Asked, asked as asked_alone, instead, without_addresses};
use super::netlink::{datagrams, question};
use super::*;

fn one() -> Interface {
    Interface {
        number: 2,
        name: "tap0".into(),
        up: true,
        loopback: false,
        mtu: 1500,
        link_addr: Some([2, 0, 0, 0, 0, 9]),
        counts: InterfaceCounts { rx_packets: 1 << 33, tx_bytes: 7, ..Default::default() },
        addresses: vec![("10.1.0.9".parse().unwrap(), 24), ("fe80::9".parse().unwrap(), 64)],
    }
}

fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes([bytes[at], bytes[at + 1]])
}

/// RTM_GETADDR or RTM_GETLINK, as a dump, of this family.
fn asked(kind: u16, family: u8) -> Vec<u8> {
    let mut bytes = vec![20, 0, 0, 0];
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(0x301u16.to_ne_bytes());
    bytes.extend(7u32.to_ne_bytes());
    bytes.extend([0; 4]);
    bytes.extend([family, 0, 0, 0]);
    bytes
}

#[test]
fn a_number_says_whose_an_interface_is() {
    assert_eq!((shown(0), inner(0)), (0, Some(0)));
    assert_eq!(inner(shown(3)), Some(3));
    assert_eq!(inner(3), None);
    assert_eq!(inner(BASE), None);
}

#[test]
fn names_are_cut_to_what_c_has_room_for() {
    let mut long = one();
    long.name = "an-interface-of-a-long-name".into();
    assert!(is_called(&long, b"an-interface-of"));
    assert!(
        is_called(&one(), b"tap0\0rest") && !is_called(&one(), b"tap") && !is_called(&one(), b"\0")
    );
}

#[test]
fn a_dump_of_addresses_tells_those_of_the_family_that_was_asked_for() {
    for (family, expected) in [(0, vec![2, 10]), (2, vec![2]), (10, vec![10])] {
        let question = question(&asked(22, family)).unwrap();
        let told = datagrams(&[one()], question, 99).concat();
        let mut families = Vec::new();
        let mut rest = told.as_slice();
        while !rest.is_empty() {
            let len = u32::from_ne_bytes(*rest.first_chunk().unwrap()) as usize;
            assert_eq!((half(rest, 4), half(rest, 6)), (20, 2), "RTM_NEWADDR, NLM_F_MULTI");
            assert_eq!(
                rest[8..16],
                [7u32.to_ne_bytes(), 99u32.to_ne_bytes()].concat(),
                "sequence and port"
            );
            assert_eq!(rest[20..24], shown(2).to_ne_bytes());
            families.push(rest[16]);
            rest = &rest[len..];
        }
        assert_eq!(families, expected);
    }
}

#[test]
fn a_link_has_its_name_where_programs_look_for_it() {
    let told = datagrams(&[one()], question(&asked(18, 0)).unwrap(), 1).concat();
    assert_eq!(half(&told, 4), 16);
    assert_eq!(half(&told, 34), 3, "IFLA_IFNAME is the first attribute");
    assert_eq!(&told[36..41], b"tap0\0");
}

#[test]
fn a_link_has_its_counters_in_both_widths() {
    let told = datagrams(&[one()], question(&asked(18, 0)).unwrap(), 1).concat();
    let attribute = |wanted: u16| {
        let mut rest = &told[32..];
        while half(rest, 2) != wanted {
            rest = &rest[usize::from(half(rest, 0)).next_multiple_of(4)..];
        }
        rest[4..usize::from(half(rest, 0))].to_vec()
    };
    let (long, short) = (attribute(libc::IFLA_STATS64), attribute(libc::IFLA_STATS));
    assert_eq!((long.len(), short.len()), (200, 96));
    assert_eq!(long[..8], (1u64 << 33).to_ne_bytes(), "packets received");
    assert_eq!(short[..4], [0; 4], "begun anew");
    assert_eq!((&long[24..32], &short[12..16]), (&7u64.to_ne_bytes()[..], &7u32.to_ne_bytes()[..]));
}

#[test]
fn only_dumps_have_a_part_of_ours() {
    assert_eq!(question(&about_one(0, &[])), None);
    assert_eq!(question(&asked(26, 0)), None, "routes");
    assert_eq!(question(&asked(22, 0)[..10]), None);
}

/// RTM_GETLINK about one link, with these attributes.
fn about_one(index: u32, attributes: &[u8]) -> Vec<u8> {
    let mut bytes = asked(18, 0);
    bytes[6..8].copy_from_slice(&5u16.to_ne_bytes());
    bytes.extend(index.to_ne_bytes());
    bytes.extend([0; 8]);
    bytes.extend(attributes);
    let len = bytes.len() as u32;
    bytes[..4].copy_from_slice(&len.to_ne_bytes());
    bytes
}

#[test]
fn a_question_about_one_link_names_it_or_gives_its_index() {
    assert_eq!(asked_alone(&about_one(shown(2), &[])), Some(Asked::Index(shown(2))));
    // IFLA_EXT_MASK, as iproute2 has it, and one of the two attributes with a name.
    for kind in [3, 53] {
        let attributes =
            [8, 0, 29, 0, 1, 0, 0, 0, 9, 0, kind, 0, b't', b'a', b'p', b'0', 0, 0, 0, 0];
        assert_eq!(asked_alone(&about_one(0, &attributes)), Some(Asked::Name(b"tap0\0")));
    }
    assert!(is_called(&one(), b"tap0\0") && is_called(&one(), b"tap0"));
    assert_eq!(inner(shown(2)), Some(one().number));
    assert!(inner(2).is_none() && !is_called(&one(), b"tap1\0"));
    assert_eq!(asked_alone(&asked(18, 0)), None, "a dump");
}

#[test]
fn a_question_about_one_link_may_be_no_question_at_all() {
    let whole = about_one(0, &[9, 0, 3, 0, b't', b'a', b'p', b'0', 0, 0, 0, 0]);
    for len in 0..whole.len() - 3 {
        assert_eq!(asked_alone(&whole[..len]), None, "{len} bytes");
    }
    for attribute in [[0, 0, 3, 0], [3, 0, 3, 0], [0xff, 0xff, 3, 0], [4, 0, 1, 0]] {
        assert_eq!(asked_alone(&about_one(0, &attribute)), None, "{attribute:?}");
    }
}

#[test]
fn the_kernel_is_asked_about_its_loopback_in_the_same_words() {
    let question = about_one(shown(2), &[8, 0, 29, 0, 1, 0, 0, 0]);
    let other = instead(&question);
    assert_eq!((other.len(), u32::from_ne_bytes(*other.first_chunk().unwrap())), (32, 32));
    assert_eq!(other[4..16], question[4..16], "kind, flags, sequence and port");
    assert_eq!(other[20..24], 1u32.to_ne_bytes());
}

#[test]
fn of_a_dump_of_the_kernels_addresses_its_end_is_left() {
    // NLMSG_DONE, with its four bytes.
    let end = [&[20, 0, 0, 0, 3, 0, 2, 0, 7, 0, 0, 0, 9, 0, 0, 0][..], &[0; 4]].concat();
    let told = datagrams(&[one()], question(&asked(22, 0)).unwrap(), 9).concat();
    assert_eq!(without_addresses(&told), []);
    assert_eq!(without_addresses(&[told, end.clone()].concat()), end);
    for len in 0..end.len() {
        assert!(without_addresses(&end[..len]).len() <= len, "what is cut off does no harm");
    }
    assert_eq!(without_addresses(&[0; 64]), []);
}

#[test]
fn addresses_of_ipv6_are_told_as_linux_writes_them() {
    let mut six = one();
    six.addresses.push(("::1".parse().unwrap(), 128));
    six.addresses.push(("2001:db8::7".parse().unwrap(), 48));
    assert_eq!(
        inet6::lines(&[six]),
        "fe800000000000000000000000000009 f4242 40 20 80     tap0\n\
         00000000000000000000000000000001 f4242 80 10 80     tap0\n\
         20010db8000000000000000000000007 f4242 30 00 80     tap0\n"
    );
}
