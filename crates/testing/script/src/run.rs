//! Runs a script: makes happen what it says, and holds what the stack under test does against what
//! it expects.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write;

use clearway_wire::{Endpoint, Proto, tcp, udp};

use crate::ast::{Arg, Call, Event, Micros, Packet, Script, What, When};
use crate::backend::{Backend, Fd, Net, Reply, Sent};
use crate::calls::{self, Check, Context, translate};
use crate::errno::Errno;
use crate::flow::{Flow, byte_at, bytes_from};
use crate::lex::Pos;
use crate::{build, compare, show};

/// What went wrong, and where in the script.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// Where the script says what did not come true.
    pub pos: Pos,
    /// What was expected and what happened, in one or more lines.
    pub what: String,
    /// Only the time was wrong, which a busy machine can cause in real time.
    pub late: bool,
}

/// A call that has not returned yet.
struct Pending {
    pos: Pos,
    call: Call,
    check: Check,
    /// When it has to return: not before the first, not after the second.
    until: (Micros, Micros),
    /// It was said to block, so it must.
    blocks: bool,
    begun: Micros,
}

/// A script on its way.
pub struct Runner<'a> {
    script: &'a Script,
    net: Net,
    backend: &'a mut dyn Backend,
    flows: BTreeMap<u8, Flow>,
    remote_shift: u32,
    fds: BTreeMap<i64, Fd>,
    read: BTreeMap<i64, u32>,
    written: BTreeMap<i64, u32>,
    /// Sockets whose reads and writes are datagrams, each of which begins anew.
    datagrams: BTreeSet<i64>,
    /// The connection that assertions are about.
    current: Option<Fd>,
    pending: Option<Pending>,
    queue: VecDeque<Sent>,
    /// The time of the event before, as the script has it.
    last: Micros,
    /// How late the test bench itself was at worst: nobody can ask the stack under test to be on
    /// time then.
    slip: Micros,
    tolerance: Micros,
    log: Option<String>,
}

/// The latest time that there is; far enough from the end of numbers to be added to.
const NEVER: Micros = Micros::MAX / 4;
/// How long the script waits for a packet that may come at any time.
const ANY_TIME: Micros = 10_000_000;

impl<'a> Runner<'a> {
    /// `remote_shift` is added to the peer's sequence numbers on the wire.
    pub fn new(
        script: &'a Script,
        net: Net,
        backend: &'a mut dyn Backend,
        remote_shift: u32,
    ) -> Runner<'a> {
        let tolerance = script.settings.tolerance.unwrap_or(0).max(backend.tolerance());
        Runner {
            script,
            net,
            backend,
            flows: BTreeMap::new(),
            remote_shift,
            fds: BTreeMap::new(),
            read: BTreeMap::new(),
            written: BTreeMap::new(),
            datagrams: BTreeSet::new(),
            current: None,
            pending: None,
            queue: VecDeque::new(),
            last: 0,
            slip: 0,
            tolerance,
            log: None,
        }
    }

    /// Keeps a log of everything that happens.
    pub fn with_log(mut self) -> Self {
        self.log = Some(String::new());
        self
    }

    /// The log.
    pub fn take_log(&mut self) -> String {
        self.log.take().unwrap_or_default()
    }

    /// Runs the script to its end or to the first thing that does not come true.
    pub fn run(&mut self) -> Result<(), Failure> {
        for command in &self.script.settings.commands {
            self.backend.command(command).map_err(|what| Failure {
                pos: Pos::default(),
                what,
                late: false,
            })?;
        }
        for event in &self.script.events {
            self.event(event)?;
        }
        let end = self.script.events.last().map_or(Pos::default(), |event| event.pos);
        self.finish_call(NEVER)?;
        self.go_to(end, self.last)?;
        self.nothing_unexpected(end)
    }

    fn event(&mut self, event: &Event) -> Result<(), Failure> {
        let (from, to) = match event.when {
            When::Absolute(between) => (between.from, between.to),
            When::Relative(between) => (self.last + between.from, self.last + between.to),
            When::Any => (self.last, NEVER),
        };
        if let What::Outbound(packet) = &event.what {
            return self.expect(event, packet, from, to);
        }
        let base = self.last;
        self.go_to(event.pos, from)?;
        self.last = from;
        match &event.what {
            What::Call(call) => {
                let until = event.until.map(|until| {
                    if matches!(event.when, When::Relative(_)) { base + until } else { until }
                });
                return self.call(event.pos, call, until);
            }
            _ => self.nothing_unexpected(event.pos)?,
        }
        match &event.what {
            What::Inbound(packet) => self.inject(event.pos, packet),
            What::Assert(assertions) => {
                assertions.iter().try_for_each(|assertion| self.assert(assertion))
            }
            What::Command(command) => {
                self.backend.command(command).map_err(|what| bench(event.pos, what))
            }
            What::Call(_) | What::Outbound(_) => Ok(()),
        }
    }

    fn note(&mut self, text: impl FnOnce() -> String) {
        let now = self.backend.now();
        if let Some(log) = &mut self.log {
            let _ = writeln!(log, "{:>11} {}", show::seconds(now), text());
        }
    }

    /// Lets time go on to `until`, and keeps what the stack under test sends.
    fn go_to(&mut self, pos: Pos, until: Micros) -> Result<(), Failure> {
        loop {
            self.backend.advance(until).map_err(|what| bench(pos, what))?;
            self.collect();
            self.take_reply()?;
            let now = self.backend.now();
            if now >= until {
                self.slip = self.slip.max(now - until);
                return Ok(());
            }
        }
    }

    fn collect(&mut self) {
        while let Some(sent) = self.backend.sent() {
            // What the interface says for itself (neighbours, groups) is not the script's matter.
            let ours = show::view(&sent.bytes).is_none_or(|view| view.dst == self.net.remote);
            if ours {
                self.queue.push_back(sent);
            }
        }
    }

    fn nothing_unexpected(&mut self, pos: Pos) -> Result<(), Failure> {
        let Some(sent) = self.queue.pop_front() else { return Ok(()) };
        let shown = self.show(&sent);
        let what =
            format!("a packet that the script does not expect before this\n    found    {shown}");
        Err(Failure { pos, what, late: false })
    }

    /// A packet of the stack under test with its time, in the script's numbers when it belongs to
    /// one of the script's connections.
    fn show(&self, sent: &Sent) -> String {
        let ends = show::view(&sent.bytes).and_then(|view| {
            let ports = match view.proto {
                Proto::TCP => {
                    tcp::parse(view.payload).ok().map(|header| (header.src_port, header.dst_port))
                }
                Proto::UDP => udp::check(&view.src, &view.dst, view.payload, false)
                    .ok()
                    .map(|u| (u.src_port(), u.dst_port())),
                _ => None,
            }?;
            Some((Endpoint::new(view.src, ports.0), Endpoint::new(view.dst, ports.1)))
        });
        let flow = ends.and_then(|ends| self.flows.values().find(|flow| flow.ends() == Some(ends)));
        let unknown = Flow::new(0, self.remote_shift);
        format!(
            "{} > {}",
            show::seconds(sent.at),
            compare::describe(flow.or(Some(&unknown)), &sent.bytes)
        )
    }

    fn flow(&mut self, number: u8) -> &mut Flow {
        let shift = self.remote_shift;
        self.flows.entry(number).or_insert_with(|| Flow::new(number, shift))
    }

    fn inject(&mut self, pos: Pos, packet: &Packet) -> Result<(), Failure> {
        self.note(|| format!("< {}", show::packet(packet)));
        let net = self.net;
        let bytes = build::inbound(&net, self.flow(packet.flow), packet)
            .map_err(|what| bench(pos, what))?;
        self.backend.inject(&bytes).map_err(|what| bench(pos, what))?;
        self.collect();
        self.take_reply()
    }

    fn expect(
        &mut self,
        event: &Event,
        packet: &Packet,
        from: Micros,
        to: Micros,
    ) -> Result<(), Failure> {
        let wanted = || format!("{} > {}", show::when(event.when), show::packet(packet));
        let slack = self.tolerance + self.slip + self.backend.slack(from - self.last);
        let deadline = match to {
            NEVER => self.last + ANY_TIME,
            // Time shall not go on for a packet that need not come.
            _ if packet.optional => to + self.backend.call_limit().min(slack),
            _ => to + slack,
        };
        let sent = loop {
            if let Some(sent) = self.queue.pop_front() {
                break sent;
            }
            let now = self.backend.now();
            if now >= deadline && packet.optional {
                return Ok(());
            }
            if now >= deadline {
                let what = format!(
                    "no packet was sent until {}\n    expected {}",
                    show::seconds(now),
                    wanted()
                );
                return Err(Failure { pos: event.pos, what, late: true });
            }
            self.backend.advance(deadline).map_err(|what| bench(event.pos, what))?;
            self.collect();
            self.take_reply()?;
        };
        let net = self.net;
        let mut wrong = compare::outbound(&net, self.flow(packet.flow), packet, &sent.bytes, slack);
        let content = wrong.len();
        if packet.optional && content > 0 {
            self.queue.push_front(sent);
            return Ok(());
        }
        self.note(|| format!("> {}", show::packet(packet)));
        let early = sent.at < from - self.tolerance;
        if early || sent.at > to.saturating_add(slack) {
            let off = if early { from - sent.at } else { sent.at - to };
            wrong.push(format!(
                "it is {} s too {}",
                show::seconds(off),
                if early { "early" } else { "late" }
            ));
        }
        if !wrong.is_empty() {
            let found = self.show(&sent);
            let what =
                format!("{}\n    expected {}\n    found    {found}", wrong.join("; "), wanted());
            return Err(Failure { pos: event.pos, what, late: content == 0 });
        }
        // A range lets the stack choose, and what follows counts from its choice; so it does from a
        // timer that is coarse.
        let coarse = from < to || self.backend.slack(from - self.last) > 0;
        self.last = if coarse { sent.at.max(from) } else { from };
        Ok(())
    }

    fn call(&mut self, pos: Pos, call: &Call, until: Option<Micros>) -> Result<(), Failure> {
        self.finish_call(NEVER)?;
        self.note(|| call_text(call));
        let (op, check) = translate(call, &*self).map_err(|what| bench(pos, what))?;
        let Some(op) = op else { return self.answered_here(pos, call, &check) };
        let start = self.backend.now();
        let limit = self.backend.call_limit();
        let (blocks, until) = match until {
            Some(until) => (true, (until, until)),
            None => (false, (start, start.max(self.last) + limit)),
        };
        self.pending =
            Some(Pending { pos, call: call.clone(), check, until, blocks, begun: self.last });
        self.backend.call(op).map_err(|what| bench(pos, what))?;
        self.slip = self.slip.max(self.backend.now() - self.last);
        self.collect();
        self.take_reply()?;
        if !blocks {
            self.finish_call(until.1)?;
            if let Some(pending) = self.pending.take() {
                let what = format!(
                    "the call blocks; write `0.1...0.2` before it when it shall\n    call     {}",
                    call_text(&pending.call)
                );
                return Err(Failure { pos, what, late: false });
            }
        }
        Ok(())
    }

    /// A call that needs no backend, or only its view of a connection.
    fn answered_here(&mut self, pos: Pos, call: &Call, check: &Check) -> Result<(), Failure> {
        let Check::Info(number, name, wanted) = check else { return Ok(()) };
        let fd = self.fd(*number).map_err(|what| bench(pos, what))?;
        let info = self.backend.info(fd).map_err(|what| bench(pos, what))?;
        match info.get(name) {
            Some(found) if found == wanted => Ok(()),
            found => {
                let what = format!(
                    "the value is {found:?}, not {wanted}\n    call     {}",
                    call_text(call)
                );
                Err(Failure { pos, what, late: false })
            }
        }
    }

    /// Lets time go on until the call in progress returned, or its time is up.
    fn finish_call(&mut self, limit: Micros) -> Result<(), Failure> {
        while let Some(pending) = &self.pending {
            let slack =
                self.tolerance + self.slip + self.backend.slack(pending.until.1 - pending.begun);
            let (pos, blocks, latest) = (pending.pos, pending.blocks, pending.until.1 + slack);
            let now = self.backend.now();
            if !blocks && now >= limit {
                return Ok(());
            }
            if blocks && now >= latest {
                let what =
                    format!("the call has not returned\n    call     {}", call_text(&pending.call));
                return Err(Failure { pos, what, late: false });
            }
            self.backend.advance(latest.min(limit)).map_err(|what| bench(pos, what))?;
            self.collect();
            self.take_reply()?;
        }
        Ok(())
    }

    fn take_reply(&mut self) -> Result<(), Failure> {
        let Some((reply, at)) = self.backend.reply() else { return Ok(()) };
        let Some(pending) = self.pending.take() else { return Ok(()) };
        let Pending { pos, call, check, until, blocks, begun } = pending;
        let slack = self.tolerance + self.slip + self.backend.slack(until.1 - begun);
        let (early, late) = (at < until.0 - self.tolerance, at > until.1 + slack);
        if blocks && (early || late) {
            let (at, word) = (show::seconds(at), if early { "early" } else { "late" });
            let what = format!(
                "the call returned at {at}, which is too {word}: {}\n    call     {}",
                value_text(&reply),
                call_text(&call)
            );
            return Err(Failure { pos, what, late: late || self.slip > self.tolerance });
        }
        self.check(&call, &check, &reply).map_err(|what| {
            let what = format!(
                "{what}\n    call     {}\n    returned {}",
                call_text(&call),
                value_text(&reply)
            );
            Failure { pos, what, late: false }
        })
    }

    fn check(&mut self, call: &Call, check: &Check, reply: &Reply) -> Result<(), String> {
        let mut reply = reply.clone();
        if let Check::Connection(number) | Check::First(number) = check {
            self.current = self.fds.get(number).copied();
        }
        if let (Check::Error(wanted), Ok(found)) = (check, &reply.value) {
            let (found, wanted) = (*found, *wanted);
            reply.value = Ok(0);
            if found != wanted {
                return Err(format!(
                    "the pending error is {}, not {}",
                    Errno(found as i32),
                    Errno(wanted as i32)
                ));
            }
        }
        match (&reply.value, call.result) {
            (Err(errno), Some(-1)) => {
                let fits = call.errno.as_deref().is_none_or(|name| Errno::of(name) == Some(*errno));
                return if fits {
                    Ok(())
                } else {
                    Err("the call failed with another error".into())
                };
            }
            (Err(_), Some(_)) => return Err("the call failed".into()),
            (Ok(_), Some(-1)) => return Err("the call did not fail".into()),
            (Ok(live), Some(number))
                if matches!(check, Check::NewSocket | Check::NewConnection) =>
            {
                self.fds.insert(number, *live as Fd);
                self.read.insert(number, 0);
                self.written.insert(number, 0);
                let datagrams = call
                    .args
                    .get(1)
                    .is_some_and(|arg| *arg == Arg::Names(vec!["SOCK_DGRAM".into()]));
                if *check == Check::NewSocket && datagrams {
                    self.datagrams.insert(number);
                }
                if *check == Check::NewConnection {
                    self.current = Some(*live as Fd);
                }
                return Ok(());
            }
            (Ok(value), Some(wanted)) if !matches!(check, Check::Error(_)) && *value != wanted => {
                return Err(format!("the call returned {value}"));
            }
            _ => {}
        }
        self.check_content(check, &reply)
    }

    fn check_content(&mut self, check: &Check, reply: &Reply) -> Result<(), String> {
        let count = reply.value.unwrap_or(0).max(0) as u32;
        match check {
            Check::Stream(fd, flags) => {
                let index = self.read.get(fd).copied().unwrap_or(0);
                if !flags.peek && !self.datagrams.contains(fd) {
                    self.read.insert(*fd, index.wrapping_add(count));
                }
                same_bytes(index, &reply.data)
            }
            Check::Datagram => same_bytes(0, &reply.data),
            Check::Written(fd) | Check::First(fd) if !self.datagrams.contains(fd) => {
                let index = self.written.entry(*fd).or_default();
                *index = index.wrapping_add(count);
                Ok(())
            }
            Check::Ready(wanted) if *wanted != reply.ready => {
                Err(format!("poll found {:?}, not {wanted:?}", reply.ready))
            }
            _ => Ok(()),
        }
    }

    fn assert(&mut self, assertion: &crate::expr::Assertion) -> Result<(), Failure> {
        let pos = assertion.pos;
        self.note(|| format!("%{{ assert {} }}%", assertion.text));
        let info = match self.current {
            Some(fd) => self.backend.info(fd).map_err(|what| bench(pos, what))?,
            None => BTreeMap::new(),
        };
        let lookup = |name: &str| info.get(name).copied();
        match assertion.holds(&lookup) {
            Ok(true) => Ok(()),
            Ok(false) => {
                let values = assertion.values(&lookup);
                Err(Failure {
                    pos,
                    what: format!("`{}` does not hold: {values}", assertion.text),
                    late: false,
                })
            }
            Err(what) => Err(bench(pos, format!("`{}`: {what}", assertion.text))),
        }
    }
}

impl Context for Runner<'_> {
    fn fd(&self, number: i64) -> Result<Fd, String> {
        self.fds
            .get(&number)
            .copied()
            .ok_or_else(|| format!("{number} is no socket of this script"))
    }

    fn peer(&self) -> Endpoint {
        self.flows.get(&1).and_then(Flow::ends).map_or_else(|| self.server(), |(_, remote)| remote)
    }

    fn server(&self) -> Endpoint {
        calls::server(&self.net)
    }

    fn to_write(&self, fd: i64, len: u32) -> Vec<u8> {
        bytes_from(self.written.get(&fd).copied().unwrap_or(0), len)
    }
}

fn bench(pos: Pos, what: String) -> Failure {
    Failure { pos, what, late: false }
}

fn same_bytes(index: u32, data: &[u8]) -> Result<(), String> {
    let other =
        data.iter().zip(0u32..).find(|(byte, at)| **byte != byte_at(index.wrapping_add(*at)));
    match other {
        Some((_, at)) => Err(format!("byte {at} that was read is not the one that was sent")),
        None => Ok(()),
    }
}

fn value_text(reply: &Reply) -> String {
    match &reply.value {
        Ok(value) => value.to_string(),
        Err(errno) => format!("-1 {errno}"),
    }
}

fn call_text(call: &Call) -> String {
    let result = call.result.map_or("*".to_owned(), |value| value.to_string());
    let errno = call.errno.as_ref().map_or(String::new(), |errno| format!(" {errno}"));
    format!("{}(…) = {result}{errno}", call.name)
}
