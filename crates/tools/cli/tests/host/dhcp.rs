//! An interface that is configured by dnsmasq, a DHCP server and server of names in the network
//! namespace at the other end of a TAP device.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::netns::{Netns, or_skip, root};
use crate::world::{Host, Namespace, answers, eventually};

const OPEN: Namespace = Namespace { id: "wire", secret: "abc" };

/// The server; it ends when this goes.
struct Dnsmasq(Child);

impl Dnsmasq {
    fn new(netns: &Netns, host: &Host, more: &[&str]) -> Dnsmasq {
        let leases = format!("--dhcp-leasefile={}", host.folder.join("leases").display());
        let mut args = vec![
            "--keep-in-foreground",
            "--conf-file=/dev/null",
            "--pid-file=",
            "--user=root",
            "--no-resolv",
            "--no-hosts",
            "--interface=cw0",
            "--bind-interfaces",
            "--no-ping",
            "--dhcp-authoritative",
            "--dhcp-range=10.97.0.50,10.97.0.59,255.255.255.0,120",
            "--dhcp-option=option:router,10.97.0.1",
            "--domain=clearway.test",
            &leases,
        ];
        args.extend(more);
        let log = fs::File::create(host.folder.join("dnsmasq")).unwrap();
        let mut command = netns.command("dnsmasq", &args);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn();
        let server = Dnsmasq(child.unwrap());
        eventually("dnsmasq listens", || netns.text("ss", &["-lnuH"]).contains(":67 "));
        server
    }
}

impl Drop for Dnsmasq {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn has_dnsmasq() -> bool {
    let there = Command::new("dnsmasq").arg("--version").output().is_ok();
    or_skip(there, "there is no dnsmasq. Install dnsmasq-base.")
}

/// A host with a TAP device, whose other end is the kernel's in a namespace.
fn wire() -> (Netns, Host) {
    let netns = Netns::new("cwdhcp");
    let host =
        Host::inside(&netns, &["--dhcp", "tap:cw0"], &["app ns add id wire secret abc if tap0"]);
    netns.ip("addr add 10.97.0.1/24 dev cw0");
    netns.ip("link set cw0 up");
    (netns, host)
}

fn lease(host: &Host) -> serde_json::Value {
    host.json("show dhcp")["interfaces"][0]["lease"].clone()
}

#[test]
fn an_interface_gets_address_routes_and_mtu_of_a_server_and_programs_use_them() {
    if !root() || !has_dnsmasq() {
        return;
    }
    let (netns, host) = wire();
    let more =
        ["--dhcp-option=26,1400", "--dhcp-option=121,0.0.0.0/0,10.97.0.1,192.0.2.0/24,10.97.0.1"];
    let _server = Dnsmasq::new(&netns, &host, &more);
    eventually("an address is there", || !lease(&host).is_null());
    let lease = lease(&host);
    let address = lease["address"].as_str().unwrap().to_owned();
    assert!(address.starts_with("10.97.0.5") && address.ends_with("/24"), "{lease}");
    assert_eq!(lease["dns"][0], "10.97.0.1", "{lease}");
    assert_eq!(lease["domain"], "clearway.test", "{lease}");
    let shown = host.ctl("show interface address tap0");
    assert!(shown.contains(&address), "{shown}");
    let routes = host.ctl("show ip fib");
    assert!(routes.contains("192.0.2.0/24") && routes.contains("0.0.0.0/0"), "{routes}");
    assert_eq!(host.json("show interface tap0")["interfaces"][0]["mtu"], 1400);
    // The kernel reaches it, and a program on it reaches the kernel.
    let ours = address.trim_end_matches("/24").to_owned();
    eventually("it answers", || answers(&netns, &ours));
    let mut server = netns
        .command("python3", &["-m", "http.server", "8080", "--bind", "10.97.0.1"])
        .current_dir(&*host.folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    eventually("the kernel's server listens", || netns.text("ss", &["-lntH"]).contains(":8080 "));
    let page = host.run(
        OPEN,
        "curl",
        &["-sS", "-o", "/dev/null", "-w", "%{local_ip}", "http://10.97.0.1:8080/"],
    );
    let _ = server.kill();
    let _ = server.wait();
    assert_eq!(page, ours);
    // Given back, it is gone here and free there.
    host.ctl("set interface dhcp tap0 off");
    let shown = host.ctl("show interface address tap0");
    assert!(!shown.contains(&address), "{shown}");
    assert_eq!(host.json("show interface tap0")["interfaces"][0]["mtu"], 1500);
    eventually("the server has it back", || {
        !fs::read_to_string(host.folder.join("leases")).unwrap_or_default().contains(&ours)
    });
    let routes = host.ctl("show ip fib");
    assert!(!routes.contains("192.0.2.0/24"), "{routes}");
}

/// Asks by c-ares, which reads the file itself.
const NODE: &[&str] = &[
    "-e",
    "require('dns').resolve4('printer.clearway.test', (e, found) => console.log(e || found[0]))",
];

/// What a DNS server of the kernel's namespace is asked by programs on the host: they are in another
/// network namespace, so that there is no other way to it.
#[test]
fn programs_ask_the_servers_of_names_that_a_lease_names() {
    if !root() || !has_dnsmasq() {
        return;
    }
    let (netns, host) = wire();
    let names = ["--host-record=printer.clearway.test,192.0.2.7", "--local=/clearway.test/"];
    let mut more: Vec<String> = names.map(str::to_owned).into();
    // An answer that no datagram holds, so that it comes over TCP.
    more.extend((0..200).map(|last| format!("--host-record=big.clearway.test,192.0.2.{last}")));
    let more: Vec<&str> = more.iter().map(String::as_str).collect();
    let _server = Dnsmasq::new(&netns, &host, &more);
    eventually("an address is there", || !lease(&host).is_null());
    // The domain to look in comes with the lease, too.
    for name in ["printer.clearway.test", "printer"] {
        let found = host.run(OPEN, "getent", &["ahosts", name]);
        assert!(found.contains("192.0.2.7"), "{name}: {found}");
    }
    let many = host.run(OPEN, "getent", &["ahostsv4", "big.clearway.test"]);
    assert_eq!(many.lines().filter(|line| line.contains("STREAM")).count(), 200, "{many}");
    let script = "import socket\n\
                  print(socket.getaddrinfo('printer.clearway.test', 80)[0][4][0])\n\
                  print(socket.gethostbyname('printer'))\n\
                  print(socket.gethostbyaddr('192.0.2.7')[0])\n\
                  print(socket.getnameinfo(('192.0.2.7', 80), 0)[0])\n\
                  try: socket.getaddrinfo('nobody.clearway.test', 80)\n\
                  except socket.gaierror as e: print(e.errno == socket.EAI_NONAME)";
    let said = host.run(OPEN, "python3", &["-c", script]);
    let expected = "192.0.2.7\n192.0.2.7\nprinter.clearway.test\nprinter.clearway.test\nTrue\n";
    assert_eq!(said, expected);
    // Who reads the file himself finds the same, however it is opened.
    let file = "nameserver 10.97.0.1\nsearch clearway.test\n";
    let read = host.run(OPEN, "cat", &["/etc/resolv.conf"]);
    assert!(read.ends_with(file), "{read}");
    let script = "print(open('/etc/resolv.conf').read(), end='')";
    let read = host.run(OPEN, "python3", &["-c", script]);
    assert!(read.ends_with(file), "{read}");
    if or_skip(std::path::Path::new("/bin/busybox").exists(), "busybox-static is not here.") {
        let trapped = ["--trap", "--required"];
        let busybox =
            |args: &[&str]| host.spawn_with(&trapped, OPEN, "/bin/busybox", args).succeed();
        let read = busybox(&["cat", "/etc/resolv.conf"]);
        assert!(read.ends_with(file), "{read}");
        let found = busybox(&["nslookup", "printer.clearway.test"]);
        assert!(found.contains("192.0.2.7"), "{found}");
    }
    for (program, args) in [("dig", &["+short", "printer.clearway.test"][..]), ("node", NODE)] {
        let there = Command::new(program).arg("-v").output().is_ok();
        if or_skip(there, &format!("there is no {program}.")) {
            assert_eq!(host.run(OPEN, program, args), "192.0.2.7\n", "{program}");
        }
    }
    // Who does not want it has the system's.
    let mut command = host.command(OPEN, "cat", &["/etc/resolv.conf"]);
    let output = command.env("CLEARWAY_DNS", "system").output().unwrap();
    let system = fs::read("/etc/resolv.conf").unwrap_or_default();
    assert_eq!(output.stdout, system);
    // Given back, the lease's servers are nobody's.
    host.ctl("set interface dhcp tap0 off");
    let read = host.run(OPEN, "cat", &["/etc/resolv.conf"]);
    assert!(!read.contains("10.97.0.1"), "{read}");
}

#[test]
fn servers_of_names_in_the_settings_go_before_those_of_leases() {
    let folder = crate::world::folder();
    let file = folder.join("host.toml");
    let text = "[dns]\nservers = [\"192.0.2.53\", \"2001:db8::53\"]\nsearch = \"a.test\"\n";
    fs::write(&file, text).unwrap();
    let told = Host::bare(&["-c", file.to_str().unwrap()]);
    told.ctl("create loopback interface");
    told.ctl("app ns add id wire secret abc if loop0");
    let read = told.run(OPEN, "cat", &["/etc/resolv.conf"]);
    assert!(
        read.ends_with("nameserver 192.0.2.53\nnameserver 2001:db8::53\nsearch a.test\n"),
        "{read}"
    );
    assert!(told.ctl("show settings").contains("192.0.2.53 2001:db8::53"));
    // What is no path is refused as ever.
    let script = "import ctypes, errno\nc = ctypes.CDLL(None, use_errno=True)\n\
                  print(c.open(ctypes.c_void_p(8), 0), errno.errorcode[ctypes.get_errno()])";
    assert_eq!(told.run(OPEN, "python3", &["-c", script]), "-1 EFAULT\n");
    // A system without the file has it nevertheless, and a descriptor is the lowest that is free.
    let script = "mount -t tmpfs none /etc && cat /etc/resolv.conf";
    assert_eq!(told.run(OPEN, "unshare", &["-m", "sh", "-c", script]), read);
    let script = "import os\na = os.open('/etc/passwd', 0)\nos.close(a)\n\
                  print(os.open('/etc/resolv.conf', 0) - a)";
    assert_eq!(told.run(OPEN, "python3", &["-c", script]), "0\n");
    // They may change while the host runs.
    fs::write(&file, "[dns]\nservers = \"192.0.2.54\"\n").unwrap();
    let said = told.ctl("reload");
    assert!(said.contains("dns.servers 192.0.2.54 (was 192.0.2.53 2001:db8::53)"), "{said}");
    let read = told.run(OPEN, "cat", &["/etc/resolv.conf"]);
    assert!(read.ends_with("\nnameserver 192.0.2.54\n"), "{read}");
}

#[test]
fn an_address_that_somebody_has_already_is_declined() {
    if !root() || !has_dnsmasq() {
        return;
    }
    let (netns, host) = wire();
    // The kernel has every address that the server gives but one.
    for last in 50..59 {
        netns.ip(&format!("addr add 10.97.0.{last}/32 dev cw0"));
    }
    let _server = Dnsmasq::new(&netns, &host, &["--dhcp-ignore-names"]);
    eventually("an address of somebody is found", || {
        host.json("show dhcp")["interfaces"][0]["state"] == "waiting" || !lease(&host).is_null()
    });
    eventually("a free address is there", || !lease(&host).is_null());
    assert_eq!(lease(&host)["address"], "10.97.0.59/24");
}

/// A server that is written for these tests; it ends when this goes.
struct OwnServer {
    child: Child,
    log: PathBuf,
    mode: PathBuf,
}

impl OwnServer {
    /// A server that answers everybody.
    fn new(netns: &Netns, host: &Host, more: &[&str]) -> OwnServer {
        let (log, mode) = (host.folder.join("server"), host.folder.join("mode"));
        fs::write(&mode, "all").unwrap();
        let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/host/dhcp_server.py");
        let mut args = vec![program, "cw0", "10.97.0.1", "10.97.0.77", mode.to_str().unwrap()];
        args.extend(more);
        let file = fs::File::create(&log).unwrap();
        let mut command = netns.command("python3", &args);
        command.stdin(Stdio::null()).stdout(file.try_clone().unwrap()).stderr(file);
        let server = OwnServer { child: command.spawn().unwrap(), log, mode };
        server.await_line("the server listens", |line| line == "listens");
        server
    }

    /// Whom it answers from now on.
    fn answers(&self, whom: &str) {
        let beside = self.mode.with_extension("new");
        fs::write(&beside, whom).unwrap();
        fs::rename(beside, &self.mode).unwrap();
    }

    fn await_line(&self, what: &str, is_it: impl Fn(&str) -> bool) {
        eventually(what, || fs::read_to_string(&self.log).unwrap().lines().any(&is_it));
    }
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn what_a_hostile_server_says_is_dropped_and_counted_by_reason() {
    if !root() {
        return;
    }
    let (netns, host) = wire();
    let _server = OwnServer::new(&netns, &host, &["hostile"]);
    eventually("an address is there", || !lease(&host).is_null());
    assert_eq!(lease(&host)["address"], "10.97.0.77/24");
    assert_eq!(lease(&host)["server"], "10.97.0.1");
    let shown = host.json("show dhcp");
    let dropped = &shown["interfaces"][0]["dropped"];
    for (reason, least) in [
        ("dhcp-too-short", 1),
        ("dhcp-no-reply", 1),
        ("dhcp-option-too-long", 1),
        ("dhcp-bad-value", 1),
        ("dhcp-unknown-kind", 1),
        ("dhcp-other-exchange", 1),
        ("dhcp-unasked", 1),
        ("dhcp-other-server", 1),
        ("dhcp-bad-lease", 3),
    ] {
        assert!(dropped[reason].as_u64().unwrap() >= least, "{reason}: {shown}");
    }
    let metrics = host.ctl("show metrics");
    let counted = r#"clearway_dhcp_drops_total{interface="tap0",reason="dhcp-other-server"} "#;
    assert!(metrics.contains(counted), "{metrics}");
    // What a server gave is not written down as if somebody had set it.
    let config = host.ctl("show running-config");
    assert!(config.contains("set interface dhcp tap0 on"), "{config}");
    assert!(!config.contains("10.97.0.77") && !config.contains("10.97.0.1"), "{config}");
}

#[test]
fn a_lease_is_renewed_and_rebound_and_when_it_ends_programs_are_told() {
    if !root() {
        return;
    }
    let (netns, host) = wire();
    let server = OwnServer::new(&netns, &host, &[]);
    eventually("an address is there", || !lease(&host).is_null());
    let hold = "import socket, time; s = socket.create_server(('10.97.0.1', 8080)); \
                print('listens', flush=True); c = s.accept(); time.sleep(3600)";
    let mut holder = netns
        .command("python3", &["-c", hold])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    eventually("the kernel's server listens", || netns.text("ss", &["-lntH"]).contains(":8080 "));
    let wait = "import socket, errno\ns = socket.create_connection(('10.97.0.1', 8080))\n\
                print('connected', flush=True)\ntry: s.recv(1)\n\
                except OSError as e: print(errno.errorcode[e.errno], flush=True)";
    let mut program = host.spawn(OPEN, "python3", &["-c", wait]);
    program.await_text("connected");
    server.await_line("more time is asked of the server", |line| {
        line == "request alone 10.97.0.77 all"
    });
    server.answers("broadcast");
    server.await_line("the server is silent", |line| line == "request alone 10.97.0.77 broadcast");
    server.await_line("all servers are asked", |line| line == "request all 10.97.0.77 broadcast");
    eventually("it is bound again", || host.json("show dhcp")["interfaces"][0]["state"] == "bound");
    server.answers("none");
    eventually("the lease has ended", || lease(&host).is_null());
    assert!(!host.ctl("show interface address tap0").contains("10.97.0.77"));
    assert_eq!(program.succeed(), "connected\nENETUNREACH\n");
    // With the server again, it is as before.
    server.answers("all");
    eventually("an address is there again", || !lease(&host).is_null());
    let _ = holder.kill();
    let _ = holder.wait();
}

#[test]
fn a_card_with_a_lease_that_comes_back_as_another_gets_one_anew() {
    if !root() || !has_dnsmasq() {
        return;
    }
    let netns = Netns::new("cwdhcp");
    let plug = || {
        netns.ip("link add ours type veth peer name cw0");
        netns.ip("link set ours addrgenmode none");
        netns.ip("addr add 10.97.0.1/24 dev cw0");
        netns.ip("link set cw0 up");
    };
    plug();
    let host = Host::inside(&netns, &["--dhcp", "xdp:ours"], &[]);
    let server = Dnsmasq::new(&netns, &host, &[]);
    eventually("an address is there", || !lease(&host).is_null());
    let card = || host.json("show interface port0")["interfaces"][0].clone();
    let (address, mac) = (lease(&host)["address"].clone(), card()["mac"].clone());
    drop(server);
    netns.ip("link del cw0");
    eventually("it is lost", || card()["losses"] == 1);
    // What the server gave is good until its time is over.
    assert_eq!(lease(&host)["address"], address);
    plug();
    let _server = Dnsmasq::new(&netns, &host, &[]);
    eventually("another address is there", || {
        let now = lease(&host);
        !now.is_null() && now["address"] != address
    });
    assert_ne!(card()["mac"], mac);
    let leases = fs::read_to_string(host.folder.join("leases")).unwrap();
    assert!(leases.contains(card()["mac"].as_str().unwrap()), "{leases}");
    let address = lease(&host)["address"].as_str().unwrap().to_owned();
    eventually("it answers", || answers(&netns, address.trim_end_matches("/24")));
}

fn refusal(host: &Host, interface: &str) -> String {
    let output = host.try_ctl(&["set", "interface", "dhcp", interface, "on"]);
    assert!(!output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn what_cannot_be_configured_is_said() {
    let host = Host::bare(&[]);
    host.ctl("create loopback interface");
    let failed = refusal(&host, "loop0");
    assert!(failed.contains("`loop0` has no Ethernet address"), "{failed}");
    let failed = refusal(&host, "eth9");
    assert!(failed.contains("no interface `eth9`"), "{failed}");
    assert_eq!(host.json("show dhcp")["interfaces"], serde_json::json!([]));
}
