//! Congestion control: how much may be in flight (RFC 5681, RFC 9438). A value that is told what
//! happened and says a number: [`Cc::on_sent`], [`Cc::on_ack`], [`Cc::on_event`] are what it hears,
//! [`Cc::cwnd`] and [`Cc::advice`] what it says.
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
//! Growth is counted in acknowledged bytes, never in ACKs, so that splitting one ACK into many
//! gains nothing (RFC 3465), and only while the window was really in use (RFC 5681 4.1, RFC 7661,
//! RFC 9438 5.8).

use super::ack_info::AckInfo;
use super::rtt::Rtt;
use crate::config::Congestion;
use crate::export::Fields;

mod algorithm;
mod bbr;
mod cubic;
mod hystart;
mod prague;
mod reno;
mod window;

use algorithm::Algorithm;
pub(crate) use algorithm::{Advice, Event};
pub(crate) use bbr::{Bbr, Input, Known};
use cubic::Cubic;
use hystart::HyStart;
pub(crate) use prague::{ClassicQueue, Measured, Prague};
use reno::Reno;
pub(crate) use window::MAX_CWND;
pub(crate) use window::Window;

/// The congestion control of one connection as a whole. Between events the window lies in the
/// record of the connection, and the rest where what is rare lies, once it says more than
/// [`Law::new`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Cc {
    window: Window,
    law: Law,
}

/// By which law the window grows and shrinks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Law {
    /// NewReno (RFC 5681, 6582).
    Reno(Reno),
    /// CUBIC (RFC 9438).
    Cubic(Cubic),
    /// One of the versions of BBR, whose state lies in a pool: [`Bbr`] is told by the connection
    /// itself what happens.
    Bbr(Congestion),
    /// Prague, which is paced.
    Prague(Prague),
    /// One that goes by the window, in the first slow start (RFC 9406): it has nothing of its own to
    /// remember yet.
    Starting(Congestion, HyStart),
}

impl Law {
    /// The law of a connection that is none yet.
    pub(crate) const NONE: Law = Law::Reno(Reno::NEW);

    /// With nothing to remember.
    pub(crate) fn new(kind: Congestion) -> Law {
        match kind {
            Congestion::Reno => Law::Reno(Reno::NEW),
            Congestion::Cubic => Law::Cubic(Cubic::new()),
            Congestion::Bbr | Congestion::Bbr1 => Law::Bbr(kind),
            Congestion::Prague => Law::Prague(Prague::NEW),
        }
    }

    /// Which algorithm it is.
    pub(crate) fn kind(&self) -> Congestion {
        match self {
            Law::Reno(_) => Congestion::Reno,
            Law::Cubic(_) => Congestion::Cubic,
            Law::Prague(_) => Congestion::Prague,
            Law::Bbr(kind) | Law::Starting(kind, _) => *kind,
        }
    }

    /// Whether there is something to remember.
    pub(crate) fn is_needed(&self) -> bool {
        *self != Law::new(self.kind())
    }

    /// The window was not in use: what [`Cc::on_ack`] does then.
    pub(crate) fn pause(&mut self) {
        if let Law::Cubic(cubic) = self {
            cubic.pause();
        }
    }

    /// What it says of sending, beside the window.
    fn advice(&self) -> Advice {
        match self {
            Law::Reno(reno) => reno.advice(),
            Law::Cubic(cubic) => cubic.advice(),
            Law::Bbr(_) => Advice { uses_prr: false },
            Law::Prague(prague) => prague.advice(),
            Law::Starting(kind, _) => Law::new(*kind).advice(),
        }
    }

    /// Its part of a record ([`crate::export`]), in the numbers from `from` on. Which law it is is
    /// among the options of the connection.
    pub(crate) fn fields(&mut self, from: u16, f: &mut impl Fields) {
        let mut starting = match self {
            Law::Starting(_, start) => Some(*start),
            Law::Reno(_) | Law::Cubic(_) | Law::Bbr(_) | Law::Prague(_) => None,
        };
        HyStart::field(&mut starting, from + 30, f);
        match (starting, &mut *self) {
            (Some(start), _) => *self = Law::Starting(self.kind(), start),
            (None, Law::Reno(reno)) => reno.fields(from + 2, f),
            (None, Law::Cubic(cubic)) => cubic.fields(from, f),
            (None, Law::Prague(prague)) => prague.fields(from, f),
            (None, Law::Bbr(_) | Law::Starting(..)) => {}
        }
    }
}

impl Advice {
    /// What the law of this kind says of sending, beside the window.
    pub(crate) fn of(kind: Congestion) -> Advice {
        Law::new(kind).advice()
    }
}

impl Cc {
    /// For a connection that has just been established, with payloads of at most `mss` bytes and
    /// `iw` segments of initial window.
    pub(crate) fn new(kind: Congestion, mss: u16, iw: u8) -> Cc {
        Cc { window: Window::new(mss, iw), law: Law::new(kind) }
    }

    /// Of its parts.
    pub(crate) fn of(window: Window, law: Law) -> Cc {
        Cc { window, law }
    }

    /// Bytes that may be in flight.
    pub(crate) fn cwnd(&self) -> u32 {
        self.window.cwnd()
    }

    /// What lies in the record of the connection, and what lies where what is rare lies.
    pub(crate) fn parts(&self) -> (Window, Law) {
        (self.window, self.law)
    }

    /// An ACK arrived outside fast recovery. The window grows by what was newly delivered, if it
    /// was in use.
    pub(crate) fn on_ack(&mut self, ack: &AckInfo, rtt: &Rtt) {
        if ack.acked == 0 && ack.credit == 0 {
            return;
        }
        self.note_start(ack);
        match &mut self.law {
            Law::Reno(reno) => reno.on_ack(&mut self.window, ack, rtt),
            Law::Cubic(cubic) => cubic.on_ack(&mut self.window, ack, rtt),
            Law::Prague(prague) => prague.on_ack(&mut self.window, ack, rtt),
            Law::Starting(_, start) => {
                if ack.cwnd_limited && start.on_ack(&mut self.window, ack) {
                    self.law = Law::new(self.kind());
                }
            }
            Law::Bbr(_) => {}
        }
    }

    /// Whether how long things wait in the queue tells of that, and not of a slow start of ours.
    pub(crate) fn is_settled(&self) -> bool {
        matches!(&self.law, Law::Prague(prague) if prague.is_settled())
    }

    /// The same, where what arrives is measured.
    pub(crate) fn on_measured_ack(&mut self, ack: &AckInfo, rtt: &Rtt, measured: Measured) {
        match &mut self.law {
            Law::Prague(prague) => {
                prague.on_measured_ack(&mut self.window, ack, rtt, measured);
            }
            _ if measured.is_held => {}
            _ => self.on_ack(ack, rtt),
        }
    }

    /// In the first slow start HyStart++ watches the round trips. It needs eight of a round, which
    /// the delayed ACKs of fewer than sixteen segments do not bring.
    fn note_start(&mut self, ack: &AckInfo) {
        let is_first = self.window.ssthresh == u32::MAX;
        let is_wide = self.window.cwnd >= hystart::LOW_WINDOW * self.window.mss();
        match self.law {
            Law::Starting(kind, _) if !is_first => self.law = Law::new(kind),
            Law::Reno(_) | Law::Cubic(_) if is_first && ack.cwnd_limited && is_wide => {
                self.law = Law::Starting(self.kind(), HyStart::at(ack.nxt));
            }
            _ => {}
        }
    }

    /// Something else happened than that new data was acknowledged.
    pub(crate) fn on_event(&mut self, event: Event) {
        let event = self.in_full(event);
        if let Law::Starting(kind, _) = self.law {
            if event.ends_growth() {
                self.law = Law::new(kind);
            }
        }
        match &mut self.law {
            Law::Reno(reno) => reno.on_event(&mut self.window, &event),
            Law::Cubic(cubic) => cubic.on_event(&mut self.window, &event),
            Law::Prague(prague) => prague.on_event(&mut self.window, &event),
            Law::Starting(..) => {}
            Law::Bbr(_) => return,
        }
        match event {
            Event::Recovered { flight } => self.on_recovered(flight),
            Event::Idle { idle, rto } if idle > rto => self.on_idle(),
            Event::Loss { .. }
            | Event::Marked { .. }
            | Event::Timeout { .. }
            | Event::Undone
            | Event::Idle { .. } => {}
        }
    }

    /// The ACKs of one burst are digested together before anything is sent, so the flight of this
    /// moment may be a fraction of what the path carried. The most that was in flight in this round
    /// trip is the FlightSize that RFC 5681 equation 4 means. And it is never more than the window:
    /// what the peer holds behind a hole counts as outstanding, and is no longer in the path.
    fn in_full(&self, event: Event) -> Event {
        let (used, cwnd) = (self.window.used, self.window.cwnd);
        let in_use = |flight: u32| flight.max(used).min(cwnd);
        match event {
            Event::Loss { flight } => Event::Loss { flight: in_use(flight) },
            Event::Marked { flight } => Event::Marked { flight: in_use(flight) },
            Event::Timeout { flight, again } => Event::Timeout { flight: flight.min(cwnd), again },
            other => other,
        }
    }

    /// What it says of sending, beside the window.
    #[cfg(test)]
    pub(crate) fn advice(&self) -> Advice {
        self.law.advice()
    }

    /// The window is not opened so far that a burst would leave (RFC 6582 3.2, step 3).
    fn on_recovered(&mut self, flight: u32) {
        let w = &mut self.window;
        w.cwnd = w.ssthresh.min(flight.max(w.mss()).saturating_add(w.mss())).min(MAX_CWND);
    }

    /// A loss was none: things are as they were `before`, and what was won since is kept. So is an
    /// algorithm that the owner has chosen since.
    pub(crate) fn restore(&mut self, before: &Cc) {
        let (mss, paced, cwnd, ssthresh) =
            (self.window.mss, self.window.paced, self.window.cwnd, self.window.ssthresh);
        let kind = self.kind();
        *self = *before;
        if self.kind() != kind {
            self.law = Law::new(kind);
        }
        self.window.paced = paced;
        self.window.cwnd = self.window.cwnd.max(cwnd);
        self.window.ssthresh = self.window.ssthresh.max(ssthresh);
        self.window.set_mss(mss);
        self.on_event(Event::Undone);
    }

    /// The ACK clock is gone, and the window falls back to the restart window, which is the initial
    /// one (RFC 5681 4.1).
    fn on_idle(&mut self) {
        let w = &mut self.window;
        w.cwnd = w.cwnd.min(w.initial());
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

    /// Which algorithm it is.
    pub(crate) fn kind(&self) -> Congestion {
        self.law.kind()
    }
}

impl Cc {
    /// Its part of a record ([`crate::export`]), in the numbers from `from` on. By which law the
    /// window moves is among the options of the connection.
    pub(crate) fn fields(&mut self, from: u16, f: &mut impl Fields) {
        self.window.fields(from, f);
        self.law.fields(from, f);
    }
}

/// Tests ask the whole what others ask the window.
#[cfg(test)]
impl core::ops::Deref for Cc {
    type Target = Window;

    fn deref(&self) -> &Window {
        &self.window
    }
}

#[cfg(test)]
impl core::ops::DerefMut for Cc {
    fn deref_mut(&mut self) -> &mut Window {
        &mut self.window
    }
}

#[cfg(test)]
pub(super) mod tests;
