use crate::placement::Placement;
use crate::report::{Failure, LeftOut, Report};
use crate::testing::{blank, sample};

fn report() -> Report {
    let mut report = blank(&["ours", "kernel"], &["1", "64"]);
    for round in 1..=3 {
        let speed = f64::from(round);
        for (system, point, rps) in [
            ("ours", "1", 160e3),
            ("kernel", "1", 20e3),
            ("ours", "64", 1.2e6),
            ("kernel", "64", 100e3),
        ] {
            let mut sample = sample(system, point, round, rps * speed);
            sample.placement = Placement {
                before_ns: Some(100.0),
                after_ns: Some(if round == 3 { 900.0 } else { 110.0 }),
            };
            sample.values.insert("busy".into(), 0.5);
            report.samples.push(sample);
        }
    }
    report.left_out.push(LeftOut {
        system: "lwip".into(),
        point: None,
        why: "lwip-dpdk is not built: make baselines".into(),
    });
    report.failures.push(Failure {
        system: "ours".into(),
        point: "1".into(),
        round: 2,
        error: "it broke".into(),
    });
    report.samples[0].warnings.push("this client was busy 95 % of the time".into());
    report.samples[1].warnings.push("this client was busy 97 % of the time".into());
    report.samples[2].warnings.push("this client was busy 99 % of the time".into());
    report.compute("kernel");
    report
}

#[test]
fn the_table_has_medians_spread_and_ratios_and_everything_that_was_noted() {
    let text = super::table(&report());
    let wanted = "\
== A trial
What is measured, and how.

machine:       A processor, 2 cores, 8 GiB, TSC 0 MHz, no governor, Linux 1.2.3, huge pages:
programs:      clearway 0.1.0; iperf3 3.12
commit:        0123456789ab
cores:         server 0, client 1; DPDK with no huge pages
rounds:        3 of 2 s after 0.3 s, systems in turn; 2026-01-02T03:04:05Z, took 1 min 15 s
core to core:  round trip 105 ns (100…900); of 12 measurements 8 with one of 105 ns, 4 in which \
it moved

median (min…max) and ratio to kernel; rounds with a core-to-core round trip of 105 ns
connections  system    requests        min…max  ratio   busy
connections          requests/s                        share
1            ours          240k    (160k…320k)   8.00   50 %
             kernel       30.0k  (20.0k…40.0k)   1.00   50 %
64           ours         1.80M  (1.20M…2.40M)   12.0   50 %
             kernel        150k    (100k…200k)   1.00   50 %
left out: lwip: lwip-dpdk is not built: make baselines
failed: ours at 1, round 2: it broke
warning: ours: this client was busy 95 % of the time and the like (2)
warning: kernel: this client was busy 97 % of the time (1)
";
    assert_eq!(text, wanted);
}

#[test]
fn other_groups_have_tables_of_their_own_and_what_has_no_round_says_so() {
    let mut report = report();
    for sample in report.samples.iter_mut().filter(|sample| sample.point == "64") {
        sample.placement = Placement { before_ns: Some(500.0), after_ns: Some(510.0) };
    }
    report.compute("kernel");
    let text = super::table(&report);
    // Six measurements lie in the one, and four in the other.
    assert!(text.contains("kernel; rounds with a core-to-core round trip of 505 ns"), "{text}");
    assert!(text.contains("1            ours         ~320k"), "{text}");
    assert!(text.contains("\nrounds with a core-to-core round trip of 105 ns:"), "{text}");
    assert!(text.contains("~ no round (of both) in that group"), "{text}");
}

#[test]
fn a_run_that_was_stopped_and_a_busy_machine_are_told() {
    let mut report = report();
    report.stopped = true;
    report.samples[0].load = 9.0;
    let text = super::table(&report);
    assert!(
        text.contains("stopped:") && text.contains("measure again when the machine is quiet"),
        "{text}"
    );
}
