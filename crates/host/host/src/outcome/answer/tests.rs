use super::*;

#[test]
fn a_framed_answer_is_read_as_it_was() {
    for text in ["", "one\n", ".\n. ok\n.. x\n\nlast\n"] {
        for outcome in [Outcome::Done, Outcome::Failed, Outcome::WrongUse, Outcome::Quit] {
            let answer = Answer { text: text.into(), outcome };
            let lines = answer.framed();
            let read = Answer::read(lines.lines().map(|line| Ok(line.to_owned()))).unwrap();
            assert_eq!(read, Some(answer));
        }
    }
}

#[test]
fn an_answer_without_its_end_is_none() {
    assert_eq!(Answer::read(["a"].iter().map(|line| Ok((*line).to_owned()))).unwrap(), None);
    assert_eq!(Answer::read([". what"].iter().map(|line| Ok((*line).to_owned()))).unwrap(), None);
}
