//! What is said when something is wrong or missing.

use std::process::{Command, Output, Stdio};

use crate::world::{CLEARWAY, Folder, lab, text};

fn run(args: &[&str]) -> Output {
    Command::new(CLEARWAY).arg("lab").args(args).stdin(Stdio::null()).output().unwrap()
}

#[test]
fn wrong_use_has_exit_code_2_and_says_what_is_right() {
    let cases: [(&[&str], &str); 7] = [
        (&["nothing"], "there is no scenario `nothing`. There are pingpong, http"),
        (&[], "required"),
        (&["http", "--cores", "0"], "write the cores of both"),
        (&["http", "--seconds", "0"], "no measurement"),
        (&["http", "--server", "x"], "NAME=ADDR:PORT"),
        (&["all", "--systems", "kernel"], "go with one scenario"),
        (&["compare", "a.json", "b.json", "--relative"], "--fail-below"),
    ];
    for (args, said) in cases {
        let output = run(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", text(&output));
        assert!(text(&output).contains(said), "{args:?}: {}", text(&output));
    }
}

#[test]
fn a_system_or_point_that_is_not_there_is_told_with_those_that_are() {
    let folder = Folder::new();
    for (words, said) in [
        ("http --systems nobody", "http has no system `nobody`; it has clearway, "),
        ("http --reference nobody", "http has no system `nobody`"),
        ("vhost --points 65", "vhost has no point `65`; it has 64, 128"),
        (
            "rate --server lwip=127.0.0.1:1",
            "rate has a system `lwip` already. Give the --server another name.",
        ),
    ] {
        let output = lab(&folder, words).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", text(&output));
        assert!(text(&output).contains(said), "{words}: {}", text(&output));
    }
}

#[test]
fn the_list_names_every_scenario_and_what_it_needs() {
    let output = run(&["--list"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let said = text(&output);
    for scenario in [
        "pingpong",
        "http",
        "rate",
        "connections",
        "latency",
        "iperf3-loopback",
        "iperf3-ethernet",
        "programs",
        "programs-loopback",
        "programs-memif",
        "udp-flood",
        "vhost",
        "all",
    ] {
        assert!(
            said.lines().any(|line| line.starts_with(&format!("{scenario} "))),
            "{scenario}: {said}"
        );
    }
    assert!(
        said.contains("needs: DPDK, dpdk-testpmd") && said.contains("(make baselines)"),
        "{said}"
    );
}

#[test]
fn what_is_missing_is_left_out_with_the_command_that_installs_it() {
    let folder = Folder::new();
    // Programs are looked for here only, and none is here.
    let output = lab(&folder, "iperf3-loopback").env("PATH", &folder.path).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(
        text(&output).contains("left out: kernel: iperf3 is not installed: apt-get install iperf3"),
        "{}",
        text(&output)
    );
    let output = lab(&folder, "pingpong --systems lwip --baselines /nowhere").output().unwrap();
    assert!(text(&output).contains("lwip-dpdk is not built: make baselines"), "{}", text(&output));
}
