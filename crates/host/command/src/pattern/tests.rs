use super::*;
use crate::forms;

#[test]
fn every_form_of_the_grammar_compiles() {
    for form in forms() {
        if let Err(why) = compile(form.pattern) {
            panic!("`{}`: {why}", form.pattern);
        }
    }
}

#[test]
fn bad_patterns_are_told() {
    for (pattern, why) in [
        ("a ( b", "`)` is missing"),
        ("a ) b", "`)` is left over in `a ) b`"),
        ("a | b", "`|` outside brackets in `a | b`"),
        ("NOTHING", "`NOTHING` is no kind of argument"),
        ("a [ ]", "an empty part"),
    ] {
        assert_eq!(compile(pattern).unwrap_err(), why, "{pattern}");
    }
}

#[test]
fn any_order_lists_fit_their_mask_and_their_parts_are_never_empty() {
    fn check(node: &Node) {
        match node {
            Node::Leaf(_) => {}
            Node::Maybe(node) => check(node),
            Node::Sequence(nodes) | Node::OneOf(nodes) => nodes.iter().for_each(check),
            Node::AnyOrder(nodes) => {
                assert!(nodes.len() <= 32);
                nodes.iter().for_each(check);
                for node in nodes {
                    assert!(!crate::matcher::Reading::new(0, node).complete());
                }
            }
        }
    }
    forms().iter().for_each(|form| check(&compile(form.pattern).unwrap()));
}
