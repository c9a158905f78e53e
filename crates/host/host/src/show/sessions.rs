//! Sessions of programs.

use std::net::SocketAddr;

use clearway_command::{PortRange, SessionFilter};
use clearway_options::{Info, InfoField};
use clearway_proto::{RunningTimer, TcpInfo, TimerKind};
use clearway_session::sessions::{SessionInfo, SessionKind, generation_of};
use clearway_session::worker::Worker;
use clearway_wire::{Addr, Cidr};
use serde_json::{Value, json};

use super::grid::Grid;
use super::look::Look;
use crate::outcome::{CommandError, Output};

/// A session with the inner values of its connection.
struct Row {
    info: SessionInfo,
    tcp: Option<TcpInfo>,
    timer: Option<RunningTimer>,
}

/// Sessions of one worker that are shown at most: an answer must end.
const MAX_SHOWN: usize = 10_000;

/// How many there are that fit, and the first of them.
fn rows(worker: &mut Worker, filter: &SessionFilter) -> (usize, Vec<Row>) {
    let (stack, sessions) = worker.engine().stack_and_app();
    let stack: &_ = stack;
    let mut count = 0;
    let mut rows = Vec::new();
    for info in sessions.iter(stack).filter(|info| fits(filter, info)) {
        count += 1;
        if rows.len() < MAX_SHOWN {
            let tcp = info.conn.and_then(|conn| stack.info(conn));
            let timer = info.conn.and_then(|conn| stack.running_timer(conn));
            rows.push(Row { info, tcp, timer });
        }
    }
    (count, rows)
}

fn fits(filter: &SessionFilter, info: &SessionInfo) -> bool {
    let protocol = if info.kind == SessionKind::Datagram { 17 } else { 6 };
    let is_in = |net: &Option<Cidr>, side: Option<SocketAddr>| {
        let contains = |net: &Cidr| side.is_some_and(|side| net.contains(&Addr::from(side.ip())));
        net.as_ref().is_none_or(contains)
    };
    let has_port = |side: Option<SocketAddr>, ports: PortRange| {
        side.is_some_and(|side| (ports.first..=ports.last).contains(&side.port()))
    };
    filter.app.is_none_or(|app| app == info.app)
        && filter.state.as_ref().is_none_or(|state| state == info.state)
        && filter.protocol.is_none_or(|wanted| wanted == protocol)
        && is_in(&filter.local, info.local)
        && is_in(&filter.remote, info.remote)
        && filter.ports.is_none_or(|p| has_port(info.local, p) || has_port(info.remote, p))
}

impl Look<'_> {
    /// `verbose` is how much the text tells; JSON tells all, and leaves out the values by Linux's
    /// names when it is 1, for who asks every second.
    pub(super) fn sessions(
        &self,
        verbose: u8,
        filter: &SessionFilter,
    ) -> Result<Output, CommandError> {
        let filter = filter.clone();
        let mut text = String::new();
        let (mut threads, mut sessions) = (Vec::new(), Vec::new());
        for (worker, (count, rows)) in
            self.host.ask_all(move |worker| rows(worker, &filter))?.into_iter().enumerate()
        {
            if verbose > 0 && !rows.is_empty() {
                text.push_str(&table(&rows, verbose));
            }
            if rows.len() < count {
                text.push_str(&format!("The first {} of {count} are shown.\n", rows.len()));
            }
            text.push_str(&format!("Thread {worker}: active sessions {count}\n"));
            sessions.extend(rows.iter().map(|row| row_json(row, verbose != 1)));
            threads.push(json!({ "thread": worker, "sessions": count }));
        }
        Ok(Output::new(text, json!({ "threads": threads, "sessions": sessions })))
    }
}

fn table(rows: &[Row], verbose: u8) -> String {
    let mut grid = Grid::new(&["Connection", "State", ">Rx-f", ">Tx-f", ">Drops", ">App"]);
    for Row { info, .. } in rows {
        grid.row([
            connection(info),
            info.state.into(),
            info.rx.0.to_string(),
            info.tx.0.to_string(),
            info.drops.to_string(),
            info.app.to_string(),
        ]);
    }
    if verbose < 2 {
        return grid.text();
    }
    let text = grid.text();
    let mut lines = text.lines();
    let mut full = format!("{}\n", lines.next().unwrap_or_default());
    for (line, row) in lines.zip(rows) {
        full.push_str(&format!("{line}\n"));
        full.push_str(&inner(row));
    }
    full
}

/// `[0:3][T] 172.16.1.1:5201->172.16.2.1:43757`: worker, slot, protocol, our side, the peer's.
fn connection(info: &SessionInfo) -> String {
    let letter = if info.kind == SessionKind::Datagram { 'U' } else { 'T' };
    let v6 = info.local.or(info.remote).is_some_and(|a| a.is_ipv6());
    format!("[{}][{letter}] {}->{}", name(info), side(info.local, v6), side(info.remote, v6))
}

/// Worker and slot, by which it can be told from others.
fn name(info: &SessionInfo) -> String {
    format!("{}:{}", info.worker, slot(info.id))
}

fn slot(id: u64) -> u64 {
    (id >> 32) & 0x00ff_ffff
}

fn side(address: Option<SocketAddr>, v6: bool) -> String {
    match address {
        Some(address) => address.to_string(),
        None if v6 => "[::]:0".into(),
        None => "0.0.0.0:0".into(),
    }
}

fn inner(row: &Row) -> String {
    let info = &row.info;
    let mut text = format!(
        "    fifos: rx {} of {}, tx {} of {}; processes {}{}\n",
        info.rx.0,
        info.rx.1,
        info.tx.0,
        info.tx.1,
        info.processes,
        if info.cut_through { "; cut-through" } else { "" }
    );
    let Some(tcp) = &row.tcp else { return text };
    let micros = |time: clearway_base::Duration| time.as_nanos() / 1_000;
    text.push_str(&format!(
        "    rtt {} us (var {}, min {}), rto {} us; cwnd {}, ssthresh {}; mss {}, path mtu {}\n",
        micros(tcp.rtt),
        micros(tcp.rttvar),
        micros(tcp.min_rtt),
        micros(tcp.rto),
        tcp.cwnd,
        if tcp.ssthresh == u32::MAX { "none".into() } else { tcp.ssthresh.to_string() },
        tcp.snd_mss,
        tcp.path_mtu
    ));
    text.push_str(&format!(
        "    windows: peer's {}, ours {}; in flight {}, sacked {}, lost {}; unsent {}, unread {}\n",
        tcp.snd_wnd, tcp.rcv_wnd, tcp.unacked, tcp.sacked, tcp.lost, tcp.unsent, tcp.unread
    ));
    text.push_str(&format!(
        "    bytes: sent {}, acked {}, received {}, again {}; segments: out {}, in {}, again {}\n",
        tcp.bytes_sent,
        tcp.bytes_acked,
        tcp.bytes_received,
        tcp.bytes_retransmitted,
        tcp.segs_out,
        tcp.segs_in,
        tcp.total_retransmits
    ));
    text
}

/// Bytes of payload that came from the peer in order, and that went to it and arrived as far as is
/// known, by whichever way.
fn bytes(row: &Row) -> (u64, u64) {
    let (came, went) = row.info.bytes;
    let tcp = row.tcp.as_ref().map_or((0, 0), |tcp| (tcp.bytes_received, tcp.bytes_acked));
    (came + tcp.0, went + tcp.1)
}

fn row_json(row: &Row, with_linux: bool) -> Value {
    let info = &row.info;
    let (rx_bytes, tx_bytes) = bytes(row);
    let kind = match info.kind {
        SessionKind::Fresh => "fresh",
        SessionKind::Listener => "listener",
        SessionKind::Stream => "stream",
        SessionKind::Datagram => "datagram",
    };
    let mut json = json!({
        "id": name(info),
        "generation": generation_of(info.id),
        "app": info.app,
        "kind": kind,
        "local": info.local.map(|a| a.to_string()),
        "remote": info.remote.map(|a| a.to_string()),
        "state": info.state,
        "processes": info.processes,
        "rx-fifo": info.rx.0,
        "rx-fifo-size": info.rx.1,
        "tx-fifo": info.tx.0,
        "tx-fifo-size": info.tx.1,
        "rx-bytes": rx_bytes,
        "tx-bytes": tx_bytes,
        "drops": info.drops,
        "cut-through": info.cut_through,
    });
    if let Some(tcp) = &row.tcp {
        json["tcp"] = tcp_json(tcp);
        if with_linux {
            json["tcp"]["linux"] = linux_json(tcp);
        }
        json["timer"] = row.timer.map_or(Value::Null, timer_json);
    }
    json
}

/// By the names of ss(8).
fn timer_json(timer: RunningTimer) -> Value {
    let name = match timer.kind {
        TimerKind::Retransmit => "on",
        TimerKind::Persist => "persist",
        TimerKind::Keepalive => "keepalive",
    };
    let left_ms = timer.left.as_nanos() / 1_000_000;
    json!({ "timer": name, "left-ms": left_ms, "tries": timer.tries })
}

fn tcp_json(tcp: &TcpInfo) -> Value {
    let micros = |time: clearway_base::Duration| time.as_nanos() / 1_000;
    json!({
        "rtt-us": micros(tcp.rtt),
        "rttvar-us": micros(tcp.rttvar),
        "min-rtt-us": micros(tcp.min_rtt),
        "rto-us": micros(tcp.rto),
        "cwnd": tcp.cwnd,
        "ssthresh": (tcp.ssthresh != u32::MAX).then_some(tcp.ssthresh),
        "mss": tcp.snd_mss,
        "path-mtu": tcp.path_mtu,
        "snd-wnd": tcp.snd_wnd,
        "rcv-wnd": tcp.rcv_wnd,
        "in-flight": tcp.unacked,
        "sacked": tcp.sacked,
        "lost": tcp.lost,
        "unsent": tcp.unsent,
        "unread": tcp.unread,
        "bytes-sent": tcp.bytes_sent,
        "bytes-acked": tcp.bytes_acked,
        "bytes-received": tcp.bytes_received,
        "bytes-retransmitted": tcp.bytes_retransmitted,
        "segments-out": tcp.segs_out,
        "segments-in": tcp.segs_in,
        "retransmits": tcp.total_retransmits,
        "delivery-rate": tcp.delivery_rate,
        // The names of Linux are those of the type.
        "congestion": format!("{:?}", tcp.congestion).to_lowercase(),
    })
}

/// The values of TCP_INFO by their names in C, without `tcpi_`.
fn linux_json(tcp: &TcpInfo) -> Value {
    let info = tcp.to_linux();
    let field = |field: &InfoField| {
        (field.name.trim_start_matches("tcpi_").to_owned(), field.get(&info).into())
    };
    Value::Object(Info::FIELDS.iter().map(field).collect())
}
