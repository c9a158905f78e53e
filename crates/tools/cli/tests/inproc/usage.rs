//! What `clearway run --inproc` says when it cannot be.

use std::process::{Command, Stdio};

use crate::world::{World, text};

/// The sentence with which the command refuses.
fn refusal(mut command: Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(!output.status.success(), "it was not refused: {output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn clearway(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_clearway"));
    command.args(["run"]).args(words).args(["--", "true"]);
    command
}

#[test]
fn options_that_do_not_fit_are_refused_with_what_is_allowed() {
    crate::world::build();
    let cases: [(&[&str], &str); 7] = [
        (&["--inproc", "-a", "10.0.0.2/24"], "--port"),
        (&["--inproc", "--port", "loop"], "--address"),
        (&["--port", "loop"], "--inproc"),
        (&["--inproc", "--port", "loop", "-a", "10.0.0.2/24", "--ns", "x"], "--ns"),
        (&["--inproc", "--port", "pcap:x", "-a", "10.0.0.2/24"], "tap:NAME, tun:NAME or loop"),
        (&["--inproc", "--port", "loop", "-a", "10.0.0.2/24@1"], "there is no port 1, only 1"),
        (
            &["--inproc", "--port", "loop", "-a", "10.0.0.2/24", "-g", "10.0.1.1"],
            "in one of the networks of -a",
        ),
    ];
    for (words, sentence) in cases {
        let said = refusal(clearway(words));
        assert!(said.contains(sentence), "{words:?}: {said}");
    }
}

#[test]
fn without_the_right_to_make_an_interface_it_says_who_can_prepare_one() {
    let Some(world) = World::with(&["setpriv", "curl"]) else { return };
    let run = ["run", "--inproc", "--port", "tap:other0", "-a", "10.0.0.2/24", "--", "true"];
    let dropped =
        ["--bounding-set=-net_admin", "--inh-caps=-net_admin", env!("CARGO_BIN_EXE_clearway")];
    let args: Vec<&str> = dropped.iter().chain(&run).copied().collect();
    let said = refusal(world.netns.command("setpriv", &args));
    assert!(said.contains("ip tuntap add") && said.contains("other0"), "{said}");
}

#[test]
fn a_port_that_another_program_has_is_refused_before_the_program_begins() {
    let Some(world) = World::with(&["sleep"]) else { return };
    let hold = "import socket, sys; s = socket.create_server(('10.0.0.2', 7000)); print('ready', \
        flush=True); s.accept()";
    let holder = world.start(world.inside(&[crate::world::PYTHON, "-c", hold]), "holder.log");
    holder.until("it has the port", || holder.log().contains("ready"));
    let said = refusal(world.inside(&["true"]));
    assert!(said.contains("cw0"), "{said}");
    drop(holder);
    text(&world.inside(&["true"]).output().unwrap());
}

/// Who waits for the interface and gives it an address then would give it to one that goes away.
#[test]
fn an_interface_appears_when_it_has_come_to_stay() {
    let Some(world) = World::with(&["stdbuf"]) else { return };
    let monitor = world.netns.command("stdbuf", &["-oL", "ip", "monitor", "link"]);
    let monitor = world.start(monitor, "monitor.log");
    let seen = |name: &str| monitor.log().contains(name);
    // The monitor is not ready at once.
    let numbers = std::cell::Cell::new(0);
    monitor.until("it shows what is made", || {
        numbers.set(numbers.get() + 1);
        world.netns.ip(&format!("tuntap add dev seen{} mode tap", numbers.get()));
        seen("seen")
    });
    let run = ["run", "--inproc", "--port", "tap:new0", "-a", "10.0.1.2/24", "--", "true"];
    text(&world.netns.command(env!("CARGO_BIN_EXE_clearway"), &run).output().unwrap());
    world.netns.ip("tuntap add dev last0 mode tap");
    monitor.until("it shows what was made after that", || seen("last0"));
    assert!(!seen("new0"), "{}", monitor.log());
}
