//! A server that answers `GET /random/N` over HTTP/1.0 with N bytes, and so long ones too: it gives
//! the stack what there is room for, and goes on when there is room again.
//!
//! ```text
//! cargo run -p clearway --example bytes -- tap:cw0 10.0.0.2/24 fd00::2/64 10.0.0.1
//! curl http://10.0.0.2/random/300000 | wc -c
//! ```

use std::process::ExitCode;

use clearway::{Error, Io, Net, Next, serve};

/// Longer heads are none that a program of today sends.
const LONGEST_HEAD: usize = 8192;

/// What is known of one conversation.
enum Talk {
    /// The head, as far as it came.
    Asked(Vec<u8>),
    /// So many bytes are still to be sent.
    Answering(u64),
}

impl Default for Talk {
    fn default() -> Talk {
        Talk::Asked(Vec::new())
    }
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [port, addresses @ ..] = args.as_slice() else {
        eprintln!("usage: bytes PORT ADDRESS/LENGTH... [GATEWAY]...");
        return ExitCode::from(2);
    };
    match run(port, addresses) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("bytes: {why}");
            ExitCode::FAILURE
        }
    }
}

fn run(port: &str, addresses: &[String]) -> Result<(), Error> {
    let mut builder = Net::builder().port(port);
    for addr in addresses {
        builder = if addr.contains('/') { builder.address(addr) } else { builder.gateway(addr) };
    }
    let mut net = builder.open()?;
    println!("ready");
    net.run(serve(80, |talk: &mut Talk, io: &mut dyn Io| step(talk, io)))?;
    Ok(())
}

fn step(talk: &mut Talk, io: &mut dyn Io) -> Next {
    if let Talk::Asked(head) = talk {
        while !io.recv().is_empty() {
            head.extend_from_slice(io.recv());
            io.consumed(io.recv().len());
        }
        let is_whole =
            head.windows(4).any(|bytes| bytes == b"\r\n\r\n") || head.len() > LONGEST_HEAD;
        match (is_whole, io.peer_closed()) {
            (true, _) => *talk = Talk::Answering(answer(head, io)),
            (false, true) => return Next::Close,
            (false, false) => return Next::Wait,
        }
    }
    let Talk::Answering(left) = talk else { return Next::Wait };
    while *left > 0 {
        let piece = [b'.'; 16_384];
        let most = usize::try_from(*left).map_or(piece.len(), |left| left.min(piece.len()));
        match io.send(&piece[..most]) {
            // It is called again when there is room.
            0 => return Next::Wait,
            sent => *left -= sent as u64,
        }
    }
    Next::Close
}

/// Sends the head of the answer; how many bytes are to follow it.
fn answer(head: &[u8], io: &mut dyn Io) -> u64 {
    let asked = |head: &[u8]| -> Option<u64> {
        let rest = head.strip_prefix(b"GET /random/")?;
        let digits = rest.split(|byte| !byte.is_ascii_digit()).next()?;
        std::str::from_utf8(digits).ok()?.parse().ok()
    };
    let (status, len) = asked(head).map_or(("404 Not Found", 0), |len| ("200 OK", len));
    io.send(format!("HTTP/1.0 {status}\r\nContent-Length: {len}\r\n\r\n").as_bytes());
    len
}
