//! The interface of the default route is kept.

use nix::sys::signal::Signal;

use crate::netns::{Netns, root};
use crate::world::{CLEARWAY, Running, reflector, start_in};

const KEPT: &str = "far carries the default route of this machine";

fn with_default_route() -> Netns {
    let netns = Netns::new("cwguard");
    netns.ip("tuntap add dev far mode tap");
    netns.ip("addr add 10.99.0.1/24 dev far");
    netns.ip("link set far up");
    netns.ip("route add default via 10.99.0.2");
    netns
}

#[test]
fn no_command_takes_the_interface_of_the_default_route_unless_forced() {
    if !root() {
        return;
    }
    let netns = with_default_route();
    for words in [
        "reflect --port tap:far",
        "pktgen --port tap:far",
        "http --port tap:far -a 10.99.0.2/24",
        "bulk server --port tap:far -a 10.99.0.2/24",
    ] {
        let ended = start_in(&netns, words).end();
        assert_eq!(ended.code, Some(1), "{words}");
        assert!(
            ended.errors.contains(KEPT) && ended.errors.contains("--force"),
            "{words}: {}",
            ended.errors
        );
    }
    reflector(&netns, " --force").stop(Signal::SIGTERM).summary();
    netns.ip("route del default");
    reflector(&netns, "").stop(Signal::SIGTERM).summary();
}

#[test]
fn a_host_stack_keeps_it_too() {
    if !root() {
        return;
    }
    let netns = with_default_route();
    let folder = std::env::temp_dir().join(&netns.name);
    std::fs::create_dir_all(&folder).unwrap();
    let (script, socket) = (folder.join("script"), folder.join("host.sock"));
    std::fs::write(&script, "create tap host-if-name far\n").unwrap();
    let args = ["up", "--script", script.to_str().unwrap(), "--socket", socket.to_str().unwrap()];
    let ended = Running::start(netns.command(CLEARWAY, &args)).end();
    let forced = Running::start(netns.command(CLEARWAY, &[&args[..], &["--force"]].concat()));
    let began = std::time::Instant::now();
    let control = ["ctl", "--socket", socket.to_str().unwrap(), "show", "interface"];
    while !netns.run(CLEARWAY, &control).status.success() && began.elapsed().as_secs() < 30 {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let shown = netns.text(CLEARWAY, &control);
    forced.stop(Signal::SIGTERM);
    let _ = std::fs::remove_dir_all(&folder);
    assert_eq!(ended.code, Some(1));
    assert!(ended.errors.contains(KEPT), "{}", ended.errors);
    assert!(shown.contains("tap0"), "{shown}");
}
