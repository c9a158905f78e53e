//! Our own client, which has a stack of its own where the link is one of DPDK.

use anyhow::Context as _;

use super::super::{P99, RATE};
use super::{AROUND, Asks, HTTP_PORT, Load, REDIS_PORT, memcached};
use crate::links::Shared;
use crate::place::Place;
use crate::process::list;
use crate::scenario::Measured;
use crate::world::World;

/// The client's end of the link.
const CLIENT: &str = "10.79.1.1";

/// What the client asks for, and how it knows that an answer has ended.
struct Request {
    port: u16,
    connections: u32,
    /// In the words of `clearway bench client`.
    message: &'static str,
    /// Bytes of an answer; none for answers of HTTP.
    answer: Option<usize>,
    /// Requests that are under way on a connection.
    depth: u32,
    close: bool,
}

const KEEP: &str = r"GET /file HTTP/1.1\r\nHost: lab\r\n\r\n";
const CLOSE: &str = r"GET /file HTTP/1.1\r\nHost: lab\r\nConnection: close\r\n\r\n";

impl Load {
    /// Why our client cannot ask, if it cannot.
    pub(in super::super) fn why_not_asked_by_bench(&self) -> Option<&'static str> {
        let why = "clearway bench client does not speak the language of PostgreSQL";
        self.request().is_none().then_some(why)
    }

    fn request(&self) -> Option<Request> {
        let http = |connections, close| Request {
            port: HTTP_PORT,
            connections,
            message: if close { CLOSE } else { KEEP },
            answer: None,
            depth: 1,
            close,
        };
        let lines = |port, connections, message: &'static str, answer: &str, depth| Request {
            port,
            connections,
            message,
            answer: Some(answer.len()),
            depth,
            close: false,
        };
        Some(match self.asks {
            Asks::Redis { test, clients, pipeline, .. } => {
                let (message, answer) = match test {
                    "set" => (r"SET key xxx\r\n", "+OK\r\n"),
                    _ => (r"GET none\r\n", "$-1\r\n"),
                };
                lines(REDIS_PORT, clients, message, answer, pipeline)
            }
            Asks::Nginx { connections, close, .. } => http(connections, close),
            Asks::Asyncio { connections } | Asks::Haproxy { connections, .. } => {
                http(connections, false)
            }
            Asks::Memcached { connections } => {
                lines(memcached::PORT, connections, r"get none\r\n", "END\r\n", 1)
            }
            Asks::Pgbench { .. } => return None,
        })
    }

    /// Asks by our own client, over memif or over the kernel, and takes what it says.
    pub(in super::super) fn ask_by_bench(
        &self,
        world: &World<'_>,
        place: &Place,
        address: &str,
    ) -> anyhow::Result<Measured> {
        let request = self.request().context("it cannot be asked so")?;
        let options = world.options;
        let mut asking = world
            .clearway(&format!(
                "bench client --json -c {} -d {} -t {} --warmup {} -p {} -s {address} --cores {}",
                request.connections,
                request.depth,
                options.seconds.as_secs_f64(),
                options.warmup.as_secs_f64(),
                request.port,
                list(&place.cores),
            ))
            .arg("-m")
            .arg(request.message);
        asking = match request.answer {
            Some(bytes) => asking.words(&format!("-l {bytes}")),
            None => asking.words("--http"),
        };
        if request.close {
            asking = asking.words("--close-after 1");
        }
        asking = match place.inside {
            Some(holder) => asking.words("--kernel").inside(holder),
            None => {
                let port = format!("dpdk:{}", Shared::memif(world, 1).client());
                asking.words("--poll --port").arg(port).words(&format!("-a {CLIENT}/16"))
            }
        };
        let told = asking.run(world.limit(AROUND), world.stop)?.event("summary")?;
        let mut measured = Measured::default();
        measured.set(RATE, told["requests_per_second"].as_f64());
        measured.set(P99, told["latency_us"]["p99"].as_f64());
        measured.warn(&told);
        measured.programs.push(asking.text());
        Ok(measured)
    }
}
