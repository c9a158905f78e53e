//! What a careless or hostile caller meets.

use core::ffi::{CStr, c_void};
use core::mem::zeroed;
use core::ptr::{null, null_mut};
use std::collections::HashSet;

use clearway_base::Rng;
use clearway_proto::WhenFull;

use crate::buf::*;
use crate::config::*;
use crate::count::*;
use crate::net::*;
use crate::stack::*;
use crate::status::*;
use crate::tcp::*;
use crate::types::*;
use crate::udp::*;
use clw_status::*;

fn config() -> clw_config {
    clw_config {
        connections: 16,
        half_open: 16,
        time_wait: 16,
        send_chunks: 64,
        receive_packets: 64,
        copy_buffers: 4,
        secret: [7; 32],
        ..clw_config::default()
    }
}

fn new() -> *mut clw_stack {
    let mut stack = null_mut();
    // SAFETY: both lead to what they say.
    let status = unsafe { clw_stack_new(&config(), &mut stack) };
    assert_eq!(status, CLW_OK);
    stack
}

fn with_interface() -> *mut clw_stack {
    let stack = new();
    // SAFETY: all of it is plain numbers.
    let plain: clw_interface = unsafe { zeroed() };
    let mut iface = 99;
    let spec = clw_interface { link: CLW_LINK_RAW, mtu: 1500, ..plain };
    // SAFETY: all of them lead to what they say.
    unsafe {
        assert_eq!(clw_add_interface(stack, &spec, &mut iface), CLW_OK);
        assert_eq!(clw_add_address(stack, 0, iface, clw_ipv4(10, 0, 0, 2), 24), CLW_OK);
    }
    assert_eq!(iface, 0);
    stack
}

fn free(stack: *mut clw_stack) {
    // SAFETY: it came from `new` and is not used any more.
    assert_eq!(unsafe { clw_stack_free(stack) }, CLW_OK);
}

fn local() -> clw_endpoint {
    clw_endpoint { addr: clw_ipv4(10, 0, 0, 2), port: 7 }
}

#[test]
fn null_is_refused_everywhere_and_changes_nothing() {
    let stack = with_interface();
    let (none, mut n, mut h) = (null_mut::<clw_stack>(), 0usize, 0u64);
    let (here, byte, mut data) = (local(), [0u8; 4], null());
    // SAFETY: what is not null leads to what it says.
    let refused = unsafe {
        [
            clw_config_init(null_mut()),
            clw_options_init(null_mut()),
            clw_stack_new(null(), &mut null_mut()),
            clw_stack_new(&config(), null_mut()),
            clw_ingest(none, 0, null(), 0),
            clw_ingest(stack, 0, null(), 1),
            clw_expire(none, 0),
            clw_emit(none, 0, null()),
            clw_emit(stack, 0, null()),
            clw_emit(stack, 0, &clw_sink { ctx: null_mut(), reserve: None, commit: None }),
            clw_next_deadline(stack, null_mut()),
            clw_wants_emit(none),
            clw_next_event(stack, null_mut()),
            clw_add_interface(stack, null(), &mut 0),
            clw_add_interface(stack, &zeroed(), null_mut()),
            clw_add_route(stack, clw_ipv4(0, 0, 0, 0), 0, null(), -1),
            clw_add_neighbour(stack, 0, 0, clw_ipv4(10, 0, 0, 1), null()),
            clw_listen(stack, null(), 1, 0, null(), &mut h),
            clw_listen(stack, &here, 1, 0, null(), null_mut()),
            clw_listen(none, &here, 1, 0, null(), &mut h),
            clw_accept(stack, 1 << 32, 0, null_mut()),
            clw_connect(stack, 0, null(), null(), 0, null(), &mut h),
            clw_send(stack, 1 << 32, byte.as_ptr(), 4, null_mut()),
            clw_recv(stack, 1 << 32, null_mut(), 4, &mut n),
            clw_recv(stack, 1 << 32, null_mut(), 0, null_mut()),
            clw_peek(stack, 1 << 32, &mut data, null_mut()),
            clw_peek(stack, 1 << 32, null_mut(), &mut n),
            clw_conn_info_get(stack, 1 << 32, null_mut()),
            clw_udp_bind(stack, null(), 0, &mut h),
            clw_udp_recv(stack, 1 << 32, null_mut(), 0, null_mut(), null_mut()),
            clw_counters_get(stack, null_mut()),
            clw_addr_parse(null(), &mut here.addr.clone()),
            clw_addr_parse(c"10.0.0.1".as_ptr(), null_mut()),
            clw_endpoint_parse(null(), null_mut()),
            clw_addr_format(null(), null_mut(), 0),
            clw_addr_format(&here.addr, null_mut(), 9),
        ]
    };
    for (at, status) in refused.into_iter().enumerate() {
        assert_eq!(status, CLW_NULL, "call {at}");
    }
    assert_eq!(h, 0);
    // SAFETY: null is allowed here.
    assert_eq!(unsafe { clw_stack_free(null_mut()) }, CLW_OK);
    free(stack);
}

#[test]
fn a_handle_that_names_nothing_is_stale_for_every_verb() {
    let stack = with_interface();
    let (mut n, mut h, mut data, byte, mut room) = (0usize, 0u64, null(), [0u8; 4], [0u8; 4]);
    for handle in [0, 1, u64::from(u32::MAX), 1 << 32, 3 << 32 | 5, 1 << 32 | 0xffff_ffff, u64::MAX]
    {
        // SAFETY: all of them lead to what they say.
        let answers = unsafe {
            [
                clw_listener_local(stack, handle, &mut local()),
                clw_unlisten(stack, handle),
                clw_accept(stack, handle, 0, &mut h),
                clw_set_token(stack, handle, 1),
                clw_set_options(stack, handle, &zeroed()),
                clw_send(stack, handle, byte.as_ptr(), 4, &mut n),
                clw_recv(stack, handle, room.as_mut_ptr(), 4, &mut n),
                clw_peek(stack, handle, &mut data, &mut n),
                clw_consumed(stack, handle, 1),
                clw_shutdown(stack, handle),
                clw_close(stack, handle),
                clw_abort(stack, handle),
                clw_failure(stack, handle),
                clw_conn_info_get(stack, handle, &mut zeroed()),
                clw_udp_connect(stack, handle, &local()),
                clw_udp_local(stack, handle, &mut local()),
                clw_udp_send(stack, handle, &local(), byte.as_ptr(), 4),
                clw_udp_recv(stack, handle, room.as_mut_ptr(), 4, &mut n, null_mut()),
                clw_udp_error(stack, handle),
                clw_udp_close(stack, handle),
            ]
        };
        assert!(answers.iter().all(|&answer| answer == CLW_STALE), "{handle:#x}: {answers:?}");
    }
    free(stack);
}

#[test]
fn a_closed_handle_is_stale_and_never_names_the_next_connection() {
    let stack = with_interface();
    let (mut first, mut second) = (0, 0);
    let peer = clw_endpoint { addr: clw_ipv4(10, 0, 0, 9), port: 80 };
    // SAFETY: all of them lead to what they say.
    unsafe {
        assert_eq!(clw_connect(stack, 1, null(), &peer, 0, null(), &mut first), CLW_OK);
        assert_eq!(clw_abort(stack, first), CLW_OK);
        assert_eq!(clw_connect(stack, 2, null(), &peer, 0, null(), &mut second), CLW_OK);
        assert_eq!(clw_abort(stack, first), CLW_STALE);
        assert_eq!(clw_failure(stack, second), CLW_OK);
        let mut n = 0;
        assert_eq!(clw_send(stack, second, null(), 0, &mut n), CLW_OK);
        assert_eq!(clw_send(stack, second, c"x".as_ptr().cast(), usize::MAX, &mut n), CLW_INVALID);
        assert_eq!(clw_consumed(stack, second, 1), CLW_RANGE, "nothing was read");
    }
    assert_ne!(first, second);
    free(stack);
}

#[test]
fn what_a_full_table_does_is_the_program_s_to_say() {
    let said = |when_full| clw_config { when_full, ..config() }.to_core().tcp.when_full;
    assert_eq!(
        [CLW_FULL_MAKE_ROOM, CLW_FULL_RESET, CLW_FULL_DROP].map(said),
        [WhenFull::MakeRoom, WhenFull::Reset, WhenFull::Drop]
    );
    assert_eq!(clw_config::default().when_full, CLW_FULL_MAKE_ROOM);
}

#[test]
fn a_configuration_that_cannot_be_is_refused() {
    type Change = fn(&mut clw_config);
    let wrong: &[(Change, clw_status)] = &[
        (|c| c.size -= 4, CLW_INVALID),
        (|c| c.secret = [0; 32], CLW_SECRET),
        (|c| c.connections = 0, CLW_RANGE),
        (|c| c.connections = u32::MAX, CLW_RANGE),
        (|c| c.half_open = (1 << 24) + 1, CLW_RANGE),
        (|c| c.when_full = 3, CLW_RANGE),
        (|c| c.interfaces = 70_000, CLW_RANGE),
        (|c| (c.send_chunks, c.send_chunk_len) = (1 << 24, 1 << 20), CLW_RANGE),
        (|c| (c.first_port, c.last_port) = (2, 1), CLW_RANGE),
        (|c| c.delayed_ack_ms = 501, CLW_RANGE),
    ];
    for (at, (change, wanted)) in wrong.iter().enumerate() {
        let mut config = config();
        change(&mut config);
        let mut stack = null_mut();
        // SAFETY: both lead to what they say.
        assert_eq!(unsafe { clw_stack_new(&config, &mut stack) }, *wanted, "change {at}");
        assert!(stack.is_null());
    }
    let stack = with_interface();
    // SAFETY: all of them lead to what they say.
    unsafe {
        let mut options: clw_options = zeroed();
        assert_eq!(clw_options_init(&mut options), CLW_OK);
        let mut h = 0;
        for wrong in [
            clw_options { congestion: 9, ..options },
            clw_options { ttl: 0, ..options },
            clw_options { keepalive_idle_ms: 1, keepalive_count: 0, ..options },
        ] {
            assert_ne!(clw_listen(stack, &local(), 1, 0, &wrong, &mut h), CLW_OK, "{wrong:?}");
        }
        let mut iface = 0;
        let unknown = clw_interface { link: 7, mtu: 1500, ..zeroed() };
        assert_eq!(clw_add_interface(stack, &unknown, &mut iface), CLW_INVALID);
        let offload =
            clw_interface { link: CLW_LINK_RAW, mtu: 1500, offloads: 1 << 20, ..zeroed() };
        assert_eq!(clw_add_interface(stack, &offload, &mut iface), CLW_INVALID);
        assert_eq!(clw_set_up(stack, 9, 1), CLW_NO_INTERFACE);
        assert_eq!(clw_add_address(stack, 0, 0, clw_ipv4(10, 1, 0, 1), 33), CLW_INVALID);
        assert_eq!(clw_add_address(stack, 0, 8, clw_ipv4(10, 1, 0, 1), 24), CLW_NO_INTERFACE);
        assert_eq!(clw_add_route(stack, clw_ipv4(0, 0, 0, 0), 0, null(), 70_000), CLW_NO_INTERFACE);
    }
    free(stack);
}

/// A packet that counts how often it was released, and tries the stack from there.
struct Probe {
    stack: *mut clw_stack,
    released: u32,
    inside: Vec<clw_status>,
    bytes: Vec<u8>,
}

/// # Safety
/// `owner` leads to a probe that nobody else uses now.
unsafe extern "C" fn release(owner: *mut c_void) {
    // SAFETY: the tests below lend a probe that outlives its packet.
    unsafe {
        let probe = &mut *owner.cast::<Probe>();
        probe.released += 1;
        probe.inside.push(clw_expire(probe.stack, 0));
        probe.inside.push(clw_stack_free(probe.stack));
    }
}

fn probe(stack: *mut clw_stack, bytes: &[u8]) -> Probe {
    Probe { stack, released: 0, inside: Vec::new(), bytes: bytes.to_vec() }
}

fn packet(probe: &mut Probe) -> clw_packet {
    let (data, len) = (probe.bytes.as_mut_ptr(), probe.bytes.len() as u32);
    let owner = core::ptr::from_mut(probe).cast();
    clw_packet {
        data,
        len,
        footprint: 0,
        release: Some(release),
        owner,
        iface: 0,
        segment_size: 0,
        checksum: CLW_CHECKSUM_UNKNOWN,
        rss_hash: 0,
    }
}

#[test]
fn every_packet_is_released_once_and_a_call_out_of_the_release_is_busy() {
    let stack = with_interface();
    // Garbage of any length, nothing at all, and more packets than a burst.
    let mut probes: Vec<Probe> = (0..200).map(|n| probe(stack, &vec![n as u8; n])).collect();
    let packets: Vec<clw_packet> = probes.iter_mut().map(packet).collect();
    let mut counters = clw_counters::default();
    // SAFETY: packets and probes stay until they were released.
    unsafe {
        assert_eq!(clw_ingest(stack, 5, packets.as_ptr(), packets.len()), CLW_OK);
        assert_eq!(clw_counters_get(stack, &mut counters), CLW_OK);
    }
    assert_eq!((counters.packets_in, counters.dropped), (200, 200));
    for probe in &probes {
        assert_eq!((probe.released, &probe.inside[..]), (1, &[CLW_BUSY, CLW_BUSY][..]));
    }
    free(stack);
    assert!(probes.iter().all(|probe| probe.released == 1));
}

#[test]
fn packets_are_taken_all_or_none() {
    let stack = with_interface();
    let (mut good, mut bad) = (probe(stack, &[1; 40]), probe(stack, &[2; 40]));
    let good_packet = packet(&mut good);
    for (spoil, wanted) in [
        (clw_packet { checksum: 3, ..packet(&mut bad) }, CLW_INVALID),
        (clw_packet { data: null_mut(), ..packet(&mut bad) }, CLW_NULL),
    ] {
        let packets = [good_packet, spoil];
        // SAFETY: what is not taken is not touched.
        assert_eq!(unsafe { clw_ingest(stack, 0, packets.as_ptr(), 2) }, wanted);
    }
    assert_eq!((good.released, bad.released), (0, 0));
    // Nothing is at null, and that is a packet of no bytes, dropped and given back like any.
    let empty = clw_packet { data: null_mut(), len: 0, ..good_packet };
    // SAFETY: as above.
    assert_eq!(unsafe { clw_ingest(stack, 0, &empty, 1) }, CLW_OK);
    assert_eq!(good.released, 1);
    free(stack);
}

#[test]
fn packets_without_release_are_copied_while_there_are_buffers_and_counted_when_not() {
    let stack = with_interface();
    let mut bytes = vec![0u8; 3_000];
    let plain = clw_packet { release: None, ..packet(&mut probe(stack, &[])) };
    let (short, long) = (
        clw_packet { data: bytes.as_mut_ptr(), len: 60, ..plain },
        clw_packet { data: bytes.as_mut_ptr(), len: 3_000, ..plain },
    );
    let mut counters = clw_counters::default();
    // SAFETY: the bytes are there during the calls.
    unsafe {
        assert_eq!(clw_ingest(stack, 0, [short, long, short].as_ptr(), 3), CLW_OK);
        assert_eq!(clw_counters_get(stack, &mut counters), CLW_OK);
    }
    assert_eq!((counters.packets_in, counters.dropped, counters.not_copied), (2, 2, 1));
    free(stack);
}

#[test]
fn a_clock_that_runs_backwards_or_to_the_end_of_time_does_no_harm() {
    let stack = with_interface();
    let peer = clw_endpoint { addr: clw_ipv4(10, 0, 0, 9), port: 80 };
    let (mut conn, mut due) = (0, 0);
    // SAFETY: all of them lead to what they say.
    unsafe {
        assert_eq!(clw_connect(stack, 1 << 40, null(), &peer, 0, null(), &mut conn), CLW_OK);
        for now in [1 << 40, 0, u64::MAX, 5, u64::MAX - 1] {
            assert_eq!(clw_expire(stack, now), CLW_OK);
            assert_eq!(clw_next_deadline(stack, &mut due), CLW_OK);
        }
    }
    free(stack);
}

#[test]
fn addresses_go_to_text_and_back_and_a_text_without_end_is_refused() {
    for text in [c"10.0.0.2", c"::", c"2001:db8::1", c"ff02::1"] {
        let mut addr = clw_ipv4(0, 0, 0, 0);
        let mut room = [1i8; CLW_ADDR_TEXT];
        // SAFETY: all of them lead to what they say.
        unsafe {
            assert_eq!(clw_addr_parse(text.as_ptr(), &mut addr), CLW_OK);
            assert_eq!(clw_addr_format(&addr, room.as_mut_ptr(), room.len()), CLW_OK);
            assert_eq!(CStr::from_ptr(room.as_ptr()), text);
            assert_eq!(clw_addr_format(&addr, room.as_mut_ptr(), 2), CLW_TOO_LONG);
        }
    }
    let endless = [b'1'; 200];
    let mut endpoint = local();
    // SAFETY: as above.
    unsafe {
        assert_eq!(clw_endpoint_parse(endless.as_ptr().cast(), &mut endpoint), CLW_TOO_LONG);
        assert_eq!(clw_endpoint_parse(c"10.0.0.1".as_ptr(), &mut endpoint), CLW_INVALID);
        assert_eq!(clw_endpoint_parse(c"\xff".as_ptr(), &mut endpoint), CLW_INVALID);
        assert_eq!(clw_endpoint_parse(c"[2001:db8::1]:80".as_ptr(), &mut endpoint), CLW_OK);
    }
    assert_eq!(endpoint.port, 80);
}

#[test]
fn every_status_has_its_own_sentence_and_any_number_has_one() {
    let mut seen = HashSet::new();
    for &status in clw_status::ALL {
        assert!(seen.insert(clw_status::text(status as u32)), "{status:?}");
        assert_eq!(clw_status::text(status as u32), {
            // SAFETY: it is a constant text.
            unsafe { CStr::from_ptr(clw_status_text(status as u32)) }
        });
    }
    for number in [31, 1_000, u32::MAX] {
        assert_eq!(clw_status::text(number), c"no status of this library");
    }
}

#[test]
fn the_reasons_to_drop_a_packet_end() {
    let stack = new();
    let (mut name, mut len, mut count, mut at) = (null(), 0, 0, 0);
    // SAFETY: all of them lead to what they say.
    unsafe {
        while clw_drop_reason(stack, at, &mut name, &mut len, &mut count) == CLW_OK {
            assert!(len > 0 && !name.is_null() && count == 0);
            at += 1;
        }
        assert_eq!(clw_drop_reason(stack, u32::MAX, &mut name, &mut len, &mut count), CLW_END);
    }
    assert!(at > 20, "{at} reasons");
    free(stack);
}

/// A frame that a stack sent, lent to another one.
struct Frame {
    bytes: Vec<u8>,
    released: *mut u64,
}

/// # Safety
/// `owner` is a frame out of [`lend`].
unsafe extern "C" fn give_back(owner: *mut c_void) {
    // SAFETY: the count outlives every frame.
    unsafe {
        let frame = Box::from_raw(owner.cast::<Frame>());
        *frame.released += 1;
    }
}

fn lend(bytes: Vec<u8>, released: *mut u64) -> clw_packet {
    let frame = Box::leak(Box::new(Frame { bytes, released }));
    let (data, len) = (frame.bytes.as_mut_ptr(), frame.bytes.len() as u32);
    let owner = core::ptr::from_mut(frame).cast();
    clw_packet { data, len, release: Some(give_back), owner, ..packet(&mut probe(null_mut(), &[])) }
}

/// A wire that refuses now and then.
struct Wire {
    rng: Rng,
    room: Vec<u8>,
    frames: Vec<Vec<u8>>,
}

/// # Safety
/// `ctx` leads to a [`Wire`].
unsafe extern "C" fn reserve(ctx: *mut c_void, _iface: u16, len: u32) -> *mut u8 {
    // SAFETY: as promised.
    let wire = unsafe { &mut *ctx.cast::<Wire>() };
    if wire.rng.below(8) == 0 {
        return null_mut();
    }
    wire.room = vec![0xa5; len as usize];
    wire.room.as_mut_ptr()
}

/// # Safety
/// `ctx` leads to a [`Wire`], `meta` to what it says.
unsafe extern "C" fn commit(ctx: *mut c_void, _iface: u16, len: u32, _meta: *const clw_tx_meta) {
    // SAFETY: as promised.
    let wire = unsafe { &mut *ctx.cast::<Wire>() };
    wire.frames.push(wire.room[..len as usize].to_vec());
}

/// What one random call came to; any status will do, as long as there is one.
fn any_call(stack: *mut clw_stack, rng: &mut Rng, now: u64, handles: &mut Vec<u64>) {
    let one = |rng: &mut Rng| match rng.below(4) {
        0 => rng.below(6) << 32 | rng.below(20),
        _ if handles.is_empty() => 0,
        _ => handles[rng.below(handles.len() as u64) as usize],
    };
    let handle = one(rng);
    let (mut new, mut n, mut data, mut room) = (0, 0, null(), [0u8; 3_000]);
    let len = rng.below(3_000) as usize;
    let place = |rng: &mut Rng, last| clw_endpoint {
        addr: clw_ipv4(10, 0, 0, last),
        port: rng.below(4) as u16 * 7,
    };
    // SAFETY: all of them lead to what they say.
    unsafe {
        let last = 1 + rng.below(3) as u8;
        let (near, far) = (place(rng, 2), place(rng, last));
        match rng.below(22) {
            0 => _ = clw_listen(stack, &near, rng.below(3) as u32, 1, null(), &mut new),
            1 | 2 => _ = clw_connect(stack, now, null(), &far, 2, null(), &mut new),
            3 | 4 => _ = clw_accept(stack, handle, 3, &mut new),
            5 => _ = clw_udp_bind(stack, &near, 4, &mut new),
            6 => _ = clw_udp_send(stack, handle, &far, room.as_ptr(), len),
            7 => _ = clw_udp_recv(stack, handle, room.as_mut_ptr(), len, &mut n, null_mut()),
            8 | 9 => _ = clw_send(stack, handle, room.as_ptr(), len, &mut n),
            10 => _ = clw_recv(stack, handle, room.as_mut_ptr(), len, &mut n),
            11 => {
                if clw_peek(stack, handle, &mut data, &mut n) == CLW_OK {
                    assert!(core::slice::from_raw_parts(data, n).len() == n && n > 0);
                    assert_eq!(clw_consumed(stack, handle, n), CLW_OK);
                }
            }
            12 => _ = clw_shutdown(stack, handle),
            13 => _ = clw_close(stack, handle),
            14 => _ = clw_abort(stack, handle),
            15 => _ = clw_unlisten(stack, handle),
            16 => _ = clw_udp_close(stack, handle),
            17 => _ = clw_conn_info_get(stack, handle, &mut zeroed()),
            18 => _ = clw_set_up(stack, 0, u8::from(rng.below(20) > 0)),
            19 => _ = clw_failure(stack, handle),
            20 => _ = clw_set_token(stack, handle, 9),
            _ => _ = clw_next_deadline(stack, &mut new),
        }
    }
    // A time of the last kind names nothing, which is as good as any other number here.
    if new != 0 {
        handles.push(new);
    }
}

#[test]
fn any_calls_in_any_order_end_with_a_status_and_every_packet_comes_back() {
    for seed in 0..20 {
        let mut rng = Rng::seed(seed);
        let stacks = [with_interface(), with_interface()];
        let (mut now, mut lent, mut released) = (0, 0u64, 0u64);
        let mut wires =
            [0, 1].map(|n| Wire { rng: Rng::seed(100 + n), room: Vec::new(), frames: Vec::new() });
        let mut handles = [Vec::new(), Vec::new()];
        // SAFETY: all of them lead to what they say.
        unsafe {
            assert_eq!(clw_add_address(stacks[0], 0, 0, clw_ipv4(10, 0, 0, 1), 24), CLW_OK);
            assert_eq!(clw_remove_address(stacks[0], 0, clw_ipv4(10, 0, 0, 2)), CLW_OK);
        }
        for _ in 0..3_000 {
            // Most of the time a little goes by, sometimes minutes, and now and then it runs
            // backwards.
            now = match rng.below(100) {
                0 => now / 2,
                1..=3 => now + rng.below(60_000) * 1_000_000,
                _ => now + rng.below(1_000_000),
            };
            let side = rng.below(2) as usize;
            any_call(stacks[side], &mut rng, now, &mut handles[side]);
            if rng.below(3) > 0 {
                continue;
            }
            let mut event = clw_event { kind: 0, what: 0, handle: 0, token: 0 };
            let sink = clw_sink {
                ctx: core::ptr::from_mut(&mut wires[side]).cast(),
                reserve: Some(reserve),
                commit: Some(commit),
            };
            // SAFETY: as above; the packets are good until they are given back.
            unsafe {
                let packets: Vec<clw_packet> = wires[1 - side]
                    .frames
                    .drain(..)
                    .map(|mut frame| {
                        if rng.below(10) == 0 {
                            let at = rng.below(frame.len() as u64) as usize;
                            frame[at] ^= 1 << rng.below(8);
                        }
                        lend(frame, &mut released)
                    })
                    .collect();
                lent += packets.len() as u64;
                assert_eq!(clw_ingest(stacks[side], now, packets.as_ptr(), packets.len()), CLW_OK);
                assert_eq!(clw_expire(stacks[side], now), CLW_OK);
                while clw_next_event(stacks[side], &mut event) == CLW_OK {
                    assert!((1..=3).contains(&event.kind) && event.handle != 0, "{event:?}");
                }
                let emitted = clw_emit(stacks[side], now, &sink);
                assert!(emitted == CLW_OK || emitted == CLW_AGAIN, "{emitted:?}");
            }
        }
        let mut counters = clw_counters::default();
        for stack in stacks {
            // SAFETY: as above.
            assert_eq!(unsafe { clw_counters_get(stack, &mut counters) }, CLW_OK);
            assert!(counters.delivered > 0, "seed {seed}: nothing happened: {counters:?}");
            free(stack);
        }
        assert!(lent > 100, "seed {seed}: {lent} packets");
        assert_eq!(released, lent, "seed {seed}");
    }
}
