//! Where a program runs, and over what: the kernel's sockets, or a host of ours.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use crate::links::Shared;
use crate::process::{Launch, Running};
use crate::world::World;

/// How a program is started on one side.
#[derive(Clone, Default)]
pub(crate) struct Place {
    /// Namespace of ours and its secret; none for the kernel's sockets.
    pub(crate) ours: Option<(PathBuf, &'static str, &'static str)>,
    /// A TAP device, and the address there of a program that has the stack inside.
    pub(crate) inproc: Option<(&'static str, &'static str)>,
    /// Between programs of one host that both want it, bytes go past the stack.
    pub(crate) cut_through: bool,
    /// The process whose network namespace it is in.
    pub(crate) inside: Option<Pid>,
    pub(crate) cores: Vec<usize>,
}

impl Place {
    /// `program` with these words, there.
    pub(crate) fn launch(&self, world: &World<'_>, program: &str, words: &str) -> Launch {
        let launch = match &self.ours {
            None => match self.inproc {
                None => Launch::new(program),
                Some((device, address)) => Launch::new(&world.options.program).words(&format!(
                    "run --inproc --port tap:{device} -a {address}/24 -- {program}"
                )),
            },
            Some((socket, namespace, secret)) => {
                let cut_through = if self.cut_through { "--cut-through" } else { "" };
                Launch::new(&world.options.program)
                    .words(&format!(
                        "run --ns {namespace} --secret {secret} {cut_through} -- {program}"
                    ))
                    .env("CLEARWAY_SOCKET", socket.to_string_lossy())
            }
        };
        let launch = world.weighed(launch.words(words).on(&self.cores));
        match self.inside {
            Some(holder) => launch.inside(holder),
            None => launch,
        }
    }
}

/// A link address for who answers whatever comes.
const ANSWERER: &str = "02:00:00:00:00:02";

/// A running `clearway up`, with these commands to begin with.
pub(crate) struct Host {
    running: Running,
    pub(crate) socket: PathBuf,
    pub(crate) text: String,
}

/// A TAP device of a host, in the client's namespace, and the addresses of both its ends.
pub(crate) struct Tap {
    pub(crate) device: &'static str,
    pub(crate) ours: &'static str,
    pub(crate) kernels: &'static str,
}

impl Tap {
    /// Makes the device in the client's namespace, for a program on `cores` that has the stack
    /// inside, and the place of that program.
    pub(crate) fn for_inproc(&self, world: &World<'_>, cores: &[usize]) -> anyhow::Result<Place> {
        let inside = Some(self.make(world)?);
        let inproc = Some((self.device, self.ours));
        Ok(Place { inproc, inside, cores: cores.to_vec(), ..Place::default() })
    }

    /// For a program that opens the device itself and answers no ARP.
    pub(crate) fn for_answerer(&self, world: &World<'_>, cores: &[usize]) -> anyhow::Result<Place> {
        let inside = Some(self.make(world)?);
        let neighbour =
            format!("neigh replace {} lladdr {ANSWERER} dev {}", self.ours, self.device);
        world.ends()?.client.ip(&neighbour, world.stop)?;
        Ok(Place { inside, cores: cores.to_vec(), ..Place::default() })
    }

    /// Makes the device, with the kernel's address; who holds the namespace.
    fn make(&self, world: &World<'_>) -> anyhow::Result<Pid> {
        let client = &world.ends()?.client;
        client.ip(&format!("tuntap add dev {} mode tap", self.device), world.stop)?;
        client.ip(&format!("addr add {}/24 dev {}", self.kernels, self.device), world.stop)?;
        client.ip(&format!("link set {} up", self.device), world.stop)?;
        Ok(client.holder())
    }

    /// Takes the device away, when the program is gone.
    pub(crate) fn remove(&self, world: &World<'_>) -> anyhow::Result<()> {
        world.ends()?.client.ip(&format!("link del {}", self.device), world.stop)
    }
}

impl Host {
    /// On this core, with a TAP device, and where its programs run on `cores`.
    pub(crate) fn with_tap(
        world: &World<'_>,
        core: usize,
        tap: &Tap,
        cores: &[usize],
    ) -> anyhow::Result<(Host, Place)> {
        let client = &world.ends()?.client;
        let commands = [
            format!("create tap id 0 host-if-name {}", tap.device),
            "set interface state tap0 up".into(),
            format!("set interface ip address tap0 {}/24", tap.ours),
            "app ns add id wire secret abc if tap0".into(),
        ];
        let host = Host::up_on(world, core, Some(client.holder()), &commands)?;
        client.ip(&format!("addr add {}/24 dev {}", tap.kernels, tap.device), world.stop)?;
        client.ip(&format!("link set {} up", tap.device), world.stop)?;
        let ours = Some((host.socket.clone(), "wire", "abc"));
        let place = Place {
            ours,
            inside: Some(client.holder()),
            cores: cores.to_vec(),
            ..Place::default()
        };
        Ok((host, place))
    }

    /// On this core, with the server's end of a memif link, and where its programs run on `cores`.
    pub(crate) fn with_memif(
        world: &World<'_>,
        core: usize,
        address: &str,
        cores: &[usize],
    ) -> anyhow::Result<(Host, Place)> {
        let commands = [
            format!("create port dpdk:{} name link", Shared::memif(world, 1).server()),
            "set interface state link up".into(),
            format!("set interface ip address link {address}/16"),
            "app ns add id wire secret abc if link".into(),
        ];
        let host = Host::up_on(world, core, None, &commands)?;
        let ours = Some((host.socket.clone(), "wire", "abc"));
        Ok((host, Place { ours, cores: cores.to_vec(), ..Place::default() }))
    }

    /// On the server's first core.
    pub(crate) fn up(
        world: &World<'_>,
        inside: Option<Pid>,
        commands: &[String],
    ) -> anyhow::Result<Host> {
        let core = world.options.server_cores.first().context("no core for the host")?;
        Host::up_on(world, *core, inside, commands)
    }

    /// On this core.
    pub(crate) fn up_on(
        world: &World<'_>,
        core: usize,
        inside: Option<Pid>,
        commands: &[String],
    ) -> anyhow::Result<Host> {
        let (socket, script) = (world.file("host.sock"), world.file("network"));
        std::fs::write(&script, commands.join("\n") + "\n")?;
        let launch = world.clearway(&format!("up --cores {core} --script"));
        let launch = launch.arg(text(&script)).env("CLEARWAY_SOCKET", text(&socket));
        let launch = match inside {
            Some(holder) => launch.inside(holder),
            None => launch,
        };
        let running = launch.start_until("clearway is ready", world.stop)?;
        Ok(Host { running, socket, text: launch.text() })
    }

    pub(crate) fn stop(self, world: &World<'_>) -> anyhow::Result<()> {
        self.running.stop(Signal::SIGTERM, world.stop)?;
        Ok(())
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
