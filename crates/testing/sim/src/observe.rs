//! Watches every TCP segment that a stack puts on a link, and holds it against what was said
//! before: the rules that a sender and a receiver must keep whatever the weather.
//!
//! One observer sees all links of a world. It sees a segment twice: when its sender hands it over,
//! where the rules are checked, and when it arrives, which tells what the other side may know.

use std::collections::BTreeMap;

use clearway_base::Instant;
use clearway_wire::{Endpoint, Flags, Segment, Seq};

use crate::frame::TcpView;
use crate::spans::Spans;

/// One direction of a connection: who sends, to whom, and in which world of addresses (hosts of
/// different VRFs may share addresses).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct FlowName {
    /// The world of addresses.
    pub domain: u16,
    /// The sender.
    pub src: Endpoint,
    /// The receiver.
    pub dst: Endpoint,
}

impl FlowName {
    /// The other direction.
    pub fn back(self) -> FlowName {
        FlowName { domain: self.domain, src: self.dst, dst: self.src }
    }
}

/// What was seen of one direction in numbers.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Seen {
    /// Payload bytes, repetitions included.
    pub bytes: u64,
    /// Payload bytes that had been sent before.
    pub again: u64,
    /// Another connection between the same ends came before or after, and these numbers are of the
    /// last one only.
    pub renewed: bool,
    /// Segments.
    pub segments: u64,
}

/// One direction of one incarnation of a connection. Places are counted from the SYN, which has
/// place 0; the first byte has place 1.
#[derive(Default)]
struct Half {
    /// The SYNs of this side. Cookies may bring several before one is taken up.
    announced: Vec<Announced>,
    /// The one that counts: known once it was acknowledged, or a segment without SYN was sent.
    settled: Option<Announced>,
    /// The payload that was sent, from place 1 on, and which of it was.
    data: Vec<u8>,
    sent: Spans,
    /// One past the last place that was sent.
    end: i64,
    /// The place of the FIN.
    fin: Option<i64>,
    /// Places of this side that reached the other one.
    arrived: Spans,
    /// The right edge of the window that this side offered: first place that the other may not use.
    /// As said, and as heard.
    edge_said: Option<i64>,
    edge_heard: Option<i64>,
    /// The most that this side acknowledged.
    acked: i64,
    /// The numbers of the incarnation before, first and one past the last, where this side began
    /// anew by accepting a SYN that the other side had sent for that one. The other side may be in
    /// TIME-WAIT, and then knows nothing of a new connection.
    former: Option<(Seq, Seq)>,
    /// The last timestamp value.
    tsval: Option<u32>,
    reset: bool,
    seen: Seen,
}

/// What a SYN said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Announced {
    iss: Seq,
    scale: Option<u8>,
    mss: Option<u16>,
    timestamps: bool,
}

/// How far the first segment behind a SYN may be from it: those between may have waited for a link
/// address in vain.
const NEAR: u32 = 1 << 24;

impl Half {
    fn place(&self, seq: Seq) -> Option<i64> {
        self.settled.map(|syn| i64::from(seq.since(syn.iss) as i32))
    }

    /// Chooses among the SYNs the one that a number at most `near` places behind it speaks for.
    fn settle(&mut self, seq: Seq, near: u32) {
        if self.settled.is_none() {
            self.settled = self
                .announced
                .iter()
                .copied()
                .find(|syn| seq.since(syn.iss).wrapping_sub(1) < near);
        }
    }

    /// Whether an acknowledgement of this number may be one of the incarnation before.
    fn was_former(&self, ack: Seq) -> bool {
        self.former.is_some_and(|(first, end)| ack.since(first) <= end.since(first))
    }

    /// The SYN that counts, or the only one so far.
    fn syn(&self) -> Option<Announced> {
        self.settled.or(self.announced.first().copied())
    }

    fn scale(&self) -> Option<u8> {
        self.syn().and_then(|syn| syn.scale)
    }
}

/// What the device said of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Passing {
    /// Checksums are left out on purpose.
    pub no_checksums: bool,
    /// Several segments of this size travel as one; 0: it is one.
    pub segment_size: u16,
}

/// The observer of a world.
#[derive(Default)]
pub struct Observer {
    halves: BTreeMap<FlowName, Half>,
    known: Vec<clearway_wire::Addr>,
    /// The sequence number of the first SYN, and of the first SYN that acknowledged one.
    first: [Option<Seq>; 2],
}

type Verdict = Result<(), String>;

impl Observer {
    /// Names an address of a host of the world. Flows with strangers are not watched, so that a
    /// flood costs nothing.
    pub fn know(&mut self, addr: clearway_wire::Addr) {
        if !self.known.contains(&addr) {
            self.known.push(addr);
        }
    }

    /// The number of the first SYN that was sent: by the side that connects, or by the one that
    /// accepts.
    pub fn first_number(&self, accepting: bool) -> Option<Seq> {
        self.first[usize::from(accepting)]
    }

    /// What was seen of a direction.
    pub fn seen(&self, name: FlowName) -> Option<Seen> {
        self.halves.get(&name).map(|h| h.seen)
    }

    /// The connection of this side is gone. What one makes of a cookie that came late has the same
    /// numbers, and is none that these tell of.
    pub fn ended(&mut self, name: FlowName) {
        if let Some(half) = self.halves.get_mut(&name) {
            half.seen.renewed = true;
        }
    }

    /// A stack handed over a segment.
    pub fn sent(&mut self, domain: u16, view: &TcpView<'_>, passing: Passing) -> Verdict {
        if !passing.no_checksums && !view.checksum_is_valid() {
            return Err("a segment left with a wrong checksum".to_owned());
        }
        if !self.known.contains(&view.dst.addr) {
            return Ok(());
        }
        let name = FlowName { domain, src: view.src, dst: view.dst };
        let seg = &view.seg;
        if seg.flags.rst() {
            if let Some(half) = self.halves.get_mut(&name) {
                half.reset = true;
            }
            return Ok(());
        }
        if seg.flags.syn() {
            self.first[usize::from(seg.flags.ack())].get_or_insert(seg.seq);
            self.syn(name, seg);
            return Ok(());
        }
        let Some(mut mine) = self.halves.remove(&name) else { return Ok(()) };
        mine.settle(seg.seq, NEAR);
        let verdict = match self.halves.get_mut(&name.back()) {
            Some(theirs) => {
                if seg.flags.ack() {
                    // What follows a SYN in acknowledgements is its own number.
                    theirs.settle(seg.ack, 1);
                }
                check(&mut mine, theirs, view, passing)
            }
            None => Ok(()),
        };
        self.halves.insert(name, mine);
        verdict
    }

    fn syn(&mut self, name: FlowName, seg: &Segment) {
        let half = self.halves.entry(name).or_default();
        if let Some(known) = half.announced.iter_mut().find(|syn| syn.iss == seg.seq) {
            // The link's MTU may have changed since; which of the copies arrives is not known.
            known.mss = known.mss.max(seg.opts.mss);
            if let Some(settled) = half.settled.as_mut().filter(|syn| syn.iss == seg.seq) {
                settled.mss = settled.mss.max(seg.opts.mss);
            }
            return;
        }
        // A SYN with a new number begins a new incarnation of the connection. A SYN-ACK with a new
        // number is the next cookie, or the answer to a handshake that was forgotten meanwhile: the
        // other side's SYN is still the one that counts.
        let renewed = !half.announced.is_empty() && !seg.flags.ack();
        let former = half.settled.filter(|_| half.end > 1);
        if renewed || former.is_some() {
            let former =
                former.filter(|_| !renewed).map(|syn| (syn.iss, syn.iss + half.end as u32));
            *half = Half { former, ..Half::default() };
            half.seen.renewed = true;
        }
        let scale = seg.opts.wscale.map(|s| s.min(14));
        half.announced.push(Announced {
            iss: seg.seq,
            scale,
            mss: seg.opts.mss,
            timestamps: seg.opts.ts.is_some(),
        });
        half.end = half.end.max(1);
        let back = self.halves.entry(name.back()).or_default();
        if renewed {
            *back = Half::default();
            back.seen.renewed = true;
        }
        // Windows count from our number.
        (back.edge_said, back.edge_heard, back.acked) = (None, None, 0);
    }

    /// A segment reached the host that it is for, unharmed.
    pub fn arrived(&mut self, domain: u16, view: &TcpView<'_>, _now: Instant) {
        let name = FlowName { domain, src: view.src, dst: view.dst };
        let Some(mut mine) = self.halves.remove(&name) else { return };
        let seg = &view.seg;
        if seg.flags.syn() && mine.announced.iter().any(|syn| syn.iss == seg.seq) {
            mine.arrived.insert(0, 1);
        } else if let Some(at) = mine.place(seg.seq) {
            mine.arrived.insert(at, at + i64::from(seg.seq_len(view.payload.len())));
        }
        if let Some(theirs) = self.halves.get(&name.back()) {
            if let Some(edge) = edge(&mine, theirs, seg) {
                mine.edge_heard = Some(mine.edge_heard.map_or(edge, |old| old.max(edge)));
            }
        }
        self.halves.insert(name, mine);
    }
}

/// The right edge that a segment of `mine` offers to `theirs`, as a place of theirs.
fn edge(mine: &Half, theirs: &Half, seg: &Segment) -> Option<i64> {
    if !seg.flags.ack() || seg.flags.rst() {
        return None;
    }
    let acked = i64::from(seg.ack.since(theirs.syn()?.iss) as i32);
    let scaled = theirs.scale().is_some() && !seg.flags.syn();
    let shift = if scaled { mine.scale().unwrap_or(0) } else { 0 };
    Some(acked + (i64::from(seg.wnd) << shift))
}

/// Every rule for a segment with neither SYN nor RST.
fn check(mine: &mut Half, theirs: &mut Half, view: &TcpView<'_>, passing: Passing) -> Verdict {
    check_timestamps(mine, theirs, &view.seg)?;
    if !theirs.was_former(view.seg.ack) {
        check_ack(mine, theirs, &view.seg)?;
        check_window_said(mine, theirs, &view.seg)?;
    }
    check_size(theirs, view, passing)?;
    check_data(mine, theirs, view)
}

/// RFC 7323 3.2: once agreed, timestamps are in every segment; and 4.1: they do not run backwards.
fn check_timestamps(mine: &mut Half, theirs: &Half, seg: &Segment) -> Verdict {
    let (Some(ours), Some(others)) = (mine.settled, theirs.settled) else { return Ok(()) };
    if !(ours.timestamps && others.timestamps) {
        let unasked = seg.opts.ts.is_some() && !mine.reset;
        return if unasked { Err("timestamps that were not agreed on".to_owned()) } else { Ok(()) };
    }
    let Some((tsval, _)) = seg.opts.ts else { return Err("the timestamps are missing".to_owned()) };
    if let Some(old) = mine.tsval {
        // A segment that waited for a link address comes behind younger ones that did not.
        let behind = old.wrapping_sub(tsval) as i32;
        if behind > LONGEST_WAIT_MS {
            return Err(format!("the timestamp ran back from {old} to {tsval}"));
        }
        if behind > 0 {
            return Ok(());
        }
    }
    mine.tsval = Some(tsval);
    Ok(())
}

/// No segment waits longer for a link address than three requests take, a second each.
const LONGEST_WAIT_MS: i32 = 4_000;

/// Nothing is acknowledged that did not arrive (RFC 9293 3.4), nor selectively (RFC 2018 4).
fn check_ack(mine: &Half, theirs: &Half, seg: &Segment) -> Verdict {
    if !seg.flags.ack() || mine.settled.is_none() {
        return Ok(());
    }
    let Some(acked) = theirs.place(seg.ack) else { return Ok(()) };
    let there = theirs.arrived.end_of_run(0);
    if acked > there {
        return Err(format!("{acked} places are acknowledged, and {there} have arrived"));
    }
    for (left, right) in seg.opts.sack.iter() {
        let (Some(left), Some(right)) = (theirs.place(left), theirs.place(right)) else { continue };
        if left >= right || !theirs.arrived.covers(left.max(1), right) {
            return Err(format!("a SACK block of {left} to {right}, which did not all arrive"));
        }
    }
    Ok(())
}

/// The right edge of an offered window does not move back (RFC 9293 3.8.6, SHLD-14), but by what
/// the scale cannot say (RFC 7323 2.4).
fn check_window_said(mine: &mut Half, theirs: &Half, seg: &Segment) -> Verdict {
    let Some(edge) = edge(mine, theirs, seg) else { return Ok(()) };
    // Behind the peer's FIN the window means nothing any more, and a TIME-WAIT record has none.
    let finished =
        theirs.fin.is_some_and(|fin| theirs.place(seg.ack).is_some_and(|acked| acked > fin));
    if finished || mine.settled.is_none() || mine.reset {
        return Ok(());
    }
    // A segment that waited for a link address comes behind younger ones that did not, which
    // acknowledged more.
    let acked = theirs.place(seg.ack).unwrap_or(0);
    if acked < mine.acked {
        return Ok(());
    }
    mine.acked = acked;
    if let Some(old) = mine.edge_said {
        let grain = 1 << mine.scale().filter(|_| theirs.scale().is_some()).unwrap_or(0);
        if edge + grain <= old {
            return Err(format!("the right edge of the window moved back from {old} to {edge}"));
        }
    }
    mine.edge_said = Some(mine.edge_said.map_or(edge, |old| old.max(edge)));
    Ok(())
}

/// Data and options together do not pass the MSS that the receiver announced (RFC 9293 3.7.1, RFC
/// 6691).
fn check_size(theirs: &Half, view: &TcpView<'_>, passing: Passing) -> Verdict {
    let Some(mss) = theirs.syn().and_then(|syn| syn.mss) else { return Ok(()) };
    let options = usize::from(view.seg.header_len) - 20;
    let len = match passing.segment_size {
        0 => view.payload.len(),
        n => view.payload.len().min(usize::from(n)),
    };
    if len > 0 && len + options > usize::from(mss).max(88) {
        return Err(format!("{len} bytes and {options} of options for an MSS of {mss}"));
    }
    Ok(())
}

/// What is sent lies in the window, is the same as the last time, and ends at the FIN.
fn check_data(mine: &mut Half, theirs: &Half, view: &TcpView<'_>) -> Verdict {
    mine.seen.segments += 1;
    let Some(at) = mine.place(view.seg.seq) else { return Ok(()) };
    let len = view.payload.len() as i64;
    let fin = view.seg.flags.fin();
    let end = at + len + i64::from(fin);
    if at < 1 && len > 0 {
        // A keepalive may carry one byte of the past that nobody looks at (RFC 9293 3.8.4).
        return if len == 1 { Ok(()) } else { Err(format!("data at place {at}")) };
    }
    if end > at {
        if let Some(edge) = theirs.edge_heard {
            // One place beyond the edge is a probe (RFC 9293 3.8.6.1).
            let probe = end - at == 1;
            if end > edge && !(probe && end <= edge + 1) {
                return Err(format!(
                    "places {at} to {end} are sent, and the window ends at {edge}"
                ));
            }
        }
    }
    if let Some(at_fin) = mine.fin {
        if (len > 0 && at + len > at_fin) || (fin && end != at_fin + 1) {
            return Err(format!("places up to {end} are sent, and the FIN was at {at_fin}"));
        }
    }
    if fin {
        mine.fin = Some(end - 1);
    }
    same_as_before(mine, at, view.payload)?;
    mine.end = mine.end.max(end);
    Ok(())
}

fn same_as_before(mine: &mut Half, at: i64, payload: &[u8]) -> Verdict {
    let from = (at - 1).max(0) as usize;
    let to = from + payload.len();
    if mine.data.len() < to {
        mine.data.resize(to, 0);
    }
    mine.seen.bytes += payload.len() as u64;
    mine.seen.again += mine.sent.overlap(from as i64, to as i64) as u64;
    for (left, right) in mine.sent.within(from as i64, to as i64) {
        let (left, right) = (left as usize, right as usize);
        if mine.data[left..right] != payload[left - from..right - from] {
            return Err(format!("the bytes sent again at {left} are not those sent before"));
        }
    }
    mine.data[from..to].copy_from_slice(payload);
    mine.sent.insert(from as i64, to as i64);
    Ok(())
}

/// The letters of a set of flags and what else a reader wants to know at once.
pub fn brief(view: &TcpView<'_>) -> String {
    let Segment { seq, ack, flags, wnd, .. } = view.seg;
    let ack = if flags.contains(Flags::ACK) { format!(" ack {ack}") } else { String::new() };
    format!(
        "{} > {} [{flags}] seq {seq}{ack} win {wnd} len {}",
        view.src,
        view.dst,
        view.payload.len()
    )
}

#[cfg(test)]
mod tests;
