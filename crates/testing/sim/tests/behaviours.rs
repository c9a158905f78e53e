//! Every scenario under a few seeds, by the name of its behaviour. Thousands of seeds are for
//! `cargo xtask sim --seeds N`.

use std::path::Path;

use clearway_sim::report::try_seed;
use clearway_sim::run::{Mode, play};
use clearway_sim::scenario::{SCENARIOS, named};

/// Plays a scenario with seeds 0 to `seeds` - 1.
fn holds(name: &str, mode: Mode, seeds: u64) {
    hold(name, mode, 0..seeds);
}

/// Plays a scenario with these seeds.
fn hold(name: &str, mode: Mode, seeds: impl IntoIterator<Item = u64>) {
    let scenario = named(name).expect("a scenario of this name");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../target/sim");
    for seed in seeds {
        if let Err(report) = try_seed(seed, scenario, mode, &folder) {
            panic!("\n{}", report.text());
        }
    }
}

macro_rules! behaviours {
    ($($name:ident)+) => {
        $(
            #[test]
            fn $name() {
                holds(stringify!($name), Mode::Plain, 8);
            }
        )+

        #[test]
        fn every_scenario_has_a_test() {
            let tested = [$(stringify!($name)),+];
            for scenario in SCENARIOS {
                assert!(tested.contains(&scenario.name), "{} is not among the tests here",
                    scenario.name);
            }
            assert_eq!(tested.len(), SCENARIOS.len());
        }
    };
}

behaviours! {
    handshake bulk ping_pong short half_close slow_reader tiny_windows zero_window both_close simultaneous_open
    vanish keepalive abort refused time_wait_reuse urgent overload blackhole partition reorder bursts mtu_change
    narrow_path mtu_black_hole link_flap route_change address_change vrf crowd loopback flood garbage blind_reset udp udp_clear
}

#[test]
fn what_was_swallowed_is_over_soon_after_the_path_is_known() {
    // A first ACK that told no window; BBR that took the wait for a timeout for a slow path; minutes of timeouts
    // until the shortest segments were tried.
    hold("mtu_black_hole", Mode::Plain, [16228, 24698, 66698, 10593, 17838, 46223, 48708, 38383]);
    hold("bursts", Mode::Plain, [10870]);
}

#[test]
fn a_seed_plays_the_same_run_again() {
    for name in ["bulk", "flood", "udp"] {
        let scenario = named(name).expect("a scenario of this name");
        let runs: Vec<_> = (0..2).map(|_| play(5, scenario, Mode::Plain, None)).collect();
        let digests: Vec<_> =
            runs.iter().map(|r| r.as_ref().map(|s| (s.digest, s.frames, s.turns))).collect();
        assert!(digests[0].is_ok() && digests[0] == digests[1], "{name}: {digests:?}");
    }
}

#[test]
fn another_seed_plays_another_run() {
    let scenario = named("bulk").expect("a scenario of this name");
    let digest = |seed| play(seed, scenario, Mode::Plain, None).map(|s| s.digest);
    assert_ne!(digest(1), digest(2));
}

#[test]
fn nobody_notices_that_stacks_are_exported_and_others_go_on_with_what_was_written() {
    for scenario in SCENARIOS {
        holds(scenario.name, Mode::Export, 2);
    }
}

#[test]
fn data_that_waits_for_its_pacing_leaves_after_an_import_too() {
    // In both runs an export meets a connection with nothing in flight whose data waits for its
    // time: no timer of TCP runs then.
    hold("tiny_windows", Mode::Export, [881, 1686]);
}
