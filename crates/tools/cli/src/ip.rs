//! `clearway ip`: interfaces, addresses, routes and neighbours of a host, in the lines and the JSON
//! of ip(8).

use anyhow::Context as _;
use serde_json::Value;

use self::words::{Object, Words};
use crate::ctl::{Host, Place};
use crate::error::WrongUse;
use crate::out;

mod lines;
mod rows;
mod words;

/// Show interfaces, addresses, routes and neighbours of a running host, as ip(8) shows the
/// kernel's.
///
/// It only reads: `clearway ctl` changes.
#[derive(clap::Args, Debug)]
#[command(after_help = "OBJECT: address [show] [[dev] NAME] | link [show] [[dev] NAME] |
        route [show] [table N|main|all] [dev NAME] | route get ADDRESS [table N] |
        neighbour [show] [dev NAME]
  Words may be shortened, as there. Without options before it route shows IPv4 only.

Examples:
  clearway ip -br addr
  clearway ip -j route | jq -r '.[].dst'
  clearway ip -6 route show table 1
  clearway ip -s link show tap0")]
pub(crate) struct Args {
    #[command(flatten)]
    place: Place,

    /// IPv4 only
    #[arg(short = '4', long)]
    ipv4: bool,

    /// IPv6 only
    #[arg(short = '6', long)]
    ipv6: bool,

    /// As JSON, with the keys of ip(8)
    #[arg(short, long)]
    json: bool,

    /// JSON in several lines
    #[arg(short, long)]
    pretty: bool,

    /// Packets and bytes of interfaces too
    #[arg(short, long)]
    statistics: bool,

    /// Each in one short line; -br, as there, is the same
    #[arg(short, long)]
    brief: bool,

    /// The second letter of -br
    #[arg(short = 'r', hide = true)]
    second_of_brief: bool,

    /// Which, and what of it
    #[arg(value_name = "OBJECT", required = true)]
    words: Vec<String>,
}

/// Which families are meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Family {
    V4,
    V6,
    Any,
}

impl Family {
    fn has(self, address: &str) -> bool {
        match self {
            Family::V4 => !address.contains(':'),
            Family::V6 => address.contains(':'),
            Family::Any => true,
        }
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let words = Words::parse(&args.words).map_err(WrongUse)?;
    let family = match (args.ipv4, args.ipv6) {
        (true, false) => Family::V4,
        (false, true) => Family::V6,
        // As there: routes of IPv6 are shown to who asks for them.
        _ if words.object == Object::Route => Family::V4,
        _ => Family::Any,
    };
    let mut host = Host::connect(&args.place)?;
    let rows = gather(&mut host, &words, family, args.statistics)?;
    let text = if args.json || args.pretty {
        let all = Value::Array(rows);
        if args.pretty { format!("{all:#}\n") } else { format!("{all}\n") }
    } else if args.brief {
        rows.iter().map(|row| lines::brief(words.object, row)).collect()
    } else {
        rows.iter().map(|row| lines::full(words.object, row)).collect()
    };
    out::all(text)
}

/// What is to be shown, with the keys of ip(8).
fn gather(
    host: &mut Host,
    words: &Words,
    family: Family,
    statistics: bool,
) -> anyhow::Result<Vec<Value>> {
    let version = |family: Family| if family == Family::V6 { "ip6" } else { "ip" };
    match words.object {
        Object::Address | Object::Link => {
            let name = words.device.as_deref().map(|name| format!(" {name}")).unwrap_or_default();
            let links = list(&host.shown(&format!("show interface{name}"))?, "interfaces")?;
            let addresses =
                list(&host.shown(&format!("show interface address{name}"))?, "interfaces")?;
            let with = words.object == Object::Address;
            Ok(links
                .iter()
                .filter_map(|link| {
                    let mut row = rows::link(link, statistics);
                    if with {
                        row["addr_info"] = rows::addresses(link, &addresses, family);
                        // As there: an interface without an address of the family is left out.
                        let none = row["addr_info"].as_array().is_some_and(Vec::is_empty);
                        return (family == Family::Any || !none).then_some(row);
                    }
                    Some(row)
                })
                .collect())
        }
        Object::Route => {
            let addresses = list(&host.shown("show interface address")?, "interfaces")?;
            let line = match &words.get {
                Some(to) => {
                    format!("show {} route {to}", if to.contains(':') { "ip6" } else { "ip" })
                }
                None => format!("show {} route", version(family)),
            };
            let shown = list(&host.shown(&line)?, "routes")?;
            let all = match &words.get {
                // The way to a router is looked up among all routes.
                Some(_) => {
                    list(&host.shown(line.rsplit_once(' ').map_or("", |(all, _)| all))?, "routes")?
                }
                None => shown.clone(),
            };
            let routes = rows::routes(&shown, &all, &addresses, words);
            if words.get.is_some() && routes.is_empty() {
                anyhow::bail!("no route leads there");
            }
            Ok(routes)
        }
        Object::Neighbour => {
            let shown = list(&host.shown("show ip neighbors")?, "neighbors")?;
            let more = list(&host.shown("show ip6 neighbors")?, "neighbors")?;
            Ok(rows::neighbours(shown.iter().chain(&more), family, words.device.as_deref()))
        }
    }
}

fn list(shown: &Value, key: &str) -> anyhow::Result<Vec<Value>> {
    Ok(shown[key].as_array().context("the host's answer is of another version")?.clone())
}

#[cfg(test)]
mod tests;
