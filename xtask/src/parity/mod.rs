//! Compares nccl4py with this library: joins the public names of its wheel with the table beside
//! this file, and writes `docs/parity.md`.
//!
//! Fails for a name without a row, a row without a name, a row that cites a missing item or test,
//! and a row whose tests do not use its items.

mod page;
mod table;
mod tree;
mod uses;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use table::{Row, Table};
use tree::Tree;

use crate::{Check, Failure, output, root, target};

const VERSION: &str = "0.6.0";

/// The folder of the package's own names in its wheel.
const PACKAGE: &str = "nccl/core/";

/// Reads the names; Python is best at that.
const READER: &str = include_str!("names.py");

const PIP: &str = "it gets nccl4py from PyPI and reads it; install Python 3 with pip";

/// A public name.
struct Name {
    module: String,
    name: String,
    kind: String,
}

pub(crate) fn run() -> Check {
    let names = names()?;
    let table = Table::read()?;
    let joined = table.join(&names);
    let tree = Tree::read(table.rows().iter().flat_map(Row::files))?;
    let mut wrong = joined.wrong;
    for row in table.rows() {
        wrong.extend(row.faults(&tree));
    }
    if !wrong.is_empty() {
        return Err(Failure::Broken(wrong.join("\n")));
    }
    let rows: Vec<(&Name, &Row)> = joined.rows;
    let (path, text) = (root().join("docs/parity.md"), page::write(VERSION, &rows));
    let failed = |error| Failure::NotMade(format!("{} cannot be written: {error}", path.display()));
    fs::write(&path, text).map_err(failed)?;
    println!("{}", page::counts(&rows));
    Ok(())
}

/// The names of the wheel.
fn names() -> Check<Vec<Name>> {
    let wheel = wheel()?;
    let mut python = Command::new("python3");
    python.args(["-c", READER]).arg(&wheel).arg(PACKAGE);
    let said = output(&mut python, PIP)?.stdout;
    let said = String::from_utf8_lossy(&said).into_owned();
    let name = |line: &str| {
        let mut parts = line.split('\t').map(str::to_owned);
        let (module, name, kind) = (parts.next()?, parts.next()?, parts.next()?);
        Some(Name { name: format!("{}{name}", prefix(&module)), module, kind })
    };
    let names: Vec<Name> = said.lines().filter_map(name).collect();
    match names.len() {
        0 => Err(Failure::NotMade(format!("{} has no names", wheel.display()))),
        _ => Ok(names),
    }
}

/// The prefix of a module's names, if other modules have the same ones.
fn prefix(module: &str) -> String {
    match module.split_once('.') {
        Some(("interop", library)) => format!("{library}."),
        Some(("device", _)) => "cute.".to_owned(),
        _ => String::new(),
    }
}

/// The wheel, downloaded unless present. Its sources are the same for every machine.
fn wheel() -> Check<PathBuf> {
    let folder = target().join("nccl4py").join(VERSION);
    let there = || {
        let files = fs::read_dir(&folder).into_iter().flatten().flatten();
        files.map(|file| file.path()).find(|path| path.extension().is_some_and(|it| it == "whl"))
    };
    if let Some(wheel) = there() {
        return Ok(wheel);
    }
    println!("fetching nccl4py {VERSION} into {}", folder.display());
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"])
        .args(["--only-binary", ":all:", "--python-version", "3.11", "--abi", "cp311"])
        .args(["--implementation", "cp", "--platform", "manylinux_2_28_x86_64", "--dest"])
        .arg(&folder)
        .arg(format!("nccl4py=={VERSION}"));
    output(&mut pip, PIP)?;
    there().ok_or_else(|| Failure::NotMade(format!("pip put no wheel into {}", folder.display())))
}

#[cfg(test)]
mod tests {
    use super::{Row, Table, Tree};

    #[test]
    fn every_row_has_its_item_and_a_test_that_names_it() {
        let table = Table::read().expect("it is read");
        let tree = Tree::read(table.rows().iter().flat_map(Row::files)).expect("it is read");
        let faults: Vec<_> = table.rows().iter().flat_map(|row| row.faults(&tree)).collect();
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }
}
