//! `sheen-bench` takes what `sheen bench` hands on, and tells errors by its exit status.

use std::process::{Command, Output};

fn bench(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sheen-bench")).args(words).output().expect("start sheen-bench")
}

#[test]
fn wrong_words_and_missing_places_have_their_exit_status() {
    let wrong = bench(&["mdtest", "--no-such-option"]);
    assert_eq!(
        wrong.status.code(),
        Some(2),
        "clap's: sheen bench has told it as wrong usage before"
    );
    let missing = bench(&["mdtest", "/nowhere/at/all", "--files", "1"]);
    assert!(!missing.status.success());
    let said = String::from_utf8(missing.stderr).expect("a sentence");
    assert!(said.starts_with("sheen: ") && said.contains("/nowhere/at/all"), "{said}");
}

#[test]
fn help_speaks_of_sheen_bench_as_one_types_it() {
    let help = bench(&["mdtest", "--help"]);
    let text = String::from_utf8(help.stdout).expect("a text");
    assert!(help.status.success() && text.contains("Usage: sheen bench mdtest"), "{text}");
}
