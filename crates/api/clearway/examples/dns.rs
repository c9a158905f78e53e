//! Asks a name server for the address of a host, then the host for a page, both over one stack.
//!
//! ```text
//! cargo run -p clearway --example dns -- tap:cw0 10.0.0.2/24 10.0.0.1:53 www.example 80
//! ```

use std::cell::RefCell;
use std::error::Error;
use std::io::Write as _;
use std::net::SocketAddr;
use std::rc::Rc;

use clearway::dns::{DnsError, Family};
use clearway::{Addr, Call, Ended, Endpoint, Io, Net, Next, Services, Socket};

/// How it went, for the exit code.
type Outcome = Rc<RefCell<Result<(), String>>>;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [port, address, server, name, at] = args.as_slice() else {
        return Err("usage: dns PORT ADDRESS/LENGTH SERVER:PORT NAME PORT-OF-HOST".into());
    };
    let server: Endpoint = server.parse::<SocketAddr>()?.into();
    let at: u16 = at.parse()?;
    let mut net = Net::builder().port(port).address(address).open()?;
    let outcome: Outcome = Rc::new(RefCell::new(Err("it was stopped".into())));
    let (heard, host) = (Rc::clone(&outcome), name.clone());
    net.run(Services::new().lookup(server, name, Family::V4, move |found, socket| {
        if let Err(why) = ask(&host, at, found, &heard, socket) {
            *heard.borrow_mut() = Err(why);
            socket.finish();
        }
    }))?;
    let ended = outcome.borrow().clone();
    Ok(ended?)
}

/// Connects to the first address and asks for a page.
fn ask(
    name: &str,
    at: u16,
    found: Result<Vec<Addr>, DnsError>,
    outcome: &Outcome,
    socket: &mut Socket<'_>,
) -> Result<(), String> {
    let found = found.map_err(|why| why.to_string())?;
    for addr in &found {
        println!("{name} is {addr}");
    }
    let outcome = Rc::clone(outcome);
    let request = format!("GET / HTTP/1.0\r\nHost: {name}\r\n\r\n");
    let mut asked = false;
    let begun = socket.connect(Endpoint::new(found[0], at), move |call: &mut Call<'_>| {
        if !std::mem::replace(&mut asked, true) {
            call.send(request.as_bytes());
        }
        while !call.recv().is_empty() {
            let written = std::io::stdout().write_all(call.recv());
            call.consumed(call.recv().len());
            if let Err(why) = written {
                *outcome.borrow_mut() = Err(why.to_string());
                call.finish();
                return Next::Abort;
            }
        }
        match call.ended() {
            Some(Ended::Failed(why)) => *outcome.borrow_mut() = Err(format!("no page: {why:?}")),
            None if !call.peer_closed() => return Next::Wait,
            _ => *outcome.borrow_mut() = Ok(()),
        }
        call.finish();
        Next::Close
    });
    begun.map(drop).map_err(|why| why.to_string())
}
