//! What a script says about the world it runs in: options, marks in comments, and commands that set
//! Linux's knobs.

use crate::ast::Micros;

/// Which stack a script is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Subject {
    /// Clearway's core, in virtual time.
    Core,
    /// The kernel of this machine.
    Kernel,
}

/// How the packets of a run look, and what the sockets are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IpVersion {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
    /// IPv4 packets, and IPv6 sockets that take IPv4 too.
    V4Mapped,
}

impl IpVersion {
    /// All of them.
    pub const ALL: [IpVersion; 3] = [IpVersion::V4, IpVersion::V6, IpVersion::V4Mapped];

    /// The name as options have it.
    pub fn name(self) -> &'static str {
        match self {
            IpVersion::V4 => "ipv4",
            IpVersion::V6 => "ipv6",
            IpVersion::V4Mapped => "ipv4_mapped",
        }
    }

    /// The one of that name; a hyphen does for an underscore.
    pub fn of(name: &str) -> Option<IpVersion> {
        let name = name.replace('-', "_");
        IpVersion::ALL.into_iter().find(|version| version.name() == name)
    }
}

/// What a script says about the world it runs in.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// `--tolerance_usecs`: how far from its time a packet may be.
    pub tolerance: Option<Micros>,
    /// `--ip_version`: the only one that the script is for.
    pub ip_version: Option<IpVersion>,
    /// `--mtu`: of the interface.
    pub mtu: Option<u32>,
    /// `// only: core` or `// only: kernel`, with the reason behind it.
    pub only: Option<(Subject, String)>,
    /// Commands before the first event.
    pub commands: Vec<String>,
}

impl Settings {
    /// Looks for marks in a comment.
    pub(crate) fn comment(&mut self, line: &str) {
        let Some(rest) = line.strip_prefix("only:") else { return };
        let rest = rest.trim();
        let (word, reason) = rest.split_once(' ').unwrap_or((rest, ""));
        let reason = reason.trim().trim_matches(['(', ')']).to_owned();
        match word {
            "core" => self.only = Some((Subject::Core, reason)),
            "kernel" => self.only = Some((Subject::Kernel, reason)),
            _ => {}
        }
    }

    /// Takes `name=value` as it stands behind `--`.
    pub(crate) fn option(&mut self, text: &str) -> Result<(), String> {
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        let number = || value.parse::<u32>().map_err(|_| format!("--{name} wants a number"));
        match name {
            "tolerance_usecs" => self.tolerance = Some(Micros::from(number()?)),
            "mtu" => self.mtu = Some(number()?),
            "ip_version" => {
                let version = IpVersion::of(value);
                self.ip_version = Some(version.ok_or("--ip_version is ipv4, ipv6 or ipv4_mapped")?);
            }
            _ => {
                return Err(format!(
                    "--{name} is not known here; tolerance_usecs, mtu and ip_version are"
                ));
            }
        }
        Ok(())
    }

    /// The MTU of the interface: by default the one that leaves room for segments of 1460 bytes in
    /// either family, so that one script serves both.
    pub fn mtu(&self, version: IpVersion) -> u32 {
        self.mtu.unwrap_or(if version == IpVersion::V6 { 1520 } else { 1500 })
    }

    /// Why the script does not run there; None when it does.
    pub fn skips(&self, subject: Subject, version: IpVersion) -> Option<String> {
        if let Some((only, reason)) = self.only.as_ref().filter(|(only, _)| *only != subject) {
            let only = if *only == Subject::Core { "the core" } else { "the kernel" };
            return Some(format!("only for {only}: {reason}"));
        }
        let other = self.ip_version.filter(|wanted| *wanted != version)?;
        Some(format!("only for {}", other.name()))
    }
}

/// The settings of Linux's knobs in a command: `net.ipv4.tcp_sack=0`, whether set through `sysctl`
/// or written into `/proc/sys`.
pub fn knobs(command: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut rest = command;
    while let Some((before, after)) = rest.split_once('=') {
        let name = before.rsplit(|c: char| c.is_whitespace()).next().unwrap_or_default();
        let (value, next) = value_of(after);
        let name = name.trim_start_matches("/proc/sys/").replace('/', ".");
        if name.starts_with("net.") {
            found.push((name, value));
        }
        rest = next;
    }
    found
}

/// A value, which may be quoted, and what stands behind it.
fn value_of(text: &str) -> (String, &str) {
    for quote in ['"', '\''] {
        if let Some((value, rest)) =
            text.strip_prefix(quote).and_then(|text| text.split_once(quote))
        {
            return (value.to_owned(), rest);
        }
    }
    let end = text.find(|c: char| c.is_whitespace() || c == ';').unwrap_or(text.len());
    (text[..end].to_owned(), &text[end..])
}

/// Whether a command does nothing but set knobs, so that no shell is needed for it.
pub fn only_knobs(command: &str) -> bool {
    command
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .all(|line| line.starts_with("sysctl ") && !line.contains(['|', '&', '$']))
}

#[cfg(test)]
mod tests;
