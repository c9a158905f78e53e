//! The owner's verbs for one of several stacks that have the same addresses.

use super::Stack;
use super::misdelivered::MisdeliveredPacket;
use crate::ports::Share;
use crate::store::Env;

impl<E: Env> Stack<E> {
    /// This is the stack `index` of `of` that have the same addresses: what it begins outside comes
    /// from ports that are its own.
    pub fn share_ports(&mut self, index: u16, of: u16) {
        let share = Share { index, of };
        self.tcp.set_share(share);
        self.udp.set_share(share);
    }

    /// Whether it began anything whose answer may come to another stack.
    #[inline]
    pub fn reaches_out(&self) -> bool {
        self.tcp.reaches_out() || self.udp.reaches_out()
    }

    /// From now on packets that belong to another stack are kept for [`Stack::next_misdelivered`],
    /// or refused as any that belong to nobody.
    #[inline]
    pub fn keep_misdelivered(&mut self, wanted: bool) {
        self.misdelivered.wanted = wanted;
    }

    /// A packet of the last burst that belongs to another stack.
    #[inline]
    pub fn next_misdelivered(&mut self) -> Option<MisdeliveredPacket<E::Buf>> {
        self.misdelivered.kept.pop()
    }
}

#[cfg(test)]
mod tests;
