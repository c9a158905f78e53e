//! A Linux guest whose network card is Clearway's vhost-user port.

use clearway_http::body::{self, LINE};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::clearway::{Folder, Process, alone, eventually};
use crate::image::image;
use crate::machine::{Guest, Plug};
use crate::preload;

const V4: &str = "10.97.0.2";
const V6: &str = "fd97::2";

/// Features of virtio-net, by their numbers in Virtual I/O Device 1.2, 5.1.3.
mod feature {
    pub(super) const CSUM: usize = 0;
    pub(super) const GUEST_CSUM: usize = 1;
    pub(super) const HOST_TSO4: usize = 11;
    pub(super) const HOST_TSO6: usize = 12;
    pub(super) const MQ: usize = 22;
}

const OFFLOADS: &[usize] =
    &[feature::CSUM, feature::GUEST_CSUM, feature::HOST_TSO4, feature::HOST_TSO6];

/// Bytes of a transfer; a few hundred times the window that a connection begins with.
const BULK: u64 = 16 << 20;

/// An HTTP server over a port.
fn serve(folder: &Folder, port: &str, more: &[&str]) -> Process {
    let (v4, v6) = (format!("{V4}/24"), format!("{V6}/64"));
    let mut args = vec!["http", "--port", port, "-a", &v4, "-a", &v6, "--sink", "--json"];
    args.extend(more);
    folder.clearway(&args)
}

/// Waits until the guest and Clearway see each other, and looks at the answers of both families.
fn reaches(guest: &mut Guest) {
    for address in [V4, V6] {
        // Who has just come back is not there at once.
        guest.text(&format!(
            "for i in $(seq 60); do ping -q -c 1 -W 1 {address} >/dev/null 2>&1 && exit 0; sleep \
             0.2; done; exit 1"
        ));
        let said = guest.text(&format!("ping -c 3 -i 0.2 -W 10 {address}"));
        assert!(said.contains("3 packets received"), "{said}");
    }
}

fn url(address: &str) -> String {
    if address.contains(':') { format!("http://[{address}]") } else { format!("http://{address}") }
}

fn asks(guest: &mut Guest) {
    for address in [V4, V6] {
        let said = guest.text(&format!("wget -q -O - {}/", url(address)));
        assert_eq!(said.as_bytes(), LINE.trim_ascii_end(), "{address}");
    }
}

/// The hash of the bytes that the server makes out of a seed.
fn hash_of(seed: u64, len: u64) -> String {
    let mut hash = Sha256::new();
    let mut piece = vec![0; 1 << 16];
    for at in (0..len).step_by(piece.len()) {
        body::random(seed, at, &mut piece);
        hash.update(&piece);
    }
    format!("{:x}", hash.finalize())
}

/// Fetches many bytes, and sends the same ones back, several times at once.
fn transfers(guest: &mut Guest, address: &str, at_once: u32) {
    let seed = u64::from(at_once);
    let hash = hash_of(seed, BULK);
    let url = url(address);
    let said = guest
        .text(&format!("wget -q -O /tmp/x '{url}/random/{BULK}?seed={seed}' && sha256sum </tmp/x"));
    assert!(said.starts_with(&hash), "{address}: it had to be {hash} and is {said}");
    let head = format!(
        r"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: {BULK}\r\nConnection: close\r\n\r\n"
    );
    // A program that has the connection for its input and output writes large pieces, which nc
    // itself does not.
    guest.text(&format!("echo \"printf '{head}'; cat /tmp/x; tail -n 1 >&2\" >/tmp/put"));
    let put = format!("nc {address} 80 -e sh /tmp/put");
    let before = sent(guest);
    let said = guest.text(&format!("for i in $(seq {at_once}); do {put} & done; wait"));
    let after = sent(guest);
    let answer = format!(r#"{{"bytes":{BULK},"sha256":"{hash}"}}"#);
    // Several at once may not be the first to end their lines.
    assert_eq!(said.matches(&answer).count(), at_once as usize, "{address}: {said}");
    let (packets, bytes) = (after.0 - before.0, after.1 - before.1);
    assert!(
        bytes / packets > 1_514,
        "the guest cuts its packets itself: {packets} for {bytes} bytes"
    );
}

/// Packets and bytes that the guest's network device has sent; what it leaves to others to cut
/// counts once.
fn sent(guest: &mut Guest) -> (u64, u64) {
    let said = guest.text("cd /sys/class/net/eth0/statistics && cat tx_packets tx_bytes");
    let mut numbers = said.lines().map(|line| line.parse().unwrap());
    (numbers.next().unwrap(), numbers.next().unwrap())
}

#[test]
fn a_guest_with_one_queue_talks_to_clearway_and_either_may_go_and_come_back() {
    let _alone = alone();
    let Some(image) = image() else { return };
    let folder = Folder::new();
    let socket = folder.path().join("v.sock");
    let port = format!("dpdk:net_vhost0,iface={},queues=1,tso=1", socket.display());

    let server = serve(&folder, &port, &[]);
    let mut guest = Guest::start(&image, folder.path(), "v.sock", Plug::Connects, 1);
    guest.await_ready();
    assert!(guest.has_features(OFFLOADS));
    reaches(&mut guest);
    asks(&mut guest);
    transfers(&mut guest, V4, 1);
    transfers(&mut guest, V6, 2);
    server.stop();
    assert!(!socket.exists(), "the socket stays behind");

    // Clearway comes back after it has ended well, and after it was killed; then the socket is
    // there already.
    let mut server = serve(&folder, &port, &[]);
    reaches(&mut guest);
    asks(&mut guest);
    server.kill();
    assert!(socket.exists());
    let mut server = serve(&folder, &port, &[]);
    reaches(&mut guest);
    transfers(&mut guest, V4, 1);

    // The guest boots anew, and then the whole machine is gone from one moment to the next.
    guest.reboot();
    reaches(&mut guest);
    asks(&mut guest);
    guest.kill();
    drop(guest);
    let mut guest = Guest::start(&image, folder.path(), "v.sock", Plug::Connects, 1);
    guest.await_ready();
    reaches(&mut guest);
    asks(&mut guest);
    assert!(server.lives());
    server.stop();
    assert!(!socket.exists(), "the socket stays behind");
}

#[test]
fn a_guest_with_two_queues_waits_for_clearway_and_its_programs() {
    let _alone = alone();
    let Some(image) = image() else { return };
    let folder = Folder::new();
    let socket = folder.path().join("w.sock");
    let port = format!("dpdk:net_vhost0,iface={},queues=2,client=1,tso=1", socket.display());

    let mut guest = Guest::start(&image, folder.path(), "w.sock", Plug::Listens, 2);
    let server = serve(&folder, &port, &["--cores", "0,1"]);
    guest.await_ready();
    assert!(guest.has_features(OFFLOADS) && guest.has_features(&[feature::MQ]));
    assert_eq!(guest.text("ls /sys/class/net/eth0/queues | wc -l"), "4");
    reaches(&mut guest);
    asks(&mut guest);
    transfers(&mut guest, V4, 4);
    transfers(&mut guest, V6, 4);
    server.stop();

    let mut server = serve(&folder, &port, &["--cores", "0,1"]);
    reaches(&mut guest);
    server.kill();
    let server = serve(&folder, &port, &["--cores", "0,1"]);
    reaches(&mut guest);
    guest.reboot();
    reaches(&mut guest);
    asks(&mut guest);
    server.stop();

    // Then the whole host takes the port over, and a program that knows nothing of it serves the
    // guest.
    programs(&folder, &port, &mut guest);
    assert!(socket.exists(), "it belongs to QEMU");
}

/// The guest is served by an unmodified program.
fn programs(folder: &Folder, port: &str, guest: &mut Guest) {
    preload::build();
    let settings = folder.join("host.toml");
    let text = format!(
        "[cores]\nworkers = \"0,1\"\n[[ports]]\nport = \"{port}\"\nname = \"vhost0\"\naddresses = [\"{V4}/24\", \"{V6}/64\"]\n\
         [[namespaces]]\nid = \"guest\"\nsecret = \"1234\"\ninterface = \"vhost0\"\n"
    );
    std::fs::write(&settings, text).unwrap();
    let mut host = folder.clearway(&["up", "-c", &settings]);
    reaches(guest);
    let (free, drivers) =
        (free_buffers(folder, "show buffers"), free_buffers(folder, "show dpdk buffer"));
    assert_eq!(drivers.len(), 1);
    iperf(folder, guest);
    // Some may have been on their way when they were counted, and not be now: on a busy machine the
    // first count is taken in the middle of something.
    let as_free = |now: Vec<u64>| {
        now.len() == free.len() && now.iter().zip(&free).all(|(now, then)| now >= then)
    };
    eventually("all buffers are free again", || as_free(free_buffers(folder, "show buffers")));
    // On each of the two cores up to 64 lie ready for the next burst.
    eventually("the driver's buffers are free again", || {
        free_buffers(folder, "show dpdk buffer")[0] + 128 >= drivers[0]
    });
    host.kill();
    let host = folder.clearway(&["up", "-c", &settings]);
    reaches(guest);
    iperf(folder, guest);
    host.stop();
}

fn iperf(folder: &Folder, guest: &mut Guest) {
    for (address, words) in [(V4, ""), (V6, "-R"), (V6, "-P 4"), (V4, "-P 4 -R")] {
        let args = [
            "run",
            "--ns",
            "guest",
            "--secret",
            "1234",
            "--",
            "iperf3",
            "-s",
            "-1",
            "--forceflush",
        ];
        let mut server = folder.spawn(folder.command(&args));
        server.await_text("Server listening");
        let said = guest.text(&format!("iperf3 -c {address} -t 1 -J {words}"));
        let report: Value =
            serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}"));
        let received = &report["end"]["sum_received"];
        let (bytes, rate) =
            (received["bytes"].as_u64().unwrap(), received["bits_per_second"].as_f64().unwrap());
        assert!(bytes > 1_000_000, "{address} {words}: {report}");
        println!("iperf3 -c {address} {words}: {:.0} Mbit/s", rate / 1e6);
        assert!(server.wait().0.success(), "{}", server.text());
    }
}

/// Free packet buffers, those of each worker or those of each port, as the command has them.
fn free_buffers(folder: &Folder, command: &str) -> Vec<u64> {
    let words: Vec<&str> = ["ctl", "--json"].into_iter().chain(command.split(' ')).collect();
    let output = folder.command(&words).output().unwrap();
    let said: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {output:?}"));
    said["buffers"].as_array().unwrap().iter().map(|pool| pool["free"].as_u64().unwrap()).collect()
}
