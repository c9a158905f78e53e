use clearway_wire::Flags;

use super::*;
use crate::test_frames::{tcp_frame, udp_frame};

fn cidr(text: &str) -> Option<Cidr> {
    Some(text.parse().unwrap())
}

#[test]
fn a_filter_fits_either_side_and_all_its_parts_must_fit() {
    let tcp = tcp_frame(true, true, Flags::ACK, b"data");
    let udp = udp_frame(false, true, b"data");
    let open = FrameFilter::default();
    let filter =
        |prefix: Option<Cidr>, proto: Option<Proto>, ports: Option<RangeInclusive<u16>>| {
            FrameFilter { prefix, proto, ports, expression: None }
        };
    for (filter, fits_tcp, fits_udp) in [
        (open.clone(), true, true),
        (filter(cidr("10.0.0.2/32"), None, None), true, false),
        (filter(cidr("10.0.0.0/30"), None, None), true, false),
        (filter(cidr("fd00::/64"), None, None), false, true),
        (filter(cidr("10.9.0.0/16"), None, None), false, false),
        (filter(None, Some(Proto::TCP), None), true, false),
        (filter(None, None, Some(50..=60)), false, true),
        (filter(None, None, Some(1000..=1000)), true, true),
        (filter(cidr("10.0.0.1/32"), Some(Proto::UDP), None), false, false),
    ] {
        assert_eq!(
            (filter.fits(&tcp, true), filter.fits(&udp, true)),
            (fits_tcp, fits_udp),
            "{filter:?}"
        );
    }
    assert!(open.fits(b"no packet at all", true));
    assert!(!filter(None, Some(Proto::TCP), None).fits(b"no packet at all", true));
}
