extern crate std;

use std::vec;
use std::vec::Vec;

use clearway_pkt::Offloads;
use clearway_wire::{Flags, Segment, Seq};

use super::segment::{SegmentOut, cached_path, send_segment};
use super::*;
use crate::testing::*;
use crate::{InterfaceSpec, Table};

fn key(local: &str, remote: &str) -> FlowKey {
    FlowKey {
        local: addr(local),
        remote: addr(remote),
        local_port: 80,
        remote_port: 9,
        table: Table(0),
    }
}

const PAIRS: [(&str, &str); 2] = [("10.0.0.1", "10.0.0.2"), ("2001:db8::1", "2001:db8::2")];

/// Sends one TCP segment of `payload` zeros, and gives what `begin` said.
fn send(
    net: &mut Net,
    cache: &mut RouteCache,
    key: &FlowKey,
    payload: usize,
    segment_size: u16,
) -> Result<(), OutError> {
    let crate::Stack { counters, ip, .. } = &mut net.stack;
    let mut out = IpOut { now: net.now, counters, ip, sink: &mut net.sink, via: None };
    let seg =
        Segment { src_port: 80, dst_port: 9, seq: Seq(5), flags: Flags::ACK, ..Segment::default() };
    let mut room = out.begin(cache, key, Proto::TCP, 20 + payload, 0, 64)?;
    let l4 = room.l4();
    assert_eq!(l4.len(), 20 + payload);
    l4.fill(0);
    tcp::emit(&seg, l4);
    let done = room.finish(20 + payload, Transport::Tcp { header_len: 20, segment_size });
    out.commit(done);
    Ok(())
}

fn path(net: &mut Net, cache: &mut RouteCache, key: &FlowKey) -> Result<PathInfo, OutError> {
    let crate::Stack { counters, ip, .. } = &mut net.stack;
    IpOut { now: net.now, counters, ip, sink: &mut net.sink, via: None }.path(cache, key)
}

#[test]
fn the_cache_is_small() {
    assert!(core::mem::size_of::<RouteCache>() <= 16);
}

#[test]
fn a_segment_leaves_whole_and_with_good_checksums() {
    for (local, remote) in PAIRS {
        let mut net = Net::lan();
        let mut cache = RouteCache::default();
        for _ in 0..2 {
            send(&mut net, &mut cache, &key(local, remote), 100, 0).unwrap();
        }
        let sent = net.sink.take();
        assert_eq!(sent[0], sent[1], "a warm cache makes the same packet as a cold one");
        let eth = eth::check(&sent[0]).unwrap();
        assert_eq!((eth.src(), eth.dst()), (OUR_MAC, PEER_MAC));
        let l4 = if addr(local).is_v4() {
            let v4 = ipv4::check(eth.payload(), true).unwrap();
            // RFC 6864 4.1: atomic datagrams need no identification.
            assert_eq!(
                (v4.id(), v4.dont_fragment(), v4.ttl(), v4.proto()),
                (0, true, 64, Proto::TCP)
            );
            v4.payload()
        } else {
            let v6 = ipv6::check(eth.payload()).unwrap();
            assert_eq!((v6.hop_limit(), v6.next()), (64, Proto::TCP));
            v6.payload()
        };
        assert_eq!(l4.len(), 120);
        assert!(tcp::verify_checksum(&addr(local), &addr(remote), l4).is_ok());
    }
}

#[test]
fn less_than_the_room_may_be_used() {
    let mut net = Net::tun();
    let crate::Stack { counters, ip, .. } = &mut net.stack;
    let mut out = IpOut { now: net.now, counters, ip, sink: &mut net.sink, via: None };
    let k = key("10.0.0.1", "10.0.0.2");
    let mut room = out.begin(&mut RouteCache::default(), &k, Proto::TCP, 500, 0, 64).unwrap();
    room.l4().fill(0);
    tcp::emit(&Segment::default(), room.l4());
    let done = room.finish(30, Transport::Tcp { header_len: 20, segment_size: 0 });
    out.commit(done);
    let sent = net.sink.take();
    let v4 = ipv4::check(&sent[0], true).unwrap();
    assert_eq!((sent[0].len(), v4.payload().len()), (50, 30));
    assert!(tcp::verify_checksum(&k.local, &k.remote, v4.payload()).is_ok());
}

#[test]
fn room_that_is_not_committed_sends_nothing() {
    let mut net = Net::lan();
    let before = net.stack.counters().ip;
    let crate::Stack { counters, ip, .. } = &mut net.stack;
    let mut out = IpOut { now: net.now, counters, ip, sink: &mut net.sink, via: None };
    let mut cache = RouteCache::default();
    let k = key("10.0.0.1", "10.0.0.2");
    assert!(out.begin(&mut cache, &k, Proto::TCP, 20, 0, 64).is_ok());
    assert_eq!(out.counters.ip, before);
    assert_eq!(net.sink.sent.len(), 0);
}

#[test]
fn errors_say_what_is_wrong() {
    let mut net = Net::lan();
    let mut cache = RouteCache::default();
    assert_eq!(
        send(&mut net, &mut cache, &key("10.0.0.1", "192.0.2.1"), 0, 0),
        Err(OutError::NoRoute)
    );
    assert_eq!(net.stack.counters().ip.no_route, 1);
    let k = key("10.0.0.1", "10.0.0.2");
    assert_eq!(send(&mut net, &mut cache, &k, 1461, 0), Err(OutError::TooBig { mtu: 1500 }));
    assert_eq!(send(&mut net, &mut cache, &k, 1460, 0), Ok(()));
    net.sink.room = Some(0);
    assert_eq!(send(&mut net, &mut cache, &k, 0, 0), Err(OutError::Full));
    net.stack.set_up(Iface(0), false);
    assert_eq!(send(&mut net, &mut cache, &k, 0, 0), Err(OutError::Down));
}

#[test]
fn a_cached_route_follows_every_change() {
    let mut net = Net::new(&[(raw(1500), &["10.0.0.1/24"]), (raw(1400), &["10.1.0.1/24"])]);
    let (mut cache, k) = (RouteCache::default(), key("10.0.0.1", "10.0.0.2"));
    let on = |net: &mut Net, cache: &mut RouteCache| {
        send(net, cache, &k, 0, 0).map(|()| net.sink.sent.pop_back().unwrap().0.0)
    };
    assert_eq!(on(&mut net, &mut cache), Ok(0));
    let host = cidr("10.0.0.2/32");
    net.stack.add_route(Table(0), host, crate::NextHop::Interface(Iface(1))).unwrap();
    assert_eq!(on(&mut net, &mut cache), Ok(1));
    assert_eq!(path(&mut net, &mut cache, &k).unwrap().mtu, 1400);
    net.stack.set_mtu(Iface(1), 1300).unwrap();
    assert_eq!(path(&mut net, &mut cache, &k).unwrap().mtu, 1300);
    net.stack.remove_route(Table(0), host);
    assert_eq!(on(&mut net, &mut cache), Ok(0));
    net.stack.set_up(Iface(0), false);
    assert_eq!(on(&mut net, &mut cache), Err(OutError::Down));
}

#[test]
fn segments_wait_for_an_unknown_neighbour_and_the_cache_warms_when_it_answers() {
    let mut net = Net::new(&[(ethernet(1500), &["10.0.0.1/24"])]);
    let (mut cache, k) = (RouteCache::default(), key("10.0.0.1", "10.0.0.2"));
    for n in 0..3 {
        send(&mut net, &mut cache, &k, n, 0).unwrap();
    }
    assert_eq!(net.sink.sent.len(), 0);
    net.stack.add_static_neighbour(net.now, Iface(0), addr("10.0.0.2"), PEER_MAC).unwrap();
    let sent = net.emit();
    assert_eq!(sent.iter().map(Vec::len).collect::<Vec<_>>(), [54, 55, 56]);
    for frame in &sent {
        let eth = eth::check(frame).unwrap();
        assert_eq!((eth.dst(), eth.src(), eth.ethertype()), (PEER_MAC, OUR_MAC, EtherType::IPV4));
        let v4 = ipv4::check(eth.payload(), true).unwrap();
        assert!(tcp::verify_checksum(&k.local, &k.remote, v4.payload()).is_ok());
    }
    send(&mut net, &mut cache, &k, 0, 0).unwrap();
    assert_eq!(net.sink.sent.len(), 1);
}

fn offloading(net_mtu: u32) -> InterfaceSpec {
    let offloads = Offloads {
        tx_checksum: true,
        tso4: true,
        tso6: true,
        max_segmented_frame: 65_550,
        ..Offloads::default()
    };
    InterfaceSpec { offloads, ..ethernet(net_mtu) }
}

#[test]
fn a_device_that_cuts_gets_large_segments_with_what_it_needs() {
    let mut net = Net::new(&[(offloading(1500), &["10.0.0.1/24", "2001:db8::1/64"])]);
    for (local, remote) in PAIRS {
        let (mut cache, k) = (RouteCache::default(), key(local, remote));
        assert_eq!(
            path(&mut net, &mut cache, &k).unwrap().max_tcp_segmented_payload,
            0,
            "its neighbour is not known"
        );
        net.stack.add_static_neighbour(net.now, Iface(0), addr(remote), PEER_MAC).unwrap();
        let info = path(&mut net, &mut cache, &k).unwrap();
        let ip_len = if addr(local).is_v4() { 20 } else { 40 };
        assert_eq!(info.mtu, 1500);
        assert_eq!(info.max_tcp_segmented_payload, 65_535 - ip_len - 60);
        send(&mut net, &mut cache, &k, 60_000, 1440).unwrap();
        let (_, frame, meta) = net.sink.sent.pop_back().unwrap();
        let at = 14 + ip_len as usize;
        assert_eq!(frame.len(), at + 20 + 60_000);
        assert_eq!(meta.segmentation, Segmentation::Tcp(1440));
        assert_eq!(
            (meta.header_len as usize, meta.checksum_start as usize, meta.checksum_offset),
            (at + 20, at, 16)
        );
        // As virtio has it: the field holds the sum of the pseudo header of the whole.
        let partial = u16::from_be_bytes([frame[at + 16], frame[at + 17]]);
        assert_eq!(
            partial,
            clearway_wire::checksum::partial(&k.local, &k.remote, Proto::TCP, 60_020)
        );
    }
}

#[test]
fn a_smaller_path_mtu_shows_in_the_path_and_other_destinations_keep_theirs() {
    let mut net = Net::lan();
    let (mut cache, k) = (RouteCache::default(), key("10.0.0.1", "10.0.0.2"));
    assert_eq!(path(&mut net, &mut cache, &k).unwrap().mtu, 1500);
    let crate::Stack { counters, ip, .. } = &mut net.stack;
    ip.learn_path_mtu(net.now, Table(0), &k.local, &k.remote, 1300, counters).unwrap();
    assert_eq!(path(&mut net, &mut cache, &k).unwrap().mtu, 1300);
    assert_eq!(send(&mut net, &mut cache, &k, 1261, 0), Err(OutError::TooBig { mtu: 1300 }));
    net.pass(601);
    assert_eq!(path(&mut net, &mut cache, &k).unwrap().mtu, 1500);
}

#[test]
fn a_trusted_link_gets_no_tcp_checksum() {
    let offloads = Offloads { trusted_link: true, ..Offloads::default() };
    let mut net = Net::new(&[(InterfaceSpec { offloads, ..raw(65_535) }, &["10.0.0.1/24"])]);
    send(&mut net, &mut RouteCache::default(), &key("10.0.0.1", "10.0.0.2"), 100, 0).unwrap();
    let (_, frame, meta) = net.sink.sent.pop_back().unwrap();
    assert_eq!(meta, TxMeta::default());
    assert_eq!(frame[36..38], [0, 0]);
}

#[test]
fn copying_a_part_crosses_from_head_to_body() {
    for offset in 0..12 {
        let mut out = vec![0; 12 - offset];
        copy_part(offset, &[0, 1, 2, 3], &[4, 5, 6, 7, 8, 9, 10, 11], &mut out);
        assert_eq!(out, (offset as u8..12).collect::<Vec<_>>());
    }
}

/// Sends one segment with timestamps and `payload` bytes by the fast path, over a cache that the long
/// way has filled.
fn send_quick(
    net: &mut Net,
    cache: &RouteCache,
    key: &FlowKey,
    seg: &Segment,
    payload: usize,
) -> Result<bool, OutError> {
    let crate::Stack { counters, ip, .. } = &mut net.stack;
    let way = cached_path(ip, net.now, cache).expect("the cache is warm");
    let (is_v4, is_stamped) = (key.local.is_v4(), seg.opts.ts.is_some());
    let out = SegmentOut { key, is_v4, is_stamped, payload, tos: &4, ttl: &63 };
    let fill = |room: &mut [u8]| {
        room.fill(0x5a);
        room.len() == payload
    };
    send_segment(&mut net.sink, counters, way, out, || *seg, fill)
}

#[test]
fn the_fast_path_makes_the_same_packet_as_the_full_one() {
    for offloads in [
        Offloads::default(),
        Offloads { tx_checksum: true, ..Offloads::default() },
        Offloads { trusted_link: true, ..Offloads::default() },
    ] {
        for ((local, remote), ts) in
            PAIRS.into_iter().flat_map(|pair| [(pair, None), (pair, Some((7, 8)))])
        {
            let mut net = Net::lan();
            net.stack.ip.ifaces[0].offloads = offloads;
            let (key, mut cache) = (key(local, remote), RouteCache::default());
            let opts = tcp::TcpOptions { ts, ..tcp::TcpOptions::NONE };
            let flags = Flags::ACK | Flags::PSH;
            let seg = Segment {
                src_port: 80,
                dst_port: 9,
                seq: Seq(5),
                wnd: 3,
                flags,
                opts,
                ..Segment::default()
            };
            let header_len = opts.header_len();
            for payload in [1, 63, 64, 1000] {
                let crate::Stack { counters, ip, .. } = &mut net.stack;
                let mut out = IpOut { now: net.now, counters, ip, sink: &mut net.sink, via: None };
                let mut room =
                    out.begin(&mut cache, &key, Proto::TCP, header_len + payload, 4, 63).unwrap();
                room.l4().fill(0x5a);
                tcp::emit(&seg, room.l4());
                let transport = Transport::Tcp { header_len: header_len as u8, segment_size: 0 };
                let done = room.finish(header_len + payload, transport);
                out.commit(done);
                assert_eq!(send_quick(&mut net, &cache, &key, &seg, payload), Ok(true));
                let sent: Vec<_> = net.sink.sent.drain(..).collect();
                assert_eq!(sent.len(), 2);
                assert_eq!(sent[0], sent[1]);
            }
        }
    }
}

#[test]
fn the_fast_path_refuses_what_it_cannot_send_and_changes_nothing() {
    let mut net = Net::lan();
    let (key, mut cache) = (key("10.0.0.1", "10.0.0.2"), RouteCache::default());
    assert!(cached_path(&mut net.stack.ip, net.now, &cache).is_none(), "a cold cache");
    send(&mut net, &mut cache, &key, 1, 0).unwrap();
    net.sink.take();
    net.stack.ip.changed();
    assert!(cached_path(&mut net.stack.ip, net.now, &cache).is_none(), "the tables have changed");
    assert!(net.sink.take().is_empty());
}
