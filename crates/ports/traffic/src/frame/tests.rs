use proptest::prelude::*;

use super::*;

fn shape(v4: bool, tcp: bool, ethernet: bool) -> Shape {
    let (own, peer) =
        if v4 { ("198.18.0.1", "198.19.0.1") } else { ("2001:2::1", "2001:2:0:8000::1") };
    Shape {
        macs: ethernet.then_some((Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2]))),
        own: own.parse().unwrap(),
        peer: peer.parse().unwrap(),
        own_port: 10_000,
        peer_port: 9,
        tcp,
        run: 0xbeef,
    }
}

fn all_shapes() -> impl Iterator<Item = Shape> {
    (0..8).map(|bits| shape(bits & 1 != 0, bits & 2 != 0, bits & 4 != 0))
}

fn trace(flow: u32, seq: u32, stamp: u32) -> Trace {
    Trace { flow, seq, stamp: Stamp(stamp) }
}

fn written(template: &Template, trace: Trace) -> Vec<u8> {
    let mut room = vec![0xaa; template.len() + 7];
    template.write(&mut room, trace);
    room.truncate(template.len());
    room
}

/// Exchanges source and destination of network and transport.
fn swapped(shape: &Shape, frame: &[u8]) -> Vec<u8> {
    let mut out = frame.to_vec();
    let (at, len) =
        if shape.own.is_v4() { (shape.ip_at() + 12, 4) } else { (shape.ip_at() + 8, 16) };
    for (at, len) in [(at, len), (shape.l4_at(), 2)] {
        out[at..at + len].copy_from_slice(&frame[at + len..at + 2 * len]);
        out[at + len..at + 2 * len].copy_from_slice(&frame[at..at + len]);
    }
    out
}

/// The stack's own checks find nothing wrong with the frame: addresses, ports and both checksums.
fn assert_sound(shape: &Shape, frame: &[u8], flow: u32) {
    let packet = match shape.macs {
        Some((src, dst)) => {
            let eth = eth::check(frame).unwrap();
            assert_eq!((eth.src(), eth.dst()), (src, dst));
            eth.payload()
        }
        None => frame,
    };
    let (src, dst, payload) = if shape.own.is_v4() {
        let ip = ipv4::check(packet, true).unwrap();
        assert_eq!(ip.total_len(), packet.len());
        (ip.src(), ip.dst(), ip.payload())
    } else {
        let ip = ipv6::check(packet).unwrap();
        assert_eq!(ip.total_len(), packet.len());
        (ip.src(), ip.dst(), ip.payload())
    };
    assert_eq!(dst, shape.peer);
    assert_eq!(u32_at(src.octets(), 12) - u32_at(shape.own.octets(), 12), flow / FLOWS_PER_ADDR);
    let port = shape.own_port + (flow % FLOWS_PER_ADDR) as u16;
    if shape.tcp {
        tcp::verify_checksum(&src, &dst, payload).unwrap();
        let segment = tcp::parse(payload).unwrap();
        assert_eq!((segment.src_port, segment.dst_port), (port, 9));
    } else {
        let datagram = udp::check(&src, &dst, payload, true).unwrap();
        assert_eq!((datagram.src_port(), datagram.dst_port()), (port, 9));
    }
}

#[test]
fn a_64_byte_frame_of_ipv4_holds_everything_and_shorter_ones_are_refused() {
    assert_eq!(shape(true, true, true).least(), 64);
    assert_eq!(shape(true, false, true).least(), 52);
    let error = Template::new(shape(false, false, true), 64).unwrap_err();
    assert_eq!(
        error.to_string(),
        "frames of 64 bytes are too short: headers, number and time stamp take 72"
    );
}

#[test]
fn whatever_else_arrives_is_foreign() {
    for shape in all_shapes() {
        let template = Template::new(shape, 128).unwrap();
        let frame = written(&template, trace(0, 1, 2));
        for len in 0..template.tag_at + 2 {
            assert_eq!(template.read(&frame[..len], 1), Look::Foreign, "cut to {len}");
        }
        for other in all_shapes().filter(|other| *other != shape) {
            let other = Template::new(other, 128).unwrap();
            assert_eq!(template.read(&written(&other, trace(0, 1, 2)), 1), Look::Foreign);
        }
        assert_eq!(
            template.read(&written(&template, trace(1, 1, 2)), 1),
            Look::Foreign,
            "a flow that is not ours"
        );
        for byte in [0, 0xff] {
            assert_eq!(template.read(&[byte; 1_500], MAX_FLOWS), Look::Foreign);
        }
    }
}

#[test]
fn another_run_is_stale_whatever_its_size() {
    let template = Template::new(shape(true, false, true), 256).unwrap();
    let before = Template::new(Shape { run: 1, ..shape(true, false, true) }, 64).unwrap();
    assert_eq!(template.read(&written(&before, trace(0, 1, 2)), 1), Look::Stale);
}

#[test]
fn a_short_frame_that_a_device_filled_up_is_still_ours() {
    let template = Template::new(shape(true, false, true), 52).unwrap();
    let mut frame = written(&template, trace(0, 1, 2));
    frame.resize(60, 0);
    assert_eq!(template.read(&frame, 1), Look::Ours(trace(0, 1, 2)));
    frame.resize(61, 0);
    assert_eq!(template.read(&frame, 1), Look::Damaged);
}

#[test]
fn stamps_tell_how_long_ago_across_their_wrap() {
    let sent = Instant::from_nanos((1 << 36) - 160);
    let now = sent + Duration::from_micros(5);
    assert_eq!(Stamp::of(sent).age(now).as_nanos() / 16, 5_000 / 16);
    assert_eq!(Stamp::of(sent).age(sent), Duration::ZERO);
    // Another thread sent it after this one had looked at its clock.
    assert_eq!(Stamp::of(now).age(sent), Duration::ZERO);
}

proptest! {
    #[test]
    fn every_frame_is_sound_and_is_read_back_as_it_was_sent_or_reflected(
        bits in 0..8u32, size in 84..2_000usize, flow in 0..MAX_FLOWS, seq: u32, stamp: u32,
    ) {
        let shape = shape(bits & 1 != 0, bits & 2 != 0, bits & 4 != 0);
        let template = Template::new(shape, size).unwrap();
        let frame = written(&template, trace(flow, seq, stamp));
        assert_sound(&shape, &frame, flow);
        prop_assert_eq!(template.read(&frame, MAX_FLOWS), Look::Ours(trace(flow, seq, stamp)));
        let back = swapped(&shape, &frame);
        prop_assert_eq!(template.read(&back, MAX_FLOWS), Look::Ours(trace(flow, seq, stamp)));
    }

    #[test]
    fn one_turned_bit_behind_the_addresses_never_passes_for_ours(
        bits in 0..8u32, size in 84..300usize, flow in 0..100u32, seq: u32, at: usize,
            bit in 0..8u32,
    ) {
        let shape = shape(bits & 1 != 0, bits & 2 != 0, bits & 4 != 0);
        let template = Template::new(shape, size).unwrap();
        let mut frame = written(&template, trace(flow, seq, 3));
        let from = template.tag_at;
        let at = from + at % (size - from);
        frame[at] ^= 1 << bit;
        prop_assert!(!matches!(template.read(&frame, 100), Look::Ours(_)));
    }

    #[test]
    fn no_bytes_make_reading_panic(bits in 0..8u32,
        bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let shape = shape(bits & 1 != 0, bits & 2 != 0, bits & 4 != 0);
        let template = Template::new(shape, 100).unwrap();
        template.read(&bytes, MAX_FLOWS);
    }
}
