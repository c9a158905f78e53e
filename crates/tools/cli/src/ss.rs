//! `clearway ss`: sockets of the programs on a host, in the columns and with the words of ss(8).

use std::collections::BTreeMap;
use std::io::Write as _;

use anyhow::Context as _;
use serde_json::{Value, json};

use self::filter::Filter;
use self::line::{Columns, Services};
use self::names::Names;
use self::socket::{Kind, Program, Socket};
use crate::ctl::{Host, Place};
use crate::error::WrongUse;
use crate::out;

mod filter;
mod line;
mod names;
mod socket;

/// Show the sockets of programs on a running host, as ss(8) shows the kernel's.
///
/// Without -a and -l: what is connected. Times are in milliseconds, sizes of windows in segments,
/// as there.
#[derive(clap::Args, Debug)]
#[command(after_help = "FILTER: [state STATE | exclude STATE]... [EXPRESSION]
  STATE       all, connected, synchronized, listening, established, syn-sent, syn-recv, \
  fin-wait-1, fin-wait-2, close-wait,
              last-ack, closing, closed
  EXPRESSION  src|dst [OP] ADDRESS[/LENGTH][:PORT], sport|dport OP :PORT, joined by and, or, \
  not and ( )
  OP          = == eq, != ne, > gt, < lt, >= ge, <= le

Examples:
  clearway ss -tln
  clearway ss -tinm dst 10.0.0.0/8
  clearway ss -tan state established '( dport = :443 or sport = :80 )'
  clearway ss -ton state established
  clearway ss -K dst 192.0.2.7
  clearway ss --json -a")]
pub(crate) struct Args {
    #[command(flatten)]
    place: Place,

    /// Streams (TCP)
    #[arg(short, long)]
    tcp: bool,

    /// Datagrams (UDP)
    #[arg(short, long)]
    udp: bool,

    /// Only what listens
    #[arg(short, long)]
    listening: bool,

    /// What listens, and what is connected
    #[arg(short, long)]
    all: bool,

    /// Ports as numbers, not by the names of /etc/services
    #[arg(short, long)]
    numeric: bool,

    /// Addresses by the names of their hosts, as the system resolves them
    #[arg(short, long)]
    resolve: bool,

    /// The timer that runs: what it waits for, for how long still, and how often it has run out
    #[arg(short, long)]
    options: bool,

    /// Reset the connections that are shown; their programs are told ECONNABORTED
    #[arg(short = 'K', long)]
    kill: bool,

    /// The program, and the processes that it has
    #[arg(short, long)]
    processes: bool,

    /// Inner values of a TCP connection
    #[arg(short, long)]
    info: bool,

    /// Bytes in the FIFOs, and how many there may be
    #[arg(short, long)]
    memory: bool,

    /// The session's name in the host, the namespace, and how many processes have it
    #[arg(short, long)]
    extended: bool,

    /// How many there are of each kind
    #[arg(short, long)]
    summary: bool,

    /// IPv4 only
    #[arg(short = '4', long)]
    ipv4: bool,

    /// IPv6 only
    #[arg(short = '6', long)]
    ipv6: bool,

    /// No line of headings
    #[arg(short = 'H', long)]
    no_header: bool,

    /// Each socket in one line
    #[arg(short = 'O', long)]
    oneline: bool,

    /// As JSON, with all that is known of each
    #[arg(long)]
    json: bool,

    /// Which sockets
    #[arg(value_name = "FILTER")]
    filter: Vec<String>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let services = Services::of_machine();
    let filter = Filter::parse(&args.filter, &services).map_err(WrongUse)?;
    let mut host = Host::connect(&args.place)?;
    let programs = programs(&host.shown("show app")?);
    let shown = host.shown("show session verbose 2")?;
    let sessions = shown["sessions"].as_array().context("the host's answer has no sessions")?;
    let all: Vec<Socket> =
        sessions.iter().filter_map(|session| Socket::of(session, &programs)).collect();
    let mut out = out::stdout();
    if args.summary {
        return Ok(out.write_all(summary(&all).as_bytes())?);
    }
    let mut sockets: Vec<&Socket> =
        all.iter().filter(|socket| args.wants(socket) && filter.fits(socket)).collect();
    if args.kill {
        sockets = kill(&mut host, sockets)?;
    }
    if args.json {
        let all: Vec<&Value> = sockets.iter().map(|socket| &socket.json).collect();
        return Ok(writeln!(out, "{:#}", json!({ "sockets": all }))?);
    }
    let columns = Columns {
        netid: args.tcp == args.udp,
        numeric: args.numeric,
        options: args.options,
        names: if args.resolve { Names::of_system(&sockets) } else { Names::default() },
        processes: args.processes,
        info: args.info,
        memory: args.memory,
        extended: args.extended,
        oneline: args.oneline,
        header: !args.no_header,
    };
    out.write_all(columns.text(&sockets, &services).as_bytes())?;
    let told: u64 = shown["threads"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|thread| thread["sessions"].as_u64())
        .sum();
    if told > sessions.len() as u64 {
        eprintln!("clearway: the host has {told} sessions and tells of {} only", sessions.len());
    }
    Ok(())
}

/// Resets connections; those that were. A session that ended meanwhile is nobody's any more, and
/// whoever has its slot since is let alone.
fn kill<'a>(host: &mut Host, sockets: Vec<&'a Socket>) -> anyhow::Result<Vec<&'a Socket>> {
    let mut killed = Vec::new();
    for socket in sockets {
        let is_connection = socket.kind == Kind::Tcp && socket.json["tcp"].is_object();
        let (id, generation) = (socket.json["id"].as_str(), socket.json["generation"].as_u64());
        let (true, Some(id), Some(generation)) = (is_connection, id, generation) else { continue };
        if host.shown_if(&format!("session kill {id}:{generation}"))?.is_some() {
            killed.push(socket);
        }
    }
    Ok(killed)
}

impl Args {
    /// Whether the flags ask for it. A filter that names states says by itself which are meant.
    fn wants(&self, socket: &Socket) -> bool {
        let of_kind = self.tcp == self.udp || self.tcp == (socket.kind == Kind::Tcp);
        let of_family = self.ipv4 == self.ipv6 || self.ipv4 != socket.is_v6();
        let names_states =
            matches!(self.filter.first().map(String::as_str), Some("state" | "exclude"));
        let is_open = socket.is_listening() == self.listening || self.all || names_states;
        of_kind && of_family && is_open
    }
}

fn programs(shown: &Value) -> BTreeMap<u64, Program> {
    let apps = shown["apps"].as_array().into_iter().flatten();
    apps.filter_map(|app| Some((app["app"].as_u64()?, Program::of(app)))).collect()
}

/// How many there are, by kind, state and family.
fn summary(sockets: &[Socket]) -> String {
    let count =
        |fits: &dyn Fn(&Socket) -> bool| sockets.iter().filter(|socket| fits(socket)).count();
    let of = |kind: Kind| count(&|socket| socket.kind == kind);
    let tcp_in = |state: &str| count(&|socket| socket.kind == Kind::Tcp && socket.state == state);
    let mut text = format!(
        "Total: {}\nTCP:   {} (estab {}, closed {}, listening {})\n\n{:<12}{:<10}{:<10}{:<10}\n",
        sockets.len(),
        of(Kind::Tcp),
        tcp_in("ESTAB"),
        tcp_in("UNCONN"),
        tcp_in("LISTEN"),
        "Transport",
        "Total",
        "IP",
        "IPv6"
    );
    for (name, kind) in [("UDP", Kind::Udp), ("TCP", Kind::Tcp)] {
        let v6 = count(&|socket| socket.kind == kind && socket.is_v6());
        text.push_str(&format!("{name:<12}{:<10}{:<10}{v6:<10}\n", of(kind), of(kind) - v6));
    }
    text
}

#[cfg(test)]
mod tests;
