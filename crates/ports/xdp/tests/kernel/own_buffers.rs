//! A stack on buffers of the ring's own: what the application reads lies where the kernel put it.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration as StdDuration;

use clearway_base::{Duration, Instant};
use clearway_engine::{App, Engine, Mode, Notifier, Team, Time};
use clearway_proto::store::{ChainRx, RingTx};
use clearway_proto::{Config, ConnId, ConnOptions, Env, Event, ListenSpec, Stack, Table};
use clearway_wire::{Cidr, Endpoint};
use clearway_xdp::{Umem, XdpBuf, XdpQueue};

use crate::common::{ip, open, veth};

const TOTAL: usize = 3_000_000;

enum XdpEnv {}

impl Env for XdpEnv {
    type Buf = XdpBuf;
    type Rx = ChainRx<XdpBuf>;
    type Tx = RingTx;
}

/// Reads what comes, and looks where it lies; says so in one byte at the end.
struct Reader {
    umem: Umem,
    addr: Endpoint,
    received: usize,
    elsewhere: usize,
    answered: bool,
}

impl App<XdpEnv> for Reader {
    type Report = ();

    fn start(&mut self, _time: Time, stack: &mut Stack<XdpEnv>) -> Result<(), String> {
        let options = ConnOptions::default();
        let (table, local) = (Table(0), self.addr);
        let listen = ListenSpec { table, local, v6_only: false, backlog: 4, token: 1, options };
        stack.listen(listen).map(drop).map_err(|error| format!("{error:?}"))
    }

    fn on_events(&mut self, _time: Time, stack: &mut Stack<XdpEnv>) {
        while let Some(event) = stack.next_event() {
            match event {
                Event::Incoming { listener, .. } => {
                    while let Some(conn) = stack.accept(listener) {
                        self.pull(stack, conn);
                    }
                }
                Event::Conn { conn, .. } => self.pull(stack, conn),
                _ => {}
            }
        }
    }

    fn stop(&mut self, _time: Time, _stack: &mut Stack<XdpEnv>) {}
    fn report(&self) {}
}

impl Reader {
    fn pull(&mut self, stack: &mut Stack<XdpEnv>, conn: ConnId) {
        while let Some(bytes) = stack.recv(conn).ok().filter(|bytes| !bytes.is_empty()) {
            let wanted = (self.received..).map(|at| (at % 251) as u8);
            assert!(bytes.iter().copied().eq(wanted.take(bytes.len())));
            self.elsewhere += usize::from(!self.umem.holds(bytes));
            self.received += bytes.len();
            let n = bytes.len() as u32;
            stack.consumed(conn, n);
        }
        if self.received == TOTAL && !self.answered {
            self.answered = stack.send(conn, b"!") == Ok(1);
        }
    }
}

#[test]
fn what_an_application_reads_lies_where_the_kernel_put_it() {
    let _turn = veth(1);
    ip("link set theirs arp on");
    ip("addr add 10.78.0.1/24 dev theirs");
    let queue = open("xdp:ours", 1).remove(0).into_queue();
    let umem = queue.umem().clone();
    let client = std::thread::spawn(|| {
        let address = "10.78.0.2:80".parse().unwrap();
        let mut stream = TcpStream::connect_timeout(&address, StdDuration::from_secs(60)).unwrap();
        stream.set_read_timeout(Some(StdDuration::from_secs(60))).unwrap();
        let bytes: Vec<u8> = (0..TOTAL).map(|at| (at % 251) as u8).collect();
        stream.write_all(&bytes).unwrap();
        let mut answer = [0];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"!");
    });
    let (_, mut seats) = Team::with_notifiers(vec![Notifier::new().unwrap()]).unwrap();
    let stack = Stack::new(
        Config::new([7; 32]),
        ChainRx::new(umem.count() as u32, 1 << 20),
        RingTx::new(64, 4_096, 1 << 16),
    );
    let addr = Endpoint::new(std::net::Ipv4Addr::new(10, 78, 0, 2).into(), 80);
    let reader = Reader { umem: umem.clone(), addr, received: 0, elsewhere: 0, answered: false };
    let mut engine = Engine::<XdpEnv, XdpQueue, Reader, _, Umem>::new(
        stack,
        vec![queue],
        umem,
        reader,
        Mode::Polling,
        seats.remove(0),
    )
    .unwrap();
    let (iface, cidr) = (clearway_pkt::Iface(0), Cidr { addr: addr.addr, prefix_len: 24 });
    engine.stack().add_address(Instant::ZERO, iface, cidr).unwrap();
    let begin = std::time::Instant::now();
    let time = || Time {
        now: Instant::from_nanos(1_000_000 + begin.elapsed().as_nanos() as u64),
        since_1970: Duration::ZERO,
    };
    let (stack, app) = engine.stack_and_app();
    app.start(time(), stack).unwrap();
    while !client.is_finished() {
        engine.turn(time()).unwrap();
    }
    client.join().unwrap();
    assert_eq!((engine.app().received, engine.app().elsewhere), (TOTAL, 0));
}
