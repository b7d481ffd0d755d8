//! Checks that versions of NCCL are in one file: `plan/src/releases.rs`. Docs may name them.

use std::fs;
use std::path::{Path, PathBuf};

/// Sources that depend on the release at run time.
const SOURCES: [&str; 3] = ["src", "plan/src", "macros/src"];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        match path.is_dir() {
            true => sources(&path, found),
            false if path.extension().is_some_and(|end| end == "rs") => found.push(path),
            false => {}
        }
    }
}

/// Whether code names a release: `2.31` or `2, 31, 2`.
fn names_a_release(code: &str) -> bool {
    ["2.", "2, "].into_iter().any(|major| {
        code.match_indices(major).any(|(at, _)| {
            let is_whole = !code[..at].ends_with(|c: char| c.is_ascii_digit() || c == '.');
            let rest = &code[at + major.len()..];
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            let fix = &rest[digits..];
            let has_fix = fix
                .strip_prefix(", ")
                .is_some_and(|fix| fix.starts_with(|c: char| c.is_ascii_digit()));
            let minor = rest[..digits].parse().unwrap_or(0);
            is_whole && (18..90).contains(&minor) && (major == "2." || has_fix)
        })
    })
}

#[test]
fn versions_stand_in_one_file() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    SOURCES.iter().for_each(|folder| sources(&root.join(folder), &mut files));
    assert!(files.len() > 100);
    let mut elsewhere = Vec::new();
    for file in files.iter().filter(|file| !file.ends_with("plan/src/releases.rs")) {
        let text = fs::read_to_string(file).expect("it is a source");
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        for line in code.lines().filter(|line| !line.trim_start().starts_with("//")) {
            if names_a_release(line) {
                elsewhere.push(format!("{}: {}", file.display(), line.trim()));
            }
        }
    }
    assert!(elsewhere.is_empty(), "{elsewhere:#?}");
}

#[test]
fn a_release_is_known_by_its_numbers() {
    for code in ["Version::new(2, 31, 2)", "\"since 2.28\"", "Version(2, 24, 3)"] {
        assert!(names_a_release(code), "{code}");
    }
    for code in ["12.31", "(2, 31)", "2.5", "[1, 2, 3]", "1.2.30"] {
        assert!(!names_a_release(code), "{code}");
    }
}
