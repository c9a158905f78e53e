use super::{Group, Placement, groups, probe};

fn placement(before: f64, after: f64) -> Placement {
    Placement { before_ns: Some(before), after_ns: Some(after) }
}

#[test]
fn round_trips_far_from_each_other_are_in_groups_of_their_own() {
    let trips = [
        (110.0, 120.0),
        (400.0, 410.0),
        (100.0, 100.0),
        (430.0, 395.0),
        (1_900.0, 1_500.0),
        (100.0, 400.0),
    ];
    let all: Vec<Placement> =
        trips.iter().map(|(before, after)| placement(*before, *after)).collect();
    let groups = groups(all.iter());
    let counts: Vec<usize> = groups.iter().map(|group| group.count).collect();
    assert_eq!(counts, [2, 2, 1]);
    assert_eq!(groups[0].name(), "of 100 to 115 ns");
    assert_eq!(groups[2].name(), "of 1688 ns");
    let held = |index: usize| groups.iter().position(|group| group.holds(&all[index]));
    assert_eq!([0, 1, 2, 3, 4, 5].map(held), [Some(0), Some(1), Some(0), Some(1), Some(2), None]);
}

#[test]
fn groups_of_two_runs_are_alike_when_they_are_about_as_far() {
    let group = |least_ns, most_ns| Group { least_ns, most_ns, count: 1 };
    assert!(group(100.0, 120.0).like(&group(125.0, 130.0)));
    assert!(
        !group(100.0, 120.0).like(&group(300.0, 400.0))
            && !group(300.0, 400.0).like(&group(100.0, 120.0))
    );
}

#[test]
fn cores_that_moved_have_no_distance() {
    assert!(placement(110.0, 310.0).moved() && placement(310.0, 110.0).moved());
    assert_eq!(placement(110.0, 310.0).settled(), None);
    assert_eq!(placement(100.0, 100.0).settled(), Some(100.0));
}

#[test]
fn a_core_has_no_distance_from_itself() {
    assert_eq!(probe(0, 0), None);
    assert!(!Placement::default().moved());
    assert_eq!(Placement::default().settled(), None);
}

#[test]
fn a_round_trip_takes_time_and_ends() {
    if clearway_engine::cores::available() > 1 {
        // Where the first two cores may not be used there is nothing to measure, and that is an
        // answer too.
        assert!(probe(0, 1).is_none_or(|ns| ns > 1.0));
    }
}

#[test]
fn a_core_that_is_not_there_is_no_endless_wait() {
    assert_eq!(probe(0, 1_000), None);
    assert_eq!(probe(1_000, 0), None);
}
