//! Frames for the tests of this crate.

use clearway_wire::tcp::{self, Segment};
use clearway_wire::{Addr, EtherType, Flags, Mac, Proto, Seq, TcpOptions, eth, ipv4, ipv6, udp};

pub(crate) fn addresses(v4: bool) -> (Addr, Addr) {
    if v4 {
        (Addr::v4([10, 0, 0, 1]), Addr::v4([10, 0, 0, 2]))
    } else {
        ("fd00::1".parse().unwrap(), "fd00::2".parse().unwrap())
    }
}

/// Bytes that differ from place to place.
pub(crate) fn pattern(len: usize) -> Vec<u8> {
    (0..len as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 23) as u8).collect()
}

/// A frame around `transport`.
pub(crate) fn ip_frame(v4: bool, ethernet: bool, proto: Proto, transport: &[u8]) -> Vec<u8> {
    let (src, dst) = addresses(v4);
    let mut frame = vec![0; 54 + transport.len()];
    let mut at = 0;
    if ethernet {
        let kind = if v4 { EtherType::IPV4 } else { EtherType::IPV6 };
        at += eth::emit(Mac([2, 0, 0, 0, 0, 2]), Mac([2, 0, 0, 0, 0, 1]), kind, &mut frame);
    }
    let payload_len = transport.len() as u16;
    at += if v4 {
        let header = ipv4::Header {
            src,
            dst,
            proto,
            tos: 0,
            ttl: 64,
            id: 0xfffe,
            dont_fragment: false,
            more_fragments: false,
            fragment_offset: 0,
            payload_len,
        };
        ipv4::emit(&header, &mut frame[at..])
    } else {
        let header = ipv6::Header {
            src,
            dst,
            next: proto,
            traffic_class: 0,
            flow_label: 5,
            hop_limit: 64,
            payload_len,
        };
        ipv6::emit(&header, &mut frame[at..])
    };
    frame[at..at + transport.len()].copy_from_slice(transport);
    frame.truncate(at + transport.len());
    frame
}

/// A TCP frame with timestamps, its checksum field holding what a device that finishes it needs.
pub(crate) fn tcp_frame(v4: bool, ethernet: bool, flags: Flags, payload: &[u8]) -> Vec<u8> {
    let (src, dst) = addresses(v4);
    let opts = TcpOptions { ts: Some((1, 2)), ..TcpOptions::NONE };
    let segment = Segment {
        src_port: 1000,
        dst_port: 80,
        seq: Seq(0xffff_f000),
        ack: Seq(77),
        flags,
        wnd: 500,
        opts,
        ..Segment::default()
    };
    let mut bytes = vec![0; 60 + payload.len()];
    let header_len = tcp::emit(&segment, &mut bytes);
    bytes[header_len..header_len + payload.len()].copy_from_slice(payload);
    bytes.truncate(header_len + payload.len());
    let len = bytes.len() as u32;
    tcp::fill_partial_checksum(&src, &dst, len, &mut bytes);
    ip_frame(v4, ethernet, Proto::TCP, &bytes)
}

/// A UDP frame, likewise.
pub(crate) fn udp_frame(v4: bool, ethernet: bool, payload: &[u8]) -> Vec<u8> {
    let (src, dst) = addresses(v4);
    let mut bytes = vec![0; udp::HEADER_LEN + payload.len()];
    udp::emit(1000, 53, payload.len() as u16, &mut bytes);
    bytes[udp::HEADER_LEN..].copy_from_slice(payload);
    let len = bytes.len() as u32;
    udp::fill_partial_checksum(&src, &dst, len, &mut bytes);
    ip_frame(v4, ethernet, Proto::UDP, &bytes)
}
