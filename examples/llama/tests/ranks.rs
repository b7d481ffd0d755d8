//! The program as its user runs it, as threads and as processes.

use std::process::Command;

#[test]
fn logits_are_those_of_candle_transformers() {
    let mut tokens = Vec::new();
    for (asked, ranks) in [
        ("host:1", 1),
        ("host:2", 2),
        ("host:4", 4),
        ("host:2,processes", 2),
        ("host:4,processes", 4),
    ] {
        let mut llama = Command::new(env!("CARGO_BIN_EXE_llama"));
        let output = llama.env("TYPED_NCCL", asked).output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{asked}: {output:?}");
        let line = said.lines().find_map(|line| line.split_once(" ranks, host: "));
        let (before, after) = line.unwrap_or_else(|| panic!("{asked}: {said}"));
        assert!(before.ends_with(&ranks.to_string()), "{asked}: {said}");
        let (same, _) = after.split_once(", logits within").expect("it compares");
        tokens.push(same.to_owned());
    }
    assert!(tokens.iter().all(|other| *other == tokens[0]), "{tokens:?}");
}
