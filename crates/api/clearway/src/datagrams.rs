//! A UDP server that is led by a closure.

use clearway_engine::{App, Stores, Time};
use clearway_proto::{Datagram, Event, Stack, Table, UdpError, UdpId, UdpSpec};
use clearway_wire::{Addr, Endpoint};

/// How many datagrams there were.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Answered {
    /// That came.
    pub received: u64,
    /// That were answered.
    pub answered: u64,
    /// Answers that could not be sent.
    pub refused: u64,
}

/// A UDP server; see [`answer_datagrams`].
pub struct Datagrams<F> {
    port: u16,
    answer: F,
    socket: Option<UdpId>,
    tally: Answered,
    bytes: Vec<u8>,
}

/// An application that answers datagrams to a UDP port of every address, IPv4 and IPv6. `answer`
/// gets each of them and an empty vector to write into; `true` sends what it wrote back, from the
/// address that the datagram was sent to.
pub fn answer_datagrams<F: FnMut(&Datagram<'_>, &mut Vec<u8>) -> bool>(
    port: u16,
    answer: F,
) -> Datagrams<F> {
    Datagrams { port, answer, socket: None, tally: Answered::default(), bytes: Vec::new() }
}

impl<F: FnMut(&Datagram<'_>, &mut Vec<u8>) -> bool> Datagrams<F> {
    // What finds the send queue full waits in the receive queue: `WRITABLE` comes later.
    fn work(&mut self, stack: &mut Stack<Stores>, socket: UdpId) {
        while stack.udp_send_room(socket) > 0 {
            let Some(datagram) = stack.udp_recv(socket) else { return };
            self.tally.received += 1;
            self.bytes.clear();
            let (to, from) = (datagram.from, datagram.to);
            if !(self.answer)(&datagram, &mut self.bytes) {
                continue;
            }
            match stack.udp_send(socket, to, Some(from), &self.bytes) {
                Ok(()) => self.tally.answered += 1,
                Err(why) => {
                    self.tally.refused += 1;
                    if why == UdpError::Full {
                        return;
                    }
                }
            }
        }
    }
}

impl<F: FnMut(&Datagram<'_>, &mut Vec<u8>) -> bool> App<Stores> for Datagrams<F> {
    type Report = Answered;

    fn start(&mut self, _time: Time, stack: &mut Stack<Stores>) -> Result<(), String> {
        if self.port == 0 {
            return Err("nobody could name port 0: say which UDP port to answer on".into());
        }
        // The IPv6 wildcard takes IPv4 too.
        let local = Endpoint::new(Addr::ANY_V6, self.port);
        let spec = UdpSpec { table: Table(0), local, token: 0, v6_only: false };
        let bound = stack.udp_bind(spec);
        self.socket =
            Some(bound.map_err(|why| format!("cannot bind UDP port {}: {why:?}", self.port))?);
        Ok(())
    }

    fn on_events(&mut self, _time: Time, stack: &mut Stack<Stores>) {
        while let Some(event) = stack.next_event() {
            if let Event::Udp { socket, .. } = event {
                self.work(stack, socket);
            }
        }
    }

    // Each datagram is answered at once, so nothing is under way.
    fn drain(&mut self, _time: Time, _stack: &mut Stack<Stores>) -> bool {
        true
    }

    fn stop(&mut self, _time: Time, stack: &mut Stack<Stores>) {
        if let Some(socket) = self.socket.take() {
            stack.udp_close(socket);
        }
    }

    fn report(&self) -> Answered {
        self.tally
    }
}
