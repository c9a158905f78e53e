//! What a failing run leaves behind: its last packets as lines, and a capture of all of them.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use clearway_base::Instant;
use clearway_wire::pretty;

use crate::frame::Framing;
use crate::pcap::{Capture, LinkType};

thread_local! {
    /// The last lines, here so that they outlive a run that panics.
    static TAIL: RefCell<VecDeque<String>> = const { RefCell::new(VecDeque::new()) };
}

/// The last lines of the recorder that this thread had last.
pub fn last_lines() -> Vec<String> {
    TAIL.with(|t| t.borrow().iter().cloned().collect())
}

/// Lines that are kept.
const KEPT: usize = 60;

/// Records a run.
pub struct Recorder {
    capture: Option<Capture<BufWriter<File>>>,
    interfaces: Vec<(String, LinkType)>,
    text: Option<BufWriter<File>>,
}

impl Recorder {
    /// A recorder of packets on `interfaces`, into `file` if there is one, and all lines into a
    /// file beside it that ends in `.txt`.
    pub fn new(file: Option<&Path>, interfaces: Vec<(String, LinkType)>) -> io::Result<Recorder> {
        let mut text = None;
        let capture = match file {
            Some(path) => {
                if let Some(folder) = path.parent() {
                    std::fs::create_dir_all(folder)?;
                }
                text = File::create(path.with_extension("txt")).ok().map(BufWriter::new);
                Some(Capture::begin(BufWriter::new(File::create(path)?), &interfaces)?)
            }
            None => None,
        };
        TAIL.with(|t| t.borrow_mut().clear());
        Ok(Recorder { capture, interfaces, text })
    }

    /// A frame that left through an interface, and what became of it.
    pub fn frame(
        &mut self,
        now: Instant,
        interface: usize,
        framing: Framing,
        bytes: &[u8],
        remark: &str,
    ) {
        let name = self.interfaces.get(interface).map_or("?", |i| i.0.as_str());
        let remark_text = if remark.is_empty() { String::new() } else { format!("  ({remark})") };
        let line = match framing {
            Framing::Ethernet => format!("{now} {name}: {}{remark_text}", pretty::Frame(bytes)),
            Framing::Raw => format!("{now} {name}: {}{remark_text}", pretty::Packet(bytes)),
        };
        self.line(line);
        if let Some(capture) = &mut self.capture {
            // A capture that cannot be written must not hide the failure that it was made for.
            if capture.packet(interface as u32, now, bytes, remark).is_err() {
                self.capture = None;
            }
        }
    }

    /// Anything else worth a line.
    pub fn line(&mut self, line: String) {
        if let Some(text) = &mut self.text {
            if writeln!(text, "{line}").is_err() {
                self.text = None;
            }
        }
        TAIL.with(|t| {
            let mut tail = t.borrow_mut();
            if tail.len() == KEPT {
                tail.pop_front();
            }
            tail.push_back(line);
        });
    }
}
