//! What the servers are asked, and what the clients say of it.

mod bench;
mod memcached;
mod pgbench;

#[cfg(test)]
mod tests;

use std::time::Duration;

use anyhow::{Context as _, bail};

use super::{P99, RATE};
use crate::need::{Facts, Need};
use crate::place::Place;
use crate::process::{Launch, Ready};
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
    /// A server of Python's asyncio, which answers requests of HTTP with 64 bytes.
    Asyncio {
        connections: u32,
    },
    /// HAProxy, with nginx behind it on the same core.
    Haproxy {
        bytes: usize,
        connections: u32,
    },
    Memcached {
        connections: u32,
    },
    /// PostgreSQL, which has a process for each connection.
    Pgbench {
        clients: u32,
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
    Load { key: "haproxy-64", asks: Asks::Haproxy { bytes: 64, connections: 64 } },
    Load { key: "haproxy-100k", asks: Asks::Haproxy { bytes: 100_000, connections: 64 } },
    Load { key: "asyncio-64", asks: Asks::Asyncio { connections: 64 } },
    Load { key: "memcached", asks: Asks::Memcached { connections: 64 } },
    Load { key: "pgbench", asks: Asks::Pgbench { clients: 16, close: false } },
    Load { key: "pgbench-close", asks: Asks::Pgbench { clients: 16, close: true } },
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
/// Where HTTP is served, by whomever; behind HAProxy at the next one.
const HTTP_PORT: u16 = 8080;
const BEHIND_PORT: u16 = HTTP_PORT + 1;

/// `ADDRESS PORT`. It ends as the other servers do, with 0.
const ASYNCIO: &str = r"
import asyncio, os, signal, sys
ANSWER = b'HTTP/1.1 200 OK\r\nContent-Length: 64\r\n\r\n' + b'x' * 64
class Answers(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport = transport
    def data_received(self, data):
        self.transport.write(ANSWER * data.count(b'\r\n\r\n'))
async def main():
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, lambda: os._exit(0))
    server = await loop.create_server(Answers, sys.argv[1], int(sys.argv[2]), backlog=4096)
    print('answers', flush=True)
    await server.serve_forever()
asyncio.run(main())
";

impl Load {
    /// The load of this name.
    pub(super) fn find(key: &str) -> Option<&'static Load> {
        LOADS.iter().find(|load| load.key == key)
    }

    /// What is missing besides the programs that all need, and what to do about it.
    pub(super) fn missing(&self, facts: &Facts) -> Option<String> {
        let needs: &[Need] = match self.asks {
            Asks::Asyncio { .. } => &[Need::Program("python3", "python3")],
            Asks::Haproxy { .. } => &[Need::Program("haproxy", "haproxy")],
            Asks::Memcached { .. } => &[
                Need::Program("memcached", "memcached"),
                Need::Program("memcaslap", "libmemcached-tools"),
            ],
            Asks::Pgbench { .. } => return pgbench::missing(),
            Asks::Redis { .. } | Asks::Nginx { .. } => &[],
        };
        needs.iter().find_map(|need| need.missing(facts))
    }

    /// Why no process that answers can have the stack inside, if none can.
    pub(super) fn why_not_inside(&self) -> Option<&'static str> {
        match self.asks {
            Asks::Haproxy { .. } => Some("two programs cannot have one stack inside"),
            Asks::Pgbench { .. } => Some(
                "it serves each connection in a child of its own, and the stack stays with the \
                 parent",
            ),
            _ => None,
        }
    }

    /// Why a bare loop cannot stand in for the server, if it cannot.
    pub(super) fn why_no_loop(&self) -> Option<&'static str> {
        match self.asks {
            Asks::Redis { .. }
            | Asks::Asyncio { .. }
            | Asks::Nginx { .. }
            | Asks::Haproxy { .. } => None,
            Asks::Memcached { .. } | Asks::Pgbench { .. } => {
                Some("a loop without a stack has one answer for all, and here there are several")
            }
        }
    }

    /// The server that the server asks in turn, with what it prints when it can be asked.
    pub(super) fn serve_behind(
        &self,
        world: &World<'_>,
        place: &Place,
        address: &str,
    ) -> anyhow::Result<Option<(Launch, &'static str)>> {
        let Asks::Haproxy { bytes, .. } = self.asks else { return Ok(None) };
        let launch = nginx_at(world, place, (address, BEHIND_PORT), bytes)?;
        Ok(Some((launch, NGINX_WORKS)))
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
            Asks::Nginx { bytes, .. } => nginx_at(world, place, (address, HTTP_PORT), bytes),
            Asks::Asyncio { .. } => {
                let program = place.launch(world, "python3", "-c").arg(ASYNCIO);
                Ok(program.arg(address).arg(HTTP_PORT.to_string()))
            }
            Asks::Haproxy { .. } => {
                let settings = world.file("haproxy.cfg");
                std::fs::write(&settings, haproxy_settings(address))?;
                let words = format!("-W -db -f {}", settings.display());
                Ok(place.launch(world, "haproxy", &words))
            }
            Asks::Memcached { .. } => memcached::serve(world, place, address),
            Asks::Pgbench { .. } => pgbench::serve(world, place, address),
        }
    }

    /// Its server makes a session of each of its processes.
    pub(super) fn begins_sessions(&self) -> bool {
        matches!(self.asks, Asks::Pgbench { .. })
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
            Asks::Asyncio { .. } => (
                "http",
                format!("HTTP/1.1 200 OK\r\nContent-Length: 64\r\n\r\n{}", "x".repeat(64)),
                false,
            ),
            Asks::Haproxy { bytes, .. } => {
                ("http", format!("{HEAD}{bytes}\r\n\r\n{}", "x".repeat(bytes)), false)
            }
            Asks::Nginx { bytes, close, .. } => {
                ("http", format!("{HEAD}{bytes}\r\n\r\n{}", "x".repeat(bytes)), close)
            }
            Asks::Memcached { .. } | Asks::Pgbench { .. } => {
                bail!("{} has no answer that fits all requests", self.key)
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

    /// What tells that the server can be asked.
    pub(super) fn ready(&self, world: &World<'_>, place: &Place) -> Ready {
        Ready::Says(match self.asks {
            Asks::Redis { .. } => "Ready to accept connections",
            // The last that it says, behind `listen`, when it is its own worker.
            Asks::Nginx { .. } if is_alone(place) => "getrlimit(RLIMIT_NOFILE)",
            Asks::Nginx { .. } => NGINX_WORKS,
            Asks::Asyncio { .. } => "answers",
            Asks::Haproxy { .. } => "Loading success",
            Asks::Pgbench { .. } => pgbench::READY,
            Asks::Memcached { .. } => return Ready::Makes(memcached::port_file(world)),
        })
    }

    /// Asks, and takes what the client says.
    pub(super) fn ask(
        &self,
        world: &World<'_>,
        place: &Place,
        address: &str,
    ) -> anyhow::Result<Measured> {
        let seconds = world.options.seconds.as_secs_f64().ceil();
        let wrk = |connections: u32, close: bool| {
            let words = format!("-t 1 -c {connections} -d {seconds}s --timeout 10s --latency");
            let launch = place.launch(world, "wrk", &words);
            let launch = if close { launch.arg("-H").arg("Connection: close") } else { launch };
            launch.arg(format!("http://{address}:{HTTP_PORT}/file"))
        };
        let asking = match self.asks {
            Asks::Redis { test, clients, pipeline, a_second } => {
                let number = f64::from(a_second) * seconds;
                let words = format!(
                    "-h {address} -p {REDIS_PORT} -t {test} -c {clients} -P {pipeline} -n {number} \
                     -r 100000 --csv"
                );
                place.launch(world, "redis-benchmark", &words)
            }
            Asks::Nginx { connections, close, .. } => wrk(connections, close),
            Asks::Asyncio { connections } | Asks::Haproxy { connections, .. } => {
                wrk(connections, false)
            }
            Asks::Memcached { connections } => {
                memcached::ask(world, place, address, connections, seconds)
            }
            Asks::Pgbench { clients, close } => {
                pgbench::ask(world, place, address, (clients, close), seconds)?
            }
        };
        let ended = asking.run(world.limit(AROUND), world.stop)?;
        let mut measured = match self.asks {
            Asks::Redis { .. } => read_redis(&ended.out),
            Asks::Memcached { .. } => memcached::read(&ended.out),
            Asks::Pgbench { close, .. } => pgbench::read(world, &ended.out, close),
            Asks::Nginx { .. } | Asks::Asyncio { .. } | Asks::Haproxy { .. } => {
                read_wrk(&ended.out)
            }
        }?;
        measured.programs.push(asking.text());
        Ok(measured)
    }
}

/// A process with the stack inside shares its sockets with no other.
fn is_alone(place: &Place) -> bool {
    place.inproc.is_some()
}

/// What nginx prints when its worker can be asked.
const NGINX_WORKS: &str = "start worker process ";

/// nginx at this address and port, with a file of so many bytes.
fn nginx_at(
    world: &World<'_>,
    place: &Place,
    at: (&str, u16),
    bytes: usize,
) -> anyhow::Result<Launch> {
    let (root, settings) = (world.file("www"), world.file("nginx.conf"));
    std::fs::create_dir_all(&root)?;
    std::fs::write(root.join("file"), vec![b'x'; bytes])?;
    std::fs::write(&settings, nginx_settings(&root.to_string_lossy(), at, !is_alone(place)))?;
    let words = format!("-p {} -c {}", root.display(), settings.display());
    Ok(place.launch(world, "nginx", &words))
}

/// HAProxy with one thread, whose connections to nginx stay.
fn haproxy_settings(address: &str) -> String {
    format!(
        "global\n  maxconn 4096\n  nbthread 1\n\
         defaults\n  mode http\n  http-reuse always\n  timeout connect 5s\n  timeout client 60s\n  \
         timeout server 60s\n\
         frontend front\n  bind {address}:{HTTP_PORT}\n  default_backend back\n\
         backend back\n  server one {address}:{BEHIND_PORT}\n"
    )
}

/// nginx with one worker in the foreground, which says so on standard error; without a master it is
/// its own worker.
///
/// It accepts all that wait at once. Otherwise it takes one connection in each round of its loop, and
/// a server that is asked faster than it answers has a full round between two of them: the last of
/// 64 waited for 150 ms, which for a second or two was all that p99 told, and not of who runs nginx.
fn nginx_settings(root: &str, (address, port): (&str, u16), has_master: bool) -> String {
    let master = if has_master { "on" } else { "off" };
    format!(
        "daemon off;\nmaster_process {master};\nuser root;\nworker_processes 1;\npid {root}/nginx.pid;\nerror_log stderr notice;\n\
         events {{ worker_connections 4096; multi_accept on; }}\n\
         http {{\n  access_log off;\n  sendfile on;\n  keepalive_requests 1000000000;\n  \
         client_body_temp_path {root}/body;\n  proxy_temp_path {root}/proxy;\n  fastcgi_temp_path \
             {root}/fastcgi;\n  \
         uwsgi_temp_path {root}/uwsgi;\n  scgi_temp_path {root}/scgi;\n  \
         server {{ listen {address}:{port}; root {root}; }}\n}}\n"
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
    measured.set(RATE, rate);
    measured.set(P99, values.get(5).map(|ms| ms * 1e3));
    Ok(measured)
}

/// What `wrk --latency` prints.
fn read_wrk(out: &str) -> anyhow::Result<Measured> {
    let after = |word: &str| {
        out.lines().find_map(|line| line.trim_start().strip_prefix(word)).map(str::trim)
    };
    let rate = after("Requests/sec:").and_then(|rate| rate.parse::<f64>().ok());
    let mut measured = Measured::default();
    measured.set(RATE, rate.context("wrk printed no figures")?);
    measured.set(P99, after("99%").and_then(microseconds));
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
