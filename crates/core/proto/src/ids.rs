//! The names of what a stack holds for its owner: generational handles, which stop working when the
//! thing is gone.

use clearway_base::Handle;

/// What a [`ConnId`] names.
#[derive(Debug)]
pub enum ConnTag {}
/// What a [`ListenerId`] names.
#[derive(Debug)]
pub enum ListenerTag {}
/// What a [`BindId`] names.
#[derive(Debug)]
pub enum BindTag {}
/// What a [`UdpId`] names.
#[derive(Debug)]
pub enum UdpTag {}

/// Names a connection. It stops working when the owner closes it.
pub type ConnId = Handle<ConnTag>;
/// Names a listener.
pub type ListenerId = Handle<ListenerTag>;
/// Names a reservation of a TCP port.
pub type BindId = Handle<BindTag>;
/// Names a UDP socket.
pub type UdpId = Handle<UdpTag>;

/// A routing table (VRF). `Table(0)` is the default one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Table(pub u16);
