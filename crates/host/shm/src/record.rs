//! Records in a FIFO: datagrams and accepted connections. They are put in and taken out whole, or
//! not at all, and all begin at multiples of 8.

use std::io::IoSlice;

use crate::Hostile;
use crate::fifo::{Consumer, Producer};
use crate::layout::{AcceptRecord, DatagramHead, StampRecord};

#[cfg(all(test, not(loom)))]
mod tests;

/// The most payload bytes of a datagram record.
pub const MAX_DATAGRAM: u32 = 65_535;

const HEAD: u32 = size_of::<DatagramHead>() as u32;
const ACCEPT: u32 = size_of::<AcceptRecord>() as u32;
const STAMP: u32 = size_of::<StampRecord>() as u32;

/// Bytes that a datagram with so much payload takes in a FIFO.
pub const fn datagram_record_len(payload: u32) -> u32 {
    HEAD + payload.next_multiple_of(8)
}

impl Producer {
    /// Puts a datagram in, with the payload's parts behind each other, and publishes it. `head.len`
    /// is set here. False: there is no room now, or the payload is not there ([`Producer::faulted`]);
    /// nothing has changed.
    ///
    /// A payload of more than [`MAX_DATAGRAM`] bytes, or one that with its head exceeds the FIFO's
    /// limit, finds no room ever.
    pub fn push_datagram(
        &mut self,
        mut head: DatagramHead,
        payload: &[IoSlice<'_>],
    ) -> Result<bool, Hostile> {
        let len: usize = payload.iter().map(|part| part.len()).sum();
        if len > MAX_DATAGRAM as usize {
            return Ok(false);
        }
        head.len = len as u32;
        let record = datagram_record_len(head.len);
        if self.room_for(record)? < record {
            return Ok(false);
        }
        let words: [u64; (HEAD / 8) as usize] = zerocopy::transmute!(head);
        self.write_words(&words);
        let mut at = HEAD;
        for part in payload {
            let len = self.write_ahead(at, part)?;
            if (len as usize) < part.len() {
                return Ok(false);
            }
            at += len;
        }
        self.publish(record);
        Ok(true)
    }

    /// Puts the record of an accepted connection in, and publishes it. False: there is no room now.
    pub fn push_accept(&mut self, record: AcceptRecord) -> Result<bool, Hostile> {
        if self.room_for(ACCEPT)? < ACCEPT {
            return Ok(false);
        }
        let words: [u64; (ACCEPT / 8) as usize] = zerocopy::transmute!(record);
        self.write_words(&words);
        self.publish(ACCEPT);
        Ok(true)
    }

    /// Puts a stamp in, and publishes it. False: there is no room now.
    pub fn push_stamp(&mut self, record: StampRecord) -> Result<bool, Hostile> {
        if self.room_for(STAMP)? < STAMP {
            return Ok(false);
        }
        let words: [u64; (STAMP / 8) as usize] = zerocopy::transmute!(record);
        self.write_words(&words);
        self.publish(STAMP);
        Ok(true)
    }

    fn write_words(&mut self, words: &[u64]) {
        self.begin_anew();
        for (word, at) in words.iter().zip((0..).step_by(8)) {
            self.mem.bytes.write_word(self.offset(at), *word);
        }
        self.note_ahead(8 * words.len() as u32);
    }
}

impl Consumer {
    /// The head of the first datagram, if there is one. All of its `len` payload bytes are there.
    pub fn datagram(&mut self) -> Result<Option<DatagramHead>, Hostile> {
        let Some(words) = self.read_words::<{ (HEAD / 8) as usize }>()? else { return Ok(None) };
        let head: DatagramHead = zerocopy::transmute!(words);
        // Records are published whole. A length that says otherwise is a lie.
        if head.len > MAX_DATAGRAM
            || self.len_for(datagram_record_len(head.len))? < datagram_record_len(head.len)
        {
            return Err(Hostile);
        }
        Ok(Some(head))
    }

    /// Copies payload of the first datagram, whose head this is, from `at` on; as much as there is.
    pub fn peek_datagram(
        &mut self,
        head: &DatagramHead,
        at: u32,
        out: &mut [u8],
    ) -> Result<usize, Hostile> {
        let len = out.len().min(head.len.saturating_sub(at) as usize);
        self.peek(HEAD.saturating_add(at), &mut out[..len])
    }

    /// Gives up the first datagram, whose head this is.
    pub fn consume_datagram(&mut self, head: &DatagramHead) {
        self.consume(datagram_record_len(head.len.min(MAX_DATAGRAM)));
    }

    /// Takes out the record of an accepted connection, if there is one.
    pub fn pop_accept(&mut self) -> Result<Option<AcceptRecord>, Hostile> {
        let Some(words) = self.read_words::<{ (ACCEPT / 8) as usize }>()? else { return Ok(None) };
        self.consume(ACCEPT);
        Ok(Some(zerocopy::transmute!(words)))
    }

    /// The stamp behind so many others, if there is one. It stays.
    pub fn stamp_behind(&mut self, over: u32) -> Result<Option<StampRecord>, Hostile> {
        let at = over.saturating_mul(STAMP);
        if self.len_for(at.saturating_add(STAMP))? < at.saturating_add(STAMP) {
            return Ok(None);
        }
        let mut words = [0; (STAMP / 8) as usize];
        for (word, of) in words.iter_mut().zip((at..).step_by(8)) {
            *word = self.mem.bytes.read_word(self.offset(of));
        }
        Ok(Some(zerocopy::transmute!(words)))
    }

    /// Gives up the first so many stamps, which are there.
    pub fn consume_stamps(&mut self, count: u32) {
        if count > 0 {
            self.consume(count.saturating_mul(STAMP));
        }
    }

    /// The first words, each read once. None when nothing is there; some but too few bytes are no
    /// record.
    fn read_words<const N: usize>(&mut self) -> Result<Option<[u64; N]>, Hostile> {
        match self.len_for(8 * N as u32)? {
            0 => return Ok(None),
            len if len < 8 * N as u32 => return Err(Hostile),
            _ => {}
        }
        let mut words = [0; N];
        for (word, at) in words.iter_mut().zip((0..).step_by(8)) {
            *word = self.mem.bytes.read_word(self.offset(at));
        }
        Ok(Some(words))
    }
}
