//! Compares the table of functions with the exports of released libraries.

use std::collections::BTreeSet;
use std::fs::File;

use nccl_sys::{Function, Version};
use object::read::elf::ElfFile64;
use object::{Object, ObjectSymbol, ReadCache};

use crate::wheels::Wheel;
use crate::{Check, Failure};

/// Declared by the header, but exported by no library.
const NOT_EXPORTED: &[&str] = &["ncclCftBarrierCreateRequirement"];

/// Exported, but declared by no header: NCCL's internals. All but the first are gone since 2.30.7.
const NOT_DECLARED: &[&str] = &[
    "ncclResetDebugInitInternal",
    "ncclParamDumpAllFlag",
    "ncclParamDumpAllFlagKey",
    "ncclParamEnvPluginGet",
    "ncclParamIsCacheDisabled",
    "ncclParamNoCacheStr",
    "ncclParamNoCacheStrKey",
    "ncclParamRegistryInstance",
];

pub(crate) fn run(versions: &[Version]) -> Check {
    let mut broken = 0;
    for wheel in Wheel::fetch_all(versions)? {
        let exported = exports(&wheel)?;
        let report = compare(wheel.version, &exported);
        println!(
            "NCCL {}: {} exported, {} of the table's {}",
            wheel.version,
            exported.len(),
            Function::ALL.iter().filter(|function| exported.contains(function.name())).count(),
            Function::ALL.len(),
        );
        report.expected.iter().for_each(|line| println!("  expected: {line}"));
        report.differs.iter().for_each(|line| println!("  DIFFERS: {line}"));
        broken += report.differs.len();
    }
    if broken == 0 {
        return Ok(());
    }
    Err(Failure::Broken(format!("{broken} functions of the table are not as libraries have them")))
}

#[derive(Default)]
struct Report {
    expected: Vec<String>,
    differs: Vec<String>,
}

fn compare(version: Version, exported: &BTreeSet<String>) -> Report {
    let mut report = Report::default();
    for function in Function::ALL {
        let since = function.since();
        match (version.at_least(since), exported.contains(function.name())) {
            (true, true) | (false, false) => {}
            (true, false) if NOT_EXPORTED.contains(&function.name()) => {
                report.expected.push(format!("{function} is declared and not exported"));
            }
            (true, false) => {
                report.differs.push(format!("{function}, here since {since}, is not exported"));
            }
            (false, true) => {
                report.differs.push(format!("{function}, here since {since}, is exported already"));
            }
        }
    }
    for name in exported {
        if Function::ALL.iter().any(|function| function.name() == name) {
            continue;
        }
        if NOT_DECLARED.contains(&name.as_str()) {
            report.expected.push(format!("{name} is exported and no header declares it"));
        } else {
            report.differs.push(format!("{name} is exported and not in the table"));
        }
    }
    report
}

/// The functions that a library exports, without their aliases for profilers (`pnccl..`).
fn exports(wheel: &Wheel) -> Check<BTreeSet<String>> {
    let path = wheel.libnccl();
    let failed = |error: String| Failure::NotMade(format!("{}: {error}", path.display()));
    let file = File::open(&path).map_err(|error| failed(error.to_string()))?;
    // A library has hundreds of megabytes, and its symbols are a small part.
    let cache = ReadCache::new(file);
    let elf: ElfFile64<'_, object::Endianness, _> =
        ElfFile64::parse(&cache).map_err(|error| failed(error.to_string()))?;
    let defined = elf.dynamic_symbols().filter(|symbol| symbol.is_definition());
    let names = defined.filter_map(|symbol| symbol.name().ok().map(str::to_owned));
    Ok(names.filter(|name| name.starts_with("nccl")).collect())
}
