//! A running guest: QEMU without hardware help, and a serial console that a test gives orders over.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Instant;

use crate::clearway::TIME_LIMIT;
use crate::image::Image;

/// How a guest's network device is plugged into a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Plug {
    /// QEMU goes to the socket, and goes there again when the other side was gone.
    Connects,
    /// QEMU waits at the socket.
    Listens,
}

/// A running guest; it is killed when this goes.
pub(crate) struct Guest {
    child: Child,
    console: ChildStdin,
    lines: Receiver<String>,
    log: PathBuf,
}

/// What the guest said to a command.
pub(crate) struct Answer {
    pub(crate) status: i32,
    pub(crate) text: String,
}

impl Guest {
    /// Starts a machine whose network device has so many queues at this socket. It is not ready
    /// yet.
    pub(crate) fn start(
        image: &Image,
        folder: &Path,
        socket: &str,
        plug: Plug,
        queues: u32,
    ) -> Guest {
        let log = folder.join("qemu.log");
        let plugged = match plug {
            Plug::Connects => "reconnect=1",
            Plug::Listens => "server=on,wait=on",
        };
        let chardev = format!("socket,id=c,path={},{plugged}", folder.join(socket).display());
        let netdev = format!("vhost-user,id=n,chardev=c,queues={queues}");
        let several = if queues > 1 { ",mq=on" } else { "" };
        let mut command = Command::new("qemu-system-x86_64");
        command.args([
            "-M",
            "pc,accel=tcg",
            "-cpu",
            "max",
            "-m",
            "256",
            "-smp",
            &queues.to_string(),
        ]);
        command.args(["-nodefaults", "-display", "none", "-serial", "stdio"]);
        command.args([
            "-object",
            "memory-backend-memfd,id=m,size=256M,share=on",
            "-numa",
            "node,memdev=m",
        ]);
        // With interrupt vectors of its own, QEMU 7.2 ends with a failed assertion here.
        command.args([
            "-global",
            "virtio-net-pci.vectors=0",
            "-chardev",
            &chardev,
            "-netdev",
            &netdev,
        ]);
        command
            .args(["-device", &format!("virtio-net-pci,netdev=n,mac=52:54:00:97:00:01{several}")]);
        command.arg("-kernel").arg(&image.kernel).arg("-initrd").arg(&image.initrd);
        command.args(["-append", "console=ttyS0 loglevel=3 panic=-1"]);
        let errors = File::options().create(true).append(true).open(&log).unwrap();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors);
        let mut child = command.spawn().unwrap();
        let console = child.stdin.take().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let (to, lines) = mpsc::channel();
        thread::spawn(move || {
            let mut line = Vec::new();
            while out.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
                if to.send(String::from_utf8_lossy(&line).trim_end().to_owned()).is_err() {
                    break;
                }
                line.clear();
            }
        });
        Guest { child, console, lines, log }
    }

    /// Waits until the guest has booted.
    pub(crate) fn await_ready(&mut self) {
        self.until_mark("boot");
    }

    /// Does a line of shell in the guest.
    pub(crate) fn run(&mut self, line: &str) -> Answer {
        assert!(
            !line.contains('\n') && line.len() < 4_000,
            "a terminal takes a line of 4,095 bytes"
        );
        writeln!(self.console, "{line}").unwrap();
        let (text, mark) = self.until_mark(line);
        Answer {
            status: mark
                .parse()
                .unwrap_or_else(|_| panic!("{line}: the guest says {mark:?}: {text}")),
            text,
        }
    }

    /// The same, when it has to succeed; what it said.
    pub(crate) fn text(&mut self, line: &str) -> String {
        let answer = self.run(line);
        assert_eq!(answer.status, 0, "{line}: {}\n{}", answer.text, self.qemu_said());
        answer.text
    }

    /// Boots anew, without a word to anybody, as after a push on the button. QEMU stays.
    pub(crate) fn reboot(&mut self) {
        writeln!(self.console, "reboot -f").unwrap();
        self.await_ready();
    }

    /// Ends the machine as `kill -9` of QEMU does.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Whether the features of virtio-net with these numbers (Virtual I/O Device 1.2, 5.1.3) were
    /// agreed on.
    pub(crate) fn has_features(&mut self, wanted: &[usize]) -> bool {
        let bits = self.text("cat /sys/class/net/eth0/device/features");
        let bits = bits.trim().as_bytes();
        wanted.iter().all(|bit| bits.get(*bit) == Some(&b'1'))
    }

    /// What was said up to the next mark, and what stands behind the mark.
    fn until_mark(&mut self, doing: &str) -> (String, String) {
        let until = Instant::now() + TIME_LIMIT;
        let mut text = String::new();
        loop {
            match self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) => match line.strip_prefix("@@ ") {
                    Some(mark) => return (text.trim().to_owned(), mark.to_owned()),
                    None => text.extend([line.as_str(), "\n"]),
                },
                Err(RecvTimeoutError::Timeout) => {
                    panic!("{doing}: no end of it; so far: {text}\n{}", self.qemu_said())
                }
                Err(RecvTimeoutError::Disconnected) => {
                    panic!("{doing}: the machine ended: {text}\n{}", self.qemu_said())
                }
            }
        }
    }

    fn qemu_said(&self) -> String {
        format!("QEMU says: {}", fs::read_to_string(&self.log).unwrap_or_default())
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.kill();
    }
}
