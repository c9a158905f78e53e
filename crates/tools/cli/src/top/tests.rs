use std::time::Instant;

use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::sample::{Program, Session, Worker};
use super::*;

const STARTED: Duration = Duration::from_secs(2);

fn program(app: u64, name: &str, memory: u64) -> Program {
    Program {
        app,
        name: name.into(),
        namespace: "default".into(),
        pids: vec![app + 100],
        memory,
        ..Program::default()
    }
}

fn session(id: &str, app: u64, rx_bytes: u64, tx_bytes: u64) -> Session {
    Session {
        id: id.into(),
        generation: 1,
        app,
        kind: "stream".into(),
        state: "ESTABLISHED".into(),
        local: "172.16.1.1:80".into(),
        remote: format!("172.16.2.1:4{}", id.replace(':', "")),
        rx_bytes,
        tx_bytes,
        retransmits: Some(tx_bytes / 1_000),
        ..Session::default()
    }
}

fn sample(at: Instant, times: u64) -> Sample {
    Sample {
        at,
        version: "clearway 0.1.0 (test)".into(),
        uptime_s: Some(3_600 + times),
        segments: [1_000 * times, 2_000 * times, 10 * times],
        workers: vec![Worker {
            core: Some(1),
            mode: "adaptive".into(),
            busy_s: 0.5 * times as f64,
            sessions: 3,
            stages: vec![("rx", 100 * times), ("app", 300 * times)],
        }],
        programs: vec![program(1, "nginx", 5 << 20), program(2, "redis-server", 3 << 20)],
        sessions: vec![
            session("0:2", 1, 1_000 * times, 9_000_000 * times),
            session("0:10", 1, 50_000 * times, 4_000 * times),
            session("0:3", 2, 0, 0),
        ],
        session_count: 3,
    }
}

/// Two looks, two seconds apart.
fn looked() -> Between {
    let begun = Instant::now();
    Between::new(Some(&sample(begun, 2)), &sample(begun + STARTED, 4))
}

fn screen_after_two_looks() -> Screen {
    let begun = Instant::now();
    let mut screen = Screen::new(Sort::Rate, String::new());
    screen.look(Ok(sample(begun, 2)));
    screen.look(Ok(sample(begun + STARTED, 4)));
    screen
}

fn drawn(screen: &mut Screen, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| screen.draw(frame)).unwrap();
    let buffer = terminal.backend().buffer().clone();
    let cells: Vec<&str> = buffer.content().iter().map(|cell| cell.symbol()).collect();
    cells.chunks(usize::from(width)).map(|row| row.concat().trim_end().to_owned()).collect()
}

fn press(screen: &mut Screen, keys: &str) {
    for key in keys.chars() {
        assert!(screen.key(KeyCode::Char(key)), "{key} ends it");
    }
}

/// The sessions on the screen, from above.
fn sessions_on(lines: &[String]) -> Vec<String> {
    let below = lines.iter().skip_while(|line| !line.starts_with("SESSION")).skip(1);
    below
        .filter(|line| line.starts_with("0:"))
        .map(|line| line.split(' ').next().unwrap_or_default().to_owned())
        .collect()
}

#[test]
fn rates_are_what_came_on_top_by_the_time_between_two_looks() {
    let between = looked();
    assert_eq!(between.seconds, Some(2.0));
    let first = &between.sessions[0].traffic;
    assert_eq!((first.tx.rate, first.rx.rate, first.tx.count), (9e6, 1e3, 36_000_000));
    assert_eq!(between.total.tx.rate, 9e6 + 4e3);
    assert_eq!(between.total.again.rate, 10.0, "of all segments, not only of those sessions");
    assert_eq!(between.programs[0].traffic.rx.rate, 51e3);
    assert_eq!(between.workers[0].busy, 0.5);
    assert_eq!(between.workers[0].stages, [("rx", 0.25), ("app", 0.75)]);
    let alone = Between::new(None, &sample(Instant::now(), 4));
    assert_eq!((alone.seconds, alone.total.tx.rate), (None, 0.0), "one look tells no rate");
}

#[test]
fn a_slot_that_was_given_away_does_not_go_on_with_the_old_bytes() {
    let begun = Instant::now();
    let mut now = sample(begun + STARTED, 4);
    (now.sessions[0].generation, now.sessions[0].tx_bytes) = (2, 500);
    let between = Between::new(Some(&sample(begun, 2)), &now);
    assert_eq!(between.sessions[0].traffic.tx.rate, 250.0);
}

#[test]
fn a_key_of_sorting_puts_the_most_first_and_i_turns_it_round() {
    let mut screen = screen_after_two_looks();
    for (keys, order) in [
        ("b", ["0:2", "0:10", "0:3"]),
        ("r", ["0:10", "0:2", "0:3"]),
        ("t", ["0:2", "0:10", "0:3"]),
        ("n", ["0:2", "0:10", "0:3"]),
        ("i", ["0:3", "0:10", "0:2"]),
        ("r", ["0:3", "0:2", "0:10"]),
        ("i", ["0:10", "0:2", "0:3"]),
    ] {
        press(&mut screen, keys);
        let lines = drawn(&mut screen, 80, 24);
        assert_eq!(sessions_on(&lines), order, "after {keys}: {lines:#?}");
    }
}

#[test]
fn everything_has_its_place_on_a_screen_of_80_by_24() {
    let lines = drawn(&mut screen_after_two_looks(), 80, 24);
    let text = lines.join("\n");
    for part in [
        "clearway 0.1.0 (test), up 01:00:04: 2 programs, 3 sessions, 8.0MB",
        "rx 51KB/s  tx 9.0MB/s  segments in 1.0K/s out 2.0K/s again 10/s",
        "worker 0 core 1 adaptive busy  50 %: rx 25 app 75",
        "nginx (default)",
        "5.0M",
        "172.16.1.1:80 > 172.16.2.1:402",
        "sorted by rate",
        "? help",
    ] {
        assert!(text.contains(part), "{part:?} is not there:\n{text}");
    }
    assert!(lines.last().unwrap().contains("q end"), "the keys are the last line:\n{text}");
    // A smaller one shows less, and nothing breaks.
    for (width, height) in [(40, 10), (20, 4), (1, 1)] {
        drawn(&mut screen_after_two_looks(), width, height);
    }
}

#[test]
fn a_filter_leaves_what_has_its_text_and_esc_takes_it_away() {
    let mut screen = screen_after_two_looks();
    press(&mut screen, "/REDIS");
    assert!(drawn(&mut screen, 80, 24).last().unwrap().contains("show only: REDIS_"));
    assert!(screen.key(KeyCode::Enter));
    let lines = drawn(&mut screen, 80, 24);
    assert_eq!(sessions_on(&lines), ["0:3"]);
    assert!(!lines.join("\n").contains("nginx"), "{lines:#?}");
    assert!(screen.key(KeyCode::Esc));
    assert_eq!(sessions_on(&drawn(&mut screen, 80, 24)).len(), 3);
}

#[test]
fn a_session_is_reset_only_when_it_was_chosen_and_the_question_answered() {
    let mut screen = screen_after_two_looks();
    press(&mut screen, "k");
    assert!(drawn(&mut screen, 80, 24).last().unwrap().contains("choose a session"));
    screen.key(KeyCode::Down);
    screen.key(KeyCode::Down);
    press(&mut screen, "k");
    let question = drawn(&mut screen, 80, 24).pop().unwrap();
    assert!(question.contains("reset 0:10 of nginx, 172.16.1.1:80 > 172.16.2.1:4010? y / n"));
    press(&mut screen, "n");
    assert_eq!(screen.take_kill(), None);
    press(&mut screen, "ky");
    assert_eq!(screen.take_kill().as_deref(), Some("0:10:1"), "with its generation");
    // Whoever was chosen stays so when rows move.
    press(&mut screen, "i");
    press(&mut screen, "ky");
    assert_eq!(screen.take_kill().as_deref(), Some("0:10:1"));
}

#[test]
fn a_pause_keeps_the_picture_and_a_host_that_is_gone_is_told() {
    let mut screen = screen_after_two_looks();
    press(&mut screen, "p");
    let before = drawn(&mut screen, 80, 24);
    assert!(before.last().unwrap().starts_with("PAUSED"));
    screen.look(Ok(sample(Instant::now(), 9)));
    assert_eq!(drawn(&mut screen, 80, 24), before);
    screen.look(Err("no host answers at /run/x.ctl".into()));
    let text = drawn(&mut screen, 80, 24).join("\n");
    assert!(text.contains("the host is gone") && text.contains("/run/x.ctl"), "{text}");
    press(&mut screen, "p");
    screen.look(Ok(sample(Instant::now(), 1)));
    let text = drawn(&mut screen, 80, 24).join("\n");
    assert!(!text.contains("the host is gone") && text.contains("second look"), "{text}");
}

#[test]
fn help_covers_the_picture_until_the_next_key_and_q_ends() {
    let mut screen = screen_after_two_looks();
    press(&mut screen, "?");
    assert!(drawn(&mut screen, 80, 24).join("\n").contains("reset the chosen session"));
    press(&mut screen, "x");
    assert!(!drawn(&mut screen, 80, 24).join("\n").contains("reset the chosen session"));
    assert!(!screen.key(KeyCode::Char('q')));
}

#[test]
fn numbers_take_five_characters_at_most() {
    for (number, shown) in [
        (0.0, "0"),
        (0.25, "0.2"),
        (7.0, "7"),
        (999.0, "999"),
        (999.7, "1.0K"),
        (1_234.0, "1.2K"),
        (34_567.0, "35K"),
        (999_600.0, "1.0M"),
        (5_600_000_000.0, "5.6G"),
    ] {
        assert_eq!(table::short(number, 1_000.0), shown, "{number}");
    }
    assert_eq!(table::bytes(1_048_576), "1.0M");
    assert_eq!(table::bytes(1_023 << 20), "1023M");
}

#[test]
fn who_asks_once_is_told_all_as_text_and_as_json() {
    let between = looked().sorted(Sort::Receive, false).with("nginx");
    let text = table::text(&between);
    let heads: Vec<&str> = text.lines().filter(|line| line.contains("RETR/s")).collect();
    assert_eq!(heads.len(), 2, "{text}");
    assert!(text.contains("0:10") && !text.contains("redis"), "{text}");
    let json = between.json();
    assert_eq!(json["sessions"][0]["id"], "0:10");
    assert_eq!(json["sessions"][0]["rx-bytes"]["per-second"], 50e3);
    assert_eq!(json["programs"][0]["memory"], 5 << 20);
    assert_eq!(json["workers"][0]["stages"]["app"], 0.75);
}

#[test]
fn an_interval_is_a_number_of_seconds_that_makes_sense() {
    assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
    for wrong in ["0", "-1", "1e9", "NaN", "soon"] {
        assert!(seconds(wrong).is_err(), "{wrong}");
    }
}
