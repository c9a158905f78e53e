//! Several services on one stack: TCP and UDP port 7 give back what comes, TCP port 13 says hello
//! and good-bye. Who calls and how it ended is said.
//!
//! ```text
//! cargo run -p clearway --example services -- tap:cw0 10.0.0.2/24
//! ```

use std::error::Error;

use clearway::{Call, Io, Net, Next, Services, Socket};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [port, address] = args.as_slice() else {
        return Err("usage: services PORT ADDRESS/LENGTH".into());
    };
    let services = Services::new().listen(7, || step).udp(7, datagrams).listen(13, || {
        |call: &mut Call<'_>| {
            call.send(b"hello and good-bye\n");
            Next::Close
        }
    });
    let mut net = Net::builder().port(port).address(address).open()?;
    println!("ready");
    net.run(services)?;
    Ok(())
}

fn step(call: &mut Call<'_>) -> Next {
    if let (Some(why), Some(remote)) = (call.ended(), call.remote()) {
        println!("{remote} ended: {why:?}");
        return Next::Close;
    }
    while !call.recv().is_empty() {
        let bytes = call.recv().to_vec();
        let sent = call.send(&bytes);
        call.consumed(sent);
        if sent < bytes.len() {
            return Next::Wait; // It is called again when there is room.
        }
    }
    if !call.peer_closed() {
        return Next::Wait;
    }
    if let (Some(remote), Some(local)) = (call.remote(), call.local()) {
        println!("{remote} has asked {local} for its last byte");
    }
    Next::Close
}

fn datagrams(socket: &mut Socket<'_>) {
    while let Some((from, to, bytes)) = socket.recv() {
        // What cannot be sent is lost, as datagrams may be.
        let _ = socket.send(from, Some(to), &bytes);
    }
}
