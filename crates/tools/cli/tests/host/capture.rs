//! `clearway capture` and the plug-in for Wireshark, read by Debian's tshark while programs talk.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, ExitStatus, Output, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::netns::or_skip;
use crate::world::{Host, IN_CLIENT, IN_SERVER, eventually};

/// Answers each connection once. A datagram to a port that nobody has is dropped.
const LISTENER: &str = "
import socket
listener = socket.create_server(('172.16.1.1', 9080))
print('listens', flush=True)
while True:
    conn, _ = listener.accept()
    conn.sendall(conn.recv(100))
    conn.close()
";

const TALKER: &str = "
import socket
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'nobody', ('172.16.1.1', 9999))
s = socket.create_connection(('172.16.1.1', 9080))
s.sendall(b'said')
assert s.recv(100) == b'said'
";

fn end(child: &Child) {
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
}

/// Starts a capture; it has begun when this is back. Earlier ones may be about to end.
fn start(host: &Host, args: &[&str], stdout: Stdio) -> Child {
    start_beside(host, 0, args, stdout)
}

/// The same beside as many others.
fn start_beside(host: &Host, others: usize, args: &[&str], stdout: Stdio) -> Child {
    eventually("earlier captures have ended", || captures(host) == others);
    let mut command = host.clearway("capture");
    command.args(args).stdin(Stdio::null()).stdout(stdout).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    eventually("the capture has begun", || captures(host) > others);
    child
}

/// The threads of the host that write captures.
fn captures(host: &Host) -> usize {
    let Ok(tasks) = fs::read_dir(format!("/proc/{}/task", host.pid())) else { return 0 };
    let name = |task: fs::DirEntry| fs::read_to_string(task.path().join("comm"));
    tasks
        .flatten()
        .filter_map(|task| name(task).ok())
        .filter(|n| n.trim() == "clearway-pcap")
        .count()
}

fn said(child: &mut Child) -> (ExitStatus, String) {
    let mut text = String::new();
    child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    (child.wait().unwrap(), text)
}

/// What tshark reads in a file: a line a packet.
fn lines(file: &std::path::Path, filter: &str, fields: &[&str]) -> Vec<String> {
    let mut tshark = Command::new("tshark");
    tshark.args(["-n", "-r"]).arg(file).args(["-Y", filter, "-T", "fields"]);
    tshark.args(fields.iter().flat_map(|field| ["-e", field]));
    let output = tshark.output().expect("tshark is needed: make setup");
    assert!(output.status.success(), "{output:?}");
    text(&output).lines().map(str::to_owned).collect()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The number before a word of the last line.
fn number(text: &str, word: &str) -> u64 {
    let words: Vec<&str> = text.split([' ', ';', ':', ',', '\n']).collect();
    let at = words.iter().position(|found| *found == word).unwrap_or_else(|| panic!("{text}"));
    let before = words[..at].iter().rev().find_map(|word| word.parse().ok());
    before.unwrap_or_else(|| panic!("{text}"))
}

#[test]
fn tshark_reads_live_what_programs_say_with_their_names_and_the_reasons_of_drops() {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if !or_skip(cores >= 2, "two workers need two cores") {
        return;
    }
    let host = Host::with(&["--cores", "0,1"], &[]);
    let server = host.spawn(IN_SERVER, "python3", &["-c", LISTENER]);
    server.await_text("listens");
    let mut capture =
        start(&host, &["-f", "tcp port 9080 or udp port 9999", "-w", "-"], Stdio::piped());
    let mut tshark = Command::new("tshark");
    tshark.args(["-n", "-l", "-r", "-", "-T", "fields"]);
    for field in ["frame.interface_name", "tcp.dstport", "udp.dstport", "frame.comment"] {
        tshark.args(["-e", field]);
    }
    tshark.stdin(capture.stdout.take().unwrap()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut tshark = tshark.spawn().expect("tshark is needed: make setup");
    host.run(IN_CLIENT, "python3", &["-c", TALKER]);
    let mut seen = Vec::new();
    let mut lines = BufReader::new(tshark.stdout.take().unwrap()).lines();
    for line in lines.by_ref() {
        seen.push(line.unwrap());
        let has = |part: &str| seen.iter().any(|line| line.contains(part));
        // It is live: the capture goes on while this is read.
        if has("udp-port-closed") && has("namespace server") {
            break;
        }
    }
    let all = seen.join("\n");
    let named = seen.iter().find(|line| line.contains("namespace server")).unwrap();
    assert!(named.contains("session ") && named.contains("python3"), "{all}");
    assert!(named.contains("loop"), "{all}");
    end(&capture);
    let (status, told) = said(&mut capture);
    assert!(status.success(), "{told}");
    assert!(number(&told, "packets") >= seen.len() as u64 && number(&told, "lost") == 0, "{told}");
    // What is left has to be read, or tshark finds nobody to write to.
    lines.for_each(|line| drop(line.unwrap()));
    assert!(tshark.wait().unwrap().success());
    eventually("the host has let go of the capture", || captures(&host) == 0);
    host.stop();
}

#[test]
fn a_reader_that_stops_costs_packets_of_the_capture_and_none_of_the_traffic() {
    let host = Host::new();
    let before = sent(&host);
    let mut capture =
        start(&host, &["-i", "loop0", "--only", "tx", "-w", "-", "--no-names"], Stdio::piped());
    // A process that is stopped, as a reader that reads nothing, takes what fits into sockets.
    kill(Pid::from_raw(capture.id() as i32), Signal::SIGSTOP).unwrap();
    let report = host.iperf(&["-n", "200M"]);
    let bytes = report["end"]["sum_received"]["bytes"].as_u64().unwrap();
    assert!(bytes > 100_000_000, "{report}");
    let retransmits = report["end"]["sum_sent"]["retransmits"].as_u64().unwrap();
    assert!(retransmits < 100, "{report}");
    let offered = sent(&host) - before;
    kill(Pid::from_raw(capture.id() as i32), Signal::SIGCONT).unwrap();
    let file = host.folder.join("read.pcapng");
    let mut out = capture.stdout.take().unwrap();
    let reading = std::thread::spawn({
        let file = file.clone();
        move || std::io::copy(&mut out, &mut fs::File::create(file).unwrap()).unwrap()
    });
    end(&capture);
    let (status, told) = said(&mut capture);
    reading.join().unwrap();
    assert!(status.success(), "{told}");
    let (read, lost) = (number(&told, "packets"), number(&told, "lost"));
    assert!(lost > 0, "{told}");
    assert_eq!(lines(&file, "frame", &["frame.number"]).len() as u64, read, "{told}");
    assert_eq!(read + lost, offered, "every packet is in the file or counted: {told}");
    // And tshark finds the count in the file itself.
    let raw = fs::read(&file).unwrap();
    let option = [&5u16.to_ne_bytes()[..], &8u16.to_ne_bytes(), &lost.to_ne_bytes()].concat();
    assert!(raw.windows(option.len()).any(|window| window == option));
    host.stop();
}

/// Packets that went out at loop0.
fn sent(host: &Host) -> u64 {
    let shown = host.json("show interface loop0");
    shown["interfaces"][0]["tx-packets"].as_u64().unwrap()
}

#[test]
fn wireshark_lists_the_interfaces_itself_and_captures_with_its_filter() {
    let host = Host::new();
    let server = host.spawn(IN_SERVER, "python3", &["-c", LISTENER]);
    server.await_text("listens");
    let tshark = |args: &[&str]| {
        let mut command = Command::new("tshark");
        command.args(args).env("HOME", &*host.folder).env_remove("XDG_CONFIG_HOME");
        command.env("CLEARWAY_SOCKET", host.socket()).stdin(Stdio::null());
        command
    };
    let extcap = |args: &[&str]| {
        let mut command = host.clearway("extcap");
        command.args(args).env("HOME", &*host.folder).env_remove("XDG_CONFIG_HOME");
        command.output().unwrap()
    };
    let listed = || text(&tshark(&["-D"]).output().expect("tshark is needed: make setup"));
    assert!(!listed().contains("clearway:"));
    assert!(extcap(&["--install"]).status.success());
    let all = listed();
    for name in ["clearway:any", "clearway:loop0", "clearway:loop1"] {
        assert!(all.contains(name), "{all}");
    }
    let mut running = tshark(&[
        "-n",
        "-l",
        "-i",
        "clearway:any",
        "-f",
        "tcp dst port 9080",
        "-c",
        "3",
        "-T",
        "fields",
        "-e",
        "tcp.dstport",
        "-e",
        "frame.comment",
    ]);
    let child = running.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    eventually("the capture has begun", || captures(&host) > 0);
    host.run(IN_CLIENT, "python3", &["-c", TALKER]);
    let output = child.wait_with_output().unwrap();
    let seen = text(&output);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(seen.lines().filter(|line| line.starts_with("9080\t")).count(), 3, "{seen}");
    assert!(seen.contains("python3 namespace server"), "{seen}");
    eventually("the host has let go of the capture", || captures(&host) == 0);
    // A filter that cannot be used says so, and nothing hangs.
    let output = tshark(&["-i", "clearway:any", "-f", "tcp[13] == 2", "-c", "1"]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("not understood"), "{told}");
    assert!(extcap(&["--remove"]).status.success() && !listed().contains("clearway:"));
    assert!(!extcap(&["--remove"]).status.success());
    host.stop();
}

#[test]
fn a_ring_keeps_its_last_files_and_each_can_be_read() {
    let host = Host::new();
    let server = host.spawn(IN_SERVER, "python3", &["-c", LISTENER]);
    server.await_text("listens");
    let file = host.folder.join("ring.pcapng");
    let ring = ["-b", "packets:2", "-b", "files:3", "-s", "60", "-w", file.to_str().unwrap()];
    let mut capture = start(&host, &[&ring[..], &["-f", "tcp"]].concat(), Stdio::null());
    host.run(IN_CLIENT, "python3", &["-c", TALKER]);
    eventually("a fourth file", || host.folder.join("ring_00004.pcapng").exists());
    end(&capture);
    let (status, told) = said(&mut capture);
    assert!(status.success() && told.contains("3 files"), "{told}");
    let mut kept: Vec<_> =
        fs::read_dir(&*host.folder).unwrap().flatten().map(|e| e.path()).collect();
    kept.retain(|path| path.extension().is_some_and(|extension| extension == "pcapng"));
    assert_eq!(kept.len(), 3, "{kept:?}");
    for one in kept {
        let packets = lines(&one, "frame", &["frame.cap_len", "frame.interface_name"]);
        assert!((1..=2).contains(&packets.len()), "{packets:?}");
        for packet in packets {
            let (len, name) = packet.split_once('\t').unwrap();
            assert!(len.parse::<u32>().unwrap() <= 60 && name.starts_with("loop"), "{packet}");
        }
    }
    host.stop();
}

#[test]
fn each_end_of_a_capture_is_told() {
    let host = Host::new();
    let server = host.spawn(IN_SERVER, "python3", &["-c", LISTENER]);
    server.await_text("listens");
    let run = |args: &[&str]| {
        let mut command = host.clearway("capture");
        command.args(args).stdin(Stdio::null()).output().unwrap()
    };
    let error = |output: &Output| String::from_utf8_lossy(&output.stderr).into_owned();
    // The reader goes away, and nothing more passes that could tell it.
    let mut capture = start(&host, &["-w", "-"], Stdio::piped());
    drop(capture.stdout.take());
    let (status, told) = said(&mut capture);
    assert!(status.success() && told.contains("packets captured"), "{told}");
    // The disk is full.
    let full = run(&["-w", "/dev/full"]);
    assert_eq!(full.status.code(), Some(1), "{full:?}");
    assert!(error(&full).contains("cannot write /dev/full"), "{full:?}");
    // Enough packets, while a second capture takes the same.
    let file = host.folder.join("two.pcapng");
    let mut other = start(&host, &["-f", "tcp", "-w", file.to_str().unwrap()], Stdio::null());
    let mut capture = start_beside(&host, 1, &["-c", "2", "-f", "tcp", "-w", "-"], Stdio::piped());
    host.run(IN_CLIENT, "python3", &["-c", TALKER]);
    let (status, told) = said(&mut capture);
    assert!(status.success() && number(&told, "packets") == 2, "{told}");
    end(&other);
    let (status, told) = said(&mut other);
    assert!(status.success() && number(&told, "packets") > 2, "{told}");
    // What makes no sense.
    let nowhere = run(&["-i", "nowhere", "-w", "-"]);
    assert!(!nowhere.status.success(), "{nowhere:?}");
    let wrong = run(&["-f", "tcp[13]", "-w", "-"]);
    assert!(error(&wrong).contains("not understood"), "{wrong:?}");
    assert_eq!(run(&["-b", "files:2", "-w", "x"]).status.code(), Some(2));
    assert_eq!(run(&["-b", "packets:2", "-w", "-"]).status.code(), Some(2));
    // The host ends.
    let mut capture = start(&host, &["-w", "-"], Stdio::piped());
    host.stop();
    let (status, told) = said(&mut capture);
    assert!(status.code() == Some(1) && told.contains("the host has ended"), "{told}");
}
