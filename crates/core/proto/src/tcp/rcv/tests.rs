use super::*;

fn rcv(nxt: u32, wnd: u32) -> Rcv {
    Rcv { nxt: Seq(nxt), edge: Seq(nxt) + wnd, acked: Seq(nxt), ..Rcv::default() }
}

#[test]
fn the_four_cases_of_the_acceptance_test_everywhere_on_the_circle() {
    for at in [0_u32, 1, 0x7fff_fff0, 0x8000_0000, 0xffff_fff0, 0xffff_ffff] {
        let open = rcv(at, 100);
        let s = |d: i32| Seq(at.wrapping_add_signed(d));
        assert!(open.is_acceptable(s(0), 0));
        assert!(open.is_acceptable(s(99), 0));
        assert!(!open.is_acceptable(s(100), 0));
        assert!(!open.is_acceptable(s(-1), 0));
        assert!(open.is_acceptable(s(-5), 6));
        assert!(!open.is_acceptable(s(-5), 5));
        assert!(open.is_acceptable(s(99), 50));
        assert!(!open.is_acceptable(s(100), 1));
        assert!(open.is_acceptable(s(-10), 200));
        let shut = rcv(at, 0);
        assert!(shut.is_acceptable(s(0), 0));
        assert!(!shut.is_acceptable(s(1), 0));
        assert!(!shut.is_acceptable(s(0), 1));
    }
}

#[test]
fn a_segment_is_cut_on_both_sides_and_loses_its_fin_with_its_tail() {
    let r = rcv(0xffff_fffe, 10);
    let s = |d: i32| Seq(0xffff_fffe_u32.wrapping_add_signed(d));
    assert_eq!(r.cut(s(0), 5, true), Cut { front: 0, len: 5, fin: true });
    assert_eq!(r.cut(s(-3), 5, false), Cut { front: 3, len: 2, fin: false });
    assert_eq!(r.cut(s(5), 10, true), Cut { front: 0, len: 5, fin: false });
    assert_eq!(r.cut(s(-3), 20, true), Cut { front: 3, len: 10, fin: false });
    assert_eq!(r.cut(s(0), 10, true), Cut { front: 0, len: 10, fin: true });
    assert_eq!(r.cut(s(-5), 4, true), Cut { front: 4, len: 0, fin: false });
    assert_eq!(r.cut(s(-4), 4, true), Cut { front: 4, len: 0, fin: true });
}

#[test]
fn the_edge_never_falls_behind() {
    let mut r = rcv(0xffff_ffff, 0);
    r.advance(1);
    assert_eq!((r.nxt, r.edge, r.wraps), (Seq(0), Seq(0), 1));
    assert_eq!(r.wnd(), 0);
}
