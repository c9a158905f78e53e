//! Sockets as lines.

use std::collections::HashMap;
use std::net::SocketAddr;

use super::names::Names;
use super::socket::{Kind, Socket};

/// Names of ports, by /etc/services.
#[derive(Default, Debug)]
pub(super) struct Services {
    names: HashMap<(Protocol, u16), String>,
}

/// The protocol's name there.
type Protocol = &'static str;

impl Services {
    /// This machine's; none where there is no such file.
    pub(super) fn of_machine() -> Services {
        Services::read(&std::fs::read_to_string("/etc/services").unwrap_or_default())
    }

    pub(super) fn read(text: &str) -> Services {
        let mut names = HashMap::new();
        for line in text.lines() {
            let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
            let (Some(name), Some(port)) = (words.next(), words.next()) else { continue };
            let Some((number, protocol)) = port.split_once('/') else { continue };
            let protocol = if protocol == "tcp" { "tcp" } else { "udp" };
            if let Ok(number) = number.parse() {
                names.entry((protocol, number)).or_insert_with(|| name.to_owned());
            }
        }
        Services { names }
    }

    fn name(&self, kind: Kind, port: u16) -> Option<&str> {
        self.names.get(&(netid(kind), port)).map(String::as_str)
    }

    /// The port of a name.
    pub(super) fn number(&self, name: &str) -> Option<u16> {
        self.names.iter().find(|(_, known)| *known == name).map(|((_, port), _)| *port)
    }
}

fn netid(kind: Kind) -> &'static str {
    match kind {
        Kind::Tcp => "tcp",
        Kind::Udp => "udp",
    }
}

/// What is shown of each socket.
pub(super) struct Columns {
    pub(super) netid: bool,
    pub(super) numeric: bool,
    pub(super) options: bool,
    pub(super) names: Names,
    pub(super) processes: bool,
    pub(super) info: bool,
    pub(super) memory: bool,
    pub(super) extended: bool,
    pub(super) oneline: bool,
    pub(super) header: bool,
}

impl Columns {
    pub(super) fn text(&self, sockets: &[&Socket], services: &Services) -> String {
        let mut rows: Vec<Vec<String>> = Vec::new();
        if self.header {
            let names = [
                "Netid",
                "State",
                "Recv-Q",
                "Send-Q",
                "Local Address:Port",
                "Peer Address:Port",
                "Process",
            ];
            rows.push(
                names[usize::from(!self.netid)..].iter().map(|&name| name.to_owned()).collect(),
            );
        }
        rows.extend(sockets.iter().map(|socket| self.row(socket, services)));
        let widths: Vec<usize> = (0..7)
            .map(|at| rows.iter().filter_map(|row| row.get(at)).map(String::len).max().unwrap_or(0))
            .collect();
        let mut text = String::new();
        let mut following = sockets.iter();
        for (at, row) in rows.iter().enumerate() {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&widths) {
                line.push_str(&format!("{cell:<width$} "));
            }
            text.push_str(line.trim_end());
            if at > 0 || !self.header {
                let more = following.next().map_or_else(String::new, |socket| self.more(socket));
                if !more.is_empty() {
                    text.push_str(if self.oneline { " " } else { "\n\t " });
                    text.push_str(&more);
                }
            }
            text.push('\n');
        }
        text
    }

    fn row(&self, socket: &Socket, services: &Services) -> Vec<String> {
        let mut row = Vec::new();
        if self.netid {
            row.push(netid(socket.kind).to_owned());
        }
        // Of a listener: connections that wait to be accepted, and how many may.
        let send = if socket.state == "LISTEN" { "rx-fifo-size" } else { "tx-fifo" };
        row.push(socket.state.to_owned());
        row.push(socket.number("rx-fifo").to_string());
        row.push(socket.number(send).to_string());
        row.push(self.side(socket, socket.local, services));
        row.push(self.side(socket, socket.remote, services));
        let users = if self.processes { users(socket) } else { String::new() };
        let timer = if self.options { timer(socket) } else { String::new() };
        let more: Vec<String> = [users, timer].into_iter().filter(|s| !s.is_empty()).collect();
        if self.processes || self.options {
            row.push(more.join(" "));
        }
        row
    }

    fn side(&self, socket: &Socket, addr: Option<SocketAddr>, services: &Services) -> String {
        let v6 = socket.is_v6();
        let Some(addr) = addr else { return if v6 { "[::]:*".into() } else { "0.0.0.0:*".into() } };
        let name = if self.numeric { None } else { services.name(socket.kind, addr.port()) };
        let port = match (addr.port(), name) {
            (0, _) => "*".to_owned(),
            (_, Some(name)) => name.to_owned(),
            (port, None) => port.to_string(),
        };
        match self.names.of(addr.ip()) {
            Some(name) => format!("{name}:{port}"),
            None if v6 => format!("[{}]:{port}", addr.ip()),
            None => format!("{}:{port}", addr.ip()),
        }
    }

    fn more(&self, socket: &Socket) -> String {
        let mut parts = Vec::new();
        if self.extended {
            parts.push(extended(socket));
        }
        if self.memory {
            parts.push(memory(socket));
        }
        if self.info && socket.json["tcp"].is_object() {
            parts.push(info(socket, self.numeric));
        }
        parts.join(" ")
    }
}

fn users(socket: &Socket) -> String {
    let Some(program) = &socket.program else { return String::new() };
    let each: Vec<String> =
        program.pids.iter().map(|pid| format!("(\"{}\",pid={pid})", program.name)).collect();
    format!("users:({})", each.join(","))
}

/// `timer:(on,1.204ms,0)`: what it waits for, for how long still, how often it ran out.
fn timer(socket: &Socket) -> String {
    let timer = &socket.json["timer"];
    let (Some(name), Some(left)) = (timer["timer"].as_str(), timer["left-ms"].as_u64()) else {
        return String::new();
    };
    format!("timer:({name},{},{})", time(left), timer["tries"])
}

/// As ss(8) writes times: the coarser part alone from ten minutes or ten seconds on, and
/// milliseconds behind a point where there are seconds.
pub(super) fn time(ms: u64) -> String {
    let (minutes, seconds, ms) = (ms / 60_000, ms / 1_000 % 60, ms % 1_000);
    let seconds = if minutes > 9 { 0 } else { seconds };
    let ms = if minutes > 0 || seconds > 9 { 0 } else { ms };
    let mut text = String::new();
    if minutes > 0 {
        text.push_str(&format!("{minutes}min"));
    }
    match (seconds, ms) {
        (0, 0) => {}
        (0, ms) => text.push_str(&format!("{ms:03}ms")),
        (seconds, 0) => text.push_str(&format!("{seconds}sec")),
        (seconds, ms) => text.push_str(&format!("{seconds}.{ms:03}ms")),
    }
    text
}

fn extended(socket: &Socket) -> String {
    let id = socket.json["id"].as_str().unwrap_or_default();
    let namespace = socket.program.as_ref().map_or("", |program| program.namespace.as_str());
    let way = if socket.json["cut-through"] == true { " cut-through" } else { "" };
    format!("session:{id} namespace:{namespace} processes:{}{way}", socket.number("processes"))
}

fn memory(socket: &Socket) -> String {
    let [r, rb, t, tb, d] = ["rx-fifo", "rx-fifo-size", "tx-fifo", "tx-fifo-size", "drops"]
        .map(|key| socket.number(key));
    format!("skmem:(r{r},rb{rb},t{t},tb{tb},d{d})")
}

/// Bits a second, as ss(8) shortens them, which it does not where numbers are asked for (`-n`).
fn rate(bits: f64, numeric: bool) -> String {
    match bits {
        bits if numeric => format!("{bits:.0}bps"),
        bits if bits >= 1e9 => format!("{:.1}Gbps", bits / 1e9),
        bits if bits >= 1e6 => format!("{:.1}Mbps", bits / 1e6),
        bits if bits >= 1e3 => format!("{:.1}Kbps", bits / 1e3),
        bits => format!("{bits:.0}bps"),
    }
}

/// TCPI_OPT_TIMESTAMPS, TCPI_OPT_SACK, TCPI_OPT_WSCALE, TCPI_OPT_ECN, TCPI_OPT_ECN_SEEN.
const OPTIONS: &[(u64, &str)] = &[(1, "ts"), (2, "sack"), (8, "ecn"), (16, "ecnseen")];
const WSCALE: u64 = 4;
/// Linux shows it for a threshold that was never set.
const NO_SSTHRESH: u64 = 0x7fff_ffff;

/// The inner values in the order of ss(8). What is nothing is left out, as there.
fn info(socket: &Socket, numeric: bool) -> String {
    let get = |key: &str| socket.tcp(key);
    let millis = |key: &str| get(key) as f64 / 1e3;
    let options = get("options");
    let mut words: Vec<String> = OPTIONS
        .iter()
        .filter(|(bit, _)| options & bit != 0)
        .map(|(_, name)| (*name).to_owned())
        .collect();
    words.push(socket.json["tcp"]["congestion"].as_str().unwrap_or_default().to_owned());
    if options & WSCALE != 0 {
        words.push(format!("wscale:{},{}", get("snd_wscale"), get("rcv_wscale")));
    }
    words.push(format!("rto:{}", millis("rto")));
    let mut some = |text: String, is_there: bool| is_there.then(|| words.push(text));
    some(format!("backoff:{}", get("backoff")), get("backoff") > 0);
    some(format!("rtt:{}/{}", millis("rtt"), millis("rttvar")), get("rtt") > 0);
    some(format!("ato:{}", millis("ato")), get("ato") > 0);
    let plain = [
        ("mss", "snd_mss"),
        ("pmtu", "pmtu"),
        ("rcvmss", "rcv_mss"),
        ("advmss", "advmss"),
        ("cwnd", "snd_cwnd"),
    ];
    for (name, key) in plain {
        some(format!("{name}:{}", get(key)), get(key) > 0);
    }
    some(format!("ssthresh:{}", get("snd_ssthresh")), get("snd_ssthresh") < NO_SSTHRESH);
    let counts = [
        "bytes_sent",
        "bytes_retrans",
        "bytes_acked",
        "bytes_received",
        "segs_out",
        "segs_in",
        "data_segs_out",
        "data_segs_in",
    ];
    for key in counts {
        some(format!("{key}:{}", get(key)), get(key) > 0);
    }
    let seconds = get("rtt") as f64 / 1e6;
    let send = get("snd_cwnd") as f64 * get("snd_mss") as f64 * 8.0;
    some(format!("send {}", rate(send / seconds, numeric)), seconds > 0.0);
    for (name, key) in
        [("lastsnd", "last_data_sent"), ("lastrcv", "last_data_recv"), ("lastack", "last_ack_recv")]
    {
        some(format!("{name}:{}", get(key)), get(key) > 0);
    }
    for key in ["pacing_rate", "delivery_rate"] {
        let told = format!("{key} {}", rate(get(key) as f64 * 8.0, numeric));
        some(told, !matches!(get(key), 0 | u64::MAX));
    }
    some(format!("delivered:{}", get("delivered")), get("delivered") > 0);
    some("app_limited".into(), get("delivery_rate_app_limited") > 0);
    some(format!("busy:{}ms", get("busy_time") / 1000), get("busy_time") > 0);
    for key in ["rwnd_limited", "sndbuf_limited"] {
        some(format!("{key}:{}ms", get(key) / 1000), get(key) > 0);
    }
    some(format!("unacked:{}", get("unacked")), get("unacked") > 0);
    let (again, total) = (get("retrans"), get("total_retrans"));
    some(format!("retrans:{again}/{total}"), again + total > 0);
    for key in ["lost", "sacked", "dsack_dups", "reord_seen", "rcv_ooopack"] {
        some(format!("{key}:{}", get(key)), get(key) > 0);
    }
    some(format!("notsent:{}", get("notsent_bytes")), get("notsent_bytes") > 0);
    some(format!("rcv_space:{}", get("rcv_space")), get("rcv_space") > 0);
    some(format!("rcv_ssthresh:{}", get("rcv_ssthresh")), get("rcv_ssthresh") > 0);
    some(format!("minrtt:{}", millis("min_rtt")), get("min_rtt") > 0);
    for key in ["snd_wnd", "rcv_wnd"] {
        some(format!("{key}:{}", get(key)), get(key) > 0);
    }
    words.join(" ")
}
