//! A host with two namespaces on two loopbacks in two tables, and a time that is moved by hand.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use clearway_base::{Duration, Instant};
use clearway_dev::PoolBudget;
use clearway_engine::{PortOptions, Time};
use clearway_host::{HostByHand, NamespaceLimits, NamespaceSpec, ProgramLimits, Setup};
use clearway_ports::Port;
use clearway_proto::{Limits, NextHop, Table};
use clearway_shm::attach_socket::Secret;
use clearway_wire::Cidr;

static HOMES: AtomicU32 = AtomicU32::new(0);

/// Turns after which whoever still has something to do at once goes round in circles.
const TURNS: u32 = 10_000;

/// By then nothing is left to be done: TIME-WAIT, the wait for a peer that does not close,
/// retransmissions to one that is gone.
const LONGEST: Duration = Duration::from_secs(3_600);

/// The host, in a folder of its own that goes with it.
pub(super) struct Home {
    host: HostByHand,
    folder: PathBuf,
    now: Instant,
    /// Packet buffers of each worker when nothing happens.
    buffers: Vec<(usize, usize)>,
}

/// Limits so small that tables overflow now and then.
fn limits() -> Limits {
    Limits {
        connections: 64,
        half_open: 16,
        time_wait: 16,
        orphans: 16,
        listeners: 16,
        binds: 64,
        udp_sockets: 16,
        udp_queue_bytes: 16_384,
        ..Limits::default()
    }
}

impl Home {
    pub(super) fn new() -> Home {
        let number = HOMES.fetch_add(1, Ordering::Relaxed);
        let folder =
            std::env::temp_dir().join(format!("clearway-peer-{}-{number}", std::process::id()));
        let mut setup = Setup::new(folder.join("host.sock"), [7; 32]);
        setup.workers = vec![None, None];
        setup.stack.limits = limits();
        setup.pool = PoolBudget { small_count: 256, large_count: 64, ..PoolBudget::default() };
        setup.program = ProgramLimits {
            sessions: 8,
            listeners: 3,
            processes: 3,
            udp_sockets: 4,
            memory: 8 << 20,
            rx_fifo: 64 << 10,
            tx_fifo: 4 << 10,
            max_fifo: 256 << 10,
        };
        (setup.programs, setup.processes, setup.sessions) = (6, 8, 32);
        let host = HostByHand::new(setup).expect("a host in an empty folder");
        let mut home =
            Home { host, folder, now: Instant::ZERO + Duration::from_secs(1), buffers: Vec::new() };
        for (table, address, other) in
            [(1, "172.16.1.1/24", "172.16.2.1/32"), (2, "172.16.2.1/24", "172.16.1.1/32")]
        {
            home.loopback(table, address, other);
        }
        for (id, secret, table) in [("server", "1", 1), ("client", "2", 2), ("hostile", "3", 2)] {
            let limits = NamespaceLimits::default();
            let (id, secret) = (id.into(), Some(Secret(secret.into())));
            let spec = NamespaceSpec { id, secret, table: Table(table), interface: None, limits };
            home.host.add_namespace(spec).expect("namespaces of their own names");
        }
        home.turn();
        home.buffers = home.available();
        home
    }

    fn loopback(&mut self, table: u16, address: &str, other: &str) {
        let cidr = |text: &str| text.parse::<Cidr>().expect("an address written in this file");
        let now = self.now;
        for worker in self.host.workers() {
            let port = Port::loopback(worker.pool(), 65_535);
            let options =
                PortOptions { name: format!("loop{table}"), table: Table(table), mtu: None };
            let iface =
                worker.engine().add_port(port, options).expect("the limits allow two interfaces");
            worker
                .stack()
                .add_address(now, iface, cidr(address))
                .expect("the limits allow two addresses");
            let via = NextHop::Lookup(Table(3 - table));
            worker
                .stack()
                .add_route(Table(table), cidr(other), via)
                .expect("the limits allow two routes");
        }
    }

    pub(super) fn attach_socket(&self) -> PathBuf {
        self.folder.join("host.sock")
    }

    /// What is to be done now. Answers whether there may be more at once, and when there is
    /// something next.
    fn once(&mut self) -> (bool, Instant) {
        let turn = self
            .host
            .turn(Time { now: self.now, since_1970: Duration::ZERO })
            .expect("a host that goes on");
        (turn.worked || turn.again, turn.deadline)
    }

    /// Turns until nothing is left to do at once. Answers when there is something next.
    pub(super) fn turn(&mut self) -> Instant {
        for _ in 0..TURNS {
            let (more, deadline) = self.once();
            if !more {
                return deadline;
            }
        }
        panic!("the host goes round in circles");
    }

    /// Lets time pass, and everything happen that is due meanwhile.
    pub(super) fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        loop {
            let next = self.turn();
            if next > until {
                break;
            }
            self.now = next.max(self.now);
        }
        self.now = until;
        self.turn();
    }

    fn available(&mut self) -> Vec<(usize, usize)> {
        let available =
            |pool: &clearway_dev::FramePool| (pool.small().available(), pool.large().available());
        self.host.workers().iter().map(|worker| available(worker.pool())).collect()
    }

    /// Lets everything come to its end, and looks what is left: so many programs, and nothing of
    /// others.
    pub(super) fn rest(&mut self, programs: usize) {
        self.pass(LONGEST);
        let left = self.host.programs();
        assert_eq!(left.len(), programs, "programs are left: {left:?}");
        let counted: u32 = left.iter().map(|program| program.sessions).sum();
        let sessions: u32 =
            self.host.workers().iter_mut().map(|worker| worker.sessions().count()).sum();
        let connections: u32 = self
            .host
            .workers()
            .iter_mut()
            .map(|worker| worker.stack().population().connections)
            .sum();
        assert_eq!(sessions, counted, "sessions that no program has");
        if programs == 0 {
            assert_eq!((sessions, connections), (0, 0), "sessions and connections are left");
            assert_eq!(self.available(), self.buffers, "packet buffers are left somewhere");
            let counts = self.host.counts();
            assert_eq!((counts.processes, counts.session_fds), (0, 0));
        }
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
