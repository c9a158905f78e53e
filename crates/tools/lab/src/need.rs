//! What a system needs to be measured, and what is there.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::machine;
use crate::process::answer;
use crate::world::{Options, find_baselines};

const PRELOAD: &str = "libclearway_preload.so";
const INPROC: &str = "libclearway_inproc.so";

/// Something without which a system is left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Need {
    /// Namespaces and devices.
    Root,
    /// TAP devices.
    Tun,
    /// A program, and the Debian package that it is in.
    Program(&'static str, &'static str),
    /// DPDK in the program that is measured.
    Dpdk,
    /// The library that stands between a program and its sockets.
    Preload,
    /// The library with the stack, for programs that have it inside.
    Inproc,
    /// A server of another stack.
    Baseline(&'static str),
}

impl Need {
    /// For a list.
    pub fn name(&self) -> String {
        match self {
            Need::Root => "root".into(),
            Need::Tun => "/dev/net/tun".into(),
            Need::Program(name, _) => (*name).into(),
            Need::Dpdk => "DPDK".into(),
            Need::Preload => PRELOAD.into(),
            Need::Inproc => INPROC.into(),
            Need::Baseline(name) => format!("{name} (make baselines)"),
        }
    }

    /// What is missing and what to do about it, if it is missing.
    pub fn missing(&self, facts: &Facts) -> Option<String> {
        match self {
            Need::Root if !facts.root => {
                Some("it makes network namespaces: run this as root".into())
            }
            Need::Tun if !Path::new("/dev/net/tun").exists() => {
                Some("/dev/net/tun is not there: run this on a machine with TUN/TAP devices".into())
            }
            Need::Program(name, package) if which(name).is_none() => {
                Some(format!("{name} is not installed: apt-get install {package}"))
            }
            Need::Dpdk if !facts.dpdk => Some(
                "this clearway was built without DPDK: apt-get install libdpdk-dev, and cargo \
                 build --release"
                    .into(),
            ),
            Need::Preload if !facts.preload => {
                Some(format!("{PRELOAD} is not beside the program: cargo build --release"))
            }
            Need::Inproc if !facts.inproc => Some(format!(
                "{INPROC} is not beside the program: cargo build --release -p clearway-preload -p \
                 clearway-inproc"
            )),
            Need::Baseline(name) if !facts.baselines.join(name).is_file() => {
                Some(format!("{name} is not built: make baselines"))
            }
            _ => None,
        }
    }
}

/// What is there.
pub struct Facts {
    root: bool,
    dpdk: bool,
    preload: bool,
    inproc: bool,
    pub(crate) huge_pages: bool,
    pub(crate) baselines: PathBuf,
    pub(crate) version: String,
    pub(crate) commit: Option<String>,
}

impl Facts {
    /// Looks.
    pub fn look(options: &Options) -> anyhow::Result<Facts> {
        let said = answer(&options.program, &["version"]);
        let Some(said) = said else {
            anyhow::bail!(
                "{} is no clearway: `version` says nothing. Name another --program.",
                options.program.display()
            );
        };
        let folder = options.program.parent().unwrap_or(Path::new("."));
        let near = ["", "deps", "../lib", "../lib/clearway", "../lib64", ".."]
            .map(|place| folder.join(place));
        let arch = folder.join(format!("../lib/{}-linux-gnu", std::env::consts::ARCH));
        let has = |library| near.iter().chain([&arch]).any(|place| place.join(library).is_file());
        let text = folder.to_string_lossy().into_owned();
        Ok(Facts {
            // The kernel's folder of a process belongs to the user that it runs as.
            root: std::fs::metadata("/proc/self").is_ok_and(|folder| folder.uid() == 0),
            dpdk: said.contains("dpdk:"),
            preload: has(PRELOAD),
            inproc: has(INPROC),
            huge_pages: options.huge_pages && machine::huge_pages_free(),
            baselines: std::path::absolute(find_baselines(options))?,
            version: said.lines().next().unwrap_or_default().to_string(),
            commit: answer(
                "git",
                &["-C", &text, "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"],
            ),
        })
    }

    /// Nothing is there.
    #[cfg(test)]
    pub(crate) fn for_tests(baselines: &str) -> Facts {
        let version = "clearway 0.1.0".into();
        Facts {
            root: false,
            dpdk: false,
            preload: false,
            inproc: false,
            huge_pages: false,
            baselines: baselines.into(),
            version,
            commit: None,
        }
    }

    /// What the programs that these needs name say of themselves.
    pub(crate) fn versions(&self, needs: &[Need]) -> BTreeMap<String, String> {
        let mut versions = BTreeMap::from([("clearway".to_string(), self.version.clone())]);
        let mut add = |name: &str, said: Option<String>| {
            if let Some(line) = said.as_deref().and_then(|said| said.lines().next()) {
                versions.insert(name.into(), line.into());
            }
        };
        for need in needs {
            match need {
                Need::Program("dpdk-testpmd", _) | Need::Dpdk => {
                    add("DPDK", answer("pkg-config", &["--modversion", "libdpdk"]));
                }
                Need::Program(name, _) => add(name, answer(name, &["--version"])),
                Need::Baseline(name) => {
                    add(name, answer(self.baselines.join(name), &["--version"]))
                }
                Need::Root | Need::Tun | Need::Preload | Need::Inproc => {}
            }
        }
        versions
    }
}

/// Where a program is that is called by its name.
fn which(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}
