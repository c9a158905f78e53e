//! Packets: `< S 0:0(0) win 1000 <mss 1460>`, `> udp (100)`,
//! `< [1:101(100)] icmp unreachable port_unreachable`.

use clearway_wire::tcp::{AccEcn, FastOpenCookie};
use clearway_wire::{Ecn, Flags};

use super::Parser;
use crate::ast::{Body, Icmp, IcmpKind, Packet, Reason, Segment, TcpOption};
use crate::lex::{ParseError, Token};

const LETTERS: [(char, Flags); 9] = [
    ('F', Flags::FIN),
    ('S', Flags::SYN),
    ('R', Flags::RST),
    ('P', Flags::PSH),
    ('.', Flags::ACK),
    ('A', Flags::AE),
    ('U', Flags::URG),
    ('E', Flags::ECE),
    ('W', Flags::CWR),
];

impl Parser {
    pub(super) fn packet(&mut self, inbound: bool) -> Result<Packet, ParseError> {
        let optional = !inbound && self.takes('?');
        let flow = match self.peek() {
            Token::Number(_) => self.number::<u8>()?,
            _ => 1,
        };
        let mut packet = Packet { flow, optional, ecn: None, body: Body::Udp(0) };
        let (mut quoted, mut quoted_udp) = (None, None);
        while self.takes('[') {
            match self.peek() {
                Token::Word(word) if word == "udp" => {
                    self.skip();
                    quoted_udp = Some(self.in_brackets()?);
                }
                Token::Word(_) => packet.ecn = Some(self.ecn()?),
                _ => quoted = Some(self.range()?),
            }
            self.expect(']')?;
        }
        packet.body = if self.takes_word("udp") {
            Body::Udp(self.in_brackets()?)
        } else if self.takes_word("icmp") {
            let mut icmp = self.icmp()?;
            (icmp.quoted, icmp.quoted_udp) =
                (icmp.quoted.or(quoted), icmp.quoted_udp.or(quoted_udp));
            Body::Icmp(icmp)
        } else {
            Body::Tcp(self.segment(inbound)?)
        };
        Ok(packet)
    }

    fn ecn(&mut self) -> Result<Ecn, ParseError> {
        let Token::Word(word) = self.peek() else { return self.error("a congestion mark") };
        let mark = match word.as_str() {
            "noecn" => Ecn::NotEct,
            "ect0" => Ecn::Ect0,
            "ect1" => Ecn::Ect1,
            "ce" => Ecn::Ce,
            _ => return self.error("`noecn`, `ect0`, `ect1` or `ce`"),
        };
        self.skip();
        Ok(mark)
    }

    /// `(100)`
    fn in_brackets(&mut self) -> Result<u16, ParseError> {
        self.expect('(')?;
        let value = self.number()?;
        self.expect(')')?;
        Ok(value)
    }

    /// `1:101(100)`: first sequence number and length.
    fn range(&mut self) -> Result<(u32, u32), ParseError> {
        let pos = self.pos();
        let seq: u32 = self.number()?;
        self.expect(':')?;
        let end: u32 = self.number()?;
        self.expect('(')?;
        let len: u32 = self.number()?;
        self.expect(')')?;
        if seq.wrapping_add(len) != end {
            return Err(ParseError::new(
                pos,
                format!("{seq}:{end}({len}): the length is not the difference"),
            ));
        }
        Ok((seq, len))
    }

    fn flags(&mut self) -> Result<Flags, ParseError> {
        let mut flags = Flags::NONE;
        let mut first = true;
        loop {
            let text = match self.peek() {
                _ if !first && !self.here().glued => return Ok(flags),
                Token::Word(text) => text.clone(),
                Token::Sign('.') => ".".to_owned(),
                Token::Sign('-') if first => String::new(),
                _ if !first => return Ok(flags),
                _ => return self.error("flags such as `S.`, or `-` for none, `udp` or `icmp`"),
            };
            for letter in text.chars() {
                match LETTERS.iter().find(|(name, _)| *name == letter) {
                    Some((_, flag)) => flags |= *flag,
                    None => return self.error("flags out of `FSRP.UEWA`, or `udp` or `icmp`"),
                }
            }
            self.skip();
            first = false;
        }
    }

    fn segment(&mut self, inbound: bool) -> Result<Segment, ParseError> {
        let flags = self.flags()?;
        let (seq, len) = self.range()?;
        let mut segment = Segment {
            flags,
            seq,
            len,
            ack: None,
            window: None,
            urgent: None,
            options: Some(Vec::new()),
        };
        loop {
            if self.takes_word("ack") {
                segment.ack = Some(self.number()?);
            } else if self.takes_word("win") {
                segment.window =
                    if !inbound && self.takes('*') { None } else { Some(self.number()?) };
            } else if self.takes_word("urg") {
                segment.urgent = Some(self.number()?);
                segment.flags |= Flags::URG;
            } else if self.takes('<') {
                segment.options = self.options()?;
                return Ok(segment);
            } else {
                return Ok(segment);
            }
        }
    }

    fn options(&mut self) -> Result<Option<Vec<TcpOption>>, ParseError> {
        let mut options = Vec::new();
        if *self.peek() == Token::Ellipsis {
            self.skip();
            self.expect('>')?;
            return Ok(None);
        }
        while !self.takes('>') {
            options.push(self.option()?);
            if !self.takes(',') && !self.is_sign('>') {
                return self.error("`,` or `>`");
            }
        }
        Ok(Some(options))
    }

    fn option(&mut self) -> Result<TcpOption, ParseError> {
        let Token::Word(word) = self.peek().clone() else { return self.error("a TCP option") };
        self.skip();
        Ok(match word.as_str() {
            "nop" => TcpOption::Nop,
            "eol" => TcpOption::Eol,
            "sackOK" => TcpOption::SackOk,
            "mss" => TcpOption::Mss(self.number()?),
            "wscale" => TcpOption::Wscale(self.number()?),
            "sack" => {
                let mut blocks = Vec::new();
                while matches!(self.peek(), Token::Number(_)) {
                    let left = self.number()?;
                    self.expect(':')?;
                    blocks.push((left, self.number()?));
                }
                TcpOption::Sack(blocks)
            }
            "TS" => {
                let val = if self.takes_word("val") {
                    self.stamp()?
                } else {
                    return self.error("`val`");
                };
                let ecr = if self.takes_word("ecr") {
                    self.stamp()?
                } else {
                    return self.error("`ecr`");
                };
                TcpOption::Ts(val, ecr)
            }
            "ECN" => TcpOption::AccEcn(self.counters()?),
            "FO" => TcpOption::FastOpen(self.cookie()?),
            "raw" => TcpOption::Raw(self.hex()?),
            _ => {
                self.at -= 1;
                return self.error(
                    "`mss`, `wscale`, `sackOK`, `sack`, `TS`, `ECN`, `FO`, `nop`, `eol` or `raw`",
                );
            }
        })
    }

    /// `e0b 1 ceb 0 e1b 1`, or the other way round; those at the end may be missing.
    fn counters(&mut self) -> Result<AccEcn, ParseError> {
        let is_ect1_first = *self.peek() == Token::Word("e1b".into());
        let names = if is_ect1_first { ["e1b", "ceb", "e0b"] } else { ["e0b", "ceb", "e1b"] };
        let (mut told, mut count) = ([0; 3], 0);
        while let Some(name) =
            names.get(count).filter(|name| *self.peek() == Token::Word((**name).into()))
        {
            self.skip();
            let value = self.number()?;
            match *name {
                "e0b" => told[0] = value,
                "ceb" => told[1] = value,
                _ => told[2] = value,
            }
            count += 1;
        }
        Ok(AccEcn::new(is_ect1_first, told, count))
    }

    fn stamp(&mut self) -> Result<Option<u32>, ParseError> {
        if self.takes('*') { Ok(None) } else { self.number().map(Some) }
    }

    /// `0x0102ff`: bytes.
    /// The digits of a cookie, in which a number may turn into a word; none asks for one.
    fn cookie(&mut self) -> Result<FastOpenCookie, ParseError> {
        let (pos, mut digits) = (self.pos(), String::new());
        while let Token::Number(text) | Token::Word(text) = self.peek() {
            digits.push_str(text);
            self.skip();
        }
        let byte = |at: usize| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
        let bytes: Option<Vec<u8>> = (0..digits.len()).step_by(2).map(byte).collect();
        bytes.and_then(|bytes| FastOpenCookie::new(&bytes)).ok_or_else(|| {
            ParseError::new(pos, "a cookie has 4 to 16 bytes, an even number, such as `0a1b2c3d`")
        })
    }

    fn hex(&mut self) -> Result<Vec<u8>, ParseError> {
        let digits = match self.peek() {
            Token::Number(text) => {
                text.strip_prefix("0x").filter(|digits| digits.len() % 2 == 0).map(str::to_owned)
            }
            _ => None,
        };
        let Some(digits) = digits else { return self.error("bytes such as `0x0102`") };
        self.skip();
        let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).unwrap_or_default();
        Ok((0..digits.len()).step_by(2).map(byte).collect())
    }

    fn icmp(&mut self) -> Result<Icmp, ParseError> {
        let Token::Word(word) = self.peek().clone() else {
            return self.error("a kind of ICMP message");
        };
        self.skip();
        let mut icmp = Icmp { kind: IcmpKind::TimeExceeded, quoted: None, quoted_udp: None };
        icmp.kind = match word.as_str() {
            "unreachable" => self.unreachable()?,
            "frag_needed" | "packet_too_big" => IcmpKind::TooBig(self.mtu()?),
            "time_exceeded" => IcmpKind::TimeExceeded,
            "parameter_problem" => IcmpKind::Parameter,
            "echo_request" | "echo_reply" => {
                let id = if self.takes_word("id") { self.number()? } else { 0 };
                let len = self.in_brackets()?;
                if word == "echo_request" {
                    IcmpKind::EchoRequest(id, len)
                } else {
                    IcmpKind::EchoReply(id, len)
                }
            }
            _ => {
                self.at -= 1;
                return self.error(
                    "`unreachable`, `packet_too_big`, `time_exceeded`, `parameter_problem`, \
                     `echo_request` or `echo_reply`",
                );
            }
        };
        if self.takes('[') {
            if self.takes_word("udp") {
                icmp.quoted_udp = Some(self.in_brackets()?);
            } else {
                icmp.quoted = Some(self.range()?);
            }
            self.expect(']')?;
        }
        Ok(icmp)
    }

    fn mtu(&mut self) -> Result<u32, ParseError> {
        if self.takes_word("mtu") { self.number() } else { self.error("`mtu`") }
    }

    fn unreachable(&mut self) -> Result<IcmpKind, ParseError> {
        let Token::Word(word) = self.peek().clone() else {
            return self.error("why it is unreachable");
        };
        self.skip();
        let reason = match word.as_str() {
            "net" | "net_unreachable" | "no_route" => Reason::Net,
            "host" | "host_unreachable" | "address_unreachable" => Reason::Host,
            "protocol" | "protocol_unreachable" => Reason::Protocol,
            "port" | "port_unreachable" => Reason::Port,
            "prohibited" | "packet_filtered" | "admin_prohibited" => Reason::Prohibited,
            "frag_needed" => return Ok(IcmpKind::TooBig(self.mtu()?)),
            _ => {
                self.at -= 1;
                return self.error(
                    "`net_unreachable`, `host_unreachable`, `protocol_unreachable`, \
                     `port_unreachable`, `packet_filtered` or `frag_needed`",
                );
            }
        };
        Ok(IcmpKind::Unreachable(reason))
    }
}
