//! Interfaces that go while the host runs, and come again.

use std::fs;
use std::process::Child;

use serde_json::Value;

use crate::netns::{Netns, root};
use crate::world::{Folder, Host, Namespace, Running, answers, eventually, folder};

const WIRE: Namespace = Namespace { id: "wire", secret: "abc" };

fn interface(host: &Host, name: &str) -> Value {
    let shown = host.json("show interface");
    let all = shown["interfaces"].as_array().unwrap().clone();
    all.into_iter().find(|one| one["name"] == name).unwrap_or_else(|| panic!("{name}: {shown}"))
}

fn metric(host: &Host, metric: &str, interface: &str) -> String {
    let (metrics, series) =
        (host.ctl("show metrics"), format!("{metric}{{interface=\"{interface}\"}}"));
    let line = metrics.lines().find_map(|line| line.strip_prefix(&series));
    line.unwrap_or_else(|| panic!("{series}: {metrics}")).trim().to_owned()
}

fn is_up(host: &Host, name: &str) -> bool {
    let now = interface(host, name);
    now["up"] == true && now["lost"].is_null() && now["error"].is_null()
}

/// Answers what it is asked: `ADDRESS FOLDER`.
const SERVE: &str = "
import socket, sys
s = socket.create_server((sys.argv[1], 7000))
open(sys.argv[2] + '/listens', 'w')
c, _ = s.accept()
while data := c.recv(100):
    c.sendall(data)
";

/// Asks as often as there are files that say so, and notes each answer: `ADDRESS FOLDER`.
const ASK: &str = "
import os, socket, sys, time
folder = sys.argv[2]
s = socket.create_connection((sys.argv[1], 7000))
asked = 0
while not os.path.exists(folder + '/end'):
    if not os.path.exists(folder + '/ask%d' % asked):
        time.sleep(0.01)
        continue
    s.sendall(b'x')
    assert s.recv(1) == b'x'
    asked += 1
    open(folder + '/answer%d' % asked, 'w')
";

/// A connection between a program of the kernel's and one of ours, which is asked now and then.
struct Talk {
    folder: Folder,
    asked: usize,
    ours: Running,
    theirs: Child,
}

impl Talk {
    /// `calls`: ours is the one that connects, to an address of the kernel's.
    fn begin(host: &Host, netns: &Netns, calls: bool, address: &str) -> Talk {
        let folder = folder();
        let in_folder = folder.to_str().unwrap();
        let ours = || {
            let script = if calls { ASK } else { SERVE };
            host.spawn(WIRE, "python3", &["-c", script, address, in_folder])
        };
        let theirs = || {
            let script = if calls { SERVE } else { ASK };
            netns.command("python3", &["-c", script, address, in_folder]).spawn().unwrap()
        };
        let listens = || eventually("it listens", || folder.join("listens").exists());
        let (ours, theirs) = if calls {
            let theirs = theirs();
            listens();
            (ours(), theirs)
        } else {
            let ours = ours();
            listens();
            (ours, theirs())
        };
        let mut talk = Talk { folder, asked: 0, ours, theirs };
        talk.ask();
        talk.hear();
        talk
    }

    fn ask(&mut self) {
        fs::write(self.folder.join(format!("ask{}", self.asked)), "").unwrap();
        self.asked += 1;
    }

    /// Waits for the answer to all that was asked.
    fn hear(&self) {
        let answer = self.folder.join(format!("answer{}", self.asked));
        eventually("an answer", || answer.exists());
    }

    fn end(mut self) {
        fs::write(self.folder.join("end"), "").unwrap();
        assert!(self.theirs.wait().unwrap().success());
        self.ours.succeed();
    }
}

#[test]
fn a_tap_interface_that_is_removed_is_made_anew_and_connections_go_on() {
    if !root() {
        return;
    }
    let netns = Netns::new("cwlost");
    let commands = [
        "create tap id 0 host-if-name cw0 host-ip4-addr 10.96.0.1/24",
        "set interface mtu packet 1400 tap0",
        "set interface ip address tap0 10.96.0.2/24",
        "set interface state tap0 up",
        "app ns add id wire secret abc if tap0",
    ];
    let host = Host::inside(&netns, &[], &commands);
    let mut talk = Talk::begin(&host, &netns, false, "10.96.0.2");
    assert_eq!(metric(&host, "clearway_interface_losses_total", "tap0"), "0");
    for losses in 1..3 {
        netns.ip("link del cw0");
        eventually("the loss is counted", || interface(&host, "tap0")["losses"] == losses);
        talk.ask();
        eventually("it is up again", || is_up(&host, "tap0"));
        assert_eq!(metric(&host, "clearway_interface_losses_total", "tap0"), losses.to_string());
        assert_eq!(metric(&host, "clearway_interface_up", "tap0"), "1");
        assert_eq!(metric(&host, "clearway_interface_lost_seconds", "tap0"), "0");
        // The other end has its address, and the link the MTU that it had.
        eventually("the other end has its address", || {
            netns.text("ip", &["addr", "show", "dev", "cw0"]).contains("10.96.0.1/24")
        });
        assert!(netns.text("ip", &["link", "show", "dev", "cw0"]).contains("mtu 1400"));
        talk.hear();
    }
    talk.end();
    let shown = host.ctl("show interface tap0");
    assert!(shown.contains("tap0: lost 2 times so far\n"), "{shown}");
    let log = host.log();
    assert_eq!(log.matches("an interface is lost").count(), 2, "{log}");
    assert_eq!(log.matches("an interface is back ").count(), 2, "{log}");
}

/// Both ends of a cable with two queues; ours is a card of the host's.
fn plug(netns: &Netns) {
    let queues = "numrxqueues 2 numtxqueues 2";
    netns.ip(&format!("link add ours {queues} type veth peer name theirs {queues}"));
    netns.ip("link set ours addrgenmode none");
    netns.ip("addr add 10.95.0.1/24 dev theirs");
    netns.ip("link set theirs up");
}

fn host_with_card(netns: &Netns, cores: &str) -> Host {
    plug(netns);
    let folder = folder();
    let settings = folder.join("host.toml");
    let text = "[[ports]]\nport = \"xdp:ours\"\naddresses = [\"10.95.0.2/24\"]\n";
    fs::write(&settings, text).unwrap();
    let options = ["-c", settings.to_str().unwrap(), "--cores", cores];
    Host::inside(netns, &options, &["app ns add id wire secret abc if port0"])
}

#[test]
fn a_card_that_is_unplugged_is_lost_until_one_of_its_name_is_there_and_connections_go_on() {
    if !root() {
        return;
    }
    // The kernel's end of a cable takes another queue for a connection after each timeout, so that
    // with two workers only what ours began, which they hand to each other, stays for sure.
    for (cores, calls, address) in [("0", false, "10.95.0.2"), ("0,1", true, "10.95.0.1")] {
        let netns = Netns::new("cwcard");
        let host = host_with_card(&netns, cores);
        let mut talk = Talk::begin(&host, &netns, calls, address);
        let config = host.ctl("show running-config");
        for losses in 1..3 {
            let mac = interface(&host, "port0")["mac"].clone();
            netns.ip("link del theirs");
            eventually("it is lost", || interface(&host, "port0")["losses"] == losses);
            eventually("it is said why it is not back", || {
                !interface(&host, "port0")["lost"]["not-back"].is_null()
            });
            let shown = host.ctl("show interface port0");
            assert!(
                shown.contains(" lost ") && shown.contains("the interface was removed"),
                "{shown}"
            );
            assert!(shown.contains("port0: not back yet: "), "{shown}");
            assert_eq!(metric(&host, "clearway_interface_up", "port0"), "0");
            eventually("the time is told", || {
                metric(&host, "clearway_interface_lost_seconds", "port0") != "0"
            });
            // Whoever saves the state meanwhile saves the one that is wanted, with its addresses.
            assert_eq!(host.ctl("show running-config"), config);
            let connect = "import socket\ntry: socket.create_connection(('10.95.0.1', 7001))\n\
                           except OSError as e: print(e.errno)";
            let refused = host.run(WIRE, "python3", &["-c", connect]);
            assert_eq!(refused.trim(), nix::libc::ENETUNREACH.to_string());
            talk.ask();
            plug(&netns);
            eventually("it is back", || is_up(&host, "port0"));
            // The kernel made another card, with another Ethernet address.
            assert_ne!(interface(&host, "port0")["mac"], mac);
            talk.hear();
            eventually("it answers", || answers(&netns, "10.95.0.2"));
            assert_eq!(host.ctl("show running-config"), config);
        }
        talk.end();
        assert_eq!(interface(&host, "port0")["losses"], 2);
        host.await_empty();
        host.stop();
    }
}

#[test]
fn what_is_wanted_of_a_lost_interface_holds_when_it_is_back_and_it_can_be_deleted() {
    if !root() {
        return;
    }
    let netns = Netns::new("cwwant");
    let host = host_with_card(&netns, "0");
    let lose = |losses| {
        netns.ip("link del theirs");
        eventually("it is lost", || interface(&host, "port0")["losses"] == losses);
    };
    lose(1);
    let said = host.ctl("set interface state port0 down");
    assert!(
        said.contains("port0 is lost. It will be down when its port is there again."),
        "{said}"
    );
    plug(&netns);
    eventually("it is there", || interface(&host, "port0")["lost"].is_null());
    assert_eq!(interface(&host, "port0")["up"], false);
    host.ctl("set interface state port0 up");
    eventually("it answers", || answers(&netns, "10.95.0.2"));
    lose(2);
    host.ctl("set interface state port0 down");
    let said = host.ctl("set interface state port0 up");
    assert!(said.contains("port0 is lost. It will be up when its port is there again."), "{said}");
    host.ctl("set interface ip address port0 10.95.0.3/24");
    plug(&netns);
    eventually("it is up", || is_up(&host, "port0"));
    eventually("it answers", || answers(&netns, "10.95.0.3"));
    lose(3);
    host.ctl("app ns del id wire");
    host.ctl("delete tap port0");
    plug(&netns);
    // The number and the name are free for another.
    host.ctl("create port xdp:ours name port0");
    host.ctl("set interface ip address port0 10.95.0.4/24");
    host.ctl("set interface state port0 up");
    eventually("it answers", || answers(&netns, "10.95.0.4"));
    assert_eq!(interface(&host, "port0")["losses"], 0);
    // A host that ends while an interface is lost ends as ever.
    lose(1);
    host.stop();
}

#[test]
fn a_tap_interface_moves_into_the_network_namespace_that_has_its_name_now() {
    if !root() {
        return;
    }
    let (netns, there) = (Netns::new("cwhome"), Netns::new("cwthere"));
    let create = format!(
        "create tap id 0 host-if-name cw0 host-ns {} host-ip4-addr 10.94.0.1/24",
        there.name
    );
    let commands =
        [&create, "set interface ip address tap0 10.94.0.2/24", "set interface state tap0 up"];
    let host = Host::inside(&netns, &[], &commands);
    let reaches = || eventually("it answers", || answers(&there, "10.94.0.2"));
    reaches();
    // A removed interface is one as everywhere.
    there.ip("link del cw0");
    eventually("it is back", || interface(&host, "tap0")["losses"] == 1 && is_up(&host, "tap0"));
    reaches();
    for words in [["netns", "del"], ["netns", "add"]] {
        let done = std::process::Command::new("ip").args(words).arg(&there.name).status();
        assert!(done.unwrap().success());
    }
    eventually("it is there", || interface(&host, "tap0")["losses"] == 2 && is_up(&host, "tap0"));
    reaches();
    assert!(host.log().contains("another one has the name"));
    host.stop();
}
