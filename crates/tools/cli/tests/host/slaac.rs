//! An interface that is configured by IPv6 routers: dnsmasq in the network namespace at the other
//! end of a TAP device, and a router that says what real ones do not.

use std::fs;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::netns::{Netns, or_skip, root};
use crate::world::{Host, Namespace, eventually};

const OPEN: Namespace = Namespace { id: "wire", secret: "abc" };
const PREFIX: &str = "2001:db8:97:";

/// The router; it ends when this goes.
struct Dnsmasq(Child);

impl Dnsmasq {
    fn new(netns: &Netns, host: &Host, more: &[&str]) -> Dnsmasq {
        Dnsmasq::with_range(netns, host, "2001:db8:97::,ra-only,64,3600", more)
    }

    fn with_range(netns: &Netns, host: &Host, range: &str, more: &[&str]) -> Dnsmasq {
        let range = format!("--dhcp-range={range}");
        let leases = format!("--dhcp-leasefile={}", host.folder.join("leases").display());
        let mut args = vec![
            "--keep-in-foreground",
            "--conf-file=/dev/null",
            "--pid-file=",
            "--user=root",
            "--log-facility=-",
            "--no-resolv",
            "--no-hosts",
            "--interface=cw0",
            "--enable-ra",
            &range,
            "--ra-param=cw0,mtu:1400,high,10,1200",
            &leases,
        ];
        args.extend(more);
        let log = fs::File::create(host.folder.join("dnsmasq")).unwrap();
        let mut command = netns.command("dnsmasq", &args);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn();
        Dnsmasq(child.unwrap())
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
    let netns = Netns::new("cwslaac");
    let host =
        Host::inside(&netns, &["--slaac", "tap:cw0"], &["app ns add id wire secret abc if tap0"]);
    netns.text("sysctl", &["-qw", "net.ipv6.conf.cw0.accept_dad=0"]);
    netns.ip("addr add 2001:db8:97::1/64 dev cw0");
    netns.ip("link set cw0 up");
    (netns, host)
}

fn shown(host: &Host) -> Value {
    host.json("show slaac")["interfaces"][0].clone()
}

/// The addresses that are not link-local.
fn addresses(host: &Host) -> Vec<Value> {
    let all = shown(host)["addresses"].as_array().unwrap().clone();
    all.into_iter().filter(|a| !a["address"].as_str().unwrap().starts_with("fe80:")).collect()
}

/// Whether there is one, and where it stands.
fn is(host: &Host, state: &str) -> bool {
    addresses(host).first().is_some_and(|address| address["state"] == state)
}

fn says(netns: &Netns, what: &[&str]) {
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/host/router.py");
    let mut args = vec![program, "cw0"];
    args.extend(what);
    netns.text("python3", &args);
}

fn fib(host: &Host) -> String {
    host.ctl("show ip6 fib")
}

fn ip_addr(host: &Host, more: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_clearway"));
    let command = command.arg("ip").args(more).args(["addr", "show", "dev", "tap0"]);
    let out = command.env("CLEARWAY_SOCKET", host.socket()).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

#[test]
fn an_interface_gets_addresses_and_routes_of_a_router_and_programs_use_them() {
    if !root() || !has_dnsmasq() {
        return;
    }
    let (netns, host) = wire();
    let more = ["--port=0", "--dhcp-option=option6:dns-server,[2001:db8:97::53]"];
    let _router = Dnsmasq::new(&netns, &host, &more);
    eventually("an address is there", || is(&host, "preferred"));
    let all = shown(&host);
    let address = addresses(&host)[0]["address"].as_str().unwrap().to_owned();
    assert!(address.starts_with(PREFIX) && address.ends_with("/64"), "{all}");
    assert_eq!(all["dns"][0]["address"], "2001:db8:97::53", "{all}");
    assert_eq!((&all["mtu"], &all["managed"]), (&1400.into(), &false.into()), "{all}");
    assert_eq!(all["routers"][0]["preference"], "high", "{all}");
    assert_eq!(host.json("show interface tap0")["interfaces"][0]["mtu"], 1400);
    let routes = fib(&host);
    assert!(routes.contains("2001:db8:97::/64") && routes.contains("::/0"), "{routes}");
    let text = ip_addr(&host, &[]);
    let line = format!("inet6 {address} scope global dynamic");
    assert!(text.contains(&line) && text.contains("sec preferred_lft"), "{text}");
    let row: Value = serde_json::from_str(&ip_addr(&host, &["-j"])).unwrap();
    let infos = row[0]["addr_info"].as_array().unwrap();
    let given = infos.iter().find(|info| info["scope"] == "global").unwrap();
    assert_eq!(given["dynamic"], true, "{row}");
    assert!(given["valid_life_time"].as_u64().unwrap() <= 3600, "{row}");
    let local = infos.iter().find(|info| info["scope"] == "link").unwrap();
    assert!(local["dynamic"].is_null(), "{row}");
    // RFC 7217: nothing of the Ethernet address is in either.
    assert!(!text.contains("ff:fe"), "{text}");
    // The kernel's curl to a program on it, and back.
    let ours = address.trim_end_matches("/64").to_owned();
    let served = host.spawn(OPEN, "python3", &["-m", "http.server", "8080", "--bind", &ours]);
    let url = format!("http://[{ours}]:8080/");
    let curl = ["-sS", "-m", "5", "-o", "/dev/null", "-w", "%{http_code} %{remote_ip}", &url];
    let got = || String::from_utf8_lossy(&netns.run("curl", &curl).stdout).into_owned();
    eventually("the program serves", || got() == format!("200 {ours}"));
    drop(served);
    let mut server = netns
        .command("python3", &["-m", "http.server", "8081", "--bind", "2001:db8:97::1"])
        .current_dir(&*host.folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    eventually("the kernel's server listens", || netns.text("ss", &["-lntH"]).contains(":8081 "));
    let page = host.run(
        OPEN,
        "curl",
        &["-sS", "-o", "/dev/null", "-w", "%{local_ip}", "http://[2001:db8:97::1]:8081/"],
    );
    let _ = server.kill();
    let _ = server.wait();
    assert_eq!(page, ours);
    // What a router gave is not written down as if somebody had set it.
    let config = host.ctl("show running-config");
    assert!(config.contains("set interface slaac tap0 on"), "{config}");
    assert!(!config.contains("db8:97") && !config.contains("fe80") && !config.contains("1400"));
    let failed = host.try_ctl(&["set", "interface", "mac", "address", "tap0", "02:00:00:00:00:07"]);
    assert!(String::from_utf8_lossy(&failed.stderr).contains("set interface slaac"), "{failed:?}");
    // Given up, the interface is as it was.
    host.ctl("set interface slaac tap0 off");
    let text = ip_addr(&host, &[]);
    assert!(!text.contains("db8:97") && text.contains("ff:fe"), "{text}");
    let routes = fib(&host);
    assert!(!routes.contains("db8:97") && !routes.contains("::/0"), "{routes}");
    assert_eq!(host.json("show interface tap0")["interfaces"][0]["mtu"], 1500);
    // And again the same address.
    host.ctl("set interface slaac tap0 on");
    eventually("the address is back", || is(&host, "preferred"));
    assert_eq!(addresses(&host)[0]["address"], address);
}

/// The router's own link-local address is the server's, which is what many routers say.
#[test]
fn programs_ask_the_servers_of_names_that_a_router_names_on_the_link_alone() {
    if !root() || !has_dnsmasq() {
        return;
    }
    let (netns, host) = wire();
    let more = [
        "--bind-interfaces",
        "--dhcp-option=option6:dns-server,[fe80::]",
        "--host-record=printer.clearway.test,2001:db8::7",
        "--local=/clearway.test/",
    ];
    let _router = Dnsmasq::new(&netns, &host, &more);
    eventually("an address is there", || is(&host, "preferred"));
    let server = shown(&host)["dns"][0]["address"].as_str().unwrap().to_owned();
    assert!(server.starts_with("fe80:"), "{server}");
    let found = host.run(OPEN, "getent", &["ahostsv6", "printer.clearway.test"]);
    assert!(found.contains("2001:db8::7"), "{found}");
    let read = host.run(OPEN, "cat", &["/etc/resolv.conf"]);
    let index =
        host.run(OPEN, "python3", &["-c", "import socket; print(socket.if_nametoindex('tap0'))"]);
    assert!(read.ends_with(&format!("\nnameserver {server}%{index}")), "{read}");
    for (program, args) in [
        ("dig", &["+short", "AAAA", "printer.clearway.test"][..]),
        (
            "node",
            &[
                "-e",
                "require('dns').resolve6('printer.clearway.test', (e, found) => console.log(e || found[0]))",
            ],
        ),
    ] {
        let there = Command::new(program).arg("-v").output().is_ok();
        if or_skip(there, &format!("there is no {program}.")) {
            assert_eq!(host.run(OPEN, program, args), "2001:db8::7\n", "{program}");
        }
    }
    // What is advertised no more is asked no more.
    says(&netns, &["--from", &server, "--dns", &format!("{server},0")]);
    let system = fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
    let read = || {
        let output = host.command(OPEN, "cat", &["/etc/resolv.conf"]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    eventually("the system's are asked", || read() == system);
}

#[test]
fn lifetimes_run_out_and_a_router_that_ends_gives_way_to_another() {
    if !root() {
        return;
    }
    let (netns, host) = wire();
    let prefix = "2001:db8:97::/64,192,8,4";
    says(
        &netns,
        &["--prefix", prefix, "--dns", "2001:db8:97::53,8", "--route", "2001:db8:5::/48,0,8"],
    );
    says(&netns, &["--from", "fe80::98", "--lifetime", "600"]);
    eventually("an address is there", || is(&host, "preferred"));
    let routes = fib(&host);
    for route in ["::/0", "fe80::99", "2001:db8:5::/48", "2001:db8:97::/64"] {
        assert!(routes.contains(route), "{route}: {routes}");
    }
    eventually("it is deprecated", || is(&host, "deprecated"));
    assert!(ip_addr(&host, &[]).contains("scope global deprecated dynamic"));
    eventually("its time is over", || addresses(&host).is_empty());
    eventually("so is that of the rest", || {
        let all = shown(&host);
        all["dns"].as_array().unwrap().is_empty() && all["routes"].as_array().unwrap().len() == 1
    });
    assert!(!ip_addr(&host, &[]).contains("db8:97"));
    let routes = fib(&host);
    assert!(!routes.contains("db8") && routes.contains("fe80::99"), "{routes}");
    // The first router is none any more, and then neither is the other.
    says(&netns, &["--lifetime", "0"]);
    eventually("the other router is used", || fib(&host).contains("fe80::98"));
    says(&netns, &["--from", "fe80::98", "--lifetime", "0"]);
    eventually("there is no router", || !fib(&host).contains("::/0"));
}

#[test]
fn a_router_that_is_silent_gives_way_to_one_that_answers() {
    if !root() {
        return;
    }
    let (netns, host) = wire();
    // The one that nobody is comes first; the kernel has the other's address.
    says(&netns, &["--prefix", "2001:db8:97::/64,64,3600,3600"]);
    netns.ip("addr add fe80::98/64 dev cw0");
    netns.ip("addr add 2001:db8:5::1/128 dev lo");
    netns.text("sysctl", &["-qw", "net.ipv6.conf.all.forwarding=1"]);
    eventually("an address is there", || is(&host, "preferred"));
    let ours = addresses(&host)[0]["address"].as_str().unwrap().trim_end_matches("/64").to_owned();
    // The prefix is not on the link: the kernel needs a way back.
    assert!(!fib(&host).contains("2001:db8:97::/64"), "{}", fib(&host));
    says(&netns, &["--from", "fe80::98"]);
    eventually("both are known", || shown(&host)["routers"].as_array().unwrap().len() == 2);
    assert!(fib(&host).contains("fe80::99"));
    let ask = "import socket\nfor _ in range(40):\n    try: s = socket.create_connection(('2001:db8:5::1', 8080), 5)\n    \
               except OSError: continue\n    print(s.getsockname()[0], flush=True)\n    break";
    let mut server = netns
        .command("python3", &["-m", "http.server", "8080", "--bind", "2001:db8:5::1"])
        .current_dir(&*host.folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    eventually("the kernel's server listens", || netns.text("ss", &["-lntH"]).contains(":8080 "));
    let from = host.run(OPEN, "python3", &["-c", ask]);
    let _ = server.kill();
    let _ = server.wait();
    assert_eq!(from.trim(), ours);
    let all = shown(&host);
    assert_eq!(
        (&all["routers"][0]["answers"], &all["routers"][1]["used"]),
        (&false.into(), &true.into()),
        "{all}"
    );
}

#[test]
fn an_address_that_somebody_has_already_is_passed_over() {
    if !root() {
        return;
    }
    let (netns, host) = wire();
    let prefix = ["--prefix", "2001:db8:97::/64,192,3600,3600"];
    says(&netns, &prefix);
    eventually("an address is there", || is(&host, "preferred"));
    let first = addresses(&host)[0]["address"].as_str().unwrap().to_owned();
    let local = shown(&host)["addresses"][0]["address"].as_str().unwrap().to_owned();
    host.ctl("set interface slaac tap0 off");
    // Its own at once: of two that probe for it at the same time either may give way.
    netns.ip(&format!("addr add {first} dev cw0 nodad"));
    netns.ip(&format!("addr add {local} dev cw0 nodad"));
    host.ctl("set interface slaac tap0 on");
    says(&netns, &prefix);
    eventually("another address is there", || is(&host, "preferred"));
    let second = addresses(&host)[0]["address"].as_str().unwrap().to_owned();
    assert_ne!(second, first);
    eventually("another link-local one is there", || {
        let mine = &shown(&host)["addresses"][0];
        let (is_used, is_theirs) =
            (mine["state"] == "preferred", mine["address"] == local.as_str());
        if is_used && is_theirs {
            // A machine that is very busy may not answer within the second of a probe: once more.
            host.ctl("set interface slaac tap0 off");
            host.ctl("set interface slaac tap0 on");
        }
        is_used && !is_theirs
    });
}

#[test]
fn what_a_hostile_router_says_is_dropped_and_counted_by_reason() {
    if !root() {
        return;
    }
    let (netns, host) = wire();
    let good = "2001:db8:97::/64,192,86400,86400";
    says(&netns, &["--prefix", good]);
    eventually("an address is there", || is(&host, "preferred"));
    let before = shown(&host);
    // What the core drops, by the names of docs/drops.md.
    let evil = "2001:db8:666::/64,192,86400,86400";
    for (reason, what) in [
        ("ndp-bad-hop-limit", &["--hops", "64", "--prefix", evil][..]),
        ("ndp-bad-source", &["--from", "2001:db8:97::99", "--prefix", evil]),
        ("icmpv6-bad-checksum", &["--bad-checksum", "--prefix", evil]),
        ("ndp-bad-option", &["--prefix", evil, "--option", "0500000000000000"]),
        ("ndp-bad-option", &["--prefix", evil, "--cut", "4"]),
        ("ndp-too-short", &["--cut", "12"]),
    ] {
        let count =
            |host: &Host| host.json("show errors all")["errors"][reason].as_u64().unwrap_or(0);
        let had = count(&host);
        says(&netns, what);
        eventually(reason, || count(&host) > had);
    }
    // What the configuration drops; the rest of such an advertisement is taken.
    for (reason, what) in [
        ("ra-bad-prefix", &["--prefix", "fe80::/64,192,600,600"][..]),
        ("ra-bad-prefix-length", &["--prefix", "2001:db8:7::/63,64,600,600"]),
        ("ra-bad-lifetimes", &["--prefix", "2001:db8:7::/64,64,600,601"]),
        ("ra-short-lifetime", &["--prefix", "2001:db8:97::/64,64,0,0"]),
        ("ra-bad-mtu", &["--mtu", "0"]),
        ("ra-bad-mtu", &["--mtu", "1"]),
        ("ra-bad-mtu", &["--mtu", "9000"]),
        ("ra-bad-route", &["--route", "ff00::/8,0,600"]),
        ("ra-bad-route", &["--route", "2001:db8:7::/48,16,600"]),
        ("ra-bad-dns", &["--dns", "ff02::1,600"]),
        ("ra-bad-option", &["--option", "19020000000002580000000000000000"]),
    ] {
        // Not more of them than are looked at in a second.
        std::thread::sleep(std::time::Duration::from_millis(120));
        let count = |host: &Host| shown(host)["dropped"][reason].as_u64().unwrap();
        let had = count(&host);
        says(&netns, &[&["--lifetime", "1800"], what].concat());
        eventually(reason, || count(&host) > had);
    }
    let after = shown(&host);
    for key in ["routers", "routes", "dns", "mtu"] {
        let strip = |all: &Value| all[key].to_string().replace(|c: char| c.is_ascii_digit(), "");
        assert_eq!(strip(&before), strip(&after), "{key}");
    }
    assert_eq!(addresses(&host)[0]["address"], addresses_of(&before)[0]["address"]);
    assert!(addresses(&host)[0]["valid"].as_u64().unwrap() >= 7000, "{after}");
    assert_eq!(addresses(&host)[0]["state"], "deprecated", "the preferred lifetime is believed");
    // Floods: of prefixes, then of all there is.
    std::thread::sleep(std::time::Duration::from_secs(1));
    let many: Vec<String> =
        (0..40).map(|n| format!("2001:db8:{:x}::/64,192,600,600", 0x1000 + n)).collect();
    let args: Vec<&str> = many.iter().flat_map(|prefix| ["--prefix", prefix]).collect();
    says(&netns, &args);
    eventually("the addresses are full", || {
        shown(&host)["dropped"]["ra-addresses-full"].as_u64().unwrap() > 0
    });
    assert_eq!(addresses(&host).len(), 16);
    // A TAP device loses some of them itself when it is busy.
    eventually("a flood is counted", || {
        says(&netns, &["--prefix", good, "--times", "500"]);
        host.json("show errors all")["errors"]["router-flood"].as_u64().unwrap_or(0) > 1000
    });
    assert!(host.ctl("show version").contains("clearway"), "the host answers");
    let metrics = host.ctl("show metrics");
    for counted in [
        r#"clearway_slaac_drops_total{interface="tap0",reason="ra-bad-mtu"} 3"#,
        r#"clearway_slaac_addresses{interface="tap0",state="dadfailed"} 0"#,
        r#"clearway_slaac_router_seconds{interface="tap0"} 1"#,
    ] {
        assert!(metrics.contains(counted), "{counted}: {metrics}");
    }
}

fn addresses_of(all: &Value) -> Vec<Value> {
    let all = all["addresses"].as_array().unwrap().clone();
    all.into_iter().filter(|a| !a["address"].as_str().unwrap().starts_with("fe80:")).collect()
}

#[test]
fn dhcp_and_routers_share_a_port_and_what_cannot_be_configured_is_said() {
    let host = Host::bare(&[]);
    host.ctl("create loopback interface");
    for (interface, why) in
        [("loop0", "`loop0` has no Ethernet address"), ("eth9", "no interface `eth9`")]
    {
        let output = host.try_ctl(&["set", "interface", "slaac", interface, "on"]);
        let failed = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && failed.contains(why), "{failed}");
    }
    assert_eq!(host.json("show slaac")["interfaces"], serde_json::json!([]));
    if !root() {
        return;
    }
    let netns = Netns::new("cwslaac");
    let flags = ["--dhcp", "tap:cw0", "--slaac", "tap:cw0"];
    let host = Host::inside(&netns, &flags, &[]);
    assert_eq!(host.json("show slaac")["interfaces"][0]["interface"], "tap0");
    assert_eq!(host.json("show dhcp")["interfaces"][0]["interface"], "tap0");
    assert_eq!(host.json("show interface")["interfaces"].as_array().unwrap().len(), 1);
    host.ctl("delete tap tap0");
    assert_eq!(host.json("show slaac")["interfaces"], serde_json::json!([]));
}

/// What of DHCPv6 is shown.
fn dhcpv6(host: &Host, what: &str) -> Value {
    shown(host)["dhcpv6"][what].clone()
}

#[test]
fn an_address_comes_from_a_server_where_routers_say_so_and_is_given_back() {
    if !root() || !has_dnsmasq() {
        return;
    }
    let (netns, host) = wire();
    let more = [
        "--port=0",
        "--dhcp-option=option6:dns-server,[2001:db8:97::53]",
        "--dhcp-option=option6:domain-search,lab.example",
    ];
    let range = "2001:db8:97::100,2001:db8:97::1ff,64,3600";
    let _server = Dnsmasq::with_range(&netns, &host, range, &more);
    eventually("an address is there", || dhcpv6(&host, "phase") == "bound");
    let all = shown(&host);
    let address = dhcpv6(&host, "address").as_str().unwrap().to_owned();
    assert!(address.starts_with("2001:db8:97::1") && address.ends_with("/128"), "{all}");
    assert_eq!(
        (&all["managed"], all["dhcpv6"]["domains"][0].as_str()),
        (&true.into(), Some("lab.example"))
    );
    assert_eq!(all["dhcpv6"]["dns"][0], "2001:db8:97::53", "{all}");
    assert!(all["dhcpv6"]["valid"].as_u64().is_some_and(|seconds| seconds <= 3600), "{all}");
    // The router gives none of its own here, but the way and the prefix on the link.
    assert_eq!(addresses(&host), Vec::<Value>::new(), "{all}");
    let routes = fib(&host);
    assert!(routes.contains("2001:db8:97::/64") && routes.contains("::/0"), "{routes}");
    let text = ip_addr(&host, &[]);
    let line = format!("inet6 {address} scope global dynamic");
    assert!(text.contains(&line) && text.contains("sec preferred_lft"), "{text}");
    let said = host.ctl("show slaac");
    assert!(
        said.contains("DHCPv6") && said.contains("bound") && said.contains("lab.example"),
        "{said}"
    );
    // Nothing of it is saved: it comes anew.
    let config = host.ctl("show running-config");
    assert!(
        config.contains("set interface slaac tap0 on") && !config.contains("2001:db8:97"),
        "{config}"
    );
    // The kernel's curl to a program on it, and back.
    let ours = address.trim_end_matches("/128").to_owned();
    let served = host.spawn(OPEN, "python3", &["-m", "http.server", "8080", "--bind", &ours]);
    let url = format!("http://[{ours}]:8080/");
    let curl = ["-sS", "-m", "5", "-o", "/dev/null", "-w", "%{http_code} %{remote_ip}", &url];
    let got = || String::from_utf8_lossy(&netns.run("curl", &curl).stdout).into_owned();
    eventually("the program serves", || got() == format!("200 {ours}"));
    drop(served);
    let names = "print(open('/etc/resolv.conf').read())";
    let names = host.run(OPEN, "python3", &["-c", names]);
    assert!(names.contains("2001:db8:97::53") && names.contains("lab.example"), "{names}");
    // Nobody beyond the link is heard: what is not to the address that asked is not looked at.
    let own = shown(&host)["addresses"][0]["address"].as_str().unwrap().to_owned();
    let own = own.trim_end_matches("/64");
    let send = format!(
        "import socket\ns = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)\n\
         s.sendto(b'x', ('{ours}', 546))\n\
         s.sendto(b'x', ('{own}', 546, 0, socket.if_nametoindex('cw0')))"
    );
    netns.text("python3", &["-c", &send]);
    let short = || shown(&host)["dropped"]["dhcpv6-too-short"].clone();
    eventually("the second one is counted", || short() != 0);
    assert_eq!(short(), 1);
    // The server knows whom it gave it to, until it is given back.
    let leases = || fs::read_to_string(host.folder.join("leases")).unwrap_or_default();
    assert!(leases().contains(&ours), "{}", leases());
    host.ctl("set interface slaac tap0 off");
    eventually("it is given back", || !leases().contains(&ours));
    assert!(!ip_addr(&host, &[]).contains(&ours));
}

#[test]
fn names_come_from_a_server_where_routers_say_no_more_than_that() {
    if !root() || !has_dnsmasq() {
        return;
    }
    let (netns, host) = wire();
    let more = [
        "--port=0",
        "--dhcp-option=option6:dns-server,[2001:db8:97::53]",
        "--dhcp-option=option6:domain-search,lab.example,it",
    ];
    let range = "2001:db8:97::,ra-stateless,64,3600";
    let _server = Dnsmasq::with_range(&netns, &host, range, &more);
    eventually("it is known", || dhcpv6(&host, "phase") == "informed");
    let all = shown(&host);
    assert_eq!((&all["managed"], &all["other"]), (&false.into(), &true.into()), "{all}");
    assert_eq!(all["dhcpv6"]["domains"], serde_json::json!(["lab.example", "it"]), "{all}");
    assert!(all["dhcpv6"]["address"].is_null(), "{all}");
    eventually("an address of the prefix is there", || is(&host, "preferred"));
}

#[test]
fn an_address_of_a_server_that_somebody_has_is_declined() {
    if !root() || !has_dnsmasq() {
        return;
    }
    let (netns, host) = wire();
    // Who asks for it is answered; dnsmasq gives nobody an address that is its own.
    let knobs = ["forwarding", "proxy_ndp"].map(|knob| format!("net.ipv6.conf.cw0.{knob}=1"));
    let at_once = "net.ipv6.neigh.cw0.proxy_delay=0";
    netns.text("sysctl", &["-qw", &knobs[0], &knobs[1], at_once]);
    netns.ip("neigh add proxy 2001:db8:97::100 dev cw0");
    let range = "2001:db8:97::100,2001:db8:97::100,64,3600";
    let _server = Dnsmasq::with_range(&netns, &host, range, &["--port=0", "--log-dhcp"]);
    let log = || fs::read_to_string(host.folder.join("dnsmasq")).unwrap_or_default();
    eventually("it is declined", || log().contains("DHCPDECLINE"));
    assert!(!ip_addr(&host, &[]).contains("2001:db8:97::100"));
    assert!(host.log().contains("somebody has the address that is probed for"));
    host.stop();
}
