//! A TCP proxy: for each connection to port 80 it makes one to another server, over the same stack,
//! and carries bytes both ways. A side that is slow makes the other wait: bytes stay in the stack
//! until there is room for them, and its window tells the peer. The end of one direction is passed
//! on behind its last byte while the other direction goes on; what fails on one side is reset on the
//! other.
//!
//! ```text
//! cargo run -p clearway --example proxy -- tap:cw0 10.0.0.2/24 10.0.0.1:8080
//! ```

use std::cell::RefCell;
use std::error::Error;
use std::net::SocketAddr;
use std::rc::Rc;

use clearway::{Call, Ended, Endpoint, Io, Key, Net, Next, Services};

/// Bytes that wait for room at the other side, at most.
const WAITING: usize = 64 * 1024;

/// One direction.
#[derive(Default)]
struct Pipe {
    bytes: Vec<u8>,
    /// No more come.
    is_ended: bool,
    /// One of its sides failed.
    is_broken: bool,
}

type Shared = Rc<RefCell<Pipe>>;

/// One side of a pair of connections.
struct Side {
    from: Shared,
    to: Shared,
    other: Key,
    has_shut_down: bool,
}

impl Side {
    fn step(&mut self, call: &mut Call<'_>) -> Next {
        if self.from.borrow().is_broken {
            return Next::Abort;
        }
        // The other side is woken when there is something for it, and only then: two that always
        // wake each other never sleep.
        let (took, gave) = match call.ended() {
            None => (self.take(call), self.give(call)),
            Some(Ended::Closed) => (false, false),
            Some(_) => {
                self.from.borrow_mut().is_broken = true;
                self.to.borrow_mut().is_broken = true;
                (true, false)
            }
        };
        if took || gave {
            call.wake(self.other);
        }
        let is_done = self.has_shut_down && self.to.borrow().is_ended;
        if is_done || call.ended().is_some() { Next::Close } else { Next::Wait }
    }

    /// Bytes of this side, for the other; whether that is told something new.
    fn take(&self, call: &mut Call<'_>) -> bool {
        let mut to = self.to.borrow_mut();
        let (waiting, was_ended) = (to.bytes.len(), to.is_ended);
        while !call.recv().is_empty() && to.bytes.len() < WAITING {
            to.bytes.extend_from_slice(call.recv());
            call.consumed(call.recv().len());
        }
        to.is_ended |= call.recv().is_empty() && call.peer_closed();
        to.bytes.len() > waiting || to.is_ended != was_ended
    }

    /// Bytes of the other side, for this one's peer; whether the other has room that it had not.
    fn give(&mut self, call: &mut Call<'_>) -> bool {
        let mut from = self.from.borrow_mut();
        let was_full = from.bytes.len() >= WAITING;
        let sent = call.send(&from.bytes);
        from.bytes.drain(..sent);
        if from.is_ended && from.bytes.is_empty() && !self.has_shut_down {
            self.has_shut_down = true;
            call.shutdown();
        }
        was_full && from.bytes.len() < WAITING
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [port, address, server] = args.as_slice() else {
        return Err("usage: proxy PORT ADDRESS/LENGTH SERVER:PORT".into());
    };
    let server: Endpoint = server.parse::<SocketAddr>()?.into();
    let services = Services::new().listen(80, move || {
        let mut side: Option<Side> = None;
        move |call: &mut Call<'_>| {
            if side.is_none() {
                match begin(call, server) {
                    Ok(begun) => side = Some(begun),
                    Err(why) => {
                        eprintln!("proxy: cannot connect to {server}: {why}");
                        return Next::Abort;
                    }
                }
            }
            side.as_mut().map_or(Next::Abort, |side| side.step(call))
        }
    });
    let mut net = Net::builder().port(port).address(address).open()?;
    println!("ready");
    net.run(services)?;
    Ok(())
}

/// Makes the connection to the server, and our side of the pair.
fn begin(call: &mut Call<'_>, server: Endpoint) -> Result<Side, clearway::ConnectError> {
    let (up, down) = (Shared::default(), Shared::default());
    let (from, to) = (Rc::clone(&up), Rc::clone(&down));
    let mut far = Side { from, to, other: call.key(), has_shut_down: false };
    let other = call.connect(server, move |call: &mut Call<'_>| far.step(call))?;
    Ok(Side { from: down, to: up, other, has_shut_down: false })
}
