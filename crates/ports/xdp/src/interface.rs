//! What the kernel says of the interface.

use std::io;

use clearway_dev::Mac;

use crate::sys::{Question, interface_index};

/// An interface of the kernel's.
#[derive(Clone, Debug)]
pub(crate) struct Interface {
    pub(crate) name: String,
    pub(crate) index: u32,
    pub(crate) mtu: usize,
    pub(crate) mac: Mac,
    /// Queues that it receives on.
    pub(crate) rx_queues: u32,
    /// Whether it hands over frames of this machine's kernel whose checksum nobody has finished.
    pub(crate) leaves_checksums: bool,
}

impl Interface {
    /// Asks for the interface of this name; None when it carries no Ethernet.
    pub(crate) fn find(name: &str) -> io::Result<Option<Interface>> {
        let index = interface_index(name)?;
        let mut question = Question::about(name)?;
        let (mac, kind) = question.hardware()?;
        if kind != libc::ARPHRD_ETHER {
            return Ok(None);
        }
        // A driver that cannot tell has one.
        let rx_queues = question.rx_queues().unwrap_or(1).max(1);
        let driver = question.driver().unwrap_or_default();
        Ok(Some(Interface {
            name: name.to_owned(),
            index,
            mtu: question.mtu()?,
            mac: Mac(mac),
            rx_queues,
            leaves_checksums: driver == "veth",
        }))
    }

    /// Brings it up; nothing happens to one that is up.
    pub(crate) fn bring_up(&self) -> io::Result<()> {
        Question::about(&self.name)?.set_up()
    }

    /// Whether it is up and its cable plugged.
    pub(crate) fn link_up(&self) -> bool {
        let flags = Question::about(&self.name).and_then(|mut question| question.flags());
        flags.is_ok_and(|flags| flags & libc::IFF_RUNNING != 0)
    }
}
