//! PostgreSQL, asked by its own pgbench.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use nix::sys::signal::Signal;

use super::super::{P99, RATE};
use crate::place::Place;
use crate::process::Launch;
use crate::scenario::Measured;
use crate::world::World;

/// What the server says when it can be asked.
pub(super) const READY: &str = "database system is ready to accept connections";

const PORT: u16 = 5432;

/// The server does not run as root, nor does what makes its files. In a user namespace root has
/// another number, and files, the host's socket and the program stay within its reach.
const NOT_ROOT: &str = "--user --map-user=nobody --map-group=nogroup";

/// How long its files may take.
const SETUP: Duration = Duration::from_secs(120);

/// Where Debian has PostgreSQL's programs, by release.
const RELEASES: &str = "/usr/lib/postgresql";

/// Where the newest server is; none when there is none.
fn programs() -> Option<PathBuf> {
    let releases = std::fs::read_dir(RELEASES).into_iter().flatten().flatten();
    let mut folders: Vec<(u32, PathBuf)> = releases
        .filter_map(|entry| {
            let release = entry.file_name().to_str()?.parse().ok()?;
            Some((release, entry.path().join("bin")))
        })
        .collect();
    folders.sort();
    let in_path = std::env::var_os("PATH").unwrap_or_default();
    let in_path = std::env::split_paths(&in_path);
    let has_all = |folder: &PathBuf| PROGRAMS.iter().all(|program| folder.join(program).is_file());
    folders.into_iter().rev().map(|(_, folder)| folder).chain(in_path).find(has_all)
}

const PROGRAMS: [&str; 3] = ["postgres", "initdb", "pgbench"];

/// What is missing, and what to do about it.
pub(super) fn missing() -> Option<String> {
    programs().is_none().then(|| "postgres is not installed: apt-get install postgresql".into())
}

fn program(name: &str) -> anyhow::Result<String> {
    let folder = programs().with_context(|| format!("{name} is not there any more"))?;
    Ok(folder.join(name).to_string_lossy().into_owned())
}

/// The server in `place`, with its files in `files` and its other socket in the world's folder.
fn server(world: &World<'_>, place: &Place, files: &Path, address: &str) -> anyhow::Result<Launch> {
    let words = format!(
        "{NOT_ROOT} {} -D {} -k {} -p {PORT} -c listen_addresses={address}",
        program("postgres")?,
        files.display(),
        world.file("").display(),
    );
    Ok(place.launch(world, "unshare", &words))
}

/// The server, with files that were made when it was first wanted.
pub(super) fn serve(world: &World<'_>, place: &Place, address: &str) -> anyhow::Result<Launch> {
    let files = world.file("postgres");
    if !files.exists() {
        let unfinished = world.file("postgres.unfinished");
        if unfinished.exists() {
            std::fs::remove_dir_all(&unfinished)?;
        }
        fill(world, &unfinished)?;
        std::fs::rename(&unfinished, &files)?;
    }
    server(world, place, &files, address)
}

/// Makes the server's files with pgbench's tables in them.
fn fill(world: &World<'_>, files: &Path) -> anyhow::Result<()> {
    let words =
        format!("{NOT_ROOT} {} -D {} -A trust -U postgres", program("initdb")?, files.display());
    Launch::new("unshare").words(&words).run(SETUP, world.stop)?;
    let rules = files.join("pg_hba.conf");
    let own = std::fs::read_to_string(&rules)?;
    std::fs::write(&rules, format!("{own}host all all 0.0.0.0/0 trust\n"))?;
    let here = Place { cores: world.options.server_cores.clone(), ..Place::default() };
    let server = server(world, &here, files, "")?.start_until(READY, world.stop)?;
    let words = format!("-h {} -p {PORT} -U postgres -i -q postgres", world.file("").display());
    let filled = Launch::new(program("pgbench")?).words(&words).run(SETUP, world.stop);
    server.stop(Signal::SIGTERM, world.stop)?;
    filled.map(|_| ())
}

/// So many clients, each of which reads one row at a time; with `close`, over a connection for each.
pub(super) fn ask(
    world: &World<'_>,
    place: &Place,
    address: &str,
    (clients, close): (u32, bool),
    seconds: f64,
) -> anyhow::Result<Launch> {
    // A thread of pgbench waits until it is connected, so there each client has one.
    let how = if close {
        format!("-C -j {clients}")
    } else {
        let folder = log_folder(world);
        if folder.exists() {
            std::fs::remove_dir_all(&folder)?;
        }
        std::fs::create_dir_all(&folder)?;
        format!("-j 1 -l --log-prefix={}/log", folder.display())
    };
    let words = format!(
        "-n -S -h {address} -p {PORT} -U postgres -c {clients} -T {seconds} {how} postgres"
    );
    Ok(place.launch(world, &program("pgbench")?, &words))
}

fn log_folder(world: &World<'_>) -> PathBuf {
    world.file("pgbench")
}

/// What pgbench prints, and how long each took. Its times begin when there is a connection: where
/// each has its own they are not those of a request.
pub(super) fn read(world: &World<'_>, out: &str, close: bool) -> anyhow::Result<Measured> {
    let mut measured = read_rate(out)?;
    if !close {
        let mut times = Vec::new();
        for entry in std::fs::read_dir(log_folder(world))? {
            times.extend(read_times(&std::fs::read_to_string(entry?.path())?));
        }
        measured.set(P99, percentile(times, 0.99));
    }
    Ok(measured)
}

fn read_rate(out: &str) -> anyhow::Result<Measured> {
    let rate = out.lines().find_map(|line| line.strip_prefix("tps = "));
    let rate = rate.and_then(|rest| rest.split(' ').next()?.parse::<f64>().ok());
    let mut measured = Measured::default();
    // It prints no rate when there is nothing to divide.
    anyhow::ensure!(
        !out.lines().any(|line| line == "number of transactions actually processed: 0"),
        "pgbench ended no transaction in its time, which begins before its clients are connected; \
         give it more with --seconds"
    );
    measured.set(RATE, rate.context("pgbench printed no figures")?);
    let failed = out.lines().find_map(|line| line.strip_prefix("number of failed transactions: "));
    let failed = failed.filter(|failed| !failed.starts_with("0 "));
    measured.warnings =
        failed.map(|failed| format!("pgbench: {failed} failed")).into_iter().collect();
    Ok(measured)
}

/// A line of the log: client, number of the transaction, microseconds, and more.
fn read_times(log: &str) -> impl Iterator<Item = u64> + '_ {
    log.lines().filter_map(|line| line.split(' ').nth(2)?.parse().ok())
}

/// The time that this share does not exceed.
fn percentile(mut times: Vec<u64>, share: f64) -> Option<f64> {
    let last = times.len().checked_sub(1)?;
    times.sort_unstable();
    Some(times[(last as f64 * share).round() as usize] as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUT: &str = "pgbench (15.18 (Debian 15.18-0+deb12u1))\ntransaction type: <builtin: select only>\n\
        number of transactions actually processed: 888\nnumber of failed transactions: 0 (0.000%)\n\
        latency average = 24.516 ms\ninitial connection time = 639.903 ms\n\
        tps = 652.641249 (without initial connection time)\n";

    #[test]
    fn what_pgbench_says_is_read() {
        let measured = read_rate(OUT).unwrap();
        assert_eq!(measured.values["requests_per_second"], 652.641249);
        assert_eq!(measured.warnings, [""; 0]);
        let failed = OUT.replace("0 (0.000%)", "3 (0.338%)");
        assert_eq!(read_rate(&failed).unwrap().warnings, ["pgbench: 3 (0.338%) failed"]);
        assert!(read_rate("pgbench: error: connection to server failed\n").is_err());
        let (head, _) = OUT.split_once("latency").unwrap();
        let nothing = head.replace("processed: 888", "processed: 0");
        assert!(read_rate(&nothing).err().unwrap().to_string().contains("--seconds"));
    }

    #[test]
    fn times_of_its_log_are_read() {
        let log = "0 1 4500 0 1700000000 1\n1 1 700 0 1700000000 2\n2 1 failed 0 1700000000 3\n";
        assert_eq!(read_times(log).collect::<Vec<_>>(), [4_500, 700]);
        assert_eq!(percentile((0..=100).rev().collect(), 0.99), Some(99.0));
        assert_eq!(percentile(Vec::new(), 0.99), None);
    }
}
