use std::os::unix::fs::symlink;
use std::path::PathBuf;

use super::history::History;
use super::{Sample, fits, in_json, in_lines, patterns};

fn sample(started: u64, counters: &[(&str, u64)]) -> Sample {
    let counters = counters.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
    Sample { started, counters }
}

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("cwnstat-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn only_what_came_since_the_last_look_is_counted() {
    let before = sample(1, &[("TcpInSegs", 5), ("TcpOutSegs", 9)]);
    let now = sample(1, &[("TcpInSegs", 7), ("TcpOutSegs", 9), ("TcpOutRsts", 3)]);
    let since = sample(1, &[("TcpInSegs", 2), ("TcpOutSegs", 0), ("TcpOutRsts", 3)]);
    assert_eq!(now.since(&before), since.counters);
}

#[test]
fn lines_and_json_are_those_of_nstat() {
    let rows = sample(1, &[("TcpActiveOpens", 12), ("TcpExtTCPLossProbeRecovery", 3)]).counters;
    let lines = "#kernel\nTcpActiveOpens                  12                 0.0\n\
                 TcpExtTCPLossProbeRecovery      3                  0.0\n";
    assert_eq!(in_lines(&rows, None), lines);
    assert!(
        in_lines(&rows, Some(4.0))
            .contains("TcpActiveOpens                  12                 3.0\n")
    );
    let json: serde_json::Value = serde_json::from_str(&in_json(&rows, false)).unwrap();
    assert_eq!(json["kernel"]["TcpActiveOpens"], 12);
    assert_eq!(in_json(&rows, false).lines().count(), 1);
}

#[test]
fn patterns_are_those_of_a_shell_and_capitals_do_not_matter() {
    let some = patterns(&["tcpext*".into(), "TcpOut?sts".into()]).unwrap();
    assert!(fits(&some, "TcpExtTCPTimeouts") && fits(&some, "TcpOutRsts"));
    assert!(!fits(&some, "TcpInSegs"));
    assert!(fits(&[], "TcpInSegs"), "no pattern means all");
    assert!(patterns(&["[".into()]).unwrap_err().to_string().contains("is no pattern"));
}

#[test]
fn a_history_of_another_start_of_the_host_is_not_used() {
    let folder = folder("starts");
    let path = folder.join("history");
    let seen = sample(7, &[("TcpInSegs", 5)]);
    History::open(&path).unwrap().write(&seen).unwrap();
    assert_eq!(History::open(&path).unwrap().read(7).unwrap(), Some(seen));
    assert_eq!(History::open(&path).unwrap().read(8).unwrap(), None);
    std::fs::write(&path, "#clearway started=7\nTcpInSegs many\n").unwrap();
    let error = History::open(&path).unwrap().read(7).unwrap_err();
    assert!(error.to_string().contains("--reset"), "{error}");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_link_or_a_pipe_in_the_place_of_the_history_is_refused() {
    let folder = folder("links");
    let (target, link, pipe) = (folder.join("target"), folder.join("link"), folder.join("pipe"));
    std::fs::write(&target, "mine").unwrap();
    symlink(&target, &link).unwrap();
    assert!(History::open(&link).is_err());
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::from_bits_truncate(0o600)).unwrap();
    assert!(History::open(&pipe).unwrap_err().to_string().contains("no plain file"));
    std::fs::hard_link(&target, folder.join("second")).unwrap();
    assert!(History::open(&target).is_err(), "a second name of another file");
    assert_eq!(std::fs::read_to_string(&target).unwrap(), "mine");
    std::fs::remove_dir_all(folder).unwrap();
}
