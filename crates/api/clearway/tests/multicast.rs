//! Multicast with the Linux kernel at the other end of a TAP device: its bridge listens to our
//! reports as a router does, and its sockets hear us and are heard.

use std::net::{Ipv4Addr, UdpSocket};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use clearway::core::{GroupChange, Iface, Table};
use clearway::{Addr, App, Endpoint, Event, Net, Stack, Stopper, Stores, Time, UdpId, UdpSpec};
use nix::sched::{CloneFlags, unshare};

const GROUPS: [&str; 2] = ["239.1.2.3", "ff15::7"];
/// Where the kernel listens.
const ANSWERS: &str = "239.9.9.9";

type Heard = Arc<Mutex<Vec<(Addr, Vec<u8>)>>>;

/// A member of the groups, which tells another group of what it hears.
struct Member {
    heard: Heard,
    socket: Option<UdpId>,
}

fn addr(text: &str) -> Addr {
    text.parse().unwrap()
}

impl App<Stores> for Member {
    type Report = ();

    fn start(&mut self, _time: Time, stack: &mut Stack<Stores>) -> Result<(), String> {
        let local = Endpoint::new(Addr::ANY_V6, 5007);
        let socket = stack.udp_bind(UdpSpec { table: Table(0), local, token: 0, v6_only: false });
        let socket = socket.map_err(|why| format!("{why:?}"))?;
        for group in GROUPS {
            let joined = stack.udp_group(socket, Iface(0), addr(group), GroupChange::Join);
            joined.map_err(|why| format!("{group}: {why:?}"))?;
        }
        self.socket = Some(socket);
        Ok(())
    }

    fn on_events(&mut self, _time: Time, stack: &mut Stack<Stores>) {
        while let Some(event) = stack.next_event() {
            let Event::Udp { socket, .. } = event else { continue };
            while let Some(datagram) = stack.udp_recv(socket) {
                self.heard.lock().unwrap().push((datagram.to, datagram.payload.to_vec()));
                // What finds no room is said again: the kernel's side goes on sending.
                let _ = stack.udp_send(socket, Endpoint::new(addr(ANSWERS), 6000), None, b"heard");
            }
        }
    }

    fn stop(&mut self, _time: Time, stack: &mut Stack<Stores>) {
        if let Some(socket) = self.socket.take() {
            stack.udp_close(socket);
        }
    }

    fn report(&self) {}
}

/// Ends the run also when the test fails.
struct Stops(Stopper);

impl Drop for Stops {
    fn drop(&mut self) {
        self.0.stop();
    }
}

fn said(program: &str, args: &str) -> String {
    let output = Command::new(program).args(args.split(' ')).output().unwrap();
    assert!(
        output.status.success(),
        "{program} {args}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < end, "not within a minute: {what}");
        thread::sleep(Duration::from_millis(50));
    }
}

/// Runs in a network namespace that goes with the thread. False: only root may.
fn in_a_namespace(test: fn()) -> bool {
    let run = move || unshare(CloneFlags::CLONE_NEWNET).map(|()| test()).is_ok();
    thread::spawn(run).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

#[test]
fn linux_learns_our_groups_and_speaks_with_us_in_them() {
    if !in_a_namespace(members_among_themselves) {
        assert!(std::env::var_os("CI").is_none(), "only root can make a network namespace");
        eprintln!("skipped: only root can make a network namespace");
    }
}

fn members_among_themselves() {
    said(
        "ip",
        "link add br0 type bridge mcast_snooping 1 mcast_querier 1 mcast_igmp_version 3 \
         mcast_mld_version 2",
    );
    said("ip", "addr add 10.97.0.1/24 dev br0");
    said("ip", "addr add fd97::1/64 dev br0 nodad");
    said("ip", "link set br0 up");
    said("ip", "route add 224.0.0.0/4 dev br0");
    let mut net = Net::builder()
        .port("tap:cwmcast0")
        .address("10.97.0.2/24")
        .address("fd97::2/64")
        .open()
        .unwrap();
    said("ip", "link set cwmcast0 master br0");
    said("ip", "link set cwmcast0 up");
    let heard = Heard::default();
    let (stops, member) =
        (Stops(net.stopper()), Member { heard: Arc::clone(&heard), socket: None });
    let running = thread::spawn(move || net.run(member).map(|_| ()));
    // The bridge hears our reports, the first ones or those that answer its queries.
    eventually("the bridge knows our groups", || {
        let known = said("bridge", "mdb show dev br0");
        GROUPS.iter().all(|group| {
            known.lines().any(|line| line.contains("port cwmcast0") && line.contains(group))
        })
    });
    let answers = UdpSocket::bind("0.0.0.0:6000").unwrap();
    answers.join_multicast_v4(&Ipv4Addr::new(239, 9, 9, 9), &Ipv4Addr::new(10, 97, 0, 1)).unwrap();
    answers.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    for (ours, group) in ["10.97.0.1:0", "[fd97::1]:0"].iter().zip(GROUPS) {
        let socket = UdpSocket::bind(ours).unwrap();
        let to = Endpoint::new(addr(group), 5007);
        eventually(group, || {
            socket.send_to(b"news", std::net::SocketAddr::from(to)).unwrap();
            heard.lock().unwrap().iter().any(|(to, bytes)| *to == addr(group) && bytes == b"news")
        });
        let mut buf = [0; 100];
        let (len, from) = answers.recv_from(&mut buf).unwrap();
        assert_eq!((&buf[..len], from.ip().to_string().as_str()), (&b"heard"[..], "10.97.0.2"));
    }
    drop(stops);
    running.join().unwrap().unwrap();
}
