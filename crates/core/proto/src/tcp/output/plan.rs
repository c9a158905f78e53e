//! What leaves next, and why: a pure function of what a connection looks like at this moment.

use clearway_wire::Seq;

use super::super::nagle::{self, Query, Wait};
use super::super::recovery::Next;
use super::super::span::Span;

/// What leaves next, or why nothing does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Plan {
    /// Bytes, with our FIN behind them perhaps.
    Send {
        /// Where they stand, and how many sequence numbers they take without the FIN.
        span: Span,
        /// Our FIN follows.
        fin: bool,
        /// They were sent before.
        again: Again,
    },
    /// Nothing more.
    Stop(Why),
}

/// Whether bytes were sent before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Again {
    /// Never.
    New,
    /// They are deemed lost.
    Lost,
    /// They may be lost (RFC 6675 4, rule 4).
    Rescue,
}

/// Why nothing leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Why {
    /// There is nothing to send.
    Done,
    /// The peer's window is shut, or too small to be worth a segment.
    Window,
    /// The congestion window is used up.
    Congestion,
    /// A small segment is on its way, and more may come (Nagle).
    Nagle,
    /// The owner collects (cork), or is in the midst of writing.
    Cork,
    /// The connection's state lets nothing out.
    State,
}

/// What [`next`] looks at.
#[derive(Clone, Copy)]
pub(crate) struct View {
    /// The state lets data out.
    pub may_transmit: bool,
    /// SND.UNA and SND.NXT.
    pub una: Seq,
    pub nxt: Seq,
    /// Behind the last byte that was written.
    pub end: Seq,
    /// Our FIN is due behind the last byte, and whether it was sent.
    pub shut: bool,
    pub fin_sent: bool,
    /// What the peer's window still takes, and the most it ever took.
    pub usable: u32,
    pub max_wnd: u32,
    /// Payload of a full segment; and of the largest piece that may be handed over at once, a
    /// multiple of it.
    pub mss: u32,
    pub piece: u32,
    /// What recovery says leaves next, and how many bytes congestion control lets out.
    pub next: Next,
    pub allowance: u32,
    /// A small segment is in flight.
    pub small_unacked: bool,
    pub nodelay: bool,
    pub cork: bool,
    /// The wait for a larger window is over.
    pub force: bool,
}

/// What leaves next: lost bytes before new ones, within congestion window, peer's window and piece.
pub(crate) fn next(v: &View) -> Plan {
    if !v.may_transmit {
        return Plan::Stop(Why::State);
    }
    match v.next {
        Next::Nothing => Plan::Stop(if v.has_unsent() { Why::Window } else { Why::Done }),
        Next::Retransmit(span) => v.again(span, Again::Lost),
        Next::Rescue(span) => v.again(span, Again::Rescue),
        Next::New => v.fresh(),
    }
}

impl View {
    /// Whether bytes, or the FIN, were never sent.
    fn has_unsent(&self) -> bool {
        !self.fin_sent && (self.shut || self.end.gt(self.nxt))
    }

    /// Bytes, or the FIN, that are sent again.
    fn again(&self, span: Span, again: Again) -> Plan {
        if self.allowance < span.len().min(self.mss) {
            return Plan::Stop(Why::Congestion);
        }
        // The FIN has a number of its own behind the last byte.
        let fin = self.fin_sent && span.end == self.end + 1;
        let end = if fin { self.end } else { span.end };
        Plan::Send { span: Span::new(span.start, end), fin, again }
    }

    /// New bytes, or the FIN.
    fn fresh(&self) -> Plan {
        if self.fin_sent {
            return Plan::Stop(Why::Done);
        }
        let unsent = self.end.since(self.nxt);
        if unsent == 0 {
            if !self.shut {
                return Plan::Stop(Why::Done);
            }
            // A FIN takes a number of the peer's window like a byte.
            return if self.usable == 0 { Plan::Stop(Why::Window) } else { self.send(0) };
        }
        let query = Query {
            unsent,
            usable: self.usable,
            mss: self.mss,
            flight: self.nxt.since(self.una),
            small_unacked: self.small_unacked,
            max_wnd: self.max_wnd,
            nodelay: self.nodelay,
            cork: self.cork,
            fin: self.shut,
            overdue: self.force,
        };
        match nagle::may_send(&query) {
            Ok(_) => {}
            Err(Wait::Nothing) => return Plan::Stop(Why::Done),
            Err(Wait::NoWindow | Wait::SillyWindow) => return Plan::Stop(Why::Window),
            Err(Wait::Nagle) => return Plan::Stop(Why::Nagle),
            Err(Wait::Cork) => return Plan::Stop(Why::Cork),
        }
        let wanted = unsent.min(self.usable);
        if self.allowance < wanted.min(self.mss) {
            return Plan::Stop(Why::Congestion);
        }
        let mut len = wanted.min(self.allowance).min(self.piece);
        // What is not the end leaves in full segments, and so does what ends in a small one that
        // must wait; the rest is asked about again.
        let tail_waits =
            !(self.shut || self.nodelay && !self.cork) && (self.cork || self.small_unacked);
        if len > self.mss && (len < unsent || tail_waits) {
            len -= len % self.mss;
        }
        self.send(len)
    }

    fn send(&self, len: u32) -> Plan {
        let span = Span::with_len(self.nxt, len);
        Plan::Send {
            span,
            fin: self.shut && span.end == self.end && self.usable > len,
            again: Again::New,
        }
    }
}

#[cfg(test)]
mod tests;
