//! A host with two namespaces on two loopbacks in two tables, as the document has it.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;

use clearway_engine::PortOptions;
use clearway_host::{
    Host, HostError, HostHandle, InterfaceEntry, InterfaceKind, NamespaceLimits, NamespaceSpec,
    ProgramLimits, Setup, Worker,
};
use clearway_pkt::Iface;
use clearway_ports::Port;
use clearway_proto::{NextHop, Table};
use clearway_shm::attach_socket::Secret;
use clearway_wire::Cidr;

use crate::eventually::eventually;

static WORLDS: AtomicU32 = AtomicU32::new(0);

/// A host in a folder of its own. Both are gone when this is dropped.
pub(crate) struct World {
    pub(crate) host: HostHandle,
    folder: PathBuf,
    setup: Setup,
    thread: Option<JoinHandle<Result<(), HostError>>>,
}

fn start(setup: Setup) -> (HostHandle, JoinHandle<Result<(), HostError>>) {
    let host = Host::start(setup).expect("a host in an empty folder");
    (host.handle(), std::thread::spawn(move || host.run()))
}

impl World {
    pub(crate) fn new() -> World {
        World::with(|_| {})
    }

    pub(crate) fn with(change: impl FnOnce(&mut Setup)) -> World {
        let number = WORLDS.fetch_add(1, Ordering::Relaxed);
        let folder =
            std::env::temp_dir().join(format!("clearway-host-{}-{number}", std::process::id()));
        let mut setup = Setup::new(folder.join("host.sock"), [7; 32]);
        setup.program =
            ProgramLimits { rx_fifo: 256 << 10, tx_fifo: 256 << 10, ..ProgramLimits::default() };
        change(&mut setup);
        let (host, thread) = start(setup.clone());
        let world = World { host, folder, setup, thread: Some(thread) };
        world.furnish();
        world
    }

    /// Ends the host, and starts another in its place.
    pub(crate) fn start_again(&mut self) {
        self.stop().expect("the host ends well");
        let (host, thread) = start(self.setup.clone());
        (self.host, self.thread) = (host, Some(thread));
        self.furnish();
    }

    fn furnish(&self) {
        let world = self;
        world.loopback("loop0", 1, "172.16.1.1/24");
        world.loopback("loop1", 2, "172.16.2.1/24");
        world.route(2, "172.16.1.1/32", 1);
        world.route(1, "172.16.2.1/32", 2);
        world.namespace("server", "1234", "loop0", 1);
        world.namespace("client", "5678", "loop1", 2);
    }

    pub(crate) fn attach_socket(&self) -> PathBuf {
        self.folder.join("host.sock")
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    fn loopback(&self, name: &'static str, table: u16, address: &'static str) {
        let options = PortOptions { name: name.into(), table: Table(table), mtu: None };
        let cidr: Cidr = address.parse().unwrap();
        let made = self.host.ask_all(move |worker| {
            let port = Port::loopback(worker.pool(), 65_535);
            let iface = worker.engine().add_port(port, options.clone()).unwrap();
            let now = worker.time().now;
            worker.stack().add_address(now, iface, cidr).unwrap();
            iface
        });
        let iface: Iface = made.unwrap()[0];
        let entry = InterfaceEntry { name: name.into(), iface, kind: InterfaceKind::Loopback };
        self.host.interfaces().lock().unwrap().add(entry).unwrap();
        self.host.routes_changed();
    }

    fn route(&self, table: u16, prefix: &'static str, via: u16) {
        let cidr: Cidr = prefix.parse().unwrap();
        let add = move |worker: &mut Worker| {
            worker.stack().add_route(Table(table), cidr, NextHop::Lookup(Table(via))).unwrap();
        };
        self.host.ask_all(add).unwrap();
        self.host.routes_changed();
    }

    pub(crate) fn namespace(&self, id: &str, secret: &str, interface: &str, table: u16) {
        self.bounded_namespace((id, secret), (interface, table), NamespaceLimits::default());
    }

    /// The same, with limits of its own for each program in it.
    pub(crate) fn bounded_namespace(
        &self,
        (id, secret): (&str, &str),
        (interface, table): (&str, u16),
        limits: NamespaceLimits,
    ) {
        let spec = NamespaceSpec {
            id: id.into(),
            secret: Some(Secret(secret.into())),
            table: Table(table),
            interface: Some(interface.into()),
            limits,
        };
        self.host.add_namespace(spec).unwrap().unwrap();
    }

    /// Waits until nothing of any program is left.
    pub(crate) fn wait_until_empty(&self) {
        eventually("all programs are gone", || self.host.counts().unwrap().programs == 0);
        let left = |worker: &mut Worker| {
            (worker.sessions().count(), worker.stack().population().connections)
        };
        eventually("all sessions and connections are gone", || {
            self.host.ask(0, left).unwrap() == (0, 0)
        });
        let counts = self.host.counts().unwrap();
        assert_eq!((counts.processes, counts.session_fds), (0, 0));
    }

    /// Ends the host, and says how it ended.
    pub(crate) fn stop(&mut self) -> Result<(), HostError> {
        self.host.stop();
        match self.thread.take() {
            Some(thread) => thread.join().expect("the supervisor does not panic"),
            None => Ok(()),
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let ended = self.stop();
        let _ = std::fs::remove_dir_all(&self.folder);
        if !std::thread::panicking() {
            ended.expect("the host ends well");
        }
    }
}
