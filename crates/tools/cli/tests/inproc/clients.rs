//! Programs with the stack inside that connect to the kernel, and how they end.

use std::fs;

use crate::world::{PYTHON, Running, World, text};

/// Takes one connection and writes what came, once the peer has ended it.
const SINK: &str = "
import socket, sys
listener = socket.create_server(('10.0.0.1', 7000))
print('ready', flush=True)
conn, _ = listener.accept()
count = 0
while data := conn.recv(65536):
    count += len(data)
    print('came', count, flush=True)
print('ended after', count, flush=True)
";

fn sink(world: &World) -> Running {
    let sink = world.start(world.netns.command(PYTHON, &["-c", SINK]), "sink.log");
    sink.until("it listens", || sink.log().contains("ready"));
    sink
}

#[test]
fn curl_fetches_a_file_over_its_own_stack() {
    let Some(world) = World::with(&["curl", PYTHON]) else { return };
    let bytes: Vec<u8> = (0..3_000_000u32).map(|at| ((at * 7) >> 3) as u8).collect();
    fs::write(world.file("file"), &bytes).unwrap();
    let folder = world.folder.to_str().unwrap();
    let server = ["-m", "http.server", "--bind", "10.0.0.1", "--directory", folder, "8000"];
    let server = world.start(world.netns.command(PYTHON, &server), "server.log");
    server.until("it serves", || {
        world.netns.run("curl", &["-sf", "http://10.0.0.1:8000/"]).status.success()
    });
    let got = world.file("got");
    let words = ["curl", "-sS", "--fail", "-o", got.to_str().unwrap(), "http://10.0.0.1:8000/file"];
    text(&world.inside(&words).output().unwrap());
    assert!(fs::read(&got).unwrap() == bytes, "{}", server.log());
    // That it came from the stack's address, not from the kernel's.
    assert!(server.log().contains("10.0.0.2 - - "), "{}", server.log());
}

/// Leaves by `exit` with an open socket and most of what it wrote still unsent.
const LEAVES: &str = "
import socket, sys
conn = socket.create_connection(('10.0.0.1', 7000))
conn.sendall(b'x' * 700000)
conn.detach()
sys.exit(0)
";

#[test]
fn what_was_written_before_exit_reaches_the_peer() {
    let Some(world) = World::with(&[PYTHON]) else { return };
    let mut sink = sink(&world);
    text(&world.inside(&[PYTHON, "-c", LEAVES]).output().unwrap());
    assert!(sink.end().contains("ended after 700000"), "{}", sink.log());
}

/// Makes no call of sockets after it has sent, until a file is there.
const COMPUTES: &str = "
import os, socket, sys
conn = socket.create_connection(('10.0.0.1', 7000))
conn.setblocking(False)
for _ in range(5):
    conn.send(b'x' * 1000)
while not os.path.exists(sys.argv[1]):
    sum(range(1000))
conn.close()
";

#[test]
fn a_program_that_computes_is_heard_by_its_peer_meanwhile() {
    let Some(world) = World::with(&[PYTHON]) else { return };
    let mut sink = sink(&world);
    let over = world.file("over");
    let mut program =
        world.start(world.inside(&[PYTHON, "-c", COMPUTES, over.to_str().unwrap()]), "program.log");
    sink.until("all has come while it computes", || sink.log().contains("came 5000"));
    fs::write(&over, "").unwrap();
    program.end();
    assert!(sink.end().contains("ended after 5000"), "{}", sink.log());
}

/// The child tries what a child of a server does with a connection; the parent goes on.
const FORKS: &str = "
import errno, os, socket
conn = socket.create_connection(('10.0.0.1', 7000))
child = os.fork()
if child == 0:
    said = []
    for call in (lambda: conn.send(b'child'), lambda: conn.recv(1), lambda: \
    conn.shutdown(socket.SHUT_WR)):
        try:
            call()
            said.append('done')
        except OSError as error:
            said.append(errno.errorcode[error.errno])
    os.close(conn.fileno())
    print(' '.join(said), flush=True)
    os._exit(0)
os.waitpid(child, 0)
conn.sendall(b'parent')
conn.close()
";

#[test]
fn in_a_forked_child_the_sockets_of_the_stack_are_no_sockets() {
    let Some(world) = World::with(&[PYTHON]) else { return };
    let mut sink = sink(&world);
    let said = text(&world.inside(&[PYTHON, "-c", FORKS]).output().unwrap());
    assert_eq!(said, "EBADF EBADF EBADF\n");
    assert!(sink.end().contains("ended after 6"), "{}", sink.log());
}
