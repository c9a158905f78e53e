//! Dumps of links and addresses over NETLINK_ROUTE, by which many programs ask what `getifaddrs`
//! answers, and questions about a single link.
//!
//! The kernel answers a dump as always, and ends it. Our part is told before its part, as messages
//! of the same dump: a program that asked has something to read already, so it never waits for ours
//! alone, and reads until the kernel says that it was all.

use std::collections::VecDeque;
use std::ffi::{c_int, c_void};
use std::io::IoSliceMut;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use clearway_client::{Interface, InterfaceCounts};
use libc::{sockaddr, sockaddr_nl, socklen_t, ssize_t};

use self::single::Answers;
use super::list::broadcast;
use super::{c_name, flags, hardware, numbered, ours, shown};
use crate::control::Writer;
use crate::export::Inside;
use crate::given;
use crate::object::{self, Object, TABLE};
use crate::{errno, process, real};

pub(super) mod single;

/// From `linux/rtnetlink.h` and `linux/netlink.h`.
const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const RTM_NEWADDR: u16 = 20;
const RTM_GETADDR: u16 = 22;
const NLM_F_MULTI: u16 = 2;
const NLM_F_DUMP: u16 = 0x300;
const IFA_F_PERMANENT: u8 = 0x80;
const SCOPE_UNIVERSE: u8 = 0;
const SCOPE_LINK: u8 = 253;
const SCOPE_HOST: u8 = 254;

/// Bytes of a message's head, and of what follows it in a question.
const HEAD: usize = 16;

/// Bytes of one datagram of ours at most: programs have room for a page.
const LONGEST: usize = 3072;

/// Dumps that wait to be read at most, and answers about single links; what a program asks beyond
/// that is answered by the kernel alone.
const MOST_DUMPS: usize = 16;

/// A socket of the kernel's that asks about links, addresses and routes.
#[derive(Default)]
pub(crate) struct RouteSocket {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    asked: Vec<Question>,
    ready: VecDeque<Vec<u8>>,
    answers: Answers,
}

/// What a program wants to be told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Question {
    addresses: bool,
    family: c_int,
    /// Only this interface; 0: all.
    index: u32,
    sequence: u32,
}

impl RouteSocket {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A new socket of NETLINK_ROUTE.
pub(crate) fn remember(fd: c_int) {
    process::watch_forks();
    if process::is_own() {
        object::put(fd, Some(TABLE.make(Object::Route(RouteSocket::default()))));
    }
}

/// The program sends this by such a socket. None: the kernel gets it.
fn note(fd: c_int, message: &[u8], flags: c_int) -> Inside<ssize_t> {
    let held = TABLE.get(fd)?;
    let Object::Route(socket) = &*held else { return None };
    let mut state = socket.state();
    if let Some(asked) = single::asked(message) {
        return state.answers.ask(fd, message, &asked.link()?, flags);
    }
    let question = question(message).filter(|_| state.asked.len() < MOST_DUMPS)?;
    if !question.addresses || numbered(question.index).is_none() {
        state.asked.push(question);
        return None;
    }
    let sent = state.answers.ask_all(fd, message, flags)?;
    if sent.is_ok() {
        state.asked.push(question);
    }
    Some(sent)
}

/// A number of 16 bits in a message.
fn half(message: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*message.get(at..)?.first_chunk()?))
}

/// A number of 32 bits in a message.
fn word(message: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*message.get(at..)?.first_chunk()?))
}

/// What a message asks, if it is a dump that we have a part in.
pub(super) fn question(message: &[u8]) -> Option<Question> {
    let addresses = match half(message, 4)? {
        RTM_GETLINK => false,
        RTM_GETADDR => true,
        _ => return None,
    };
    if half(message, 6)? & NLM_F_DUMP != NLM_F_DUMP {
        return None;
    }
    // Both `ifinfomsg` and `ifaddrmsg` have the index at the same place. A question of `rtgenmsg`
    // is shorter.
    let index = word(message, HEAD + 4).unwrap_or(0);
    Some(Question {
        addresses,
        family: c_int::from(*message.get(HEAD)?),
        index,
        sequence: word(message, 8)?,
    })
}

/// The next datagram of ours that waits at such a socket: how long it is, when it was put into the
/// buffers. None: the kernel's is next.
pub(crate) fn take(fd: c_int, into: &mut [IoSliceMut<'_>], flags: c_int) -> Option<usize> {
    let held = TABLE.get(fd)?;
    let Object::Route(socket) = &*held else { return None };
    let mut state = socket.state();
    let asked = std::mem::take(&mut state.asked);
    if !asked.is_empty() {
        let list = ours();
        let port = port(fd);
        state.ready.extend(asked.iter().flat_map(|question| datagrams(&list, *question, port)));
    }
    let State { ready, answers, .. } = &mut *state;
    let single;
    let datagram = match ready.front() {
        Some(datagram) => datagram,
        None => {
            single = answers.take(fd, flags)?;
            &single
        }
    };
    let mut rest = datagram.as_slice();
    for buffer in into {
        let len = rest.len().min(buffer.len());
        given::writable(buffer.as_mut_ptr().cast(), len).ok()?;
        buffer[..len].copy_from_slice(&rest[..len]);
        rest = &rest[len..];
    }
    let len = datagram.len();
    if flags & libc::MSG_PEEK == 0 {
        state.ready.pop_front();
    }
    Some(len)
}

/// Who sent it: the kernel, as far as the program is concerned.
///
/// # Safety
/// The pointers are what the program gave for an address and its length.
pub(crate) unsafe fn sender(out: *mut sockaddr, len: *mut socklen_t) {
    if out.is_null() || len.is_null() {
        return;
    }
    // SAFETY: all-zero is an address; as much is written as there is room for.
    unsafe {
        let mut from: sockaddr_nl = std::mem::zeroed();
        from.nl_family = libc::AF_NETLINK as u16;
        let whole = size_of::<sockaddr_nl>();
        std::ptr::copy_nonoverlapping(
            (&raw const from).cast::<u8>(),
            out.cast(),
            whole.min(len.read() as usize),
        );
        len.write(whole as socklen_t);
    }
}

/// What stands beside a message for who asked for it: avahi believes nobody who does not say so
/// that he is the kernel.
pub(crate) fn told_beside(fd: c_int, control: &mut Writer<'_>) {
    let is_on = |level: c_int, name: c_int| {
        let (mut on, mut len) = (0, size_of::<c_int>() as socklen_t);
        let saved = errno::get();
        // SAFETY: the option is a number, for which there is room.
        let asked = unsafe { real::getsockopt(fd, level, name, (&raw mut on).cast(), &mut len) };
        errno::set(saved);
        asked == 0 && on != 0
    };
    if is_on(libc::SOL_SOCKET, libc::SO_PASSCRED) {
        control.credentials_of_kernel();
    }
    if is_on(libc::SOL_NETLINK, libc::NETLINK_PKTINFO) {
        control.of_no_group();
    }
}

/// The socket's own number, which answers are addressed to.
fn port(fd: c_int) -> u32 {
    // SAFETY: all-zero is an address, and the length is its own.
    unsafe {
        let mut own: sockaddr_nl = std::mem::zeroed();
        let mut len = size_of::<sockaddr_nl>() as socklen_t;
        let saved = errno::get();
        real::getsockname(fd, (&raw mut own).cast(), &mut len);
        errno::set(saved);
        own.nl_pid
    }
}

/// Our part of a dump.
pub(super) fn datagrams(list: &[Interface], question: Question, port: u32) -> Vec<Vec<u8>> {
    let mut out: Vec<Vec<u8>> = Vec::new();
    let wanted =
        list.iter().filter(|one| question.index == 0 || question.index == shown(one.number));
    let messages = wanted.flat_map(|one| match question.addresses {
        true => of_addresses(one, question, port),
        false => vec![of_link(one, question.sequence, port, NLM_F_MULTI)],
    });
    for message in messages {
        match out.last_mut() {
            Some(last) if last.len() + message.len() <= LONGEST => last.extend(message),
            _ => out.push(message),
        }
    }
    out
}

fn of_addresses(one: &Interface, question: Question, port: u32) -> Vec<Vec<u8>> {
    let family = |ip: &IpAddr| if ip.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let fits = |ip: &IpAddr| [libc::AF_UNSPEC, family(ip)].contains(&question.family);
    let told = one.addresses.iter().filter(|(ip, _)| fits(ip));
    told.map(|(ip, len)| of_address(one, (*ip, *len), family(ip), question.sequence, port))
        .collect()
}

fn of_address(
    one: &Interface,
    (ip, len): (IpAddr, u8),
    family: c_int,
    sequence: u32,
    port: u32,
) -> Vec<u8> {
    let mut message = Message::new(RTM_NEWADDR, NLM_F_MULTI, sequence, port);
    let scope = match ip {
        ip if ip.is_loopback() => SCOPE_HOST,
        IpAddr::V6(ip) if ip.is_unicast_link_local() => SCOPE_LINK,
        IpAddr::V4(ip) if ip.is_link_local() => SCOPE_LINK,
        _ => SCOPE_UNIVERSE,
    };
    message.0.extend([family as u8, len, IFA_F_PERMANENT, scope]);
    message.0.extend(shown(one.number).to_ne_bytes());
    match ip {
        IpAddr::V4(v4) => {
            message.attribute(libc::IFA_ADDRESS, &v4.octets());
            message.attribute(libc::IFA_LOCAL, &v4.octets());
            if let Some(broadcast) = broadcast(one, ip, len) {
                message.attribute(libc::IFA_BROADCAST, &broadcast.octets());
            }
            message.attribute(libc::IFA_LABEL, terminated(&c_name(&one.name)));
        }
        IpAddr::V6(v6) => message.attribute(libc::IFA_ADDRESS, &v6.octets()),
    }
    // Preferred and valid for ever; when it was made and changed nobody asks.
    let times = [u32::MAX, u32::MAX, 0, 0].map(u32::to_ne_bytes).concat();
    message.attribute(libc::IFA_CACHEINFO, &times);
    message.end()
}

fn of_link(one: &Interface, sequence: u32, port: u32, how: u16) -> Vec<u8> {
    let mut message = Message::new(RTM_NEWLINK, how, sequence, port);
    message.0.extend([libc::AF_UNSPEC as u8, 0]);
    message.0.extend(hardware(one).to_ne_bytes());
    message.0.extend(shown(one.number).to_ne_bytes());
    message.0.extend((flags(one) as u32).to_ne_bytes());
    message.0.extend(0u32.to_ne_bytes());
    message.attribute(libc::IFLA_IFNAME, terminated(&c_name(&one.name)));
    message.attribute(libc::IFLA_MTU, &one.mtu.to_ne_bytes());
    message.attribute(libc::IFLA_TXQLEN, &1000u32.to_ne_bytes());
    // IF_OPER_UP and IF_OPER_DOWN.
    message.attribute(libc::IFLA_OPERSTATE, &[if one.up { 6 } else { 2 }]);
    // What Linux says of every link, and programs take for granted.
    message.attribute(libc::IFLA_LINKMODE, &[0]);
    message.attribute(libc::IFLA_GROUP, &0u32.to_ne_bytes());
    message.attribute(libc::IFLA_PROMISCUITY, &0u32.to_ne_bytes());
    message.attribute(libc::IFLA_NUM_TX_QUEUES, &1u32.to_ne_bytes());
    message.attribute(libc::IFLA_NUM_RX_QUEUES, &1u32.to_ne_bytes());
    message.attribute(libc::IFLA_CARRIER, &[one.up.into()]);
    message.attribute(libc::IFLA_QDISC, b"noqueue\0");
    message.attribute(libc::IFLA_STATS64, &counts(one).map(u64::to_ne_bytes).concat());
    message.attribute(libc::IFLA_STATS, &short_counts(one).map(u32::to_ne_bytes).concat());
    if one.link_addr.is_some() || one.loopback {
        message.attribute(libc::IFLA_ADDRESS, &one.link_addr.unwrap_or_default());
        message.attribute(libc::IFLA_BROADCAST, &[if one.loopback { 0 } else { 0xff }; 6]);
    }
    message.end()
}

/// Counters of `struct rtnl_link_stats` (`linux/if_link.h`); that of 64 bits has one more.
pub(super) const COUNTS: usize = 24;

/// They in their order there: packets received and sent, bytes, errors, drops, and others that an
/// interface of ours does not have.
fn counts(one: &Interface) -> [u64; COUNTS + 1] {
    let InterfaceCounts { rx_packets, rx_bytes, rx_dropped, tx_packets, tx_bytes, tx_dropped } =
        one.counts;
    let mut counts = [0; COUNTS + 1];
    let known = [rx_packets, tx_packets, rx_bytes, tx_bytes, 0, 0, rx_dropped, tx_dropped];
    counts[..known.len()].copy_from_slice(&known);
    counts
}

/// The same in 32 bits, in which they begin anew, as Linux's do.
pub(super) fn short_counts(one: &Interface) -> [u32; COUNTS] {
    let counts = counts(one);
    std::array::from_fn(|at| counts[at] as u32)
}

/// A name with one NUL at its end.
fn terminated(name: &[u8]) -> &[u8] {
    let len = name.iter().position(|byte| *byte == 0).unwrap_or(name.len() - 1);
    &name[..=len]
}

/// A message as it grows.
struct Message(Vec<u8>);

impl Message {
    fn new(kind: u16, flags: u16, sequence: u32, port: u32) -> Message {
        let mut bytes = vec![0; 4];
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(flags.to_ne_bytes());
        bytes.extend(sequence.to_ne_bytes());
        bytes.extend(port.to_ne_bytes());
        Message(bytes)
    }

    fn attribute(&mut self, kind: u16, value: &[u8]) {
        self.0.extend(((4 + value.len()) as u16).to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
    }

    fn end(mut self) -> Vec<u8> {
        let len = (self.0.len() as u32).to_ne_bytes();
        self.0[..4].copy_from_slice(&len);
        self.0
    }
}

/// Looks at what a program sends, as one piece: questions are short. The kernel gets it too, unless
/// it is about a link that it does not know.
///
/// # Safety
/// The vectors are the program's, and name readable bytes.
pub(crate) unsafe fn note_vectors(
    fd: c_int,
    message: *const libc::msghdr,
    flags: c_int,
) -> Inside<ssize_t> {
    given::readable(message.cast(), size_of::<libc::msghdr>()).ok()?;
    // SAFETY: not null, so the caller's.
    let message = unsafe { &*message };
    // SAFETY: the caller's vectors.
    let parts =
        unsafe { crate::vectors::sources(message.msg_iov, message.msg_iovlen, libc::EMSGSIZE) }
            .ok()?;
    let mut whole = Vec::new();
    for part in &parts {
        given::readable(part.as_ptr().cast(), part.len()).ok()?;
        whole.extend_from_slice(&part[..part.len().min(LONGEST)]);
    }
    note(fd, &whole, flags)
}

/// As [`note_vectors`], of one buffer.
///
/// # Safety
/// `buf` is null or points to `len` readable bytes.
pub(crate) unsafe fn note_bytes(
    fd: c_int,
    buf: *const c_void,
    len: usize,
    flags: c_int,
) -> Inside<ssize_t> {
    given::readable(buf, len).ok()?;
    // SAFETY: not null when there is something, so the caller's.
    note(fd, unsafe { std::slice::from_raw_parts(buf.cast(), len) }, flags)
}
