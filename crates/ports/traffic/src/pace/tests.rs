use super::*;

fn per_second(frames: u64) -> FramesPerSecond {
    FramesPerSecond { frames, seconds: 1 }
}

const START: Instant = Instant::from_nanos(77);

#[test]
fn an_hour_in_odd_steps_has_exactly_the_frames_of_an_hour() {
    let mut pace = Pace::new(FramesPerSecond { frames: 1_000_003, seconds: 7 }, START);
    let (mut now, mut sent) = (START, 0);
    let end = START + Duration::from_secs(3_600);
    while now < end {
        now = (now + Duration::from_nanos(9_999_991)).min(end);
        let frames = pace.allowed(now);
        pace.sent(frames);
        sent += frames;
    }
    assert_eq!(sent, 1_000_003 * 3_600 / 7);
    assert_eq!(pace.short(), 0);
}

#[test]
fn the_next_frame_is_due_when_it_is_allowed_and_not_before() {
    let mut pace = Pace::new(FramesPerSecond { frames: 3, seconds: 1 }, START);
    for _ in 0..10 {
        let next = pace.next();
        assert_eq!(pace.allowed(Instant::from_nanos(next.as_nanos() - 1)), 0);
        assert_eq!(pace.allowed(next), 1);
        pace.sent(1);
    }
    assert_eq!(pace.next().since(START), Duration::from_nanos(11_000_000_000 / 3 + 1));
}

#[test]
fn what_a_port_does_not_take_is_given_up_after_a_while_and_counted() {
    let mut pace = Pace::new(per_second(10_000), START);
    // A tenth of a second may wait.
    assert_eq!(pace.allowed(START + Duration::from_millis(100)), 1_000);
    assert_eq!(pace.allowed(START + Duration::from_millis(300)), 1_000);
    assert_eq!(pace.short(), 2_000);
    pace.sent(1_000);
    assert_eq!(pace.allowed(START + Duration::from_millis(300)), 0);
    pace.give_up(START + Duration::from_millis(301));
    assert_eq!((pace.short(), pace.allowed(START + Duration::from_millis(301))), (2_010, 0));
}

#[test]
fn a_rate_of_nothing_never_sends() {
    let mut pace = Pace::new(per_second(0), START);
    assert_eq!(pace.allowed(START + Duration::from_secs(1_000_000)), 0);
    assert_eq!(pace.next(), Instant::NEVER);
}
