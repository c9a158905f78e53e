use super::*;

const LIMIT: u32 = 1 << 20;
const START: Instant = Instant::from_nanos(1_000_000_000);

/// Woken so often for bytes, `GAP` apart; when it was woken last.
fn woken(hold: &mut Hold, times: u8) -> Instant {
    let mut now = START;
    for _ in 0..times {
        now += GAP;
        hold.add(When::Soon);
        assert!(hold.ends_at().is_none_or(|end| end <= now), "it waits no longer than the gap");
        hold.notified(now);
    }
    now
}

#[test]
fn who_reads_in_bulk_is_woken_once_in_a_gap() {
    let mut hold = Hold::new();
    let last = woken(&mut hold, NOTIFIERS);
    assert_eq!(hold.ends_at(), None, "nothing is pending");
    hold.add(When::Soon);
    assert_eq!(hold.ends_at(), Some(last + GAP));
}

#[test]
fn who_was_woken_seldom_or_has_just_written_is_woken_at_once() {
    let mut hold = Hold::new();
    woken(&mut hold, NOTIFIERS - 1);
    hold.add(When::Soon);
    assert!(hold.has_pending());
    assert_eq!(hold.ends_at(), None);
    woken(&mut hold, NOTIFIERS);
    hold.add(When::Soon);
    hold.wrote();
    assert_eq!(hold.ends_at(), None);
}

#[test]
fn what_presses_is_not_held_whatever_else_there_is() {
    let mut hold = Hold::new();
    woken(&mut hold, NOTIFIERS);
    hold.flush();
    assert!(!hold.has_pending(), "there is nothing to flush for");
    hold.add(When::Soon);
    hold.add(When::Now);
    hold.add(When::Soon);
    assert_eq!(hold.ends_at(), None);
    hold.heard();
    hold.add(When::Soon);
    assert!(hold.ends_at().is_some());
    hold.flush();
    assert!(hold.has_pending());
    assert_eq!(hold.ends_at(), None);
}

#[test]
fn few_bytes_and_half_a_fifo_are_told_at_once() {
    assert_eq!(When::for_bytes(0, LIMIT), When::Now);
    assert_eq!(When::for_bytes(PORTION - 1, LIMIT), When::Now);
    assert_eq!(When::for_bytes(PORTION, LIMIT), When::Soon);
    assert_eq!(When::for_bytes(LIMIT / 2 - 1, LIMIT), When::Soon);
    assert_eq!(When::for_bytes(LIMIT / 2, LIMIT), When::Now);
    assert_eq!(When::for_bytes(PORTION, PORTION), When::Now, "a small FIFO is always half full");
}
