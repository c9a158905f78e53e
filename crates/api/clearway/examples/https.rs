//! HTTP over TLS: rustls turns the stack's bytes into the conversation's and back, inside of the
//! turn, without a socket or a second thread.
//!
//! ```text
//! openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=cw -keyout key.pem -out cert.pem
//! cargo run -p clearway --example https -- tap:cw0 10.0.0.2/24 cert.pem key.pem
//! curl -k https://10.0.0.2/
//! ```

use std::error::Error;
use std::io::{Read as _, Write as _};
use std::sync::Arc;

use clearway::{Io, Net, Next, serve};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection};

/// The longest request that is read.
const LONGEST_HEAD: usize = 8192;

const PAGE: &str = "over TLS over a stack of its own\n";

/// One conversation.
#[derive(Default)]
struct Talk {
    /// None until the first call.
    tls: Option<ServerConnection>,
    head: Vec<u8>,
    /// What TLS has made and the stack had no room for.
    waiting: Vec<u8>,
    has_answered: bool,
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [port, address, certificate, key] = args.as_slice() else {
        return Err("usage: https PORT ADDRESS/LENGTH CERTIFICATE KEY".into());
    };
    let chain = CertificateDer::pem_file_iter(certificate)?.collect::<Result<_, _>>()?;
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(chain, PrivateKeyDer::from_pem_file(key)?)?;
    let config = Arc::new(config);
    let mut net = Net::builder().port(port).address(address).open()?;
    println!("ready");
    net.run(serve(443, move |talk: &mut Talk, io: &mut dyn Io| {
        talk.step(&config, io).unwrap_or_else(|why| {
            eprintln!("https: {why}");
            // The peer is to hear of it by TLS, too (RFC 8446 6.2).
            let _ = talk.send(io);
            Next::Close
        })
    }))?;
    Ok(())
}

impl Talk {
    fn step(
        &mut self,
        config: &Arc<ServerConfig>,
        io: &mut dyn Io,
    ) -> Result<Next, Box<dyn Error>> {
        if self.tls.is_none() {
            self.tls = Some(ServerConnection::new(Arc::clone(config))?);
        }
        let Some(tls) = &mut self.tls else { return Ok(Next::Abort) };
        while !io.recv().is_empty() && tls.wants_read() {
            let taken = tls.read_tls(&mut io.recv())?;
            io.consumed(taken);
            tls.process_new_packets()?;
        }
        let mut piece = [0; 4096];
        // An error says that there is nothing to read now.
        while let Ok(len @ 1..) = tls.reader().read(&mut piece) {
            self.head.extend_from_slice(&piece[..len]);
        }
        let is_whole = self.head.windows(4).any(|four| four == b"\r\n\r\n");
        if (is_whole || self.head.len() > LONGEST_HEAD) && !self.has_answered {
            self.has_answered = true;
            let len = PAGE.len();
            write!(tls.writer(), "HTTP/1.1 200 OK\r\nContent-Length: {len}\r\n")?;
            write!(tls.writer(), "Connection: close\r\n\r\n{PAGE}")?;
            tls.send_close_notify();
        }
        let is_sent = self.send(io)?;
        let is_over = self.has_answered || io.peer_closed();
        Ok(if is_sent && is_over { Next::Close } else { Next::Wait })
    }

    /// Hands what TLS has made to the stack; whether all of it found room.
    fn send(&mut self, io: &mut dyn Io) -> std::io::Result<bool> {
        if let Some(tls) = &mut self.tls {
            while tls.wants_write() {
                tls.write_tls(&mut self.waiting)?;
            }
        }
        let sent = io.send(&self.waiting);
        self.waiting.drain(..sent);
        Ok(self.waiting.is_empty())
    }
}
