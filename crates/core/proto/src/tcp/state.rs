//! The eleven states of a connection and the ways between them (RFC 9293 3.3.2, figure 5), declared
//! once.
//!
//! The table below is what the machine runs on, and what a test writes into `docs/tcp-states.md`.

use core::fmt;

/// The state of a connection (RFC 9293 3.3.2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum State {
    /// No connection at all.
    Closed,
    /// Waiting for anybody's SYN.
    Listen,
    /// Our SYN is out.
    SynSent,
    /// Both SYNs are out; ours is not acknowledged.
    SynReceived,
    /// Data flows both ways.
    Established,
    /// Our FIN is out and not acknowledged.
    FinWait1,
    /// Our FIN is acknowledged; the peer may still send.
    FinWait2,
    /// The peer has finished; we may still send.
    CloseWait,
    /// Both FINs are out; ours is not acknowledged.
    Closing,
    /// The peer had finished, then our FIN went out.
    LastAck,
    /// All is done; old segments must die before the two endpoints may meet again.
    TimeWait,
}

impl State {
    /// The number by which Linux knows the state, in TCP_INFO for one (include/net/tcp_states.h).
    pub const fn linux_number(self) -> u8 {
        match self {
            State::Established => 1,
            State::SynSent => 2,
            State::SynReceived => 3,
            State::FinWait1 => 4,
            State::FinWait2 => 5,
            State::TimeWait => 6,
            State::Closed => 7,
            State::CloseWait => 8,
            State::LastAck => 9,
            State::Listen => 10,
            State::Closing => 11,
        }
    }

    /// All states, in the RFC's order.
    pub const ALL: [State; 11] = [
        State::Listen,
        State::SynSent,
        State::SynReceived,
        State::Established,
        State::FinWait1,
        State::FinWait2,
        State::CloseWait,
        State::Closing,
        State::LastAck,
        State::TimeWait,
        State::Closed,
    ];

    /// The RFC's name, such as `SYN-SENT`.
    pub const fn name(self) -> &'static str {
        match self {
            State::Closed => "CLOSED",
            State::Listen => "LISTEN",
            State::SynSent => "SYN-SENT",
            State::SynReceived => "SYN-RECEIVED",
            State::Established => "ESTABLISHED",
            State::FinWait1 => "FIN-WAIT-1",
            State::FinWait2 => "FIN-WAIT-2",
            State::CloseWait => "CLOSE-WAIT",
            State::Closing => "CLOSING",
            State::LastAck => "LAST-ACK",
            State::TimeWait => "TIME-WAIT",
        }
    }

    /// Both SYNs were exchanged and acknowledged (RFC 9293 3.3.2: "synchronized").
    pub const fn is_synchronized(self) -> bool {
        !matches!(self, State::Closed | State::Listen | State::SynSent | State::SynReceived)
    }

    /// The peer may still send data: its FIN was not seen.
    pub const fn peer_may_send(self) -> bool {
        matches!(
            self,
            State::SynSent
                | State::SynReceived
                | State::Established
                | State::FinWait1
                | State::FinWait2
        )
    }

    /// Queued data may leave (RFC 9293 3.10.2): our FIN is not acknowledged and the handshake is
    /// done.
    pub(crate) const fn may_transmit(self) -> bool {
        matches!(
            self,
            State::Established
                | State::CloseWait
                | State::FinWait1
                | State::Closing
                | State::LastAck
        )
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What moves a connection from one state to another.
// Listeners have a table of their own, so nothing ever *moves* to LISTEN; the table says all that
// RFC 9293 draws all the same.
#[allow(dead_code)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Cause {
    /// The owner connects.
    Connect,
    /// The owner listens.
    Listen,
    /// A SYN arrived.
    Syn,
    /// A SYN that acknowledges ours arrived.
    SynAck,
    /// Our SYN was acknowledged.
    SynAcked,
    /// Our FIN left: the owner closed, and all data before it had left.
    FinSent,
    /// The peer's FIN arrived in order.
    Fin,
    /// Our FIN was acknowledged.
    FinAcked,
    /// 2 MSL, the FIN-WAIT-2 time or the time limit of a handshake is over.
    Timeout,
    /// A valid reset arrived, we sent one, or we gave up.
    Reset,
}

impl Cause {
    /// What the graph calls it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Cause::Connect => "connect",
            Cause::Listen => "listen",
            Cause::Syn => "SYN",
            Cause::SynAck => "SYN,ACK",
            Cause::SynAcked => "ACK of SYN",
            Cause::FinSent => "close: FIN sent",
            Cause::Fin => "FIN",
            Cause::FinAcked => "ACK of FIN",
            Cause::Timeout => "timeout",
            Cause::Reset => "reset",
        }
    }
}

macro_rules! transitions {
    ($($from:ident : $($cause:ident => $to:ident),+ ;)+) => {
        /// Every transition there is: from, cause, to.
        #[cfg(test)]
        pub(crate) const TRANSITIONS: &[(State, Cause, State)] = &[
            $($((State::$from, Cause::$cause, State::$to),)+)+
        ];

        /// The state after `cause` in `from`; None when the RFC knows no such transition.
        pub(crate) const fn after(from: State, cause: Cause) -> Option<State> {
            match (from, cause) {
                $($((State::$from, Cause::$cause) => Some(State::$to),)+)+
                _ => None,
            }
        }
    };
}

transitions! {
    Closed: Connect => SynSent, Listen => Listen;
    Listen: Syn => SynReceived, Reset => Closed;
    SynSent: SynAck => Established, Syn => SynReceived, Timeout => Closed, Reset => Closed;
    SynReceived: SynAcked => Established, FinSent => FinWait1, Fin => CloseWait, Timeout => Closed,
        Reset => Closed;
    Established: FinSent => FinWait1, Fin => CloseWait, Timeout => Closed, Reset => Closed;
    FinWait1: FinAcked => FinWait2, Fin => Closing, Timeout => Closed, Reset => Closed;
    FinWait2: Fin => TimeWait, Timeout => Closed, Reset => Closed;
    CloseWait: FinSent => LastAck, Timeout => Closed, Reset => Closed;
    Closing: FinAcked => TimeWait, Timeout => Closed, Reset => Closed;
    LastAck: FinAcked => Closed, Timeout => Closed, Reset => Closed;
    TimeWait: Timeout => Closed, Reset => Closed, Syn => SynReceived;
}

#[cfg(test)]
mod tests;
