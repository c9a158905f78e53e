use super::*;

#[test]
fn only_turns_that_had_work_count_and_every_cycle_of_theirs_does() {
    let mut probe = StageProbe::new();
    probe.turn_ends(false);
    let before = probe.since;
    for stage in [Stage::DriverIn, Stage::StackIn, Stage::DriverIn, Stage::App] {
        probe.enter(stage);
    }
    probe.turn_ends(true);
    let after = probe.since;
    probe.enter(Stage::Timers);
    probe.turn_ends(false);
    let told = probe.told().unwrap();
    assert_eq!(told.turns, 1);
    assert_eq!(told.all(), after - before, "the stages of a turn leave nothing out");
    assert_eq!(told.of(Stage::Timers), 0, "a turn without work is forgotten");
}

#[test]
fn a_stage_may_be_entered_many_times() {
    let mut probe =
        StageProbe { stage: Stage::Other, since: 0, turn: [0; 7], sum: StageCycles::default() };
    for (at, stage) in [Stage::StackOut, Stage::DriverOut, Stage::StackOut, Stage::DriverOut]
        .into_iter()
        .enumerate()
    {
        // As if each stage took 100 cycles.
        probe.turn[stage as usize] += 100 * (at as u64 + 1);
    }
    probe.since = u64::MAX;
    probe.turn_ends(true);
    let told = probe.told().unwrap();
    assert_eq!((told.of(Stage::StackOut), told.of(Stage::DriverOut)), (400, 600));
    let mut sum = told;
    sum.add(&told);
    assert_eq!((sum.turns, sum.all()), (2, 2_000));
    assert_eq!(sum.since(&told), told);
}

#[test]
fn without_a_probe_nothing_is_told() {
    let mut probe = NoProbe;
    probe.enter(Stage::App);
    probe.turn_ends(true);
    assert_eq!(probe.told(), None);
    assert_eq!(size_of::<NoProbe>(), 0);
}

#[test]
fn a_probe_on_demand_counts_while_somebody_asks_and_no_longer() {
    let mut probe = OnDemandProbe::new();
    let turn = |probe: &mut OnDemandProbe| {
        probe.enter(Stage::StackIn);
        probe.enter(Stage::App);
        probe.turn_ends(true);
    };
    turn(&mut probe);
    assert_eq!(probe.told().unwrap(), StageCycles::default(), "nobody has asked");
    assert_eq!(probe.ask(), StageCycles::default());
    turn(&mut probe);
    assert_eq!(probe.told().unwrap().turns, 1);
    // As if its time were over.
    probe.until = 1;
    turn(&mut probe);
    assert!(!probe.listens());
    turn(&mut probe);
    assert_eq!(probe.ask().turns, 2, "the turn that ended its time, and none after");
    assert!(probe.listens());
}

#[test]
fn a_sample_is_shorter_and_shortens_nothing() {
    let mut probe = OnDemandProbe::new();
    probe.sample();
    let sampled = probe.until;
    assert!(probe.listens());
    probe.ask();
    let asked = probe.until;
    assert!(asked > sampled);
    probe.sample();
    assert_eq!(probe.until, asked, "who asked for more is served on");
    for _ in 0..2 * SAMPLE_TURNS {
        probe.turn_ends(true);
    }
    assert!(probe.listens(), "and is not bound by the turns of a sample");
}

#[test]
fn a_sample_is_over_after_so_many_turns_with_work() {
    let mut probe = OnDemandProbe::new();
    probe.sample();
    for _ in 0..SAMPLE_TURNS - 1 {
        probe.turn_ends(true);
        probe.turn_ends(false);
    }
    assert!(probe.listens());
    probe.turn_ends(true);
    assert!(!probe.listens());
    probe.turn_ends(true);
    assert_eq!(probe.sample().turns, u64::from(SAMPLE_TURNS));
}
