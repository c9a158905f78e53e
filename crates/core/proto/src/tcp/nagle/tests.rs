use super::{Query, Send, Wait, may_send};

const MSS: u32 = 1460;

fn query(unsent: u32) -> Query {
    Query {
        unsent,
        usable: 65_535,
        mss: MSS,
        flight: 0,
        small_unacked: false,
        max_wnd: 65_535,
        nodelay: false,
        cork: false,
        fin: false,
        overdue: false,
    }
}

#[test]
fn full_segments_always_leave() {
    let busy = Query { flight: 10_000, small_unacked: true, cork: true, ..query(MSS) };
    assert_eq!(may_send(&busy), Ok(Send::Full));
}

#[test]
fn a_small_segment_leaves_alone_and_the_next_one_waits() {
    assert_eq!(may_send(&query(1)), Ok(Send::Alone));
    assert_eq!(may_send(&Query { small_unacked: true, flight: 1, ..query(1) }), Err(Wait::Nagle));
    // The end of a large write goes at once: only full segments are in flight.
    assert_eq!(may_send(&Query { flight: 10 * MSS, ..query(1) }), Ok(Send::Alone));
}

#[test]
fn nothing_waits_for_an_ack_that_cannot_come() {
    assert_eq!(may_send(&Query { small_unacked: true, flight: 0, ..query(1) }), Ok(Send::Alone));
}

#[test]
fn a_cork_does_not_hold_a_full_segment_that_only_the_window_cuts_short() {
    let tiny = Query { cork: true, usable: 400, max_wnd: 800, ..query(5000) };
    assert_eq!(may_send(&tiny), Ok(Send::HalfWindow));
    assert_eq!(may_send(&Query { max_wnd: 8000, ..tiny }), Err(Wait::SillyWindow));
    assert_eq!(may_send(&Query { unsent: 500, ..tiny }), Err(Wait::Cork));
}

#[test]
fn no_delay_and_the_last_bytes_before_the_fin_wait_for_nothing() {
    let busy = Query { small_unacked: true, flight: 1, ..query(1) };
    assert_eq!(may_send(&Query { nodelay: true, ..busy }), Ok(Send::NoDelay));
    assert_eq!(may_send(&Query { fin: true, ..busy }), Ok(Send::Last));
    assert_eq!(may_send(&Query { fin: true, cork: true, ..busy }), Ok(Send::Last));
}

#[test]
fn a_cork_holds_small_segments_until_they_are_overdue() {
    let corked = Query { cork: true, nodelay: true, ..query(100) };
    assert_eq!(may_send(&corked), Err(Wait::Cork));
    assert_eq!(may_send(&Query { overdue: true, ..corked }), Ok(Send::Overdue));
}

#[test]
fn a_shut_window_is_said_even_when_overdue() {
    assert_eq!(may_send(&Query { usable: 0, overdue: true, ..query(5000) }), Err(Wait::NoWindow));
    assert_eq!(may_send(&query(0)), Err(Wait::Nothing));
}

#[test]
fn a_sliver_of_window_is_not_used_until_overdue() {
    let sliver = Query { usable: 100, ..query(5000) };
    assert_eq!(may_send(&sliver), Err(Wait::SillyWindow));
    assert_eq!(may_send(&Query { nodelay: true, ..sliver }), Err(Wait::SillyWindow));
    assert_eq!(may_send(&Query { overdue: true, ..sliver }), Ok(Send::Overdue));
}

#[test]
fn half_of_a_small_receivers_window_is_worth_filling() {
    let tiny = Query { usable: 400, max_wnd: 800, ..query(5000) };
    assert_eq!(may_send(&tiny), Ok(Send::HalfWindow));
    assert_eq!(may_send(&Query { flight: 400, ..tiny }), Err(Wait::SillyWindow));
    assert_eq!(may_send(&Query { flight: 400, nodelay: true, ..tiny }), Ok(Send::HalfWindow));
}
