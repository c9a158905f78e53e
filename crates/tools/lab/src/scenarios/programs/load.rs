//! What the servers are asked, and what the clients say of it.

#[cfg(test)]
mod tests;

use std::time::Duration;

use anyhow::Context as _;

use crate::place::Place;
use crate::process::Launch;
use crate::scenario::Measured;
use crate::world::World;

/// One row of the table.
pub(super) struct Load {
    /// Its name.
    pub(super) key: &'static str,
    asks: Asks,
}

enum Asks {
    Redis {
        test: &'static str,
        clients: u32,
        /// Requests that a client sends before it waits for the answers.
        pipeline: u32,
        /// How many requests are about a second: redis-benchmark takes a number of them and no
        /// time.
        a_second: u32,
    },
    Nginx {
        /// Size of the file.
        bytes: usize,
        connections: u32,
        close: bool,
    },
}

const fn redis(
    key: &'static str,
    test: &'static str,
    clients: u32,
    pipeline: u32,
    a_second: u32,
) -> Load {
    Load { key, asks: Asks::Redis { test, clients, pipeline, a_second } }
}

const fn nginx(key: &'static str, bytes: usize, connections: u32, close: bool) -> Load {
    Load { key, asks: Asks::Nginx { bytes, connections, close } }
}

/// All of them.
pub(super) const LOADS: &[Load] = &[
    redis("redis-get", "get", 50, 1, 50_000),
    redis("redis-set", "set", 50, 1, 50_000),
    redis("redis-get-p16", "get", 50, 16, 400_000),
    redis("redis-get-1000", "get", 1_000, 1, 50_000),
    nginx("nginx-64", 64, 64, false),
    nginx("nginx-64-1", 64, 1, false),
    nginx("nginx-64-close", 64, 64, true),
    nginx("nginx-10k", 10_000, 64, false),
    nginx("nginx-100k", 100_000, 64, false),
    nginx("nginx-1m", 1_000_000, 64, false),
];

/// Those of a look.
pub(super) const QUICK: &[&str] = &["redis-get", "nginx-64", "nginx-100k"];

/// What the clients add to the time of a measurement.
const AROUND: Duration = Duration::from_secs(30);

/// What the answering loop prints when it can be asked.
pub(super) const ANSWERS: &str = "\"event\":\"ready\"";

/// As nginx has it, up to the length of the file.
const HEAD: &str = "HTTP/1.1 200 OK\r\nServer: nginx/1.22.1\r\n\
    Date: Mon, 01 Jan 2024 00:00:00 GMT\r\nContent-Type: text/plain\r\n\
    Last-Modified: Mon, 01 Jan 2024 00:00:00 GMT\r\nConnection: keep-alive\r\n\
    ETag: \"65920080-40\"\r\nAccept-Ranges: bytes\r\nContent-Length: ";

const REDIS_PORT: u16 = 6379;
const NGINX_PORT: u16 = 8080;

impl Load {
    /// The load of this name.
    pub(super) fn find(key: &str) -> Option<&'static Load> {
        LOADS.iter().find(|load| load.key == key)
    }

    /// The server, at this address.
    pub(super) fn serve(
        &self,
        world: &World<'_>,
        place: &Place,
        address: &str,
    ) -> anyhow::Result<Launch> {
        match self.asks {
            Asks::Redis { .. } => {
                let words = format!(
                    "--bind {address} --port {REDIS_PORT} --protected-mode no --maxclients \
                     4000 --save"
                );
                Ok(place.launch(world, "redis-server", &words).arg(""))
            }
            Asks::Nginx { bytes, .. } => {
                let (root, settings) = (world.file("www"), world.file("nginx.conf"));
                std::fs::create_dir_all(&root)?;
                std::fs::write(root.join("file"), vec![b'x'; bytes])?;
                let words = nginx_settings(&root.to_string_lossy(), address, !is_alone(place));
                std::fs::write(&settings, words)?;
                let words = format!("-p {} -c {}", root.display(), settings.display());
                Ok(place.launch(world, "nginx", &words))
            }
        }
    }

    /// The answers fit into one segment.
    pub(super) fn fits_a_segment(&self) -> bool {
        match self.asks {
            Asks::Redis { .. } => true,
            Asks::Nginx { bytes, .. } => bytes + HEAD.len() <= 1_460,
        }
    }

    /// There is one request at a time.
    pub(super) fn is_one_by_one(&self) -> bool {
        matches!(self.asks, Asks::Nginx { connections: 1, .. })
    }

    /// A loop on the device that answers as the server would, without a stack; with `hop`, when a
    /// thread on that core has been woken and has said so.
    pub(super) fn answer(
        &self,
        world: &World<'_>,
        place: &Place,
        device: &str,
        hop: Option<usize>,
    ) -> anyhow::Result<Launch> {
        let (requests, answer, close) = match self.asks {
            Asks::Redis { test: "set", .. } => ("redis", "+OK\r\n".into(), false),
            // Of a key that is not there.
            Asks::Redis { .. } => ("redis", "$-1\r\n".into(), false),
            Asks::Nginx { bytes, close, .. } => {
                ("http", format!("{HEAD}{bytes}\r\n\r\n{}", "x".repeat(bytes)), close)
            }
        };
        let file = world.file("answer");
        std::fs::write(&file, answer)?;
        let close = if close { "--close" } else { "" };
        let words = format!(
            "reflect --port tap:{device} --requests {requests} {close} --json --answer {}",
            file.display()
        );
        let launch = place.launch(world, &world.options.program.to_string_lossy(), &words);
        Ok(match hop {
            Some(core) => launch.arg("--server-core").arg(core.to_string()),
            None => launch,
        })
    }

    /// What the server prints when it can be asked.
    pub(super) fn says_when_ready(&self, place: &Place) -> &'static str {
        match self.asks {
            Asks::Redis { .. } => "Ready to accept connections",
            // The last that it says, behind `listen`, when it is its own worker.
            Asks::Nginx { .. } if is_alone(place) => "getrlimit(RLIMIT_NOFILE)",
            Asks::Nginx { .. } => "start worker process ",
        }
    }

    /// Asks, and takes what the client says.
    pub(super) fn ask(
        &self,
        world: &World<'_>,
        place: &Place,
        address: &str,
    ) -> anyhow::Result<Measured> {
        let seconds = world.options.seconds.as_secs_f64().ceil();
        let (asking, read): (_, fn(&str) -> anyhow::Result<Measured>) = match self.asks {
            Asks::Redis { test, clients, pipeline, a_second } => {
                let number = f64::from(a_second) * seconds;
                let words = format!(
                    "-h {address} -p {REDIS_PORT} -t {test} -c {clients} -P {pipeline} -n {number} \
                     -r 100000 --csv"
                );
                (place.launch(world, "redis-benchmark", &words), read_redis)
            }
            Asks::Nginx { connections, close, .. } => {
                let words = format!("-t 1 -c {connections} -d {seconds}s --timeout 10s --latency");
                let launch = place.launch(world, "wrk", &words);
                let launch = if close { launch.arg("-H").arg("Connection: close") } else { launch };
                (launch.arg(format!("http://{address}:{NGINX_PORT}/file")), read_wrk)
            }
        };
        let ended = asking.run(world.limit(AROUND), world.stop)?;
        let mut measured = read(&ended.out)?;
        measured.programs.push(asking.text());
        Ok(measured)
    }
}

/// A process with the stack inside shares its sockets with no other.
fn is_alone(place: &Place) -> bool {
    place.inproc.is_some()
}

/// nginx with one worker in the foreground, which says so on standard error; without a master it is
/// its own worker.
fn nginx_settings(root: &str, address: &str, has_master: bool) -> String {
    let master = if has_master { "on" } else { "off" };
    format!(
        "daemon off;\nmaster_process {master};\nuser root;\nworker_processes 1;\npid {root}/nginx.pid;\nerror_log stderr notice;\n\
         events {{ worker_connections 4096; }}\n\
         http {{\n  access_log off;\n  sendfile on;\n  keepalive_requests 1000000000;\n  \
         client_body_temp_path {root}/body;\n  proxy_temp_path {root}/proxy;\n  fastcgi_temp_path \
             {root}/fastcgi;\n  \
         uwsgi_temp_path {root}/uwsgi;\n  scgi_temp_path {root}/scgi;\n  \
         server {{ listen {address}:{NGINX_PORT}; root {root}; }}\n}}\n"
    )
}

/// The last line of `redis-benchmark --csv`: test, requests per second, then milliseconds: mean,
/// least, p50, p95, p99, most.
fn read_redis(out: &str) -> anyhow::Result<Measured> {
    let line =
        out.lines().rev().find(|line| line.starts_with('"') && !line.starts_with("\"test\""));
    let line = line.context("redis-benchmark printed no figures")?;
    let values: Vec<f64> =
        line.split(',').skip(1).filter_map(|value| value.trim_matches('"').parse().ok()).collect();
    let rate = *values.first().with_context(|| format!("redis-benchmark printed `{line}`"))?;
    let mut measured = Measured::default();
    measured.set("requests_per_second", rate);
    measured.set("p99_us", values.get(5).map(|ms| ms * 1e3));
    Ok(measured)
}

/// What `wrk --latency` prints.
fn read_wrk(out: &str) -> anyhow::Result<Measured> {
    let after = |word: &str| {
        out.lines().find_map(|line| line.trim_start().strip_prefix(word)).map(str::trim)
    };
    let rate = after("Requests/sec:").and_then(|rate| rate.parse::<f64>().ok());
    let mut measured = Measured::default();
    measured.set("requests_per_second", rate.context("wrk printed no figures")?);
    measured.set("p99_us", after("99%").and_then(microseconds));
    let complaints = ["Socket errors:", "Non-2xx or 3xx responses:"];
    measured.warnings = complaints
        .iter()
        .filter_map(|word| Some(format!("wrk: {word} {}", after(word)?)))
        .collect();
    Ok(measured)
}

/// `1.25ms` and the like.
fn microseconds(text: &str) -> Option<f64> {
    let at = text.find(|c: char| c.is_alphabetic())?;
    let (number, unit) = text.split_at(at);
    let factor = match unit {
        "us" => 1.0,
        "ms" => 1e3,
        "s" => 1e6,
        "m" => 60e6,
        _ => return None,
    };
    Some(number.parse::<f64>().ok()? * factor)
}
