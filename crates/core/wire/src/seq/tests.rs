use super::*;

const NEAR_THE_WRAP: [u32; 7] =
    [0, 1, 0x7fff_fffe, 0x7fff_ffff, 0x8000_0000, 0x8000_0001, u32::MAX];

#[test]
fn order_is_kept_across_the_wrap_for_distances_below_half_the_circle() {
    for start in NEAR_THE_WRAP {
        for distance in [1, 2, 1000, 0x7fff_ffff] {
            let (a, b) = (Seq(start), Seq(start) + distance);
            assert!(a.lt(b) && a.le(b) && b.gt(a) && b.ge(a), "{a} {b}");
            assert!(!b.lt(a) && !b.le(a) && !a.gt(b) && !a.ge(b), "{a} {b}");
            assert_eq!((a.max(b), a.min(b), b.since(a)), (b, a, distance));
        }
    }
}

#[test]
fn a_number_equals_only_itself() {
    for n in NEAR_THE_WRAP {
        let a = Seq(n);
        assert!(a.le(a) && a.ge(a) && !a.lt(a) && !a.gt(a));
        assert_eq!(a.since(a), 0);
    }
}

#[test]
fn a_window_holds_its_first_number_and_not_the_one_behind_its_last() {
    for start in NEAR_THE_WRAP {
        for len in [1, 10, 0x8000_0000, 0xc000_0000, u32::MAX] {
            let start = Seq(start);
            assert!(start.within(start, len));
            assert!((start + (len - 1)).within(start, len));
            assert!(!(start + len).within(start, len));
            assert!(!(start - 1).within(start, len));
        }
        assert!(!Seq(start).within(Seq(start), 0), "an empty window holds nothing");
    }
}

#[test]
fn adding_and_taking_away_wrap() {
    let mut a = Seq(u32::MAX);
    a += 2;
    assert_eq!((a, a - 2), (Seq(1), Seq(u32::MAX)));
}
