use clearway_wire::Flags;
use proptest::prelude::*;

use super::*;
use crate::test_frames::{tcp_frame, udp_frame};

fn fits(filter: &str) -> (bool, bool, bool) {
    let filter: Expression = filter.parse().unwrap_or_else(|error| panic!("{filter}: {error}"));
    let tcp = tcp_frame(true, true, Flags::ACK, b"data");
    let udp = udp_frame(false, true, b"data");
    let arp = [&[2; 12][..], &[8, 6], &[0; 28]].concat();
    (filter.fits(&tcp, true), filter.fits(&udp, true), filter.fits(&arp, true))
}

/// The frames are TCP from 10.0.0.1:1000 to 10.0.0.2:80, UDP from [fd00::1]:1000 to [fd00::2]:53,
/// and ARP.
#[test]
fn each_condition_fits_what_tcpdump_says_it_does() {
    for (filter, wanted) in [
        ("tcp", (true, false, false)),
        ("udp", (false, true, false)),
        ("arp", (false, false, true)),
        ("ip", (true, false, false)),
        ("ip6", (false, true, false)),
        ("ip proto 6", (true, false, false)),
        ("proto udp", (false, true, false)),
        ("host 10.0.0.1", (true, false, false)),
        ("10.0.0.2", (true, false, false)),
        ("src host 10.0.0.2", (false, false, false)),
        ("dst 10.0.0.2", (true, false, false)),
        ("net 10.0.0.0/24 or net fd00::/64", (true, true, false)),
        ("src and dst net 10.0.0.0/30", (true, false, false)),
        ("src or dst port 1000", (true, true, false)),
        ("tcp port 1000", (true, false, false)),
        ("tcp src port 1000", (true, false, false)),
        ("dst port 1000", (false, false, false)),
        ("portrange 50-90", (true, true, false)),
        ("port 80 or 53", (true, true, false)),
        ("udp dst port 53", (false, true, false)),
        ("not tcp", (false, true, true)),
        ("!(tcp||udp)", (false, false, true)),
        ("not tcp and not arp", (false, true, false)),
        // `and` and `or` bind alike, from the left.
        ("tcp or udp and port 53", (false, true, false)),
        ("tcp or (udp and port 53)", (true, true, false)),
        ("icmp or icmp6", (false, false, false)),
    ] {
        assert_eq!(fits(filter), wanted, "{filter}");
    }
}

#[test]
fn what_is_no_filter_says_what_is_wrong_and_what_may_be() {
    for (filter, part) in [
        ("", "it ends"),
        ("tcp and", "it ends"),
        ("port", "a value is missing after port"),
        ("port http", "`http` is no number of a port"),
        ("icmp port 7", "only tcp and udp have ports"),
        ("(tcp", "not closed"),
        ("tcp udp", "`udp` stands where"),
        ("tcp[13]", "`tcp[13]` is not understood"),
        ("tcp & udp", "`&` stands where"),
        ("host 10.0.0", "`10.0.0` is no address"),
    ] {
        let error = filter.parse::<Expression>().unwrap_err().to_string();
        assert!(error.contains(part) && error.contains("It may have host"), "{filter}: {error}");
    }
    assert!("(".repeat(10_000).parse::<Expression>().is_err());
    assert!("! ".repeat(10_000).parse::<Expression>().is_err());
}

proptest! {
    #[test]
    fn no_text_and_no_frame_makes_a_panic(text in any::<String>(), frame in any::<Vec<u8>>()) {
        if let Ok(filter) = text.parse::<Expression>() {
            filter.fits(&frame, true);
            filter.fits(&frame, false);
        }
    }

    #[test]
    fn no_row_of_words_makes_a_panic(
        words in proptest::collection::vec(
            proptest::sample::select(vec!["tcp", "src", "dst", "or", "and", "not", "(", ")", "port",
                "80", "host", "::1", "net", "é", "!", "|", "arp"]), 0..12),
        frame in any::<Vec<u8>>(),
    ) {
        if let Ok(filter) = words.join(" ").parse::<Expression>() {
            filter.fits(&frame, false);
        }
    }
}
