//! Requests of HTTP on connections that stay.

use crate::answering::{Answering, Exchange, Link, Outcome, Server, Task, boxed, everybody, floor};
use crate::report::{Axis, Metric, Point};
use crate::scenario::{Measured, Scenario, System};
use crate::scenarios::pingpong::{exchange_metrics, keep_exchange};
use crate::world::Options;

pub(crate) struct Http;

/// The request, in the words of `clearway bench`.
const REQUEST: &str = r"GET / HTTP/1.1\r\nHost: lab\r\n\r\n";

/// An answer of 64 bytes in all.
const ANSWER: &str = r"HTTP/1.1 200 OK\r\nContent-Length: 25\r\n\r\nHello from a small page.\n";

/// Connections at a time, and those of a look.
const POINTS: &[u64] = &[1, 2, 4, 8, 16, 32, 64, 128];
const QUICK: &[u64] = &[1, 64];

impl Scenario for Http {
    fn name(&self) -> &'static str {
        "http"
    }

    fn title(&self) -> &'static str {
        "HTTP: a small page on connections that stay"
    }

    fn about(&self) -> &'static str {
        "GET requests, one at a time on each connection, in a closed loop; the answers have 64 \
         bytes in all and are the same text from all \
         servers but `clearway http` and `kernel-http`, which are a real server of HTTP whose page \
         has a body of 64 bytes. Busy cycles and the \
         floor are as in pingpong."
    }

    fn axis(&self) -> Axis {
        Axis { label: "connections".into(), unit: "connections".into(), ordered: true }
    }

    fn metrics(&self) -> Vec<Metric> {
        exchange_metrics()
    }

    fn points(&self, options: &Options) -> Vec<Point> {
        let points = if options.quick { QUICK } else { POINTS };
        points.iter().map(|&number| Point::number(number)).collect()
    }

    fn systems(&self, options: &Options) -> Vec<Box<dyn System>> {
        let mut systems = everybody(&Http, options);
        let ours = Answering::new(
            &Http,
            "clearway-http",
            "clearway http over memif",
            Server::Http,
            Link::Memif,
        );
        systems.insert(1, ours);
        let about = "clearway http --kernel (epoll) over veth, client over the kernel";
        systems.push(Answering::new(&Http, "kernel-http", about, Server::Http, Link::Veth));
        systems.push(floor(&Http));
        boxed(systems)
    }

    fn reference(&self) -> &'static str {
        "kernel"
    }
}

impl Task for Http {
    fn exchange(&self, point: &Point) -> Exchange {
        let words = |texts: &[&str]| texts.iter().map(|text| (*text).to_string()).collect();
        let server = words(&["-m", ANSWER, "--request", "http"]);
        Exchange { connections: point.number, client: words(&["-m", REQUEST]), server }
    }

    fn keep(
        &self,
        _system: &Answering,
        _point: &Point,
        outcome: &Outcome,
        measured: &mut Measured,
    ) {
        keep_exchange(outcome, measured);
    }
}
