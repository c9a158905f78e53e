//! What connections keep whose data is paced, or whose congestion control goes by rates: places in
//! a pool, because most connections do without.

use super::cc::{Bbr, ClassicQueue};
use super::delivery::Delivery;
use super::pacer::Pacer;

/// The state of one connection.
#[derive(Clone, Debug)]
pub(crate) struct Paced {
    pub delivery: Delivery,
    pub pacer: Pacer,
    /// The state of BBR, where that is the algorithm.
    pub bbr: Option<Bbr>,
    /// What is known of the queue that marks, where the algorithm is Prague.
    pub queue: Option<ClassicQueue>,
    /// Bytes of ours that the peer has said to be marked since the last ACK that was measured (RFC
    /// 9768).
    pub marked: u32,
}

impl Paced {
    pub(crate) const fn new(delivery: Delivery) -> Paced {
        Paced { delivery, pacer: Pacer::new(), bbr: None, queue: None, marked: 0 }
    }
}
