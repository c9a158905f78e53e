//! The tables of RFC 9768, and the counters under acknowledgements that are lost, late or few.

use super::handshake::answer;
use super::*;
use crate::config::EcnMode;

const MODES: [EcnMode; 6] = EcnMode::ALL;

fn server(mode: EcnMode, syn: u8, mark: Ecn) -> (Feedback, u8) {
    let handshake = Handshake::of_syn(mode, Flags::of_ace(syn), mark);
    (handshake.feedback, handshake.syn_ack_flags(0).ace())
}

/// RFC 9768, table 2, the rows of a server; and what a server without AccECN answers (RFC 3168
/// 6.1.1).
#[test]
fn a_server_answers_each_syn_with_the_best_that_both_have() {
    use Feedback::{Accurate, Classic, None};
    for mode in MODES {
        let (accurate, classic) = (mode as u8 >= 3, mode != EcnMode::Off);
        assert_eq!(server(mode, 0b000, Ecn::NotEct), (None, 0));
        assert_eq!(
            server(mode, 0b011, Ecn::NotEct),
            if classic { (Classic, 0b001) } else { (None, 0) },
            "{mode:?}"
        );
        let full = match (accurate, classic) {
            (true, _) => (Accurate, 0b010),
            (_, true) => (Classic, 0b001),
            _ => (None, 0),
        };
        assert_eq!(server(mode, 0b111, Ecn::NotEct), full, "{mode:?}");
        // Combinations that are kept for the future ask for AccECN as well (3.1.2).
        for reserved in [0b001, 0b010, 0b100, 0b101, 0b110] {
            assert_eq!(
                server(mode, reserved, Ecn::NotEct),
                if accurate { (Accurate, 0b010) } else { (None, 0) }
            );
        }
    }
    for (mark, told) in
        [(Ecn::NotEct, 0b010), (Ecn::Ect1, 0b011), (Ecn::Ect0, 0b100), (Ecn::Ce, 0b110)]
    {
        assert_eq!(server(EcnMode::Accurate, 0b111, mark), (Accurate, told));
        let classic = if mark == Ecn::NotEct { (Classic, 0b001) } else { (None, 0) };
        assert_eq!(
            server(EcnMode::On, 0b011, mark),
            classic,
            "somebody marks everything on the way"
        );
    }
}

/// RFC 9768, table 2, the rows of a client.
#[test]
fn a_client_takes_each_syn_ack_for_what_it_says() {
    let of = |asked, ace| answer(asked, Flags::of_ace(ace)).map(|h| (h.feedback, h.syn_mark));
    let accurate = |mark| Some((Feedback::Accurate, mark));
    assert_eq!(of(Feedback::Accurate, 0b000), None, "no ECN");
    assert_eq!(of(Feedback::Accurate, 0b001), Some((Feedback::Classic, Ecn::NotEct)));
    assert_eq!(of(Feedback::Accurate, 0b010), accurate(Ecn::NotEct));
    assert_eq!(of(Feedback::Accurate, 0b011), accurate(Ecn::Ect1));
    assert_eq!(of(Feedback::Accurate, 0b100), accurate(Ecn::Ect0));
    assert_eq!(
        of(Feedback::Accurate, 0b101),
        accurate(Ecn::NotEct),
        "kept for the future: as if it had arrived as it left"
    );
    assert_eq!(of(Feedback::Accurate, 0b110), accurate(Ecn::Ce));
    assert_eq!(of(Feedback::Accurate, 0b111), None, "a peer that sends back what it gets");
    for ace in 0..8 {
        assert_eq!(of(Feedback::Classic, ace).is_some(), ace & 0b011 == 0b001, "{ace:03b}");
        assert_eq!(of(Feedback::None, ace), None);
    }
}

/// RFC 3168 6.1.1.1; RFC 9768 3.1.4.1 and 3.2.3.2.2.
#[test]
fn syns_that_are_not_answered_ask_for_less() {
    let asks = |feedback| [0, 1, 2, 3].map(|unanswered| Asked::flags(feedback, unanswered).ace());
    assert_eq!(asks(Feedback::None), [0; 4]);
    assert_eq!(asks(Feedback::Classic), [0b011, 0, 0, 0]);
    assert_eq!(asks(Feedback::Accurate), [0b111, 0b111, 0, 0]);
    let handshake = Handshake { feedback: Feedback::Accurate, syn_mark: Ecn::NotEct };
    assert_eq!([0, 1, 2].map(|n| handshake.syn_ack_flags(n).ace()), [0b010, 0b010, 0]);
    assert_eq!([0, 1, 2].map(|n| handshake.syn_ack_option(n).is_some()), [true, false, false]);
    assert!(!EcnState::of_server(handshake, 1, Seq(0)).has(NO_ECT));
    assert!(EcnState::of_server(handshake, 2, Seq(0)).has(NO_ECT), "3.1.5: one SYN-ACK said no");
}

#[test]
fn a_cookie_tells_which_ecn_by_the_ace_field_that_comes_with_it() {
    let of = |mode, ace| Handshake::of_cookie(mode, Flags::of_ace(ace)).feedback;
    for ace in 0..8 {
        let accurate = if ace <= 1 { Feedback::Classic } else { Feedback::Accurate };
        assert_eq!(of(EcnMode::AcceptAccurate, ace), accurate, "{ace:03b}");
        assert_eq!(of(EcnMode::Accept, ace), Feedback::Classic);
        assert_eq!(of(EcnMode::Off, ace), Feedback::None);
    }
}

fn accurate() -> EcnState {
    EcnState::new(Feedback::Accurate)
}

/// An ACK of so many segments of 1000 bytes, whose ACE field counts `ce` packets from the
/// beginning.
fn ack(packets: u32, ce: u32) -> Arrived {
    Arrived {
        flags: Flags::ACK | Flags::of_ace((ce + FIRST_ACE) as u8),
        mark: Ecn::NotEct,
        len: 0,
        segments: 1,
        option: None,
        has_sack: false,
        is_newer: packets > 0,
        acked: packets * 1000,
        mss: 1000,
    }
}

fn data(mark: Ecn, len: u32) -> Arrived {
    Arrived { mark, len, ..ack(0, 0) }
}

/// The same from a peer without AccECN.
fn classic_data(mark: Ecn, len: u32) -> Arrived {
    Arrived { flags: Flags::ACK, ..data(mark, len) }
}

#[test]
fn the_ace_field_counts_what_was_marked_and_comes_round() {
    let mut state = accurate();
    let mut rng = clearway_base::Rng::seed(9);
    let mut marked = 0;
    for _ in 0..500 {
        let packets = rng.between(1, 7) as u32;
        let more = rng.below(u64::from(packets) + 1) as u32;
        marked += more;
        assert_eq!(state.take(&ack(packets, marked)).marked, more);
    }
    assert_eq!(state.delivered_ce, marked);
}

#[test]
fn an_ack_that_says_nothing_new_is_not_believed_about_marks() {
    let mut state = accurate();
    assert_eq!(state.take(&ack(2, 3)).marked, 3);
    // A late one, from before.
    assert_eq!(state.take(&Arrived { is_newer: false, ..ack(0, 1) }).marked, 0);
    assert_eq!(state.take(&ack(2, 4)).marked, 1);
}

/// RFC 9768 A.2.1: with more packets than the field counts, as many are taken to be marked as may
/// be.
#[test]
fn an_ack_of_many_packets_is_taken_for_the_worst_unless_bytes_say_better() {
    for (packets, ce, safe) in [(8, 0, 8), (9, 0, 8), (15, 2, 10), (16, 0, 16), (20, 3, 19)] {
        assert_eq!(accurate().take(&ack(packets, ce)).marked, safe, "{packets} packets");
        let told = |bytes: u32| Some(AccEcn::new(false, [1, bytes, 1], 2));
        let none = Arrived { option: told(0), ..ack(packets, ce) };
        assert_eq!(accurate().take(&none).marked, ce, "no byte of payload was marked");
        let few = Arrived { option: told(ce * 1000), ..ack(packets, ce) };
        assert_eq!(accurate().take(&few).marked, ce);
        let most = Arrived { option: told(safe * 1000), ..ack(packets, ce) };
        assert_eq!(accurate().take(&most).marked, safe);
    }
}

#[test]
fn counters_of_bytes_come_round_at_24_bits_and_do_not_go_back() {
    let mut state = accurate();
    let (mut bytes, step) = ([1u32, 0, 1], 5_000_000);
    for n in 1..20 {
        bytes = [bytes[0] + step, bytes[1] + 1000, bytes[2]];
        let a = Arrived { option: Some(AccEcn::new(n % 2 == 0, bytes, 3)), ..ack(1, n) };
        assert_eq!(state.take(&a).marked, 1);
        assert_eq!(state.delivered_bytes, [n * step, n * 1000, 0]);
    }
    let old = Arrived {
        option: Some(AccEcn::new(false, [bytes[0] - step, bytes[1] - 1000, 1], 3)),
        ..ack(1, 19)
    };
    state.take(&old);
    assert_eq!(state.delivered_bytes, [19 * step, 19_000, 0]);
}

#[test]
fn an_option_cut_short_tells_what_it_has() {
    let mut state = accurate();
    state.take(&Arrived { option: Some(AccEcn::new(true, [70, 50, 30], 1)), ..ack(1, 0) });
    assert_eq!(state.delivered_bytes, [0, 0, 29]);
    state.take(&Arrived { option: Some(AccEcn::new(false, [70, 50, 30], 2)), ..ack(1, 0) });
    assert_eq!(state.delivered_bytes, [69, 50, 29]);
    state.take(&Arrived { option: Some(AccEcn::new(false, [99, 99, 99], 0)), ..ack(1, 0) });
    assert_eq!(state.delivered_bytes, [69, 50, 29]);
}

/// RFC 9768 3.2.2.5.1 and 3.2.3.3.
#[test]
fn marks_are_told_soon_but_acks_of_acks_end() {
    let mut state = accurate();
    assert!(!state.take(&data(Ecn::Ect0, 1000)).ack_now);
    assert!(state.take(&data(Ecn::Ce, 1000)).ack_now, "the first mark");
    state.left(Flags::ACK, true);
    assert!(!state.take(&data(Ecn::Ce, 1000)).ack_now);
    assert!(state.take(&data(Ecn::Ce, 1000)).ack_now, "the second one that is not told");
    state.left(Flags::ACK, true);
    assert!(
        state.take(&data(Ecn::Ce, 1000)).ack_now || state.take(&data(Ecn::Ect0, 1000)).ack_now,
        "a change back"
    );
    state.left(Flags::ACK, true);
    let mut pure = 0;
    while !state.take(&data(Ecn::Ce, 0)).ack_now {
        pure += 1;
    }
    assert_eq!(pure, 5, "marked ACKs are answered only before the field could come round");
}

#[test]
fn what_is_received_is_counted_packet_by_packet_and_byte_by_byte() {
    let mut state = accurate();
    for (mark, len, segments) in [
        (Ecn::Ect0, 1000, 1),
        (Ecn::Ce, 2500, 3),
        (Ecn::Ect1, 7, 1),
        (Ecn::NotEct, 50, 1),
        (Ecn::Ce, 0, 1),
    ] {
        state.take(&Arrived { segments, ..data(mark, len) });
    }
    assert_eq!((state.received_ce, state.received_bytes), (4, [1000, 2500, 7]));
    assert_eq!(state.stamp(Leaving::Ack, Ecn::Ect0).1.ace(), (FIRST_ACE + 4) as u8 & 7);
    assert_eq!(state.option(3).counters(), [Some(1001), Some(2500), Some(8)]);
}

/// RFC 9768 3.2.2.4 and 3.2.2.3.
#[test]
fn what_does_not_get_through_is_not_used() {
    let handshake = Handshake { feedback: Feedback::Accurate, syn_mark: Ecn::NotEct };
    let first = |ace: u8| {
        let mut state = EcnState::of_server(handshake, 0, Seq(0));
        state.take(&Arrived {
            flags: Flags::ACK | Flags::of_ace(ace),
            is_newer: true,
            ..ack(0, 0)
        });
        (state.has(NO_ECT), state.has(DEAF), state.delivered_ce)
    };
    assert_eq!(first(0b000), (true, true, 0), "the field is cleared on the way");
    assert_eq!(first(0b010), (false, false, 0));
    assert_eq!(first(0b101), (false, false, 0), "for the future, or a counter");
    assert_eq!(first(0b011), (true, false, 0), "what could not be marked was changed");
    assert_eq!(first(0b100), (true, false, 0));
    assert_eq!(first(0b110), (true, false, 1));
    let mut deaf = EcnState::of_server(handshake, 0, Seq(0));
    deaf.take(&Arrived { flags: Flags::ACK, ..ack(0, 0) });
    assert_eq!(deaf.take(&ack(3, 3)).marked, 0);
    assert_eq!(
        deaf.stamp(Leaving::New, Ecn::Ect0),
        (Ecn::NotEct, Flags::of_ace(5)),
        "feedback goes on"
    );
}

#[test]
fn a_second_timeout_leaves_options_out() {
    let mut state = accurate();
    state.take(&Arrived { option: Some(AccEcn::default()), ..data(Ecn::Ect0, 10) });
    assert!(state.option_is_due());
    state.timed_out(1);
    assert!(state.option_is_due());
    state.timed_out(2);
    assert!(!state.option_is_due());
}

#[test]
fn the_window_is_cut_once_for_what_was_in_flight() {
    for feedback in [Feedback::Classic, Feedback::Accurate] {
        let mut state = EcnState::new(feedback);
        assert!(state.may_cut(Seq(100), Seq(5000)));
        assert!(!state.may_cut(Seq(200), Seq(6000)) && !state.may_cut(Seq(5000), Seq(9000)));
        assert!(state.holds_back(Seq(5000)) && !state.holds_back(Seq(5001)));
        assert!(state.may_cut(Seq(5001), Seq(9000)));
        let cwr = state.stamp(Leaving::New, Ecn::Ect0).1.contains(Flags::CWR);
        assert_eq!(cwr, feedback == Feedback::Classic);
    }
}

/// RFC 3168 6.1.2 to 6.1.6.
#[test]
fn with_rfc_3168_only_new_data_may_be_marked_and_carries_cwr_once() {
    let mut state = EcnState::new(Feedback::Classic);
    state.is_cut(Seq(1));
    let of = |state: &EcnState, leaving| state.stamp(leaving, Ecn::Ect0);
    for leaving in [Leaving::Again, Leaving::Ack, Leaving::Probe] {
        assert_eq!(of(&state, leaving), (Ecn::NotEct, Flags::NONE));
    }
    let (mark, flags) = of(&state, Leaving::New);
    assert_eq!((mark, flags), (Ecn::Ect0, Flags::CWR));
    state.left(flags, false);
    assert_eq!(of(&state, Leaving::New), (Ecn::Ect0, Flags::NONE));
    // The echo goes on until CWR comes, and a marked segment with CWR begins another.
    assert_eq!(
        state.take(&classic_data(Ecn::Ce, 0)),
        Verdict::default(),
        "a pure ACK that is marked is none of an honest peer"
    );
    assert!(state.take(&classic_data(Ecn::Ce, 10)).ack_now);
    for leaving in [Leaving::New, Leaving::Again, Leaving::Ack, Leaving::Probe] {
        assert!(of(&state, leaving).1.contains(Flags::ECE));
    }
    state.take(&Arrived { flags: Flags::ACK | Flags::CWR, ..data(Ecn::Ce, 10) });
    assert!(of(&state, Leaving::Ack).1.contains(Flags::ECE));
    state.take(&Arrived { flags: Flags::ACK | Flags::CWR, ..data(Ecn::Ect0, 10) });
    assert!(!of(&state, Leaving::Ack).1.contains(Flags::ECE));
}

#[test]
fn a_device_is_not_given_what_it_would_change() {
    let mut state = accurate();
    for ce in 0..16u32 {
        state.received_ce = ce;
        assert_eq!(state.must_leave_alone(), (ce + FIRST_ACE) & 2 != 0, "{ce}");
    }
    assert!(!EcnState::new(Feedback::Classic).must_leave_alone());
}
