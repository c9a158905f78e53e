//! What scripts and people read, and the signals that end the program.

use std::io::{self, Write as _};
use std::os::fd::{AsFd, BorrowedFd};

use clearway_bench::ServerReport;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use serde_json::{Value, json};

use crate::Args;

/// Of the library; the lock file names the same, which a test compares.
pub(crate) const VERSION: &str = "smoltcp 0.14.0";

/// SIGINT and SIGTERM, which from now on only this tells of.
pub(crate) struct Signals(SignalFd);

impl Signals {
    pub(crate) fn take() -> anyhow::Result<Signals> {
        let mut set = SigSet::empty();
        set.add(Signal::SIGINT);
        set.add(Signal::SIGTERM);
        set.thread_block()?;
        Ok(Signals(SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?))
    }

    /// Whether one has come.
    pub(crate) fn came(&self) -> bool {
        self.0.read_signal().is_ok_and(|signal| signal.is_some())
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn line(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")?;
    out.flush()
}

/// Says that requests are answered from now on.
pub(crate) fn ready(args: &Args) -> anyhow::Result<()> {
    let addresses: Vec<String> = args.addresses.iter().map(ToString::to_string).collect();
    let text = if args.json {
        json!({
            "event": "ready", "over": "smoltcp", "version": VERSION, "addresses": addresses, "port": args.server_port, "cores": 1,
        })
        .to_string()
    } else {
        let port = clearway_ports::describe(&args.port);
        format!(
            "Answering at {}, port {}, over {VERSION} on {port}",
            addresses.join(" "),
            args.server_port
        )
    };
    Ok(line(&text)?)
}

/// The last lines.
pub(crate) fn summary(args: &Args, report: &ServerReport) -> anyhow::Result<()> {
    let seconds = report.at.since(report.from).as_nanos() as f64 / 1e9;
    let busy_s = report.busy.as_nanos() as f64 / 1e9;
    let (share, cycles_per_s) = (busy_s / seconds, report.cycles as f64 / seconds);
    let requests = report.requests as f64;
    let (busy_ns, cycles) = (busy_s * 1e9 / requests, busy_s * cycles_per_s / requests);
    let cost = if report.requests > 0 {
        json!({ "busy_ns": busy_ns, "cycles": cycles })
    } else {
        Value::Null
    };
    if args.json {
        return Ok(line(
            &json!({
                "event": "summary", "over": "smoltcp", "version": VERSION, "seconds": seconds, "accepted": report.accepted,
                "open": report.open, "reset_connections": report.failed, "refused_connections": report.no_room,
                "requests": report.requests, "answers": report.answers, "bytes_in": report.bytes_in,
                "bytes_out": report.bytes_out, "busy_share": share, "per_request": cost,
            })
            .to_string(),
        )?);
    }
    line(&format!(
        "\n{} requests and {} answers on {} connections in {seconds:.1} s",
        report.requests, report.answers, report.accepted
    ))?;
    if report.failed + report.no_room > 0 {
        line(&format!("{} connections reset, {} refused", report.failed, report.no_room))?;
    }
    if report.requests > 0 {
        line(&format!(
            "busy {:.1} % of the time: {busy_ns:.0} ns or {cycles:.0} cycles a request",
            share * 100.0
        ))?;
    }
    Ok(())
}
