//! The items and tests that exist, and the names that tests use.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::uses::{Functions, Named};
use crate::{Check, Failure, root};

pub(super) struct Tree {
    /// The sources, file by file.
    sources: Vec<String>,
    /// The functions of the cited test files.
    tests: HashMap<String, Functions>,
}

impl Tree {
    /// Reads the sources and these test files.
    pub(super) fn read<'t>(cited: impl Iterator<Item = &'t str>) -> Check<Self> {
        let mut files = Vec::new();
        for folder in ["src", "plan/src", "sys/src"] {
            collect(&root().join(folder), &mut files)?;
        }
        let sources = files.iter().map(|path| text(path)).collect::<Check<_>>()?;
        let mut tests = HashMap::new();
        for file in cited {
            if !tests.contains_key(file) {
                tests.insert(file.to_owned(), functions(file)?);
            }
        }
        Ok(Self { sources, tests })
    }

    /// Whether `Type::name`, or `name`, exists: a file defines the name and mentions what precedes
    /// it.
    pub(super) fn has_item(&self, item: &str) -> bool {
        let mut path: Vec<&str> = item.split("::").collect();
        let Some(name) = path.pop() else { return false };
        self.sources.iter().filter(|text| text.contains(name)).any(|text| {
            let speaks = |part: &&str| has_word(text, part) || is_module(part);
            defines(text, name) && path.last().is_none_or(speaks)
        })
    }

    /// The names that `file:function`, below `tests`, uses, if it exists.
    pub(super) fn named(&self, test: &str) -> Option<Named> {
        let (file, function) = test.rsplit_once(':')?;
        self.tests.get(file)?.named(function)
    }
}

/// The functions of a test file; for Python, also those of the extension beside it.
fn functions(file: &str) -> Check<Functions> {
    let mut functions = Functions::default();
    let mut rust = Vec::new();
    let paths = ["tests", ""].map(|folder| root().join(folder).join(file));
    let Some(path) = paths.into_iter().find(|path| path.is_file()) else { return Ok(functions) };
    if path.extension().is_some_and(|it| it == "py") {
        functions.add_python(&text(&path)?);
        collect(&path.with_file_name("src"), &mut rust)?;
    } else {
        rust.push(path);
    }
    for path in rust {
        let failed = |error| Failure::NotMade(format!("{}: {error}", path.display()));
        functions.add_rust(&text(&path)?).map_err(failed)?;
    }
    Ok(functions)
}

fn text(path: &Path) -> Check<String> {
    fs::read_to_string(path)
        .map_err(|error| Failure::NotMade(format!("{}: {error}", path.display())))
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Check {
    let entries = fs::read_dir(folder)
        .map_err(|error| Failure::NotMade(format!("{}: {error}", folder.display())))?;
    for path in entries.flatten().map(|entry| entry.path()) {
        match path.is_dir() {
            true => collect(&path, files)?,
            false if path.extension().is_some_and(|it| it == "rs") => files.push(path),
            false => {}
        }
    }
    Ok(())
}

/// A module has a file, which need not mention its name.
fn is_module(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_lowercase())
}

const KEYWORDS: [&str; 7] = ["fn", "struct", "enum", "trait", "type", "const", "macro_rules!"];

/// Whether a file has a public definition of a name: an item, a field, or a variant.
fn defines(text: &str, name: &str) -> bool {
    text.lines().any(|line| {
        let line = line.trim_start();
        let (line, is_public) = match line.strip_prefix("pub ") {
            Some(rest) => (rest, true),
            None => (line, false),
        };
        let line = line.strip_prefix("const fn").map_or(line, |_| &line["const ".len()..]);
        let line = line.strip_prefix("unsafe ").unwrap_or(line);
        let keyword =
            KEYWORDS.iter().find_map(|keyword| line.strip_prefix(keyword)?.strip_prefix(' '));
        match keyword {
            // A trait's methods are as public as it is.
            Some(rest) => starts_with_word(rest, name),
            None if is_public => rest_of(line, name).is_some_and(|rest| rest.starts_with(':')),
            None => rest_of(line, name).is_some_and(|rest| {
                name.starts_with(|first: char| first.is_ascii_uppercase())
                    && rest.trim_start().starts_with([',', '(', '{', '=', ':'])
            }),
        }
    })
}

fn rest_of<'l>(line: &'l str, name: &str) -> Option<&'l str> {
    line.strip_prefix(name)
}

fn starts_with_word(text: &str, word: &str) -> bool {
    let rest = text.strip_prefix(word);
    rest.is_some_and(|rest| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_'))
}

fn has_word(text: &str, word: &str) -> bool {
    let ends = |next: Option<char>| !next.is_some_and(|next| next.is_alphanumeric() || next == '_');
    text.match_indices(word).any(|(at, _)| {
        ends(text[..at].chars().next_back()) && ends(text[at + word.len()..].chars().next())
    })
}

#[cfg(test)]
mod tests {
    use super::{defines, has_word};

    #[test]
    fn definitions_are_told_from_uses() {
        let text = "pub struct Team {\n    pub rank: usize,\n}\nenum Kind {\n    Whole,\n}\n    pub const fn len(&self)\nlet size: usize = comm.size();";
        for name in ["Team", "rank", "Whole", "len"] {
            assert!(defines(text, name), "{name}");
        }
        for name in ["Tea", "size", "usize", "comm"] {
            assert!(!defines(text, name), "{name}");
        }
        assert!(has_word("impl<T> Window<T>", "Window") && !has_word("Windows", "Window"));
    }
}
