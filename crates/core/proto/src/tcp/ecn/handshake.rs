//! What SYNs ask for and SYN-ACKs answer (RFC 3168 6.1.1; RFC 9768 3.1, tables 2 to 4).

use clearway_wire::tcp::AccEcn;
use clearway_wire::{Ecn, Flags};

use crate::config::EcnMode;

/// What the counters of bytes with ECT(0), CE and ECT(1) begin with, as the option tells them (RFC
/// 9768 3.2.1).
pub(super) const FIRST_BYTES: [u32; 3] = [1, 0, 1];

/// How marks are told to their sender.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) enum Feedback {
    /// Not at all.
    #[default]
    None = 0,
    /// By ECE until CWR comes (RFC 3168).
    Classic = 1,
    /// By counters (RFC 9768).
    Accurate = 2,
}

/// What a server and its client agreed on, and how the client's SYN was marked on the way.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Handshake {
    pub feedback: Feedback,
    pub syn_mark: Ecn,
}

/// So many SYNs, or SYN-ACKs, ask and say yes; then one may be lost because it does (RFC 9768
/// 3.1.4.1, 3.2.3.2.2).
pub(crate) const ASKED_TWICE: u8 = 2;

/// What the three bits of a SYN say.
const NOTHING: u8 = 0;
const CLASSIC: u8 = 0b011;
const ACCURATE: u8 = 0b111;

/// What our SYN asks for.
pub(crate) struct Asked;

impl Asked {
    /// By a connection that was told `mode`.
    pub(crate) fn by(mode: EcnMode) -> Feedback {
        match mode {
            EcnMode::Off | EcnMode::Accept | EcnMode::AcceptAccurate => Feedback::None,
            EcnMode::On | EcnMode::AcceptAccurateAskClassic => Feedback::Classic,
            EcnMode::Accurate => Feedback::Accurate,
        }
    }

    /// The flags of our SYN after so many that were not answered. A SYN that asks may be dropped
    /// for that: after one that asked as RFC 3168 has it (6.1.1.1), and after two that asked for
    /// AccECN (RFC 9768 3.1.4.1), none asks.
    pub(crate) fn flags(feedback: Feedback, unanswered: u8) -> Flags {
        match feedback {
            Feedback::Classic if unanswered == 0 => Flags::of_ace(CLASSIC),
            Feedback::Accurate if unanswered < ASKED_TWICE => Flags::of_ace(ACCURATE),
            _ => Flags::NONE,
        }
    }
}

/// What a server that was told `mode` takes the best of.
fn accepts(mode: EcnMode) -> Feedback {
    match mode {
        EcnMode::Off => Feedback::None,
        EcnMode::On | EcnMode::Accept => Feedback::Classic,
        EcnMode::Accurate | EcnMode::AcceptAccurate | EcnMode::AcceptAccurateAskClassic => {
            Feedback::Accurate
        }
    }
}

impl Handshake {
    /// What a server answers a SYN with `flags`, which arrived with `mark`.
    pub(crate) fn of_syn(mode: EcnMode, flags: Flags, mark: Ecn) -> Handshake {
        let feedback = match (accepts(mode), flags.ace()) {
            (Feedback::None, _) | (_, NOTHING) => Feedback::None,
            // RFC 9768 3.1.2: combinations that nobody uses yet ask for AccECN too.
            (Feedback::Accurate, ace) if ace != CLASSIC => Feedback::Accurate,
            // RFC 3168 6.1.1 knows two bits, which must both be set. No SYN that asks by them is
            // ECN-capable itself: somebody on the way marks everything.
            (_, CLASSIC | ACCURATE) if mark == Ecn::NotEct => Feedback::Classic,
            _ => Feedback::None,
        };
        Handshake { feedback, syn_mark: mark }
    }

    /// What was agreed on with a client that brings back a cookie that says that something was:
    /// AccECN uses neither 0 nor 1 in the ACE field of what completes the handshake (RFC 9768
    /// 3.2.2.1, note 3, and 5.1).
    pub(crate) fn of_cookie(mode: EcnMode, flags: Flags) -> Handshake {
        let feedback = match accepts(mode) {
            Feedback::Accurate if flags.ace() <= 1 => Feedback::Classic,
            most => most,
        };
        Handshake { feedback, syn_mark: Ecn::NotEct }
    }

    /// The flags of the SYN-ACK after so many that were not answered.
    pub(crate) fn syn_ack_flags(self, unanswered: u8) -> Flags {
        match self.feedback {
            Feedback::None => Flags::NONE,
            Feedback::Classic => Flags::ECE,
            // Whoever drops what says yes to AccECN may let pass what does not (RFC 9768
            // 3.2.3.2.2); feedback goes on all the same.
            Feedback::Accurate if unanswered >= ASKED_TWICE => Flags::NONE,
            Feedback::Accurate => Flags::of_ace(reflected(self.syn_mark)),
        }
    }

    /// The option of the first SYN-ACK; later ones are without, because it may be what the way does
    /// not take (RFC 9768 3.2.3.2.2).
    pub(crate) fn syn_ack_option(self, unanswered: u8) -> Option<AccEcn> {
        (self.feedback == Feedback::Accurate && unanswered == 0)
            .then(|| AccEcn::new(false, FIRST_BYTES, 3))
    }
}

/// How a SYN or SYN-ACK that arrived with `mark` is told so (RFC 9768, tables 2 and 3).
pub(crate) fn reflected(mark: Ecn) -> u8 {
    match mark {
        Ecn::NotEct => 0b010,
        Ecn::Ect1 => 0b011,
        Ecn::Ect0 => 0b100,
        Ecn::Ce => 0b110,
    }
}

/// What [`reflected`] tells; None: nothing that is known.
pub(crate) fn unreflected(ace: u8) -> Option<Ecn> {
    [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce].into_iter().find(|mark| reflected(*mark) == ace)
}

/// What the SYN-ACK with `flags` answers a client that `asked`. None: no ECN.
pub(crate) fn answer(asked: Feedback, flags: Flags) -> Option<Handshake> {
    let classic = Handshake { feedback: Feedback::Classic, syn_mark: Ecn::NotEct };
    match (asked, flags.ace()) {
        (Feedback::None, _) => None,
        // RFC 3168 6.1.1: ECE without CWR. The third bit is not known to it.
        (Feedback::Classic, _) => {
            (flags.intersection(Flags::ECE | Flags::CWR) == Flags::ECE).then_some(classic)
        }
        // A peer that sends the flags back as they came is broken (RFC 9768 3.1.2).
        (Feedback::Accurate, NOTHING | ACCURATE) => None,
        (Feedback::Accurate, 0b001) => Some(classic),
        // 0b101 is for the future, and means a yes without more (RFC 9768 3.1.3).
        (Feedback::Accurate, ace) => Some(Handshake {
            feedback: Feedback::Accurate,
            syn_mark: unreflected(ace).unwrap_or_default(),
        }),
    }
}
