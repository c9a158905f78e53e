//! How often, how long and at which pace a connection tries again, where its owner says so.

use clearway_base::Duration;

use super::clock::DueFar;
use super::conn::Conn;
use super::context::{ConnCx, Pools};
use super::seldom::Seldom;
use super::state::State;
use crate::config::{ConnOptions, TcpConfig};
use crate::store::Env;

/// Timeouts in a row that do not double where that was asked for, and segments in flight of which
/// there are fewer then, as Linux has them (TCP_THIN_LINEAR_RETRIES, `tcp_stream_is_thin`).
const LINEAR_TIMEOUTS: u8 = 6;
const THIN: u32 = 4;

impl<E: Env> Conn<E> {
    /// Takes over those among its options.
    pub(super) fn set_seldom(&mut self, p: &mut Pools<E>, seldom: Seldom) {
        if seldom != self.suffered(p).seldom {
            self.note_rare(p, |rare| rare.seldom = seldom);
        }
    }

    /// Its options with them.
    pub(super) fn with_seldom(&self, p: &Pools<E>, options: ConnOptions) -> ConnOptions {
        let seldom = &self.suffered(p).seldom;
        let &Seldom { syn_retries, user_timeout, max_segment, fin_wait_2, linear_timeouts, .. } =
            seldom;
        let max_pacing_rate = seldom.max_pacing_rate();
        ConnOptions {
            syn_retries,
            user_timeout,
            max_segment,
            fin_wait_2,
            linear_timeouts,
            max_pacing_rate,
            ..options
        }
    }

    /// How long something may wait without any progress; zero: for ever.
    pub(super) fn user_timeout(&self, p: &Pools<E>) -> Duration {
        if self.settings.has_user_timeout() {
            self.suffered(p).seldom.user_timeout
        } else {
            Duration::ZERO
        }
    }

    /// Retransmissions of our SYN.
    pub(super) fn syn_retries(&self, p: &Pools<E>, config: &TcpConfig) -> u8 {
        match self.suffered(p).seldom.syn_retries {
            0 => config.syn_retries,
            named => named,
        }
    }

    /// How long it stays in FIN-WAIT-2 without owner.
    pub(super) fn fin_wait_2(&self, p: &Pools<E>, config: &TcpConfig) -> Duration {
        self.suffered(p).seldom.fin_wait_2.unwrap_or(config.fin_wait_2).min(DueFar::FAR)
    }

    /// After a timeout: how long the next one may take doubles (RFC 6298 5.5), unless the owner
    /// wants it not to, for little that is in flight.
    pub(super) fn back_off(&mut self, cx: &ConnCx<'_, '_, E>) {
        self.rtt.on_timeout();
        let little = || self.outstanding() < THIN.saturating_mul(self.mss.into());
        if self.suffered(cx.pools).seldom.linear_timeouts
            && self.state == State::Established
            && self.recovery.tries <= LINEAR_TIMEOUTS
            && little()
        {
            self.rtt.reset_backoff();
        }
    }
}
