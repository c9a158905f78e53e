use clearway_engine::{Probe as _, StageProbe};

use super::*;

/// Reports of a core that has had so many turns.
fn reports(turns: u64) -> [CoreReport<()>; 1] {
    let mut probe = StageProbe::new();
    (0..turns).for_each(|_| probe.turn_ends(true));
    [CoreReport { stages: probe.told(), ..CoreReport::default() }]
}

#[test]
fn seconds_in_which_requests_began_or_ended_are_left_out() {
    let mut budget = Budget::default();
    for (turns, requests) in
        [(10, 0), (20, 50), (30, 150), (40, 250), (50, 350), (60, 360), (70, 360)]
    {
        budget.second(requests, &reports(turns));
    }
    assert_eq!((budget.sum.requests, budget.sum.stages.turns), (300, 30));
}

#[test]
fn a_second_without_news_is_no_second() {
    let mut budget = Budget::default();
    for (turns, requests) in [(10, 0), (20, 100), (30, 200), (30, 200), (40, 300), (50, 400)] {
        budget.second(requests, &reports(turns));
    }
    assert_eq!(budget.sum.requests, 200);
}

#[test]
fn what_was_over_too_soon_is_told_as_a_whole() {
    let mut budget = Budget::default();
    budget.second(100, &reports(10));
    let told = budget.told().unwrap();
    assert_eq!((told.requests, told.stages.turns), (100, 10));
    assert_eq!(budget.lines().len(), 1 + Stage::ALL.len() + 2);
    assert_eq!(budget.json()["cycles_per_request"].as_object().unwrap().len(), Stage::ALL.len());
    assert!(budget.json()["cycles_per_request"]["driver_receive"].is_number());
}

#[test]
fn where_nothing_is_counted_nothing_is_told() {
    let mut budget = Budget::default();
    budget.second(100, &[CoreReport::<()>::default()]);
    assert_eq!((budget.lines().len(), budget.json()), (0, Value::Null));
}
