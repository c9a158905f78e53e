//! A peer without a stack: it makes by hand just the segments that a handshake and a request need,
//! and remembers one sequence number per connection. With it, a million connections weigh only on
//! the side that is measured.

use clearway_pkt::{Buf, Pool, PoolBuf};
use clearway_wire::{Addr, Flags, Proto, Segment, Seq, TcpOptions, ipv4, tcp};

/// Ports used per address: 1024 to 65535.
const PORTS: u32 = 64_512;

/// Writes to every buffer of a pool once.
pub fn touch(pool: &Pool) {
    let mut all: Vec<PoolBuf> = std::iter::from_fn(|| pool.take()).collect();
    for buf in &mut all {
        buf.bytes_mut().fill(1);
    }
}

/// Many clients at many addresses.
pub struct FakePeer {
    server: Addr,
    port: u16,
    pool: Pool,
    // The server's next sequence number, per connection.
    theirs: Vec<Seq>,
}

impl FakePeer {
    /// `connections` clients of `server`:`port`.
    pub fn new(server: Addr, port: u16, connections: u32, pool: Pool) -> FakePeer {
        FakePeer { server, port, pool, theirs: vec![Seq(0); connections as usize] }
    }

    /// Writes to all memory of the fake peer, so that none of it becomes resident later.
    pub fn touch(&mut self) {
        self.theirs.fill(Seq(1));
        touch(&self.pool);
    }

    /// The address and port of client `n`: 10.x.y.z, a new address for each 64,512 ports.
    fn endpoint(n: u32) -> (Addr, u16) {
        let host = (n / PORTS + 2).to_be_bytes();
        (Addr::v4([10, host[1], host[2], host[3]]), (1024 + n % PORTS) as u16)
    }

    fn number(addr: Addr, port: u16) -> u32 {
        let [_, a, b, c] = addr.v4_octets();
        (u32::from_be_bytes([0, a, b, c]) - 2) * PORTS + u32::from(port) - 1024
    }

    fn segment(
        &self,
        n: u32,
        seq: Seq,
        flags: Flags,
        opts: TcpOptions,
        payload: &[u8],
    ) -> Option<PoolBuf> {
        let (addr, src_port) = FakePeer::endpoint(n);
        let ack = self.theirs[n as usize];
        let segment = Segment {
            src_port,
            dst_port: self.port,
            seq,
            ack,
            flags,
            wnd: 65_535,
            opts,
            ..Segment::default()
        };
        let mut buf = self.pool.take()?;
        let room = buf.bytes_mut();
        let tcp_len = tcp::emit(&segment, &mut room[ipv4::HEADER_LEN..]);
        let end = ipv4::HEADER_LEN + tcp_len + payload.len();
        room[ipv4::HEADER_LEN + tcp_len..end].copy_from_slice(payload);
        let header = ipv4::Header {
            src: addr,
            dst: self.server,
            proto: Proto::TCP,
            tos: 0,
            ttl: 64,
            id: 0,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset: 0,
            payload_len: (tcp_len + payload.len()) as u16,
        };
        ipv4::emit(&header, room);
        tcp::fill_checksum(&addr, &self.server, &mut room[ipv4::HEADER_LEN..end]);
        buf.truncate(end);
        Some(buf)
    }

    /// Client `n`'s SYN.
    pub fn syn(&self, n: u32) -> Option<PoolBuf> {
        let opts = TcpOptions { mss: Some(1460), wscale: Some(7), ..TcpOptions::NONE };
        self.segment(n, Seq(n), Flags::SYN, opts, &[])
    }

    /// Looks at a packet of the server; says whose it is, its flags and its payload length.
    pub fn read(&mut self, packet: &[u8]) -> Option<(u32, Flags, usize)> {
        let ip = ipv4::check(packet, true).ok()?;
        let segment = tcp::parse(ip.payload()).ok()?;
        let payload = ip.payload().len() - usize::from(segment.header_len);
        let n = FakePeer::number(ip.dst(), segment.dst_port);
        *self.theirs.get_mut(n as usize)? = segment.seq + segment.seq_len(payload);
        Some((n, segment.flags, payload))
    }

    /// Client `n`'s answer to the SYN-ACK.
    pub fn ack(&self, n: u32) -> Option<PoolBuf> {
        self.segment(n, Seq(n) + 1, Flags::ACK, TcpOptions::NONE, &[])
    }

    /// Client `n`'s first request.
    pub fn request(&self, n: u32, bytes: &[u8]) -> Option<PoolBuf> {
        self.segment(n, Seq(n) + 1, Flags::ACK | Flags::PSH, TcpOptions::NONE, bytes)
    }
}
