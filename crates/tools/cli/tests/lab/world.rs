//! `clearway lab` in a process, and a folder for what it writes.

use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::skip::or_skip;

pub(crate) const CLEARWAY: &str = env!("CARGO_BIN_EXE_clearway");

/// Longer than anything here takes on a busy machine; only what hangs reaches it.
pub(crate) const TIME_LIMIT: Duration = Duration::from_secs(120);

/// Whether we are root; every test that makes a namespace begins with this, and ends there when it
/// is false.
pub(crate) fn root() -> bool {
    // Our own folder of the kernel's belongs to the user that we are.
    let uid = std::fs::metadata("/proc/self").unwrap().uid();
    or_skip(uid == 0, "making a network namespace needs root. Run these tests as root.")
}

/// Whether there are two cores, one for each side. What polls would keep its peer from working on
/// one.
pub(crate) fn two_cores() -> bool {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    or_skip(cores >= 2, &format!("it needs 2 cores, and may run on {cores}."))
}

/// A folder that no other test has.
pub(crate) struct Folder {
    pub(crate) path: PathBuf,
}

impl Folder {
    pub(crate) fn new() -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name =
            format!("cwlabtest-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Folder { path }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// `clearway lab` with these words, which spaces part, and its output in the folder.
pub(crate) fn lab(folder: &Folder, words: &str) -> Command {
    let mut command = Command::new(CLEARWAY);
    command.arg("lab").args(words.split(' ')).arg("--out").arg(folder.path.join("out"));
    command
        .args(["--no-huge-pages"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Both outputs of a program.
pub(crate) fn text(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// What a run left.
pub(crate) struct Left {
    pub(crate) table: String,
    pub(crate) report: Value,
    pub(crate) page: String,
}

/// Runs a scenario, which has to succeed.
pub(crate) fn measured(scenario: &str, words: &str) -> Left {
    measured_for(1, scenario, words)
}

/// The same with so many seconds a measurement, for what needs a part of them before it begins.
pub(crate) fn measured_for(seconds: u32, scenario: &str, words: &str) -> Left {
    let folder = Folder::new();
    let all_words = format!("{scenario} --quick --seconds {seconds} {words}");
    let output = lab(&folder, &all_words).output().unwrap();
    assert!(output.status.success(), "{scenario} {words}: {}\n{}", output.status, text(&output));
    let file = |name: &str| std::fs::read_to_string(folder.path.join("out").join(name)).unwrap();
    let report = serde_json::from_str(&file(&format!("{scenario}.json"))).unwrap();
    Left {
        table: String::from_utf8_lossy(&output.stdout).into_owned(),
        report,
        page: file("index.html"),
    }
}

impl Left {
    /// Every system was measured and has a figure in the table, the file and the page.
    pub(crate) fn has(&self, systems: &[&str], metric: &str) {
        for system in systems {
            let cells = self.report["cells"].as_array().unwrap();
            let cell =
                cells.iter().find(|cell| cell["system"] == *system && cell["metric"] == metric);
            let cell = cell.unwrap_or_else(|| panic!("{system} has no {metric}: {}", self.table));
            let (least, median, most) = (&cell["min"], &cell["median"], &cell["max"]);
            let number = |value: &Value| value.as_f64().unwrap();
            assert!(
                number(median) > 0.0
                    && number(least) <= number(median)
                    && number(median) <= number(most),
                "{cell}"
            );
            assert!(self.table.contains(&format!(" {system} ")), "{system}: {}", self.table);
            assert!(self.page.contains(&format!(">{system}</text>")), "{system} is in no plot");
        }
        assert_eq!(self.report["failures"], Value::Array(Vec::new()));
        for key in ["kernel", "cpu", "tsc_mhz", "memory_gib"] {
            assert!(!self.report["machine"][key].is_null(), "{key}");
        }
        let samples = self.report["samples"].as_array().unwrap();
        assert_eq!(samples.len(), systems.len());
        // Where others keep both cores busy the two ends of a probe may never run at once, and then
        // the table must not name a distance.
        let trips = ["before_ns", "after_ns"];
        let probed = samples.iter().any(|s| trips.iter().any(|&key| s["placement"][key].is_f64()));
        let told = self.table.lines().find_map(|line| line.strip_prefix("core to core:"));
        assert!(
            told.is_some_and(|told| (told.trim() != "not measured") == probed),
            "{}",
            self.table
        );
    }
}

/// Asks again and again until it is so.
pub(crate) fn eventually(what: &str, mut so: impl FnMut() -> bool) {
    let deadline = Instant::now() + TIME_LIMIT;
    while !so() {
        assert!(Instant::now() < deadline, "{what}: not in {TIME_LIMIT:?}");
        sleep(Duration::from_millis(20));
    }
}
