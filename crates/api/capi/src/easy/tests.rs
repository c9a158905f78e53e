//! A host that talks to itself over the loopback, and callbacks that do what they must not.

use std::ffi::{CStr, c_void};
use std::ptr::{null, null_mut};

use super::calls::*;
use super::conns::*;
use super::datagrams::*;
use super::*;
use crate::tcp::{clw_conn_info, clw_state};
use crate::types::{clw_endpoint, clw_ipv4};
use clw_status::*;

/// What the callbacks have seen, and how they behave.
#[derive(Default)]
struct Seen {
    accepted: Vec<u64>,
    connected: u32,
    closed: Vec<(u64, clw_status)>,
    came: Vec<u8>,
    datagrams: Vec<Vec<u8>>,
    /// What forbidden calls out of callbacks answered.
    forbidden: Vec<clw_status>,
    close_at_once: bool,
    stop_when_closed: bool,
}

/// # Safety
/// `ctx` leads to a [`Seen`] that nobody else uses now.
unsafe fn seen<'a>(ctx: *mut c_void) -> &'a mut Seen {
    &mut *ctx.cast::<Seen>()
}

/// # Safety
/// As the header says of callbacks.
unsafe extern "C" fn accepted(host: *mut clw_host, conn: u64, ctx: *mut c_void) {
    let seen = seen(ctx);
    seen.accepted.push(conn);
    seen.forbidden.extend([clw_host_step(host, 0), clw_host_run(host), clw_host_free(host)]);
    seen.forbidden.push(clw_host_add_port(host, c"loop".as_ptr(), &mut 0));
    if seen.close_at_once {
        assert_eq!(clw_host_close(host, conn), CLW_OK);
        assert_eq!(clw_host_close(host, conn), CLW_STALE);
    }
}

/// # Safety
/// As the header says of callbacks.
unsafe extern "C" fn connected(host: *mut clw_host, conn: u64, ctx: *mut c_void) {
    seen(ctx).connected += 1;
    let mut sent = 0;
    assert_eq!(clw_host_send(host, conn, b"hello".as_ptr(), 5, &mut sent), CLW_OK);
    assert_eq!((sent, clw_host_shutdown(host, conn)), (5, CLW_OK));
}

/// Echoes, and closes behind the end.
///
/// # Safety
/// As the header says of callbacks.
unsafe extern "C" fn echo(host: *mut clw_host, conn: u64, ctx: *mut c_void) {
    let (mut data, mut len, mut sent) = (null(), 0, 0);
    loop {
        match clw_host_peek(host, conn, &mut data, &mut len) {
            CLW_OK => {
                assert_eq!(clw_host_send(host, conn, data, len, &mut sent), CLW_OK);
                assert_eq!(clw_host_consumed(host, conn, sent), CLW_OK);
            }
            CLW_END => {
                assert_eq!(clw_host_shutdown(host, conn), CLW_OK);
                // The end is told again with the close; it is no error to have shut down before.
                return seen(ctx).accepted.retain(|&known| known != conn);
            }
            other => return assert_eq!(other, CLW_AGAIN),
        }
    }
}

/// # Safety
/// As the header says of callbacks.
unsafe extern "C" fn collect(host: *mut clw_host, conn: u64, ctx: *mut c_void) {
    let (mut room, mut len) = ([0; 3], 0);
    while clw_host_recv(host, conn, room.as_mut_ptr(), room.len(), &mut len) == CLW_OK {
        seen(ctx).came.extend_from_slice(&room[..len]);
    }
}

/// # Safety
/// As the header says of callbacks.
unsafe extern "C" fn closed(host: *mut clw_host, conn: u64, why: clw_status, ctx: *mut c_void) {
    let seen = seen(ctx);
    seen.closed.push((conn, why));
    if seen.stop_when_closed {
        assert_eq!(clw_host_stop(host), CLW_OK);
    }
}

/// # Safety
/// As the header says of callbacks.
unsafe extern "C" fn datagrams(host: *mut clw_host, socket: u64, ctx: *mut c_void) {
    let (mut room, mut len) = ([0; 64], 0);
    let mut from = clw_endpoint { addr: clw_ipv4(0, 0, 0, 0), port: 0 };
    while clw_host_udp_recv(host, socket, room.as_mut_ptr(), room.len(), &mut len, &mut from)
        == CLW_OK
    {
        seen(ctx).datagrams.push(room[..len].to_vec());
    }
}

fn here(port: u16) -> clw_endpoint {
    clw_endpoint { addr: clw_ipv4(10, 0, 0, 1), port }
}

fn handlers(seen: &mut Seen) -> clw_handlers {
    let ctx = std::ptr::from_mut(seen).cast();
    clw_handlers {
        accepted: None,
        connected: None,
        readable: None,
        writable: None,
        closed: Some(closed),
        ctx,
    }
}

/// A host with a loopback that has the address.
///
/// # Safety
/// It is freed by whoever asked for it.
unsafe fn host() -> *mut clw_host {
    let mut host = null_mut();
    let mut iface = 9;
    let config =
        clw_config { connections: 64, listeners: 4, udp_sockets: 4, ..clw_config::default() };
    assert_eq!(clw_host_new(&config, &mut host), CLW_OK);
    assert_eq!(clw_host_add_port(host, c"loop".as_ptr(), &mut iface), CLW_OK);
    assert_eq!(iface, 0);
    assert_eq!(clw_host_add_address(host, 0, c"10.0.0.1/24".as_ptr()), CLW_OK);
    host
}

#[test]
fn a_host_talks_to_itself_and_ends_when_a_callback_stops_it() {
    let (mut server, mut client) =
        (Seen::default(), Seen { stop_when_closed: true, ..Seen::default() });
    // SAFETY: all of them lead to what they say, until the host is freed.
    unsafe {
        let host = host();
        let (mut listener, mut conn) = (0, 0);
        let serving = clw_handlers {
            accepted: Some(accepted),
            readable: Some(echo),
            ..handlers(&mut server)
        };
        assert_eq!(clw_host_listen(host, &here(7), 8, null(), &serving, &mut listener), CLW_OK);
        assert_eq!(clw_host_listen(host, &here(7), 8, null(), &serving, &mut listener), CLW_IN_USE);
        let asking = clw_handlers {
            connected: Some(connected),
            readable: Some(collect),
            ..handlers(&mut client)
        };
        assert_eq!(clw_host_connect(host, null(), &here(7), null(), &asking, &mut conn), CLW_OK);
        assert_eq!(clw_host_run(host), CLW_OK);
        assert_eq!(clw_host_run(host), CLW_OK, "it is over");
        assert_eq!(clw_host_step(host, 0), CLW_STOPPED);
        let mut counters = clw_counters::default();
        assert_eq!(clw_host_counters_get(host, &mut counters), CLW_OK);
        assert!(counters.packets_in > 4 && counters.dropped == 0, "{counters:?}");
        assert_eq!(clw_host_free(host), CLW_OK);
        assert_eq!((client.connected, &client.came[..]), (1, &b"hello"[..]));
        assert_eq!(client.closed.first(), Some(&(conn, CLW_OK)));
    }
    assert_eq!(server.forbidden, [CLW_BUSY; 4]);
    assert_eq!(server.closed.len(), 1, "{:?}", server.closed);
}

#[test]
fn a_connection_that_is_closed_as_it_is_accepted_hears_nothing_more() {
    let (mut server, mut client) =
        (Seen { close_at_once: true, ..Seen::default() }, Seen::default());
    // SAFETY: as above.
    unsafe {
        let host = host();
        let (mut listener, mut conn) = (0, 0);
        let serving = clw_handlers {
            accepted: Some(accepted),
            readable: Some(echo),
            ..handlers(&mut server)
        };
        assert_eq!(clw_host_listen(host, &here(7), 8, null(), &serving, &mut listener), CLW_OK);
        let asking = clw_handlers { connected: Some(connected), ..handlers(&mut client) };
        assert_eq!(clw_host_connect(host, null(), &here(7), null(), &asking, &mut conn), CLW_OK);
        for _ in 0..1_000 {
            assert_eq!(clw_host_step(host, 1), CLW_OK);
            if !client.closed.is_empty() {
                break;
            }
        }
        assert_eq!(clw_host_free(host), CLW_OK);
    }
    assert_eq!(server.accepted.len(), 1);
    assert!(server.closed.is_empty(), "the program closed it itself");
    // The peer sent into what nobody reads any more.
    assert_eq!(client.closed.iter().map(|(_, why)| *why).collect::<Vec<_>>(), [CLW_RESET]);
}

#[test]
fn connections_that_are_open_when_a_host_is_freed_hear_that_it_was_stopped() {
    let mut client = Seen::default();
    // SAFETY: as above.
    unsafe {
        let host = host();
        let nobody = clw_endpoint { addr: clw_ipv4(10, 0, 0, 9), port: 80 };
        let (mut conn, mut info) = (0, std::mem::zeroed::<clw_conn_info>());
        assert_eq!(
            clw_host_connect(host, null(), &nobody, null(), &handlers(&mut client), &mut conn),
            CLW_OK
        );
        assert_eq!(clw_host_conn_info_get(host, conn, &mut info), CLW_OK);
        assert_eq!(info.state, clw_state::CLW_STATE_SYN_SENT);
        assert_eq!(clw_host_step(host, 0), CLW_OK);
        assert_eq!(clw_host_free(host), CLW_OK);
        assert_eq!(client.closed, [(conn, CLW_STOPPED)]);
    }
}

#[test]
fn a_refused_connection_is_closed_with_the_reason_and_its_handle_is_stale() {
    let mut client = Seen { stop_when_closed: true, ..Seen::default() };
    // SAFETY: as above.
    unsafe {
        let host = host();
        let mut conn = 0;
        assert_eq!(
            clw_host_connect(host, null(), &here(9), null(), &handlers(&mut client), &mut conn),
            CLW_OK
        );
        assert_eq!(clw_host_run(host), CLW_OK);
        assert_eq!(client.closed, [(conn, CLW_REFUSED)]);
        assert_eq!(clw_host_abort(host, conn), CLW_STALE);
        assert_eq!(clw_host_set_ctx(host, conn, null_mut()), CLW_STALE);
        assert_eq!(clw_host_free(host), CLW_OK);
    }
}

#[test]
fn datagrams_come_to_their_callback() {
    let mut seen = Seen::default();
    // SAFETY: as above.
    unsafe {
        let host = host();
        let (mut one, mut two) = (0, 0);
        let listening = clw_handlers { readable: Some(datagrams), ..handlers(&mut seen) };
        assert_eq!(clw_host_udp_bind(host, &here(53), &listening, &mut one), CLW_OK);
        assert_eq!(
            clw_host_udp_bind(host, &here(0), &handlers(&mut Seen::default()), &mut two),
            CLW_OK
        );
        assert_eq!(clw_host_udp_send(host, two, &here(53), b"who".as_ptr(), 3), CLW_OK);
        assert_eq!(clw_host_udp_send(host, two, null(), b"who".as_ptr(), 3), CLW_NULL);
        for _ in 0..1_000 {
            assert_eq!(clw_host_step(host, 1), CLW_OK);
            if !seen.datagrams.is_empty() {
                break;
            }
        }
        assert_eq!(clw_host_udp_close(host, one), CLW_OK);
        assert_eq!(clw_host_udp_close(host, one), CLW_STALE);
        assert_eq!(clw_host_free(host), CLW_OK);
    }
    assert_eq!(seen.datagrams, [b"who".to_vec()]);
}

#[test]
fn what_is_wrong_with_a_port_is_told_as_a_sentence() {
    // SAFETY: as above.
    unsafe {
        let host = host();
        assert_eq!(clw_host_add_port(host, c"cable:7".as_ptr(), &mut 0), CLW_DEVICE);
        let sentence = CStr::from_ptr(clw_host_error(host)).to_str().unwrap().to_owned();
        assert!(sentence.contains("cable"), "{sentence}");
        assert_eq!(clw_host_add_port(host, null(), &mut 0), CLW_NULL);
        assert_eq!(clw_host_add_port(host, c"\xff".as_ptr(), &mut 0), CLW_INVALID);
        assert_eq!(clw_host_add_address(host, 5, c"10.0.1.1/24".as_ptr()), CLW_NO_INTERFACE);
        assert_eq!(clw_host_add_address(host, 0, c"10.0.1.1".as_ptr()), CLW_INVALID);
        assert_eq!(clw_host_add_route(host, c"0.0.0.0/0".as_ptr(), c"10.0.0.254".as_ptr()), CLW_OK);
        assert_eq!(
            clw_host_add_route(host, c"0.0.0.0/0".as_ptr(), c"10.0.0.254".as_ptr()),
            CLW_EXISTS
        );
        assert_eq!(clw_host_free(host), CLW_OK);
        assert_eq!(clw_host_free(null_mut()), CLW_OK);
        assert_eq!(clw_host_stop(null_mut()), CLW_NULL);
        assert_eq!(clw_host_step(null_mut(), 0), CLW_NULL);
        assert_eq!(clw_host_new(null(), null_mut()), CLW_NULL);
        assert!(!CStr::from_ptr(clw_host_error(null())).is_empty());
    }
}

#[test]
fn another_thread_ends_a_run() {
    // SAFETY: as above; the host is freed when the thread is over.
    unsafe {
        let host = host();
        let address = host as usize;
        // Any thread may stop a host.
        let stopping = std::thread::spawn(move || clw_host_stop(address as *const clw_host));
        assert_eq!(clw_host_run(host), CLW_OK);
        assert_eq!(stopping.join().unwrap(), CLW_OK);
        assert_eq!(clw_host_free(host), CLW_OK);
    }
}

/// Takes three bytes and waits for the next call.
///
/// # Safety
/// As the header says of callbacks.
unsafe extern "C" fn sip(host: *mut clw_host, conn: u64, ctx: *mut c_void) {
    let (mut room, mut len) = ([0; 3], 0);
    if clw_host_recv(host, conn, room.as_mut_ptr(), room.len(), &mut len) == CLW_OK {
        seen(ctx).came.extend_from_slice(&room[..len]);
    }
}

/// Does not read yet.
///
/// # Safety
/// As the header says of callbacks.
unsafe extern "C" fn later(_host: *mut clw_host, _conn: u64, ctx: *mut c_void) {
    seen(ctx).connected += 100;
}

/// A client that has shut down gets its answer together with the peer's end, with this `readable`.
fn answered_with(
    readable: unsafe extern "C" fn(*mut clw_host, u64, *mut c_void),
    then: impl Fn(*mut clw_host, u64, &mut Seen),
) -> Seen {
    let (mut server, mut client) = (Seen::default(), Seen::default());
    // SAFETY: all of them lead to what they say, until the host is freed.
    unsafe {
        let host = host();
        let (mut listener, mut conn) = (0, 0);
        let serving = clw_handlers {
            accepted: Some(accepted),
            readable: Some(echo),
            ..handlers(&mut server)
        };
        assert_eq!(clw_host_listen(host, &here(7), 8, null(), &serving, &mut listener), CLW_OK);
        let asking = clw_handlers {
            connected: Some(connected),
            readable: Some(readable),
            ..handlers(&mut client)
        };
        assert_eq!(clw_host_connect(host, null(), &here(7), null(), &asking, &mut conn), CLW_OK);
        for _ in 0..200 {
            assert_eq!(clw_host_step(host, 1), CLW_OK);
        }
        then(host, conn, &mut client);
        for _ in 0..20 {
            assert_eq!(clw_host_step(host, 1), CLW_OK);
        }
        assert_eq!(clw_host_free(host), CLW_OK);
    }
    client
}

#[test]
fn bytes_that_came_before_the_end_are_read_before_closed_is_called() {
    let client = answered_with(sip, |_, _, _| {});
    assert_eq!(client.came, b"hello");
    assert_eq!(client.closed.iter().map(|(_, why)| *why).collect::<Vec<_>>(), [CLW_OK]);
    let client = answered_with(later, |host, conn, client| {
        assert!(
            client.connected > 100 && client.closed.is_empty(),
            "bytes wait, and it was closed: {:?}",
            client.closed
        );
        let (mut room, mut len) = ([0; 64], 0);
        // SAFETY: the host is there.
        unsafe {
            assert_eq!(clw_host_recv(host, conn, room.as_mut_ptr(), room.len(), &mut len), CLW_OK);
            assert_eq!(&room[..len], b"hello");
            assert_eq!(clw_host_recv(host, conn, room.as_mut_ptr(), room.len(), &mut len), CLW_END);
        }
    });
    assert_eq!(client.closed.iter().map(|(_, why)| *why).collect::<Vec<_>>(), [CLW_OK]);
}

/// Begins another connection when one has ended.
///
/// # Safety
/// As the header says of callbacks.
unsafe extern "C" fn again(host: *mut clw_host, conn: u64, why: clw_status, ctx: *mut c_void) {
    let seen = seen(ctx);
    seen.closed.push((conn, why));
    let (functions, mut next) = (handlers(seen), 0);
    seen.forbidden.push(clw_host_connect(host, null(), &here(9), null(), &functions, &mut next));
}

#[test]
fn a_host_that_was_stopped_begins_nothing_any_more_and_says_so() {
    let mut client = Seen::default();
    // SAFETY: all of them lead to what they say, until the host is freed.
    unsafe {
        let host = host();
        let (mut conn, mut one, mut two) = (0, 0, 0);
        let nobody = clw_endpoint { addr: clw_ipv4(10, 0, 0, 9), port: 80 };
        let asking = clw_handlers { closed: Some(again), ..handlers(&mut client) };
        assert_eq!(clw_host_connect(host, null(), &nobody, null(), &asking, &mut conn), CLW_OK);
        assert_eq!(
            clw_host_udp_bind(host, &here(53), &handlers(&mut Seen::default()), &mut one),
            CLW_OK
        );
        assert_eq!(clw_host_stop(host), CLW_OK);
        assert_eq!(clw_host_run(host), CLW_OK);
        assert_eq!(
            (&client.closed[..], &client.forbidden[..]),
            (&[(conn, CLW_STOPPED)][..], &[CLW_STOPPED][..])
        );
        let functions = handlers(&mut client);
        assert_eq!(
            clw_host_connect(host, null(), &here(9), null(), &functions, &mut conn),
            CLW_STOPPED
        );
        assert_eq!(clw_host_listen(host, &here(9), 1, null(), &functions, &mut conn), CLW_STOPPED);
        assert_eq!(clw_host_udp_bind(host, &here(0), &functions, &mut two), CLW_STOPPED);
        assert_eq!(clw_host_udp_send(host, one, &here(53), b"who".as_ptr(), 3), CLW_STOPPED);
        assert_eq!(clw_host_add_port(host, c"loop".as_ptr(), &mut 0), CLW_STOPPED);
        assert_eq!(clw_host_free(host), CLW_OK);
    }
}
