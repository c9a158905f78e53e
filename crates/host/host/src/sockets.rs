//! The sockets of programs in the tables that Linux has below /proc/net (proc_pid_net(5)): `tcp`,
//! `tcp6`, `udp` and `udp6`, byte for byte as programs that read them know them.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};

use clearway_base::Duration;
use clearway_proto::{RunningTimer, TcpInfo, TimerKind};
use clearway_session::sessions::{SessionInfo, SessionKind};
use clearway_session::worker::Worker;
use clearway_shm::attach_socket::{MAX_LINES_LEN, SessionId, SocketTable};

/// One of them.
pub(crate) struct Socket {
    info: SessionInfo,
    tcp: Option<TcpInfo>,
    timer: Option<RunningTimer>,
}

impl Socket {
    /// Whether it is the session of this name.
    pub(crate) fn is(&self, id: SessionId) -> bool {
        self.info.id == id
    }
}

/// The longest line, of `tcp6`, with every number as long as it can be.
const LONGEST_LINE: usize = 256;

/// Lines that are told at once, so that they and the heading are one message.
const MOST_LINES: usize = MAX_LINES_LEN / LONGEST_LINE - 1;

/// Slots that are looked at at once: a worker has other things to do.
const MOST_SLOTS: u32 = 4096;

/// Linux fills lines up with blanks to this length, in the two tables of IPv4.
const TCP_WIDTH: usize = 149;
const UDP_WIDTH: usize = 127;

/// USER_HZ: what a second has of the clock that the tables tell times in.
const TICKS: u64 = 100;

/// The numbers of Linux for the states of a socket (`tcp_states.h`).
const ESTABLISHED: u8 = 1;
const CLOSE: u8 = 7;
const LISTEN: u8 = 10;

/// The next sockets of a worker for a table, of one namespace or of all, from this slot on; and the
/// slot where it goes on, if there are more.
pub(crate) fn some(
    worker: &mut Worker,
    (table, namespace): (SocketTable, Option<&str>),
    from: u32,
) -> (Vec<Socket>, Option<u32>) {
    let (stack, sessions) = worker.engine().stack_and_app();
    let stack: &_ = stack;
    let last = sessions.slots();
    let end = from.saturating_add(MOST_SLOTS).min(last);
    let mut found = Vec::new();
    for slot in from..end {
        if found.len() == MOST_LINES {
            return (found, Some(slot));
        }
        let Some(info) = sessions.at(stack, slot, namespace) else { continue };
        let tcp = info.conn.and_then(|conn| stack.info(conn));
        let timer = info.conn.and_then(|conn| stack.running_timer(conn));
        let socket = Socket { info, tcp, timer };
        if state(&socket, table).is_some() {
            found.push(socket);
        }
    }
    (found, (end < last).then_some(end))
}

/// The state by Linux's number. None: it does not stand in this table.
fn state(socket: &Socket, table: SocketTable) -> Option<u8> {
    let info = &socket.info;
    if info.v6 != matches!(table, SocketTable::Tcp6 | SocketTable::Udp6) {
        return None;
    }
    let is_udp = matches!(table, SocketTable::Udp | SocketTable::Udp6);
    match info.kind {
        SessionKind::Datagram if is_udp && info.udp.is_some() => {
            Some(if info.remote.is_some() { ESTABLISHED } else { CLOSE })
        }
        SessionKind::Listener if !is_udp => Some(LISTEN),
        SessionKind::Stream if !is_udp => {
            // Linux has closed ones in no table.
            socket.tcp.as_ref().map(|tcp| tcp.state.linux_number()).filter(|state| *state != CLOSE)
        }
        _ => None,
    }
}

/// The first line of a table.
pub(crate) fn heading(table: SocketTable) -> String {
    let columns = "st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode";
    let addresses = format!("{:<38}{:<38}", "local_address", "remote_address");
    match table {
        SocketTable::Tcp => {
            filled(format!("  sl  local_address rem_address   {columns}"), TCP_WIDTH)
        }
        SocketTable::Tcp6 => format!("  sl  {addresses}{columns}\n"),
        SocketTable::Udp => {
            let line = format!("   sl  local_address rem_address   {columns} ref pointer drops");
            filled(line, UDP_WIDTH)
        }
        SocketTable::Udp6 => format!("  sl  {addresses}{columns} ref pointer drops\n"),
    }
}

/// A line with blanks at its end.
fn filled(line: String, width: usize) -> String {
    format!("{line:<width$}\n")
}

/// The lines of some sockets, the first of which has this number.
pub(crate) fn lines(
    table: SocketTable,
    first: u32,
    sockets: &[Socket],
    inodes: &HashMap<SessionId, u64>,
) -> String {
    let mut text = String::new();
    for (socket, number) in sockets.iter().zip(first..) {
        let inode = inodes.get(&socket.info.id).copied().unwrap_or(0);
        text.push_str(&line(table, number, socket, inode));
    }
    text
}

fn line(table: SocketTable, number: u32, socket: &Socket, inode: u64) -> String {
    let info = &socket.info;
    let is_udp = matches!(table, SocketTable::Udp | SocketTable::Udp6);
    // Of a socket that has just gone on, its state by now.
    let state = state(socket, table).unwrap_or(CLOSE);
    let (timer, when, tries) = timer(socket.timer);
    let (rx, tx) = if state == LISTEN { (info.rx.0, 0) } else { (info.rx.0, info.tx.0) };
    let probes = socket.tcp.as_ref().map_or(0, |tcp| tcp.probes);
    let mut line = format!(
        "{number:width$}: {} {} {state:02X} {tx:08X}:{rx:08X} {timer:02X}:{when:08X} {tries:08X} \
         {:5} {probes:8} {inode}",
        side(info.local, info.v6),
        side(info.remote, info.v6),
        info.owner,
        width = if is_udp { 5 } else { 4 },
    );
    // How many refer to it, and where it is in the kernel's memory, which nobody is told.
    let references = if is_udp { 2 } else { 1 };
    let _ = write!(line, " {references} {:016x}", 0);
    if is_udp {
        let _ = write!(line, " {}", info.drops);
    } else {
        line.push_str(&inner(socket.tcp.as_ref(), state));
    }
    match table {
        SocketTable::Tcp => filled(line, TCP_WIDTH),
        SocketTable::Udp => filled(line, UDP_WIDTH),
        SocketTable::Tcp6 | SocketTable::Udp6 => format!("{line}\n"),
    }
}

/// What only `tcp` and `tcp6` tell: the retransmission timeout, the time that ACKs are delayed,
/// whether they are delayed at all (not known here), window and threshold in segments.
fn inner(tcp: Option<&TcpInfo>, state: u8) -> String {
    let Some(tcp) = tcp.filter(|_| state != LISTEN) else { return " 100 0 0 10 0".into() };
    let info = tcp.to_linux();
    let threshold = if tcp.ssthresh == u32::MAX { -1 } else { i64::from(info.snd_ssthresh) };
    let (rto, ato) = (ticks(tcp.rto), ticks(tcp.ato));
    format!(" {rto} {ato} 0 {} {threshold}", info.snd_cwnd)
}

/// The timer that runs, by Linux's number, in how many ticks it is due, and how often it has run
/// out.
fn timer(running: Option<RunningTimer>) -> (u8, u64, u8) {
    let Some(running) = running else { return (0, 0, 0) };
    let (number, tries) = match running.kind {
        TimerKind::Retransmit => (1, running.tries),
        TimerKind::Keepalive => (2, 0),
        TimerKind::Persist => (4, 0),
    };
    (number, ticks(running.left), tries)
}

fn ticks(time: Duration) -> u64 {
    time.as_nanos() / (1_000_000_000 / TICKS)
}

/// An address and a port as the kernel prints them: the address in words of 32 bits, each as this
/// machine's number, and the port as a number.
fn side(address: Option<SocketAddr>, v6: bool) -> String {
    let port = address.map_or(0, |address| address.port());
    let mut text = String::new();
    let word = |bytes: &[u8; 4]| format!("{:08X}", u32::from_ne_bytes(*bytes));
    match (address.map(|address| address.ip()), v6) {
        (Some(IpAddr::V4(v4)), false) => text.push_str(&word(&v4.octets())),
        (None | Some(IpAddr::V6(_)), false) => text.push_str("00000000"),
        (ip, true) => {
            let v6 = match ip {
                Some(IpAddr::V6(v6)) => v6,
                Some(IpAddr::V4(v4)) => v4.to_ipv6_mapped(),
                None => std::net::Ipv6Addr::UNSPECIFIED,
            };
            let octets = v6.octets();
            let words = octets.chunks_exact(4).filter_map(|bytes| bytes.first_chunk());
            words.for_each(|bytes| text.push_str(&word(bytes)));
        }
    }
    let _ = write!(text, ":{port:04X}");
    text
}

#[cfg(test)]
mod tests;
