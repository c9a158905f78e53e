//! HTTP/1.1 by hyper: `hyper 10.0.0.2:8080`.
//!
//! Which host is entered is said by the environment: CLEARWAY_SOCKET, CLEARWAY_NS, CLEARWAY_SECRET.

use std::convert::Infallible;

use clearway_tokio::TcpListener;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::from(format!("{} over Clearway\n", request.uri().path()))))
}

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "0.0.0.0:8080".into());
    let listener = TcpListener::bind(address).await?;
    println!("listening on {}", listener.local_addr()?);
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(async move {
            let served =
                http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(answer));
            if let Err(error) = served.await {
                eprintln!("a connection ended: {error}");
            }
        });
    }
}
