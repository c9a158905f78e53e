//! Whether new data may leave now, or waits for more (RFC 9293 3.7.4 and 3.8.6.2.1). One pure
//! function that says why.

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Query {
    /// Bytes written and never sent.
    pub(crate) unsent: u32,
    /// What the peer's window has room for: SND.UNA + SND.WND - SND.NXT.
    pub(crate) usable: u32,
    /// The largest payload of one segment.
    pub(crate) mss: u32,
    /// Bytes outstanding: SND.NXT - SND.UNA.
    pub(crate) flight: u32,
    /// A segment shorter than the MSS is outstanding. Waiting only for those keeps Nagle's purpose
    /// (one small segment per round trip) and spares the end of a large write a round trip. A
    /// caller that does not keep track says `flight > 0`, which is Nagle as written.
    pub(crate) small_unacked: bool,
    /// The largest window that the peer ever offered.
    pub(crate) max_wnd: u32,
    /// TCP_NODELAY.
    pub(crate) nodelay: bool,
    /// TCP_CORK.
    pub(crate) cork: bool,
    /// No more will be written: the FIN follows the last byte.
    pub(crate) fin: bool,
    /// The sender has waited for window, or under a cork, as long as it may (0.1 to 1 second).
    pub(crate) overdue: bool,
}

/// Why data leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Send {
    /// It fills a segment.
    Full,
    /// It is the last before the FIN.
    Last,
    /// The owner asked for no delay.
    NoDelay,
    /// No small segment is outstanding.
    Alone,
    /// It fills half of the largest window that the peer ever offered.
    HalfWindow,
    /// It has waited long enough.
    Overdue,
}

/// Why data stays.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wait {
    /// There is none.
    Nothing,
    /// The peer's window is shut: the persist timer's matter.
    NoWindow,
    /// The window has room for a part only, and that part is small (silly window avoidance).
    SillyWindow,
    /// A small segment is outstanding (Nagle).
    Nagle,
    /// The owner collects (cork).
    Cork,
}

/// Whether some of the new data may leave, and why, or why not.
pub(crate) fn may_send(q: &Query) -> Result<Send, Wait> {
    let fits = q.unsent.min(q.usable);
    if q.unsent == 0 {
        return Err(Wait::Nothing);
    }
    if q.usable == 0 {
        return Err(Wait::NoWindow);
    }
    // RFC 9293 3.8.6.2.1, (1)
    if fits >= q.mss {
        return Ok(Send::Full);
    }
    if q.overdue {
        return Ok(Send::Overdue);
    }
    // (2): everything that there is fits.
    if q.unsent <= q.usable {
        if q.fin {
            return Ok(Send::Last);
        }
        if q.cork {
            return Err(Wait::Cork);
        }
        if q.nodelay {
            return Ok(Send::NoDelay);
        }
        // With nothing in flight no ACK would ever end the wait.
        return if q.small_unacked && q.flight > 0 { Err(Wait::Nagle) } else { Ok(Send::Alone) };
    }
    if q.cork && q.unsent < q.mss {
        return Err(Wait::Cork);
    }
    // (3): the window cuts it short. With something in flight an ACK will come and may bring more
    // window.
    if (q.flight > 0 && !q.nodelay) || fits < q.max_wnd / 2 {
        return Err(Wait::SillyWindow);
    }
    Ok(Send::HalfWindow)
}

#[cfg(test)]
mod tests;
