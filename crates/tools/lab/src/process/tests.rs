use std::os::unix::fs::MetadataExt as _;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};

use super::{Launch, Stopped};

const LONG: Duration = Duration::from_secs(60);

fn shell(script: &str) -> Launch {
    Launch::new("sh").arg("-c").arg(script)
}

#[test]
fn a_program_is_waited_for_and_its_objects_are_read() {
    let stop = AtomicBool::new(false);
    let script = r#"printf 'no line yet>'; read -r _; echo; echo '{"event":"summary","n":1}';
        echo '{"event":"summary","n":2}'"#;
    let running = shell(script).start_until("yet>", &stop).unwrap();
    // It goes on when its input ends.
    let ended = running.close(&stop).unwrap();
    assert_eq!(ended.event("summary").unwrap()["n"], 2);
    assert!(ended.event("ready").unwrap_err().to_string().contains("sh printed no `ready`"));
}

#[test]
fn an_end_that_is_no_good_one_is_an_error_with_what_was_said() {
    let stop = AtomicBool::new(false);
    let error = |result: anyhow::Result<super::Ended>| result.err().unwrap().to_string();
    assert_eq!(
        error(shell("echo no such port >&2; exit 3").run(LONG, &stop)),
        "sh failed (exit code 3): no such port"
    );
    assert_eq!(
        error(shell("kill -9 $$").run(LONG, &stop)),
        "sh failed (signal 9): it said nothing"
    );
    let early = shell("exit 0").start_until("ready", &stop).err().unwrap().to_string();
    assert!(early.starts_with("sh ended before it was ready (exit code 0)"), "{early}");
}

#[test]
fn a_program_that_hangs_is_killed_and_so_is_one_that_is_forgotten() {
    let stop = AtomicBool::new(false);
    let mut running = shell("exec sleep 1000").start().unwrap();
    let pid = running.pid();
    let error = running.wait(Duration::from_millis(50), &stop).err().unwrap().to_string();
    assert!(error.starts_with("sh does not end:"), "{error}");
    drop(running);
    assert_eq!(kill(pid, None), Err(nix::errno::Errno::ESRCH));
}

#[test]
fn who_waits_hears_that_the_run_is_stopped() {
    let stop = AtomicBool::new(true);
    let running = shell("exec sleep 1000").start().unwrap();
    let error = running.succeed(LONG, &stop).err().unwrap();
    assert!(error.is::<Stopped>(), "{error:#}");
}

#[test]
fn a_signal_reaches_the_program_itself() {
    let stop = AtomicBool::new(false);
    let script = "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.01; done";
    let running = shell(script).on(&[0]).start_until("up", &stop).unwrap();
    assert_eq!(running.stop(Signal::SIGTERM, &stop).unwrap().out, "up\nbye\n");
}

#[test]
fn a_command_line_can_be_typed_again() {
    let launch = Launch::new("/x/clearway")
        .words("bench client -t 1")
        .arg("-m")
        .arg(r"GET /it's\r\n")
        .on(&[0, 2])
        .env("A", "b");
    assert_eq!(
        launch.text(),
        r"A=b taskset -c 0,2 /x/clearway bench client -t 1 -m 'GET /it'\''s\r\n'"
    );
}

#[test]
fn a_program_leads_a_session_of_its_own_which_the_scheduler_puts_first_when_root_asks() {
    let stop = AtomicBool::new(false);
    let ended = shell("cut -d' ' -f6 /proc/self/stat; echo $$; cat /proc/$$/autogroup")
        .run(LONG, &stop)
        .unwrap();
    let lines: Vec<&str> = ended.out.lines().collect();
    assert_eq!(lines[0], lines[1], "the session is that of the program");
    let root = std::fs::metadata("/proc/self").unwrap().uid() == 0;
    // A kernel without groups has no such file.
    if let Some(group) = lines.get(2).filter(|_| root) {
        assert!(group.ends_with("nice -20"), "{group}");
    }
    let ended = shell("cat /proc/$$/autogroup").alike().run(LONG, &stop).unwrap();
    assert!(ended.out.is_empty() || ended.out.ends_with("nice 0\n"), "{}", ended.out);
}
