//! A host on AF_XDP sockets: programs that know nothing of it, with the Linux kernel at the other
//! end of a veth pair whose checksums are left as the kernel leaves them.

use serde_json::Value;

use crate::ethernet::KernelServer;
use crate::netns::{Netns, root};
use crate::world::{Host, Namespace, folder, report};

const WIRE: Namespace = Namespace { id: "wire", secret: "abc" };

/// A pair with two queues in a namespace, and a host at one end of it.
fn host(netns: &Netns, cores: &str) -> Host {
    let folder = folder();
    let queues = "numrxqueues 2 numtxqueues 2";
    netns.ip(&format!("link add ours {queues} type veth peer name theirs {queues}"));
    netns.ip("link set ours addrgenmode none");
    netns.ip("addr add 10.98.0.1/24 dev theirs");
    netns.ip("addr add fd98::1/64 dev theirs nodad");
    netns.ip("link set theirs up");
    let settings = folder.join("host.toml");
    let text = "[[ports]]\nport = \"xdp:ours\"\naddresses = [\"10.98.0.2/24\", \"fd98::2/64\"]\n";
    std::fs::write(&settings, text).unwrap();
    let options = ["-c", settings.to_str().unwrap(), "--cores", cores];
    Host::inside(netns, &options, &["app ns add id wire secret abc if port0"])
}

fn received(report: &Value) -> u64 {
    report["end"]["sum_received"]["bytes"].as_u64().unwrap_or_else(|| panic!("{report}"))
}

#[test]
fn programs_and_the_kernel_reach_each_other_over_a_queue_for_each_worker() {
    if !root() {
        return;
    }
    let netns = Netns::new("cwwire");
    let host = host(&netns, "0,1");
    for address in ["10.98.0.2", "fd98::2"] {
        for direction in [&["-n", "100M"][..], &["-t", "1", "-R"], &["-t", "1", "-P", "4"]] {
            let mut server = host.spawn(WIRE, "iperf3", &["-s", "-1", "--forceflush"]);
            server.await_text("Server listening");
            let args = [&["-c", address, "-J"], direction].concat();
            let report = report(&netns.text("iperf3", &args));
            assert!(received(&report) > 100_000, "{address} {direction:?}: {report}");
            server.succeed();
        }
    }
    // What a worker begins may be answered on the other's queue.
    for address in ["10.98.0.1", "fd98::1"] {
        for direction in [&["-n", "50M"][..], &["-t", "1", "-R", "-P", "4"]] {
            let _server = KernelServer::new(&netns, &host);
            let args = [&["-c", address, "-J"], direction].concat();
            let report = report(&host.run(WIRE, "iperf3", &args));
            assert!(received(&report) > 100_000, "{address} {direction:?}: {report}");
        }
    }
    host.await_empty();
    host.stop();
    assert!(!netns.text("ip", &["link", "show", "dev", "ours"]).contains("prog/xdp"));
}
