use clearway_wire::Seq;

use super::{RECOVERIES, ReoWindow};

#[test]
fn duplicates_of_one_round_trip_widen_the_window_once() {
    let mut window = ReoWindow::NEW;
    assert_eq!(window.quarters, 1);
    window.on_dsack(Seq(100), Seq(500));
    window.on_dsack(Seq(300), Seq(700));
    assert_eq!(window.quarters, 2);
    // What was in flight at the first is acknowledged.
    window.on_dsack(Seq(500), Seq(900));
    assert_eq!(window.quarters, 3);
    for round in 1..300 {
        window.on_dsack(Seq(1000 * round), Seq(1000 * round + 1));
    }
    assert_eq!(window.quarters, u8::MAX);
}

#[test]
fn sixteen_recoveries_without_a_duplicate_bring_the_first_window_back() {
    let mut window = ReoWindow::NEW;
    window.on_dsack(Seq(100), Seq(500));
    for _ in 1..RECOVERIES {
        window.on_recovered();
        assert_eq!(window.quarters, 2);
    }
    // A duplicate begins the count anew.
    window.on_dsack(Seq(600), Seq(900));
    for _ in 1..16 {
        window.on_recovered();
        assert_eq!(window.quarters, 3);
    }
    window.on_recovered();
    assert_eq!(window.quarters, 1);
}
