//! The two ends of links in shared memory, and who sends frames back on them.

use std::path::PathBuf;

use anyhow::Context as _;
use nix::sys::signal::Signal;

use crate::process::{Launch, Running, list};
use crate::world::World;

/// A link of DPDK between two processes, by the file that both know.
#[derive(Clone, Debug)]
pub(crate) enum Shared {
    /// memif, copying.
    Memif { socket: PathBuf, queues: usize },
    /// vhost-user at the server's end, virtio-user at the client's.
    Vhost { socket: PathBuf, queues: usize },
}

impl Shared {
    /// memif between two programs of this measurement.
    pub(crate) fn memif(world: &World<'_>, queues: usize) -> Shared {
        Shared::Memif { socket: world.file("memif"), queues }
    }

    /// What DPDK calls the server's end.
    pub(crate) fn server(&self) -> String {
        match self {
            Shared::Memif { socket, queues } => memif("server", socket, *queues),
            Shared::Vhost { socket, queues } => {
                format!("net_vhost0,iface={},queues={queues}", socket.display())
            }
        }
    }

    /// What it calls the client's.
    pub(crate) fn client(&self) -> String {
        match self {
            Shared::Memif { socket, queues } => memif("client", socket, *queues),
            Shared::Vhost { socket, queues } => {
                format!("net_virtio_user0,path={},queues={queues}", socket.display())
            }
        }
    }

    fn queues(&self) -> usize {
        match self {
            Shared::Memif { queues, .. } | Shared::Vhost { queues, .. } => *queues,
        }
    }
}

fn memif(role: &str, socket: &std::path::Path, queues: usize) -> String {
    let more = if queues > 1 { format!(",queues={queues}") } else { String::new() };
    format!("net_memif0,role={role},socket={},bsize=2048,rsize=10{more}", socket.display())
}

/// Who sends frames back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mirror {
    /// `clearway reflect`.
    Ours,
    /// DPDK's own program.
    Testpmd,
}

/// Frames that came back, and what was started for it.
pub(crate) struct Frames {
    pub(crate) size: serde_json::Value,
    pub(crate) programs: Vec<String>,
}

impl Frames {
    pub(crate) fn number(&self, key: &str) -> Option<f64> {
        self.size[key].as_f64()
    }
}

/// A thread on each core, at most one for each queue; where there are fewer cores, each serves
/// several queues.
fn placed(launch: Launch, cores: &[usize], queues: usize) -> Launch {
    let used = &cores[..cores.len().min(queues)];
    launch.words(&format!("--queues {queues} --cores {} --poll", list(used)))
}

/// Sends frames of one size through a link as fast as it takes them.
pub(crate) fn reflect(
    world: &World<'_>,
    link: &Shared,
    mirror: Mirror,
    size: u64,
) -> anyhow::Result<Frames> {
    let queues = link.queues();
    let (server, client) = (&world.options.server_cores, &world.options.client_cores);
    let generator = world.clearway("pktgen --json --port").arg(format!("dpdk:{}", link.client()));
    let seconds = world.options.seconds.as_secs_f64();
    let words =
        format!("--size {size} --seconds {seconds} --flows {}", if queues > 1 { 64 } else { 1 });
    let generator = placed(generator.words(&words), client, queues);
    let (mirror_text, generated) = match mirror {
        Mirror::Ours => {
            let launch =
                world.clearway("reflect --json --port").arg(format!("dpdk:{}", link.server()));
            let launch = placed(launch, server, queues);
            let running = launch.start_until(r#""event":"ready""#, world.stop)?;
            let generated = generator.run(world.limit(link_setup()), world.stop)?;
            running.stop(Signal::SIGTERM, world.stop)?;
            (launch.text(), generated)
        }
        Mirror::Testpmd => {
            let testpmd = Testpmd::start(world, &link.server(), queues)?;
            let generated = generator.run(world.limit(link_setup()), world.stop)?;
            (testpmd.end(world)?, generated)
        }
    };
    Ok(Frames { size: generated.event("size")?, programs: vec![mirror_text, generator.text()] })
}

/// Links come up within seconds.
fn link_setup() -> std::time::Duration {
    std::time::Duration::from_secs(10)
}

/// DPDK's forwarder, which ends when its input does.
struct Testpmd {
    running: Running,
    text: String,
    _folders: Folders,
}

/// What DPDK keeps while it runs, and leaves.
struct Folders(String);

impl Drop for Folders {
    fn drop(&mut self) {
        let runtime = std::env::var("XDG_RUNTIME_DIR").unwrap_or_else(|_| "/run".into());
        for folder in [format!("/run/dpdk/{}", self.0), format!("{runtime}/dpdk/{}", self.0)] {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

impl Testpmd {
    fn start(world: &World<'_>, device: &str, queues: usize) -> anyhow::Result<Testpmd> {
        let prefix = format!("cwlab{}", std::process::id());
        let cores = &world.options.server_cores;
        let first = cores.first().context("no core for the server")?;
        // The first thread only waits for commands; the others forward, each on a core where there
        // are enough.
        let workers = queues.min(cores.len());
        let mut threads = format!("0@{first}");
        for (index, core) in cores[..workers].iter().enumerate() {
            threads += &format!(",{}@{core}", index + 1);
        }
        let memory = if world.facts.huge_pages {
            "--single-file-segments -m 160"
        } else {
            "--no-huge -m 256"
        };
        let launch = Launch::new("dpdk-testpmd")
            .words(&format!(
                "--no-pci --lcores {threads} {memory} --file-prefix {prefix} \
                --no-telemetry --vdev"
            ))
            .arg(device)
            .words(&format!(
                "-- -i --total-num-mbufs=8192 --forward-mode=macswap --auto-start \
                --rxq={queues} --txq={queues} --nb-cores={workers}"
            ))
            .on(cores);
        let folders = Folders(prefix);
        let running = launch.start_until("testpmd>", world.stop)?;
        Ok(Testpmd { running, text: launch.text(), _folders: folders })
    }

    fn end(self, world: &World<'_>) -> anyhow::Result<String> {
        self.running.close(world.stop)?;
        Ok(self.text)
    }
}
