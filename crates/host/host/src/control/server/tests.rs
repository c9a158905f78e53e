use std::io::{BufRead as _, BufReader};

use super::super::plane::tests::World;
use super::*;

struct Peer(BufReader<UnixStream>);

impl Peer {
    fn new(socket: &ControlSocket) -> Peer {
        let stream = UnixStream::connect(socket.path()).unwrap();
        stream.set_read_timeout(Some(std::time::Duration::from_secs(60))).unwrap();
        Peer(BufReader::new(stream))
    }

    fn send(&mut self, bytes: &[u8]) {
        self.0.get_mut().write_all(bytes).unwrap();
    }

    fn answer(&mut self) -> Answer {
        Answer::read((&mut self.0).lines()).unwrap().expect("an answer")
    }

    fn ask(&mut self, line: &str) -> Answer {
        self.send(format!("{line}\n").as_bytes());
        self.answer()
    }
}

fn world() -> (World, ControlSocket) {
    let world = World::new(1);
    let socket =
        ControlSocket::open(&world.folder.join("host.ctl"), None, Arc::clone(&world.control))
            .unwrap();
    (world, socket)
}

#[test]
fn each_line_has_one_answer_whoever_asks_and_however_it_comes() {
    let (_world, socket) = world();
    let (mut one, mut two) = (Peer::new(&socket), Peer::new(&socket));
    assert_eq!(one.ask("show version").text, "clearway for tests\n");
    assert_eq!(two.ask("create loopback interface").text, "loop0\n");
    one.send(b"show vers");
    one.send(b"ion\n\ncomment {\nshow nothing\n}\nshow version\n");
    let answers: Vec<Answer> = (0..6).map(|_| one.answer()).collect();
    assert_eq!(answers[0].text, "clearway for tests\n");
    assert!(
        answers[1..5]
            .iter()
            .all(|answer| answer.text.is_empty() && answer.outcome == Outcome::Done)
    );
    assert_eq!(answers[5].text, "clearway for tests\n");
    assert_eq!(two.ask("show nothing").outcome, Outcome::WrongUse);
    assert_eq!(two.ask("set interface state loop9 up").outcome, Outcome::Failed);
    assert_eq!(two.ask("quit").outcome, Outcome::Quit);
    assert_eq!(two.0.read_line(&mut String::new()).unwrap(), 0, "the conversation is over");
}

#[test]
fn a_last_line_without_its_end_is_answered() {
    let (_world, socket) = world();
    let mut peer = Peer::new(&socket);
    peer.send(b"show version");
    peer.0.get_ref().shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(peer.answer().text, "clearway for tests\n");
}

#[test]
fn lines_that_are_too_long_or_no_text_are_refused_and_the_conversation_goes_on() {
    let (_world, socket) = world();
    let mut peer = Peer::new(&socket);
    let long = vec![b'x'; 3 * MAX_LINE];
    peer.send(&long);
    peer.send(b"\n");
    assert_eq!(peer.answer().outcome, Outcome::WrongUse);
    peer.send(b"\xff\xfe\0\n");
    assert_eq!(peer.answer().outcome, Outcome::WrongUse);
    assert_eq!(peer.ask("show version").text, "clearway for tests\n");
}

#[test]
fn who_floods_without_reading_does_not_keep_others_waiting() {
    let (_world, socket) = world();
    let mut flood = Peer::new(&socket);
    flood.0.get_ref().set_nonblocking(true).unwrap();
    let mut sent = 0;
    let mut refused = 0;
    // Until the host has stopped reading for good: what it takes is bounded.
    while refused < 100 {
        match flood.0.get_mut().write(b"show plugins\n") {
            Ok(n) => (sent, refused) = (sent + n, 0),
            Err(_) => {
                refused += 1;
                std::thread::yield_now();
            }
        }
        assert!(sent < 64 << 20, "the host reads without end");
    }
    assert_eq!(Peer::new(&socket).ask("show version").text, "clearway for tests\n");
}

#[test]
fn a_live_socket_is_left_alone_and_a_dead_one_replaced() {
    let (world, socket) = world();
    let path = socket.path().to_owned();
    let taken = ControlSocket::open(&path, None, Arc::clone(&world.control)).map(|_| ());
    assert_eq!(taken.unwrap_err().kind(), io::ErrorKind::AddrInUse);
    drop(socket);
    assert!(!path.exists(), "its file goes with it");
    drop(UnixListener::bind(&path).unwrap());
    let socket = ControlSocket::open(&path, None, Arc::clone(&world.control)).unwrap();
    assert_eq!(Peer::new(&socket).ask("show version").outcome, Outcome::Done);
    let file = world.folder.join("file");
    std::fs::write(&file, "kept").unwrap();
    assert!(
        ControlSocket::open(&file, None, Arc::clone(&world.control)).is_err(),
        "a file that is no socket is kept"
    );
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "kept");
}

#[test]
fn who_comes_when_all_places_are_taken_by_silent_ones_is_heard() {
    let (_world, socket) = world();
    let mut asking = Peer::new(&socket);
    assert_eq!(asking.ask("show version").text, "clearway for tests\n");
    let silent: Vec<UnixStream> =
        (0..3 * MAX_CONVERSATIONS).map(|_| UnixStream::connect(socket.path()).unwrap()).collect();
    for _ in 0..3 {
        assert_eq!(Peer::new(&socket).ask("show version").text, "clearway for tests\n");
    }
    // Whoever has no place any more was told by the end of the conversation.
    let ended = |stream: &UnixStream| {
        stream.set_nonblocking(true).unwrap();
        matches!((&*stream).read(&mut [0; 8]), Ok(0))
    };
    assert!(silent.iter().filter(|stream| ended(stream)).count() >= MAX_CONVERSATIONS);
}

#[test]
fn a_file_at_the_place_of_the_socket_is_named_and_stays() {
    let world = World::new(1);
    let path = world.folder.join("host.ctl");
    std::fs::write(&path, "mine").unwrap();
    let error =
        ControlSocket::open(&path, None, Arc::clone(&world.control)).err().expect("refused");
    assert!(error.to_string().contains("is a file"), "{error}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
}
