use super::*;

fn view() -> View {
    View {
        may_transmit: true,
        una: Seq(0xffff_ff00),
        nxt: Seq(0xffff_ff00),
        end: Seq(0xffff_ff00) + 2500,
        shut: false,
        fin_sent: false,
        usable: 10_000,
        max_wnd: 10_000,
        mss: 1000,
        piece: 1000,
        next: Next::New,
        allowance: 10_000,
        small_unacked: false,
        nodelay: true,
        cork: false,
        force: false,
    }
}

fn sent(v: &View) -> Option<(u32, bool)> {
    match next(v) {
        Plan::Send { span, fin, again: Again::New } => Some((span.len(), fin)),
        _ => None,
    }
}

#[test]
fn full_segments_leave_one_by_one_or_in_pieces_when_the_device_cuts_them() {
    assert_eq!(sent(&view()), Some((1000, false)));
    assert_eq!(sent(&View { piece: 64_000, ..view() }), Some((2500, false)));
    // The small end stays behind what is small and in flight, unless no delay is wanted.
    let waits = View { piece: 64_000, small_unacked: true, nodelay: false, ..view() };
    assert_eq!(sent(&waits), Some((2000, false)));
    assert_eq!(sent(&View { cork: true, ..waits }), Some((2000, false)));
    assert_eq!(sent(&View { piece: 2000, ..view() }), Some((2000, false)));
}

#[test]
fn whichever_window_is_smallest_decides_and_says_so() {
    assert_eq!(sent(&View { piece: 9000, usable: 2400, ..view() }), Some((2000, false)));
    assert_eq!(next(&View { allowance: 999, ..view() }), Plan::Stop(Why::Congestion));
    assert_eq!(next(&View { usable: 0, ..view() }), Plan::Stop(Why::Window));
    assert_eq!(next(&View { usable: 900, ..view() }), Plan::Stop(Why::Window));
    assert_eq!(sent(&View { usable: 900, force: true, ..view() }), Some((900, false)));
    assert_eq!(next(&View { may_transmit: false, ..view() }), Plan::Stop(Why::State));
}

#[test]
fn the_fin_follows_the_last_byte_when_the_window_has_a_number_for_it() {
    let v = View { shut: true, piece: 9000, ..view() };
    assert_eq!(sent(&v), Some((2500, true)));
    assert_eq!(sent(&View { usable: 2500, ..v }), Some((2500, false)));
    let bare = View { end: v.nxt, ..v };
    assert_eq!(sent(&bare), Some((0, true)));
    assert_eq!(next(&View { usable: 0, ..bare }), Plan::Stop(Why::Window));
    let gone = View { fin_sent: true, nxt: bare.end + 1, ..bare };
    assert_eq!(next(&gone), Plan::Stop(Why::Done));
}

#[test]
fn lost_bytes_and_the_lost_fin_leave_again_within_the_congestion_window() {
    let at = Seq(0xffff_ff00);
    let v = View { nxt: at + 2501, end: at + 2500, shut: true, fin_sent: true, ..view() };
    let lost = View { next: Next::Retransmit(Span::with_len(at, 1000)), ..v };
    assert_eq!(
        next(&lost),
        Plan::Send { span: Span::with_len(at, 1000), fin: false, again: Again::Lost }
    );
    assert_eq!(next(&View { allowance: 10, ..lost }), Plan::Stop(Why::Congestion));
    let end = View { next: Next::Retransmit(Span::with_len(at + 2000, 501)), ..v };
    assert_eq!(
        next(&end),
        Plan::Send { span: Span::with_len(at + 2000, 500), fin: true, again: Again::Lost }
    );
    let fin = View { next: Next::Rescue(Span::with_len(at + 2500, 1)), ..v };
    assert_eq!(
        next(&fin),
        Plan::Send { span: Span::with_len(at + 2500, 0), fin: true, again: Again::Rescue }
    );
}

#[test]
fn nothing_to_send_and_nothing_allowed_are_told_apart() {
    let idle = View { next: Next::Nothing, ..view() };
    assert_eq!(next(&View { end: idle.nxt, ..idle }), Plan::Stop(Why::Done));
    // Recovery is told of unsent bytes only while the peer's window takes some.
    assert_eq!(next(&idle), Plan::Stop(Why::Window));
}
