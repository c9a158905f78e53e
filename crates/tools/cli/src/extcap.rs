//! The plug-in by which Wireshark, tshark and dumpcap capture from a host themselves: this program
//! under a link in their folder `extcap`, called in the way of extcap(4).

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::Parser;

use crate::capture::{Capture, Out, Pipe, Way, What, interfaces};
use crate::ctl::Place;
use crate::error::WrongUse;
use crate::out;

/// What the names of our interfaces begin with there.
const PREFIX: &str = "clearway:";

/// The name of the link.
const LINK: &str = "clearway";

/// All interfaces.
const ANY: &str = "any";

/// DLT_EN10MB and DLT_RAW.
const ETHERNET: &str = "dlt {number=1}{name=EN10MB}{display=Ethernet}";
const RAW: &str = "dlt {number=12}{name=RAW}{display=Raw IP}";

/// Have Wireshark, tshark and dumpcap list the interfaces of a running host.
///
/// Makes a link to this program in their folder of plug-ins: the user's own, or that of the system.
/// Without an option it says where links are.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  clearway extcap --install && tshark -D
  tshark -i clearway:tap0 -f 'tcp port 80'
  tshark -i clearway:any -T fields -e frame.comment
  sudo clearway extcap --install --system")]
pub(crate) struct Args {
    /// Make the link
    #[arg(long)]
    install: bool,

    /// Take the link away
    #[arg(long, conflicts_with = "install")]
    remove: bool,

    /// For all users: in the folder of the installed Wireshark
    #[arg(long)]
    system: bool,

    /// In this folder
    #[arg(long, value_name = "DIR", conflicts_with = "system")]
    folder: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let mut out = out::stdout();
    if !args.install && !args.remove {
        for folder in [own_folder(), system_folder()].into_iter().flatten() {
            let link = folder.join(LINK);
            match std::fs::read_link(&link) {
                Ok(target) => writeln!(out, "{} -> {}", link.display(), target.display())?,
                Err(_) => writeln!(out, "{}: not installed", link.display())?,
            }
        }
        return Ok(());
    }
    let folder = match (&args.folder, args.system) {
        (Some(folder), _) => folder.clone(),
        (None, true) => system_folder().context(
            "there is no folder `wireshark/extcap` below /usr/lib. Install Wireshark or tshark, or \
             name the folder with --folder",
        )?,
        (None, false) => own_folder().context("HOME is not set. Name the folder with --folder")?,
    };
    let link = folder.join(LINK);
    if let Ok(meta) = std::fs::symlink_metadata(&link) {
        if !meta.file_type().is_symlink() {
            bail!("{} is there, and no link of ours. Take it away first", link.display());
        }
        std::fs::remove_file(&link)
            .with_context(|| format!("cannot take {} away", link.display()))?;
    } else if args.remove {
        bail!("{} is not there", link.display());
    }
    if args.install {
        let program = std::env::current_exe().context("cannot find out where this program is")?;
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("cannot make the folder {}", folder.display()))?;
        std::os::unix::fs::symlink(program, &link)
            .with_context(|| format!("cannot make the link {}", link.display()))?;
    }
    writeln!(out, "{}", link.display())?;
    Ok(())
}

/// The user's: where Wireshark looks from version 4.2 on is also read by 4.0.
fn own_folder() -> Option<PathBuf> {
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty())?;
    let home = PathBuf::from(home);
    let config = std::env::var_os("XDG_CONFIG_HOME").filter(|path| !path.is_empty());
    Some(config.map_or(home.join(".config"), PathBuf::from).join("wireshark/extcap"))
}

/// That of the installed Wireshark.
fn system_folder() -> Option<PathBuf> {
    let plain = ["/usr/lib/wireshark/extcap", "/usr/lib64/wireshark/extcap"].map(PathBuf::from);
    let nested = glob::glob("/usr/lib/*/wireshark/extcap").ok()?.flatten();
    nested.chain(plain).find(|folder| folder.is_dir())
}

/// Whether this is Wireshark that calls.
pub(crate) fn is_called(args: &[OsString]) -> bool {
    let first = args.get(1).and_then(|arg| arg.to_str()).unwrap_or_default();
    first.starts_with("--extcap-") || first == "--capture"
}

/// What Wireshark may say. What later versions add is passed over.
#[derive(Parser, Debug)]
#[command(name = "clearway", disable_help_flag = true, disable_version_flag = true)]
struct Call {
    #[arg(long)]
    extcap_interfaces: bool,
    #[arg(long)]
    extcap_version: Option<String>,
    #[arg(long)]
    extcap_interface: Option<String>,
    #[arg(long)]
    extcap_dlts: bool,
    #[arg(long)]
    extcap_config: bool,
    #[arg(long)]
    extcap_reload_option: Option<String>,
    #[arg(long, allow_hyphen_values = true)]
    extcap_capture_filter: Option<String>,
    #[arg(long)]
    extcap_control_in: Option<PathBuf>,
    #[arg(long)]
    extcap_control_out: Option<PathBuf>,
    #[arg(long)]
    capture: bool,
    #[arg(long)]
    fifo: Option<PathBuf>,

    // Ours, as `config` tells them.
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Way>,
    #[arg(long)]
    snaplen: Option<u32>,
    #[arg(long)]
    no_names: bool,
    #[arg(long)]
    socket: Option<PathBuf>,
}

/// Answers Wireshark.
pub(crate) fn answer(args: &[OsString]) -> anyhow::Result<()> {
    let call = Call::try_parse_from(args)
        .map_err(|error| WrongUse(error.render().to_string().trim_end().to_owned()))?;
    let mut out = out::stdout();
    if call.extcap_interfaces {
        return Ok(out.write_all(listed(&Place::at(call.socket)).as_bytes())?);
    }
    let interface = call.extcap_interface.as_deref().context("--extcap-interface is missing")?;
    let name = interface
        .strip_prefix(PREFIX)
        .with_context(|| format!("`{interface}` is no interface of Clearway's"))?;
    if call.extcap_dlts {
        // A host that cannot be asked has no frames either.
        let found = interfaces(&Place::at(call.socket)).unwrap_or_default();
        let is_raw = found.iter().any(|one| one.name == name && !one.is_ethernet);
        return Ok(writeln!(out, "{}", if is_raw { RAW } else { ETHERNET })?);
    }
    if call.extcap_config {
        return Ok(out.write_all(CONFIG.as_bytes())?);
    }
    if !call.capture {
        // Wireshark asks whether a filter can be used: an answer says that it cannot.
        if let Some(filter) = &call.extcap_capture_filter {
            if let Err(error) = filter.parse::<clearway_dev::Expression>() {
                if !filter.trim().is_empty() {
                    writeln!(out, "{error}")?;
                }
            }
        }
        return Ok(());
    }
    let fifo = call.fifo.as_deref().context("--fifo is missing")?;
    let what = What {
        interface: name.to_owned(),
        filter: call.extcap_capture_filter,
        snaplen: call.snaplen.filter(|len| *len > 0),
        only: call.only,
        no_names: call.no_names,
    };
    capture(&Place::at(call.socket), &what, fifo)
}

fn capture(place: &Place, what: &What, fifo: &Path) -> anyhow::Result<()> {
    let cannot = || format!("cannot write to {}", fifo.display());
    let file = OpenOptions::new().write(true).open(fifo).with_context(cannot)?;
    let out = Out::Pipe(Pipe::of(file.as_fd())?);
    drop(file);
    Capture::begin(place, what, None, out)?.run(None)
}

/// The interfaces of the host, if one answers.
fn listed(place: &Place) -> String {
    let mut text =
        format!("extcap {{version={}}}{{display=Clearway}}\n", env!("CARGO_PKG_VERSION"));
    let Ok(found) = interfaces(place) else { return text };
    text.push_str(&format!(
        "interface {{value={PREFIX}{ANY}}}{{display=Clearway: all interfaces}}\n"
    ));
    for one in found {
        text.push_str(&format!(
            "interface {{value={PREFIX}{0}}}{{display=Clearway: {0}}}\n",
            one.name
        ));
    }
    text
}

/// The options that Wireshark shows before a capture.
const CONFIG: &str = "\
arg {number=0}{call=--only}{display=Packets}{type=selector}{tooltip=Which packets are captured}\
{required=false}
value {arg=0}{value=rx,tx,drop}{display=All, and dropped ones with the reason}{default=true}
value {arg=0}{value=rx,tx}{display=That come in and go out}
value {arg=0}{value=drop}{display=Dropped ones only}
value {arg=0}{value=rx}{display=That come in only}
value {arg=0}{value=tx}{display=That go out only}
arg {number=1}{call=--snaplen}{display=Bytes of each packet}{type=unsigned}{range=0,262144}\
{default=0}{tooltip=0: all of them}
arg {number=2}{call=--no-names}{display=No sessions and programs as comments}{type=boolflag}\
{default=false}
arg {number=3}{call=--socket}{display=The host's socket}{type=string}\
{tooltip=Empty: CLEARWAY_SOCKET, or the runtime folder}
";

#[cfg(test)]
mod tests {
    use super::*;

    fn call(words: &[&str]) -> Call {
        Call::try_parse_from(std::iter::once(&"clearway").chain(words)).unwrap()
    }

    #[test]
    fn calls_of_wireshark_are_told_from_commands_of_a_user() {
        let is = |words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(Into::into).collect();
            is_called(&words)
        };
        assert!(is(&["clearway", "--extcap-interfaces", "--extcap-version=4.0"]));
        assert!(is(&["clearway", "--capture", "--extcap-interface", "clearway:any"]));
        for other in [&["clearway"][..], &["clearway", "extcap"], &["clearway", "capture"]] {
            assert!(!is(other), "{other:?}");
        }
    }

    #[test]
    fn each_option_that_is_offered_is_taken() {
        for line in CONFIG.lines().filter(|line| line.starts_with("arg ")) {
            let option = line.split("{call=").nth(1).and_then(|rest| rest.split('}').next());
            let option = option.unwrap();
            match option {
                "--no-names" => assert!(call(&[option]).no_names),
                "--only" => assert_eq!(call(&[option, "rx,drop"]).only, [Way::Rx, Way::Drop]),
                "--snaplen" => assert_eq!(call(&[option, "96"]).snaplen, Some(96)),
                "--socket" => assert!(call(&[option, "/a"]).socket.is_some()),
                other => panic!("{other}"),
            }
        }
        for values in CONFIG.lines().filter_map(|line| line.strip_prefix("value {arg=0}{value=")) {
            assert!(!call(&["--only", values.split('}').next().unwrap()]).only.is_empty());
        }
    }
}
