//! What all scenarios have in common: what was asked for, what is there, and a place for what they
//! make.

use std::cell::{Cell, OnceCell};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use nix::unistd::Pid;

use crate::namespace::Namespace;
use crate::need::Facts;
use crate::process::Launch;

/// A server that somebody else started.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct External {
    /// Its name in the table.
    pub name: String,
    /// Where it listens.
    pub at: SocketAddr,
}

impl FromStr for External {
    type Err = String;

    fn from_str(text: &str) -> Result<External, String> {
        let wrong =
            || format!("`{text}` is no server: write NAME=ADDR:PORT, such as other=10.0.0.2:10000");
        let (name, at) = text.split_once('=').ok_or_else(wrong)?;
        let plain = !name.is_empty()
            && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
        if !plain {
            return Err(format!("`{name}` is no name: letters, digits, `-`, `_` and `.` make one"));
        }
        Ok(External { name: name.into(), at: at.parse().map_err(|_| wrong())? })
    }
}

/// What was asked for.
#[derive(Clone, Debug)]
pub struct Options {
    /// The `clearway` that is measured.
    pub program: PathBuf,
    /// Where the servers of other stacks are; none to look beside the program.
    pub baselines: Option<PathBuf>,
    /// How often each system is measured at each point.
    pub rounds: u32,
    /// How long one measurement counts.
    pub seconds: Duration,
    /// How long is made load before that.
    pub warmup: Duration,
    /// Fewer points: a look.
    pub quick: bool,
    /// Cores of the server's side.
    pub server_cores: Vec<usize>,
    /// Cores of the client's side.
    pub client_cores: Vec<usize>,
    /// DPDK takes huge pages when enough are free.
    pub huge_pages: bool,
    /// Servers that stand in the table too.
    pub servers: Vec<External>,
    /// Systems to measure; all when empty.
    pub systems: Vec<String>,
    /// Points to measure; all when empty.
    pub points: Vec<String>,
    /// What the others are compared with, unless the scenario says.
    pub reference: Option<String>,
    /// The command line, for the report.
    pub command: Vec<String>,
}

/// What one run of a scenario works with.
pub struct World<'a> {
    pub(crate) options: &'a Options,
    pub(crate) facts: &'a Facts,
    /// Set when somebody asks to end.
    pub(crate) stop: &'a AtomicBool,
    folder: PathBuf,
    ends: OnceCell<Ends>,
    /// What is measured begins sessions, which the scheduler weighs as it does any.
    begins_sessions: Cell<bool>,
}

/// Two namespaces with a cable between them.
pub(crate) struct Ends {
    pub(crate) client: Namespace,
    pub(crate) server: Namespace,
}

/// The kernel's server at the end of the cable.
pub(crate) const CABLE_SERVER: &str = "10.78.0.2";

/// Our server at the TAP device.
pub(crate) const TAP_SERVER: &str = "10.77.0.2";

/// Our server at the other end of a link in shared memory.
pub(crate) const MEMIF_SERVER: &str = "10.79.0.2";

/// The TAP device.
pub(crate) const TAP: &str = "cwlab0";

impl<'a> World<'a> {
    pub(crate) fn new(
        options: &'a Options,
        facts: &'a Facts,
        stop: &'a AtomicBool,
    ) -> anyhow::Result<World<'a>> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("cwlab-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder)?;
        let begins_sessions = Cell::new(false);
        Ok(World { options, facts, stop, folder, ends: OnceCell::new(), begins_sessions })
    }

    /// A file that goes with the world.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// `clearway` with these words.
    pub(crate) fn clearway(&self, words: &str) -> Launch {
        let launch = self.weighed(Launch::new(&self.options.program).words(words));
        if self.facts.huge_pages { launch } else { launch.env("CLEARWAY_DPDK_HUGE", "off") }
    }

    /// What is measured next begins sessions of its own, or does not. Programs that are put before
    /// all others would be put before those, too: a host before the processes that it serves, which
    /// it then interrupts with each of their answers.
    pub(crate) fn begins_sessions(&self, begins: bool) {
        self.begins_sessions.set(begins);
    }

    /// The program with the weight that follows from that.
    pub(crate) fn weighed(&self, launch: Launch) -> Launch {
        if self.begins_sessions.get() { launch.alike() } else { launch }
    }

    /// How long a measurement may take in all, when so much is set up before it.
    pub(crate) fn limit(&self, setup: Duration) -> Duration {
        self.options.seconds + self.options.warmup + setup + Duration::from_secs(60)
    }

    /// The process that holds the client's namespace, with a TAP device in it that nobody has used:
    /// what the last user said that it can do with packets, and its address of Ethernet, stay with
    /// a device.
    pub(crate) fn fresh_tap(&self) -> anyhow::Result<Pid> {
        let client = &self.ends()?.client;
        // The first time there is none.
        let _ = client.ip(&format!("link del {TAP}"), self.stop);
        for words in [
            format!("tuntap add dev {TAP} mode tap"),
            format!("addr add 10.77.0.1/16 dev {TAP}"),
            format!("link set {TAP} up"),
        ] {
            client.ip(&words, self.stop)?;
        }
        Ok(client.holder())
    }

    /// The two namespaces, made when they are first asked for.
    ///
    /// Each client address of the /24 that a scenario may want is one of the client's own, for the
    /// kernel has only 64,512 ports for one.
    pub(crate) fn ends(&self) -> anyhow::Result<&Ends> {
        if let Some(ends) = self.ends.get() {
            return Ok(ends);
        }
        let (client, server) = (Namespace::new(self.stop)?, Namespace::new(self.stop)?);
        let peer = server.holder();
        for words in [
            format!("link add veth0 type veth peer name veth1 netns {peer}"),
            "addr add 10.78.0.1/16 dev veth0".into(),
            "link set veth0 up".into(),
            "route add local 10.77.1.0/24 dev lo".into(),
            "route add local 10.78.1.0/24 dev lo".into(),
        ] {
            client.ip(&words, self.stop)?;
        }
        for words in ["addr add 10.78.0.2/16 dev veth1", "link set veth1 up"] {
            server.ip(words, self.stop)?;
        }
        Ok(self.ends.get_or_init(|| Ends { client, server }))
    }
}

impl Drop for World<'_> {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Where `make baselines` puts what it builds: beside the folder of the program, or below `target`
/// here.
pub(crate) fn find_baselines(options: &Options) -> PathBuf {
    if let Some(named) = &options.baselines {
        return named.clone();
    }
    let target = options.program.parent().and_then(Path::parent);
    let beside = target.map(|target| target.join("baselines")).filter(|folder| folder.is_dir());
    beside.unwrap_or_else(|| PathBuf::from("target/baselines"))
}

#[cfg(test)]
mod tests {
    use super::External;

    #[test]
    fn a_server_has_a_name_and_a_place() {
        let server: External = "other-1=[::1]:80".parse().unwrap();
        assert_eq!((server.name.as_str(), server.at.port()), ("other-1", 80));
        for wrong in ["x", "=1.2.3.4:5", "a=1.2.3.4", "a b=1.2.3.4:5", "a=host:80"] {
            assert!(wrong.parse::<External>().is_err(), "{wrong}");
        }
    }
}
