//! Congestion control: how much may be in flight (RFC 5681, RFC 9438). A value that is told what happened and says a number: [`Cc::on_sent`],
//! [`Cc::on_ack`], [`Cc::on_event`] are what it hears, [`Cc::cwnd`] and [`Cc::advice`] what it says.
//!
//! ```text
//!   cwnd │            ╭── Loss                                ╭─ Timeout: one segment again
//!        │        ╭───╯│      ╭──────╮                        │
//!        │      ╭─╯    │  ╭───╯      │ congestion avoidance   │
//!  ssthr.│┄┄┄┄┄╱┄┄┄┄┄┄┄╰──╯┄┄┄┄┄┄┄┄┄┄┄╰──                      │  ╭──
//!        │   ╱  slow start                                    ╰─╯
//!        └──────────────────────────────────────────────────────────▶ time
//! ```
//!
//! Growth is counted in acknowledged bytes, never in ACKs, so that splitting one ACK into many gains nothing (RFC 3465), and only while the
//! window was really in use (RFC 5681 4.1, RFC 7661, RFC 9438 5.8).

use clearway_wire::{Ecn, Seq};

use super::ack_info::AckInfo;
use super::held::Held16;
use super::rtt::Rtt;
use crate::config::Congestion;
use crate::export::Fields;

mod algorithm;
mod bbr;
mod cubic;
mod reno;
mod window;

use algorithm::Algorithm;
pub(crate) use algorithm::{Advice, Event};
pub(crate) use bbr::{Bbr, Input, Known};
use cubic::Cubic;
use reno::Reno;
use window::ACK_LIMIT;
pub(crate) use window::MAX_CWND;
pub(crate) use window::Window;

/// The congestion control of one connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cc {
    window: Window,
    law: Law,
}

/// By which law the window grows and shrinks.
#[derive(Clone, Copy, Debug)]
enum Law {
    /// NewReno (RFC 5681, 6582).
    Reno,
    /// CUBIC (RFC 9438).
    Cubic(Cubic),
    /// BBR, whose state lies in a pool: [`Bbr`] is told by the connection itself what happens.
    Bbr,
}

impl Law {
    fn new(kind: Congestion) -> Law {
        match kind {
            Congestion::Reno => Law::Reno,
            Congestion::Cubic => Law::Cubic(Cubic::new()),
            Congestion::Bbr => Law::Bbr,
        }
    }
}

impl Cc {
    /// For a connection that has just been established, with payloads of at most `mss` bytes and `iw` segments of initial window.
    pub(crate) fn new(kind: Congestion, mss: u16, iw: u8) -> Cc {
        Cc { window: Window::new(mss, iw), law: Law::new(kind) }
    }

    /// New data left; `una` and `nxt` as they are after it. A burst may be told as one.
    #[inline(always)]
    pub(crate) fn on_sent(&mut self, una: Seq, nxt: Seq) {
        self.window.on_sent(una, nxt);
    }

    /// Whether the window was what held the sender back in this round trip: what belongs into [`AckInfo::cwnd_limited`].
    #[inline(always)]
    pub(crate) fn is_limited(&self) -> bool {
        self.window.is_limited()
    }

    /// An ACK arrived outside fast recovery. The window grows by what was newly acknowledged, if it was in use.
    pub(crate) fn on_ack(&mut self, ack: &AckInfo, rtt: &Rtt) {
        if ack.acked == 0 {
            return;
        }
        match &mut self.law {
            Law::Reno => Reno.on_ack(&mut self.window, ack, rtt),
            Law::Cubic(cubic) => cubic.on_ack(&mut self.window, ack, rtt),
            Law::Bbr => {}
        }
    }

    /// An ACK arrived outside fast recovery while the window was not in use: what [`Cc::on_ack`] does with it.
    #[inline(always)]
    pub(crate) fn pause(&mut self) {
        if let Law::Cubic(cubic) = &mut self.law {
            cubic.pause();
        }
    }

    /// Something else happened than that new data was acknowledged.
    pub(crate) fn on_event(&mut self, event: Event) {
        let event = self.in_full(event);
        match &mut self.law {
            Law::Reno => Reno.on_event(&mut self.window, &event),
            Law::Cubic(cubic) => cubic.on_event(&mut self.window, &event),
            Law::Bbr => return,
        }
        match event {
            Event::Recovered { flight } => self.on_recovered(flight),
            Event::Idle { idle, rto } if idle > rto => self.on_idle(),
            Event::Loss { .. } | Event::Marked { .. } | Event::Timeout { .. } | Event::Undone | Event::Idle { .. } => {}
        }
    }

    /// The ACKs of one burst are digested together before anything is sent, so the flight of this moment may be a fraction of what the path
    /// carried. The most that was in flight in this round trip is the FlightSize that RFC 5681 equation 4 means.
    fn in_full(&self, event: Event) -> Event {
        let in_use = self.window.used.min(self.window.cwnd);
        match event {
            Event::Loss { flight } => Event::Loss { flight: flight.max(in_use) },
            Event::Marked { flight } => Event::Marked { flight: flight.max(in_use) },
            other => other,
        }
    }

    /// What ECN-capable packets carry.
    pub(crate) fn ect(&self) -> Ecn {
        Ecn::Ect0
    }

    /// What it says of sending, beside the window.
    pub(crate) fn advice(&self) -> Advice {
        match &self.law {
            Law::Reno => Reno.advice(),
            Law::Cubic(cubic) => cubic.advice(),
            Law::Bbr => Advice { uses_prr: false },
        }
    }

    /// The window is not opened so far that a burst would leave (RFC 6582 3.2, step 3).
    fn on_recovered(&mut self, flight: u32) {
        let w = &mut self.window;
        w.cwnd = w.ssthresh.min(flight.max(w.mss()).saturating_add(w.mss())).min(MAX_CWND);
    }

    /// A loss was none: things are as they were `before`, and what was won since is kept. So is an algorithm that the owner has chosen since.
    pub(crate) fn restore(&mut self, before: &Cc) {
        let (mss, paced, cwnd, ssthresh) = (self.window.mss, self.window.paced, self.cwnd(), self.ssthresh());
        let kind = self.kind();
        *self = *before;
        self.switch(kind);
        self.window.paced = paced;
        self.window.cwnd = self.window.cwnd.max(cwnd);
        self.window.ssthresh = self.window.ssthresh.max(ssthresh);
        self.set_mss(mss);
        self.on_event(Event::Undone);
    }

    /// The ACK clock is gone, and the window falls back to the restart window, which is the initial one (RFC 5681 4.1).
    fn on_idle(&mut self) {
        let w = &mut self.window;
        w.cwnd = w.cwnd.min(w.initial());
        w.credit = 0;
    }

    /// The path takes segments of another size. The window stays as many bytes, but never less than one segment.
    pub(crate) fn set_mss(&mut self, mss: u16) {
        let w = &mut self.window;
        w.mss = mss.max(1);
        w.cwnd = w.cwnd.max(w.mss());
        w.ssthresh = w.ssthresh.max(2 * w.mss());
    }

    /// The device cuts pieces of up to `bytes` into segments (TSO), and receivers that join them answer a whole piece with one ACK.
    /// Slow start may then grow by that much for one ACK, instead of by two segments: as much as we sent as one.
    pub(crate) fn set_burst(&mut self, bytes: u32) {
        let w = &mut self.window;
        w.ack_limit = u8::try_from(bytes / w.mss()).unwrap_or(u8::MAX).max(ACK_LIMIT);
    }

    /// Another algorithm takes over the window as it is.
    pub(crate) fn switch(&mut self, kind: Congestion) {
        if self.kind() != kind {
            self.law = Law::new(kind);
        }
    }

    /// Bytes that may be in flight.
    #[inline]
    pub(crate) fn cwnd(&self) -> u32 {
        self.window.cwnd
    }

    /// The slow-start threshold; `u32::MAX` before the first loss.
    pub(crate) fn ssthresh(&self) -> u32 {
        self.window.ssthresh
    }

    /// The payload size that it reckons with.
    #[cfg(test)]
    pub(crate) fn mss(&self) -> u16 {
        self.window.mss
    }

    /// Whether the window is below the slow-start threshold.
    #[cfg(test)]
    pub(crate) fn in_slow_start(&self) -> bool {
        self.window.in_slow_start()
    }

    /// Where the state of an algorithm lies that goes by rates, and what paces.
    #[inline]
    pub(crate) fn paced(&self) -> Held16 {
        self.window.paced
    }

    /// It lies there from now on.
    pub(crate) fn set_paced(&mut self, paced: Held16) {
        self.window.paced = paced;
    }

    /// The window, for an algorithm whose state lies elsewhere.
    pub(crate) fn window_mut(&mut self) -> &mut Window {
        &mut self.window
    }

    /// Which algorithm it is.
    pub(crate) fn kind(&self) -> Congestion {
        match self.law {
            Law::Reno => Congestion::Reno,
            Law::Cubic(_) => Congestion::Cubic,
            Law::Bbr => Congestion::Bbr,
        }
    }
}

impl Cc {
    /// Its part of a record ([`crate::export`]), in the numbers from `from` on. By which law the window moves is among the options of the connection.
    pub(crate) fn fields(&mut self, from: u16, f: &mut impl Fields) {
        self.window.fields(from, f);
        if let Law::Cubic(cubic) = &mut self.law {
            cubic.fields(from + 20, f);
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
