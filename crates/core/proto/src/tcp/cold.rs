//! What nothing but trouble, urgent data and strangers ask for: it lies where what is rare lies
//! ([`super::rare_stats`]), so that a connection that is spared them does not carry it. Before
//! there is such a record, all of it is as [`Cold::at`] says.

use clearway_wire::Seq;

use super::cc::Law;
use super::held::Held;
use super::reasm::Reasm;
use super::recovery::Points;
use super::sack::Scoreboard;
use crate::error::Unreachable;
use crate::export::{Fields, UNREACHABLE};

/// The part of the record of a connection that is seldom looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Cold {
    pub points: Points,
    /// By which law the congestion window moves; that of another algorithm than the connection's
    /// means nothing.
    pub law: Law,
    /// The first number behind urgent data that we send (RFC 6093 2), while
    /// [`super::marks::Marks::SEND_URGENT`] says that there is some.
    pub snd_urgent: Seq,
    /// The first number behind urgent data that the peer has sent, while it waits.
    pub rcv_urgent: Seq,
    /// How often SND.UNA passed zero, to know how much was acknowledged in all.
    pub una_wraps: u16,
    /// In which second, modulo 256, [`Cold::challenges`] was drawn.
    pub challenge_second: u8,
    /// Challenge ACKs left in this second (RFC 5961 7).
    pub challenges: u8,
    /// An ICMP error that says why the peer may not answer (RFC 5461 4.1): told when the connection
    /// fails for that.
    pub soft_error: Option<Unreachable>,
    pub reasm: Held<Reasm>,
    pub sack: Held<Scoreboard>,
}

impl Cold {
    /// That of a connection that nothing has happened to, up to `una`.
    pub(crate) const fn at(una: Seq) -> Cold {
        Cold {
            points: Points::at(una),
            law: Law::NONE,
            snd_urgent: una,
            rcv_urgent: Seq(0),
            una_wraps: 0,
            challenge_second: 0,
            challenges: u8::MAX,
            soft_error: None,
            reasm: Held::NONE,
            sack: Held::NONE,
        }
    }

    /// Its part of a record ([`crate::export`]), the maps left out.
    pub(crate) fn fields(&mut self, f: &mut impl Fields) {
        let Cold {
            points,
            law,
            snd_urgent,
            rcv_urgent,
            una_wraps,
            challenge_second,
            challenges,
            soft_error,
            ..
        } = self;
        points.fields(f);
        law.fields(160, f);
        f.seq(112, snd_urgent);
        f.seq(130, rcv_urgent);
        f.u16(28, una_wraps);
        f.u8(29, challenges);
        f.u8(30, challenge_second);
        f.choice(37, soft_error, &UNREACHABLE);
    }
}
