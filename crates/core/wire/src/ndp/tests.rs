use std::vec;
use std::vec::Vec;

use super::*;
use crate::icmpv6::{self, Icmpv6};

const MAC: Mac = Mac([2, 0, 0, 0, 0, 7]);

fn addr(s: &str) -> Addr {
    s.parse().unwrap()
}

fn bytes_of(message: &Ndp<'_>) -> Vec<u8> {
    let mut out = vec![0xff; 512];
    let len = emit(message, &mut out);
    out.truncate(len);
    out
}

/// From one link-local neighbour to another.
fn reread<'a>(bytes: &'a [u8]) -> Result<Ndp<'a>, Malformed> {
    check(&addr("fe80::1"), &addr("fe80::2"), 255, bytes)
}

fn prefix_option() -> Prefix {
    Prefix {
        prefix: addr("2001:db8::"),
        prefix_len: 64,
        on_link: true,
        autonomous: false,
        valid_s: u32::MAX,
        preferred_s: 14400,
    }
}

fn route_option() -> RouteInfo {
    RouteInfo {
        prefix: addr("2001:db8:5::"),
        prefix_len: 48,
        preference: Some(Preference::High),
        lifetime_s: 900,
    }
}

/// An advertisement that says nothing, and these bytes behind it.
fn advert_with(options: &[u8]) -> Vec<u8> {
    let mut bytes = [0; 16].to_vec();
    bytes[0] = 134;
    bytes.extend(options);
    bytes
}

fn first_option(bytes: &[u8]) -> NdOption<'_> {
    let Ok(Ndp::RouterAdvert(advert)) = reread(bytes) else { panic!("no advertisement") };
    advert.options.iter().next().unwrap()
}

#[test]
fn every_message_comes_back_as_it_was_written() {
    let mut scratch = [0; 256];
    let servers = [*addr("2001:db8::53").octets(), *addr("fe80::53").octets()].concat();
    let list = [
        NdOption::SourceLink(MAC),
        NdOption::Mtu(1500),
        NdOption::Prefix(prefix_option()),
        NdOption::Redirected(b"16 quoted bytes!"),
        NdOption::Other { kind: 14, body: b"nonce!" },
        NdOption::TargetLink(MAC),
        NdOption::Route(route_option()),
        NdOption::Dns(Dns::new(600, &servers).unwrap()),
    ];
    let options = Options::build(&mut scratch, &list);
    assert_eq!(options.iter().collect::<Vec<_>>(), list);
    assert_eq!(
        (options.source_link(), options.target_link(), options.mtu()),
        (Some(MAC), Some(MAC), Some(1500))
    );
    assert_eq!(options.prefixes().collect::<Vec<_>>(), [prefix_option()]);
    let target = addr("fe80::9");
    for message in [
        Ndp::RouterSolicit { options },
        Ndp::RouterSolicit { options: Options::NONE },
        Ndp::RouterAdvert(Advert {
            hop_limit: 64,
            managed: true,
            other: false,
            preference: Preference::Low,
            lifetime_s: 1800,
            reachable_ms: 30_000,
            retrans_ms: 1000,
            options,
        }),
        Ndp::NeighborSolicit { target, options },
        Ndp::NeighborAdvert { router: true, solicited: true, override_: false, target, options },
        Ndp::NeighborAdvert {
            router: false,
            solicited: false,
            override_: true,
            target,
            options: Options::NONE,
        },
        Ndp::Redirect { target, destination: addr("2001:db8::5"), options },
    ] {
        let bytes = bytes_of(&message);
        assert_eq!(bytes.len(), message.emitted_len());
        assert_eq!(reread(&bytes), Ok(message));
    }
}

#[test]
fn messages_go_through_icmpv6_with_their_checksum() {
    let (src, dst) = (addr("fe80::1"), addr("ff02::1:ff00:9"));
    let mut scratch = [0; 8];
    let options = Options::build(&mut scratch, &[NdOption::SourceLink(MAC)]);
    let message = Icmpv6::Ndp(Ndp::NeighborSolicit { target: addr("fe80::9"), options });
    let mut out = [0; 64];
    let len = icmpv6::emit(&src, &dst, &message, &mut out);
    assert_eq!(icmpv6::check(&src, &dst, 255, &out[..len], true), Ok(message));
    assert_eq!(icmpv6::check(&src, &dst, 254, &out[..len], true), Err(Malformed::NdpBadHopLimit));
}

#[test]
fn options_of_length_zero_or_past_the_end_are_refused() {
    let mut bytes = bytes_of(&Ndp::RouterSolicit { options: Options::NONE });
    bytes.extend([SOURCE_LINK, 1, 2, 0, 0, 0, 0, 7]);
    assert!(reread(&bytes).is_ok());
    for len in [0, 2, 255] {
        bytes[9] = len;
        assert_eq!(reread(&bytes), Err(Malformed::NdpBadOption), "{len}");
    }
    bytes[9] = 1;
    assert_eq!(reread(&bytes[..15]), Err(Malformed::NdpBadOption));
    assert_eq!(reread(&bytes[..9]), Err(Malformed::NdpBadOption));
}

#[test]
fn options_of_fixed_length_must_have_it() {
    for kind in [PREFIX, MTU] {
        let mut bytes = bytes_of(&Ndp::RouterSolicit { options: Options::NONE });
        bytes.extend([kind, 2]);
        bytes.extend([0; 14]);
        assert_eq!(reread(&bytes), Err(Malformed::NdpBadOption));
    }
}

#[test]
fn the_number_of_options_is_bounded() {
    let with_options = |n: usize| {
        let mut bytes = bytes_of(&Ndp::RouterSolicit { options: Options::NONE });
        bytes.extend([200, 1, 0, 0, 0, 0, 0, 0].repeat(n));
        reread(&bytes).map(|_| ())
    };
    assert_eq!(with_options(MAX_OPTIONS), Ok(()));
    assert_eq!(with_options(MAX_OPTIONS + 1), Err(Malformed::NdpBadOption));
}

#[test]
fn a_probe_for_a_duplicate_goes_to_its_group_and_tells_no_link_address() {
    let target = addr("fe80::9");
    let mut scratch = [0; 8];
    let options = Options::build(&mut scratch, &[NdOption::SourceLink(MAC)]);
    let plain = bytes_of(&Ndp::NeighborSolicit { target, options: Options::NONE });
    let telling = bytes_of(&Ndp::NeighborSolicit { target, options });
    let from_nobody = |dst: Addr, bytes: &[u8]| check(&Addr::ANY_V6, &dst, 255, bytes).map(|_| ());
    assert_eq!(from_nobody(target.solicited_node(), &plain), Ok(()));
    assert_eq!(from_nobody(target, &plain), Err(Malformed::NdpBadDestination));
    assert_eq!(from_nobody(target.solicited_node(), &telling), Err(Malformed::NdpBadOption));
    let solicit = bytes_of(&Ndp::RouterSolicit { options });
    assert_eq!(from_nobody(Addr::ALL_ROUTERS, &solicit), Err(Malformed::NdpBadOption));
}

#[test]
fn a_solicited_advertisement_is_not_multicast() {
    let (target, options) = (addr("fe80::1"), Options::NONE);
    let advert = |solicited| {
        bytes_of(&Ndp::NeighborAdvert {
            router: false,
            solicited,
            override_: true,
            target,
            options,
        })
    };
    let to_all = |bytes: &[u8]| check(&target, &Addr::ALL_NODES, 255, bytes).map(|_| ());
    assert_eq!(to_all(&advert(false)), Ok(()));
    assert_eq!(to_all(&advert(true)), Err(Malformed::NdpBadDestination));
}

#[test]
fn router_adverts_and_redirects_come_from_link_local_addresses() {
    let options = Options::NONE;
    let advert = bytes_of(&Ndp::RouterAdvert(Advert {
        hop_limit: 0,
        managed: false,
        other: false,
        preference: Preference::Low,
        lifetime_s: 0,
        reachable_ms: 0,
        retrans_ms: 0,
        options,
    }));
    let redirect = bytes_of(&Ndp::Redirect {
        target: addr("fe80::9"),
        destination: addr("2001:db8::1"),
        options,
    });
    for bytes in [advert, redirect] {
        assert!(reread(&bytes).is_ok());
        let got = check(&addr("2001:db8::1"), &addr("fe80::2"), 255, &bytes);
        assert_eq!(got, Err(Malformed::NdpBadSource));
    }
}

#[test]
fn targets_that_cannot_be_neighbours_are_refused() {
    let options = Options::NONE;
    for target in [addr("ff02::1"), Addr::v4([10, 0, 0, 1])] {
        let bytes = bytes_of(&Ndp::NeighborSolicit { target, options });
        assert_eq!(reread(&bytes), Err(Malformed::NdpBadTarget));
    }
    for (target, destination) in [("2001:db8::1", "2001:db8::2"), ("fe80::1", "ff02::1")] {
        let bytes = bytes_of(&Ndp::Redirect {
            target: addr(target),
            destination: addr(destination),
            options,
        });
        assert_eq!(reread(&bytes), Err(Malformed::NdpBadTarget));
    }
    let on_link = addr("2001:db8::2");
    assert!(
        reread(&bytes_of(&Ndp::Redirect { target: on_link, destination: on_link, options }))
            .is_ok()
    );
}

#[test]
fn codes_and_short_messages_are_refused() {
    let mut bytes =
        bytes_of(&Ndp::NeighborSolicit { target: addr("fe80::9"), options: Options::NONE });
    for len in 0..bytes.len() {
        assert_eq!(reread(&bytes[..len]), Err(Malformed::NdpTooShort), "{len}");
    }
    bytes[1] = 1;
    assert_eq!(reread(&bytes), Err(Malformed::NdpBadCode));
}

#[test]
fn an_advertisement_is_its_header_and_its_options() {
    let mut scratch = [0; 64];
    let options = Options::build(&mut scratch, &[NdOption::Prefix(prefix_option())]);
    let advert = Advert {
        hop_limit: 3,
        managed: true,
        other: true,
        preference: Preference::High,
        lifetime_s: 9000,
        reachable_ms: 1,
        retrans_ms: 2,
        options,
    };
    let bytes = [&advert.header()[..], options.as_bytes()].concat();
    assert_eq!(Advert::read(&bytes), Ok(advert));
    assert_eq!(bytes, bytes_of(&Ndp::RouterAdvert(advert)));
    assert_eq!(Advert::read(&bytes[..15]), Err(Malformed::NdpTooShort));
    assert_eq!(Advert::read(&bytes[..47]), Err(Malformed::NdpBadOption));
}

#[test]
fn a_preference_that_is_reserved_is_medium_for_a_router_and_none_for_a_route() {
    for (bits, router, route) in [
        (0, Preference::Medium, Some(Preference::Medium)),
        (1, Preference::High, Some(Preference::High)),
        (2, Preference::Medium, None),
        (3, Preference::Low, Some(Preference::Low)),
    ] {
        let mut bytes = advert_with(&[ROUTE, 1, 0, bits << 3, 0, 0, 2, 1]);
        bytes[5] = bits << 3;
        let Ok(Ndp::RouterAdvert(advert)) = reread(&bytes) else { panic!("no advertisement") };
        assert_eq!(advert.preference, router);
        let NdOption::Route(info) = first_option(&bytes) else { panic!("no route") };
        assert_eq!((info.preference, info.lifetime_s), (route, 513));
        assert_eq!((info.prefix, info.prefix_len), (Addr::ANY_V6, 0));
    }
    assert!(Preference::Low < Preference::Medium && Preference::Medium < Preference::High);
}

#[test]
fn a_route_has_as_much_of_its_prefix_as_its_length_says() {
    for (units, most) in [(1, 0), (2, 64), (3, 128)] {
        for len in [0, 1, 64, 65, 128, 129, 255] {
            let mut option = vec![ROUTE, units, len, 0, 0, 0, 0, 9];
            option.resize(usize::from(units) * 8, 0x20);
            let bytes = advert_with(&option);
            match first_option(&bytes) {
                NdOption::Route(info) => {
                    assert!(len <= most || len > 128, "{units} {len}");
                    assert_eq!((info.prefix_len, info.lifetime_s), (len, 9));
                }
                other => {
                    let body = &option[2..];
                    assert_eq!(other, NdOption::Other { kind: ROUTE, body }, "{units} {len}");
                    assert!(len > most && len <= 128, "{units} {len}");
                }
            }
        }
    }
    let too_long = advert_with(&[&[ROUTE, 4, 0, 0, 0, 0, 0, 9][..], &[0; 24]].concat());
    assert!(matches!(first_option(&too_long), NdOption::Other { kind: ROUTE, .. }));
}

#[test]
fn servers_of_names_are_whole_addresses_and_at_least_one() {
    for units in 1..8u8 {
        let mut option = vec![DNS, units, 0, 0, 0, 0, 1, 0];
        option.resize(usize::from(units) * 8, 7);
        let bytes = advert_with(&option);
        match first_option(&bytes) {
            NdOption::Dns(dns) => {
                assert!(units >= 3 && units % 2 == 1, "{units}");
                assert_eq!(dns.lifetime_s, 256);
                let count = usize::from(units / 2);
                assert_eq!(dns.servers().collect::<Vec<_>>(), vec![Addr::v6([7; 16]); count]);
            }
            other => {
                assert!(units < 3 || units % 2 == 0, "{units}");
                assert!(matches!(other, NdOption::Other { kind: DNS, .. }), "{units}");
            }
        }
    }
    assert_eq!(Dns::new(1, &[]), None);
    assert_eq!(Dns::new(1, &[0; 15]), None);
    assert_eq!(Dns::new(1, &[0; 128 * 16]), None);
}
