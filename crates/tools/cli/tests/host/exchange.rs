//! A program of its own, which a test in `trap.rs` builds for musl: a server and a client that
//! compare what they send and get, with threads that nobody joins.
//!
//! `exchange serve ADDRESS`, `exchange get ADDRESS CONNECTIONS ROUNDS`

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;

/// Longer than anything here takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

fn bytes(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 + seed) as u8).collect()
}

/// Sends back what comes until the peer has said all.
fn answer(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut part = vec![0; 16_384];
    loop {
        match stream.read(&mut part)? {
            0 => return stream.shutdown(Shutdown::Write),
            len => stream.write_all(&part[..len])?,
        }
    }
}

fn serve(address: &str) -> io::Result<()> {
    let listener = TcpListener::bind(address)?;
    let datagrams = UdpSocket::bind(address)?;
    thread::spawn(move || {
        let mut datagram = [0; 2_048];
        while let Ok((len, from)) = datagrams.recv_from(&mut datagram) {
            let _ = datagrams.send_to(&datagram[..len], from);
        }
    });
    println!("serving");
    loop {
        let (stream, _) = listener.accept()?;
        // Nobody joins the thread: it gives its own stack back when it ends.
        thread::spawn(move || answer(stream));
    }
}

/// One connection for each round, and several lengths over each.
fn exchange(address: SocketAddr, seed: usize, rounds: usize) -> io::Result<usize> {
    let mut wrong = 0;
    for round in 0..rounds {
        let mut stream = TcpStream::connect_timeout(&address, LIMIT)?;
        stream.set_read_timeout(Some(LIMIT))?;
        for len in [1, 1_000, 40_000] {
            let sent = bytes(seed + round, len);
            stream.write_all(&sent)?;
            let mut got = vec![0; len];
            stream.read_exact(&mut got)?;
            wrong += usize::from(got != sent);
        }
        stream.shutdown(Shutdown::Write)?;
        wrong += usize::from(stream.read(&mut [0; 1])? != 0);
    }
    Ok(wrong)
}

fn get(address: &str, connections: usize, rounds: usize) -> io::Result<()> {
    let address: SocketAddr = address.parse().expect("an address and a port");
    let threads: Vec<_> = (0..connections)
        .map(|seed| thread::spawn(move || exchange(address, seed * 1_000, rounds)))
        .collect();
    let mut wrong = 0;
    for thread in threads {
        wrong += thread.join().expect("no thread panics")?;
    }
    println!("{} connections, {wrong} exchanges wrong", connections * rounds);
    let datagrams = UdpSocket::bind("0.0.0.0:0")?;
    datagrams.connect(address)?;
    datagrams.set_read_timeout(Some(LIMIT))?;
    datagrams.send(b"a datagram")?;
    let mut datagram = [0; 100];
    let len = datagrams.recv(&mut datagram)?;
    println!("{}", String::from_utf8_lossy(&datagram[..len]));
    // Errors are the kernel's own words.
    datagrams.set_read_timeout(Some(Duration::from_millis(20)))?;
    let nothing = datagrams.recv(&mut datagram).map_err(|error| error.kind());
    println!("no datagram: {}", nothing == Err(ErrorKind::WouldBlock));
    let closed = SocketAddr::new(address.ip(), 1);
    let refused = TcpStream::connect(closed).map_err(|error| error.kind());
    println!("refused: {}", refused.err() == Some(ErrorKind::ConnectionRefused));
    Ok(())
}

fn main() -> io::Result<()> {
    let args: Vec<String> = std::env::args().collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[1..] {
        ["serve", address] => serve(address),
        ["get", address, connections, rounds] => {
            let number = |text: &str| text.parse().expect("a number");
            get(address, number(connections), number(rounds))
        }
        _ => panic!("exchange serve ADDRESS | exchange get ADDRESS CONNECTIONS ROUNDS"),
    }
}
