//! Every mistake in writing a plan that we have met, and its message.
//!
//! The messages are kept in files, so that they can be read as a user would; `BLESS=1` writes them.

use std::path::Path;
use std::{env, fs};

use super::source;

fn told(file: &str) {
    told_by(file, "plan", source::messages);
}

fn told_by(file: &str, of: &str, messages: impl Fn(proc_macro2::TokenStream) -> Vec<String>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tests/mistakes");
    let cases = fs::read_to_string(folder.join(format!("{file}.{of}"))).expect("cases");
    let mut all = String::new();
    for case in cases.split("// ---- ").skip(1) {
        let (title, plan) = case.split_once('\n').expect("a title");
        let messages = messages(plan.parse().expect("tokens"));
        assert!(!messages.is_empty(), "nothing is wrong with: {title}");
        all.push_str(&format!("// ---- {title}\n"));
        for (nth, line) in (1..).zip(plan.trim_end().lines()) {
            all.push_str(&format!("{nth:>3} | {line}\n"));
        }
        all.push_str(&format!("\n{}\n", messages.join("\n")));
    }
    compare(&folder.join(format!("{file}.txt")), &all);
}

/// Plans with the change that a help names, to the letter.
#[test]
fn mended_as_told() {
    accepted("mended");
}

/// Every `where` that a help names makes its plan correct.
#[test]
fn with_the_condition_as_told() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tests/mistakes");
    let mut found = 0;
    for file in FILES {
        let cases = fs::read_to_string(folder.join(format!("{file}.plan"))).expect("cases");
        for case in cases.split("// ---- ").skip(1) {
            let (title, plan) = case.split_once('\n').expect("a title");
            let messages = source::messages(plan.parse().expect("tokens"));
            let mut lines = messages.iter().flat_map(|message| message.lines());
            let Some(help) = lines.find(|line| line.contains("help: ") && line.contains("`where "))
            else {
                continue;
            };
            let (_, condition) = help.split_once("`where ").expect("a condition");
            let (condition, _) = condition.split_once('`').expect("its end");
            let (head, body) = plan.split_once('{').expect("a body");
            let word = if head.contains("where") { "," } else { " where" };
            let head = head.trim_end().trim_end_matches(',');
            let with = format!("{head}{word} {condition} {{{body}");
            let messages = source::messages(with.parse().expect("tokens"));
            assert!(messages.is_empty(), "{title}\n{with}\n{}", messages.join("\n"));
            found += 1;
        }
    }
    assert!(found >= 10, "only {found} conditions are named");
}

/// Correct plans that were refused before.
#[test]
fn nothing_is_wrong() {
    accepted("accepted");
}

fn accepted(file: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tests/mistakes");
    let cases = fs::read_to_string(folder.join(format!("{file}.plan"))).expect("cases");
    for case in cases.split("// ---- ").skip(1) {
        let (title, plan) = case.split_once('\n').expect("a title");
        let messages = source::messages(plan.parse().expect("tokens"));
        assert!(messages.is_empty(), "{title}\n{}", messages.join("\n"));
    }
}

/// Compares with the file, or writes it.
pub(super) fn compare(kept: &Path, now: &str) {
    if env::var_os("BLESS").is_some() {
        return fs::write(kept, now).expect("written");
    }
    let before = fs::read_to_string(kept).unwrap_or_default();
    if before != now {
        let line = before.lines().zip(now.lines()).position(|(a, b)| a != b).unwrap_or_default();
        let from = line.saturating_sub(5);
        let near: Vec<&str> = now.lines().skip(from).take(20).collect();
        panic!("{} differs near line {line}, now:\n{}", kept.display(), near.join("\n"));
    }
}

macro_rules! files {
    ($($file:ident)+) => {
        const FILES: &[&str] = &[$(stringify!($file)),+];

        $(
            #[test]
            fn $file() {
                told(stringify!($file));
            }
        )+
    };
}

files! { assigned reads claims passed conditions unread equations mends slips sizes hazards header messages parts statements names peers regions collectives compute checked checks }

/// The table of the documentation quotes the messages of every check.
#[test]
fn the_documentation_quotes_them() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let said = fs::read_to_string(root.join("src/tests/mistakes/checks.txt")).expect("kept");
    let page =
        fs::read_to_string(root.join("../docs/guide/src/checks.md")).expect("the documentation");
    let rows: Vec<Vec<&str>> = page
        .lines()
        .filter(|line| line.starts_with("| A"))
        .map(|line| line.split('|').map(str::trim).collect())
        .collect();
    for row in &rows {
        let quoted = row[2].trim_matches('`').trim();
        // If code ends with a name in backticks, the last one was stripped too.
        assert!(said.contains(&format!("error: {quoted}")), "nothing says: {quoted}");
    }
    for check in 1..=15 {
        assert!(rows.iter().any(|row| row[1] == format!("A{check}")), "A{check} is not there");
    }
}

/// Kernels with mistakes.
#[test]
fn kernels() {
    told_by("kernels", "kernel", |tokens| {
        crate::kernel::faults(tokens).iter().map(source::shown).collect()
    });
}
