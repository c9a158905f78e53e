//! `clearway doctor` on the files of many machines. What it says of each stands beside the files;
//! after a change that is meant, look at the difference that
//! `BLESS=1 cargo test -p clearway-cli --test doctor` makes.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

fn machines() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/doctor/machines")
}

/// A machine's files in a folder of their own, gone at the end.
struct Machine(PathBuf);

impl Machine {
    /// Each line is `FILE = TEXT`, `LINK -> TARGET` or `FOLDER/`.
    fn new(name: &str) -> Machine {
        let thread = std::thread::current();
        let test = thread.name().unwrap_or("doctor").replace(':', "-");
        let root =
            std::env::temp_dir().join(format!("clearway-{test}-{name}-{}", std::process::id()));
        let machine = Machine(root);
        fs::create_dir_all(&machine.0).unwrap();
        let text = fs::read_to_string(machines().join(name).with_extension("txt")).unwrap();
        for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
            machine.add(line);
        }
        machine
    }

    fn add(&self, line: &str) {
        if let Some(folder) = line.strip_suffix('/') {
            return fs::create_dir_all(self.0.join(folder)).unwrap();
        }
        let (path, words) = line.split_once(' ').unwrap();
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        if let Some(target) = words.strip_prefix("-> ") {
            return symlink(target, path).unwrap();
        }
        let text = words.strip_prefix('=').unwrap().trim();
        fs::write(path, text.replace("\\n", "\n").replace("\\t", "\t").replace("\\x00", "\0"))
            .unwrap();
    }

    fn doctor(&self, args: &[&str]) -> (Option<i32>, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_clearway"));
        // Another machine's files know nothing of the login of whoever runs this test.
        command.env("SSH_CONNECTION", "198.51.100.1 1 198.51.100.2 22");
        let output = command.arg("doctor").arg("--root").arg(&self.0).args(args).output().unwrap();
        assert!(output.stderr.is_empty(), "{output:?}");
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn all_names() -> Vec<String> {
    let files = fs::read_dir(machines()).unwrap().map(|entry| entry.unwrap().path());
    let mut names: Vec<String> = files
        .filter(|path| path.extension().is_some_and(|ending| ending == "txt"))
        .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn each_machine_is_told_what_it_lacks() {
    let names = all_names();
    assert!(names.len() >= 10, "{names:?}");
    let mut different = Vec::new();
    for name in names {
        let (code, said) = Machine::new(&name).doctor(&[]);
        let said = format!("{said}exit code {}\n", code.unwrap());
        let path = machines().join(&name).with_extension("out");
        if std::env::var_os("BLESS").is_some() {
            fs::write(&path, &said).unwrap();
        } else if fs::read_to_string(&path).unwrap_or_default() != said {
            different.push(format!("--- {name}\n{said}"));
        }
    }
    assert!(
        different.is_empty(),
        "something else than in the .out files is said of:\n{}",
        different.join("\n")
    );
}

#[test]
fn json_says_the_same_and_its_sums_agree() {
    for name in all_names() {
        let machine = Machine::new(&name);
        let (code, text) = machine.doctor(&[]);
        let (code_json, json) = machine.doctor(&["--json"]);
        assert_eq!(code, code_json);
        let mut events: Vec<Value> =
            json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let summary = events.pop().unwrap();
        assert_eq!(summary["event"], "summary");
        for severity in ["ok", "info", "advice", "missing"] {
            let count = events.iter().filter(|event| event["severity"] == severity).count();
            assert_eq!(summary[severity], count, "{name} {severity}");
        }
        assert_eq!(code, Some(i32::from(summary["missing"] != 0)));
        for event in &events {
            assert!(text.contains(event["what"].as_str().unwrap()), "{event}");
            let remedy = event["remedy"].as_str();
            assert!(remedy.is_none_or(|remedy| text.contains(remedy)), "{event}");
            assert!(
                remedy.is_some() || event["severity"] == "ok" || event["severity"] == "info",
                "{event}"
            );
        }
    }
}

#[test]
fn quiet_leaves_out_what_is_as_it_should_be() {
    let (code, said) = Machine::new("container").doctor(&["--quiet"]);
    assert_eq!(code, Some(1));
    let first_words: Vec<&str> = said.lines().filter_map(|line| line.split(' ').next()).collect();
    assert!(
        first_words.contains(&"missing")
            && !first_words.contains(&"ok")
            && !first_words.contains(&"info"),
        "{said}"
    );
}

#[test]
fn this_machine_can_be_looked_at() {
    let output =
        Command::new(env!("CARGO_BIN_EXE_clearway")).args(["doctor", "--json"]).output().unwrap();
    assert!(matches!(output.status.code(), Some(0 | 1)), "{output:?}");
    let last = String::from_utf8(output.stdout).unwrap().lines().last().unwrap().to_owned();
    assert_eq!(serde_json::from_str::<Value>(&last).unwrap()["event"], "summary");
}
