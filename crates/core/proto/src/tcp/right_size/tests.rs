use super::*;

const KIB: u32 = 1 << 10;

fn grows(wanted: Wanted, window: u32) -> bool {
    wanted.is_more(window, 2 * window)
}

#[test]
fn a_steady_sender_gets_twice_what_it_brings() {
    let wanted = Wanted::of(256 * KIB, 256 * KIB, 0);
    assert!(grows(wanted, 512 * KIB));
    assert!(!grows(wanted, 513 * KIB));
    // The most of a round trip long ago does not matter.
    assert!(!grows(Wanted::of(200 * KIB, 800 * KIB, 0), 512 * KIB));
}

#[test]
fn one_that_doubles_gets_ten_times_what_it_brings() {
    let wanted = Wanted::of(200 * KIB, 100 * KIB, 0);
    assert!(grows(wanted, 1000 * KIB));
    // No window is more than that.
    assert!(!grows(wanted, 1001 * KIB));
    // Nothing is known of before: it may be doubling. More than doubling counts as that.
    for most in [0, 1, 50 * KIB] {
        assert_eq!(Wanted::of(200 * KIB, most, 0).growing, wanted.growing);
    }
    // By a tenth more: a tenth of what a doubling asks for.
    let wanted = Wanted::of(220 * KIB, 200 * KIB, 0);
    assert_eq!(wanted.growing, u64::from(2 * 220 * KIB + 176 * KIB));
}

#[test]
fn what_lies_behind_a_hole_is_added() {
    assert!(!grows(Wanted::of(100 * KIB, 100 * KIB, 300 * KIB), 512 * KIB));
    assert!(grows(Wanted::of(100 * KIB, 100 * KIB, 312 * KIB), 512 * KIB));
}
