//! HTTP over TLS by rustls: `tls 10.0.0.2:8443 cert.pem key.pem`, then
//! `curl --cacert cert.pem https://10.0.0.2:8443/`.
//!
//! Which host is entered is said by the environment: CLEARWAY_SOCKET, CLEARWAY_NS, CLEARWAY_SECRET.

use std::error::Error;
use std::sync::Arc;

use clearway_tokio::{TcpListener, TcpStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 23\r\nconnection: close\r\n\r\n\
    over TLS over Clearway\n";

/// The longest request that is read.
const MAX_REQUEST: usize = 16 * 1024;

async fn serve(acceptor: TlsAcceptor, stream: TcpStream) -> std::io::Result<()> {
    let mut stream = acceptor.accept(stream).await?;
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        if request.len() > MAX_REQUEST || stream.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
    }
    stream.write_all(ANSWER).await?;
    stream.shutdown().await
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next().ok_or("tls ADDRESS CERTIFICATE KEY");
    let (address, certificate, key) = (next()?, next()?, next()?);
    let chain = CertificateDer::pem_file_iter(certificate)?.collect::<Result<_, _>>()?;
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(chain, PrivateKeyDer::from_pem_file(key)?)?;
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind(address).await?;
    println!("listening on {}", listener.local_addr()?);
    loop {
        let (stream, peer) = listener.accept().await?;
        let acceptor = acceptor.clone();
        tokio::spawn(async move {
            if let Err(error) = serve(acceptor, stream).await {
                eprintln!("{peer}: {error}");
            }
        });
    }
}
