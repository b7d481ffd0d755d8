//! Every message is about the program, not about the library's insides, and comes to the point.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Names that a user of the library has never met.
const INTERNAL: [&str; 9] = [
    "PhantomData",
    "__private",
    "sealed::",
    "Cell<",
    "UnsafeCell",
    "*const ()",
    "Live<",
    "Core<",
    "Setup<",
];

/// How many lines the first error may take to say what is wrong and what mends it.
const LINES: usize = 12;

/// Where the error's own text is over: a place elsewhere in the source, or the chain of rustc's
/// reasons.
const ELSEWHERE: [&str; 5] = [
    "help:",
    "note:",
    "= note: required for",
    "= note: requirement occurs because",
    "= help: the following other types",
];

#[test]
fn no_message_contains_an_internal_name() {
    for (name, text) in messages() {
        for (number, line) in (1..).zip(text.lines()) {
            for internal in INTERNAL {
                assert!(!line.contains(internal), "{name}:{number} says `{internal}`: {line}");
            }
        }
    }
}

#[test]
fn every_first_error_is_short() {
    for (name, text) in messages() {
        let lines = first_error(&text);
        assert!(lines > 0, "{name} contains no error");
        assert!(lines <= LINES, "{name}: the first error takes {lines} lines, more than {LINES}");
    }
}

#[test]
fn every_case_has_a_message_and_a_twin() {
    let check = names("check", "rs");
    assert!(!check.is_empty(), "check/ has no cases");
    assert_eq!(check, names("check", "stderr"), "cases and messages differ");
    assert_eq!(check, names("twins", "rs"), "cases and twins differ");
}

/// How many lines the first error's own text has.
fn first_error(text: &str) -> usize {
    let lines = text.lines().skip_while(|line| !line.starts_with("error"));
    let elsewhere = |line: &str| ELSEWHERE.iter().any(|start| line.starts_with(start));
    lines.map(str::trim_start).take_while(|line| !line.is_empty() && !elsewhere(line)).count()
}

/// Every `.stderr` file, by name.
fn messages() -> Vec<(String, String)> {
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
        (path.display().to_string(), text)
    };
    files("check", "stderr").into_iter().map(read).collect()
}

/// The stems of the files in `folder` that end in `extension`.
fn names(folder: &str, extension: &str) -> BTreeSet<String> {
    let stem = |path: PathBuf| path.with_extension("").file_name()?.to_str().map(str::to_owned);
    files(folder, extension).into_iter().filter_map(stem).collect()
}

fn files(folder: &str, extension: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
    let paths = entries.map(|entry| entry.unwrap_or_else(|error| panic!("{error}")).path());
    paths.filter(|path| path.extension().is_some_and(|found| found == extension)).collect()
}
