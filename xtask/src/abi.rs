//! Compares the declarations of `nccl-sys` with the headers of released NCCLs: layouts, values,
//! signatures.
//!
//! Each release must have exactly the declarations that our history gives it, with the same offsets
//! and values. The newest must have nothing undeclared. Differences with a reason are listed with
//! it.

mod header;
mod ours;

use std::collections::{BTreeMap, BTreeSet};

use nccl_sys::{BOUND, DevCommShape, Function, Version};

use crate::wheels::Wheel;
use crate::{Check, Failure};
use header::Header;

/// Fields with another name in some releases.
const RENAMED: &[(&str, &str, &str)] = &[
    // Reserved since 2.29.7.
    ("ncclGinBarrierHandle_t", "unused", "bufHandle"),
];

/// Differences of some releases: the first and the last release, the beginning of the difference,
/// and the reason.
const OTHERWISE: &[(Version, Version, &str, &str)] = &[
    (
        Version::new(2, 29, 2),
        Version::new(2, 29, 3),
        "ncclCommProperties_t.ginType",
        "one byte before 2.29.7, at another place",
    ),
    (Version::new(2, 30, 3), Version::new(2, 30, 3), "ncclParam", "nccl.h has it since 2.30.4"),
    (
        Version::new(2, 30, 4),
        Version::new(2, 30, 4),
        "ncclParam",
        "the same pointer by another name",
    ),
];

/// Values that count others, and so grew.
const COUNTS: &[&str] = &["ncclNumResults", "ncclNumTypes", "NCCL_GIN_MAX_TYPES"];

/// Names that the headers for Linux do not declare, although the library exports users of them.
const WINDOWS: &[&str] = &[
    "ncclGinOutboxHandle",
    "ncclGinInboxA2AHandle",
    "ncclGinOutboxCreateRequirement",
    "ncclGinInboxA2ACreateRequirement",
];

/// Structs of the newest headers that are not declared: device memory, and structs without a name
/// in the header.
const NOT_OURS: &[&str] = &[
    "ncclWindow_vidmem",
    "ncclSegmentWindow",
    "ncclDevCommWindowTable",
    "ncclDevCommWindowTable_Entry",
    "ncclGinRequest_t",
    "ncclCftSmem",
    "ncclTeamTagWorld",
    "ncclTeamTagLsa",
    "ncclTeamTagRail",
    "nccl_utility_Absent",
    "ncclConfigExt__bindgen_ty_2",
];

/// Prefixes of enum values of the newest headers that are not declared: those for plugins and for
/// kernels.
const NOT_OUR_VALUES: &[&str] = &["ncclNumOps_dummy", "ncclGinSignal", "ncclGinOpt", "NCCL_NET_"];

/// Macros of the newest `nccl.h` that are not constants.
const NOT_CONSTANTS: &[&str] = &[
    "NCCL_MAJOR",
    "NCCL_MINOR",
    "NCCL_PATCH",
    "NCCL_SUFFIX",
    "NCCL_VERSION_CODE",
    "NCCL_CONFIG_INITIALIZER",
    "NCCL_COLLCONFIG_INITIALIZER",
    "NCCL_SIM_INFO_INITIALIZER",
    "NCCL_ENCRYPTION_CONFIG_INITIALIZER",
];

pub(crate) fn run(versions: &[Version]) -> Check {
    let signatures = ours::functions()?;
    let mut differing = 0;
    for wheel in Wheel::fetch_all(versions)? {
        let mut names: Vec<&str> = ours::constants().iter().map(|value| value.name).collect();
        names.push("NCCL_VERSION_CODE");
        // An initialiser of an older header sets fewer fields than requested.
        let made = ours::initials().into_iter().filter(|_| wheel.version == BOUND);
        let made: Vec<_> = made.map(|initial| initial.header).collect();
        let header = Header::read(&wheel, &names, &made)?;

        let mut report = Report { version: wheel.version, ..Report::default() };
        report.structs(&header);
        report.device_communicator(&header);
        report.values(&header);
        report.functions(&header, &signatures);
        if wheel.version == BOUND {
            report.initials(&header);
            report.completeness(&header);
        }
        println!("NCCL {}: {} facts agree", wheel.version, report.agree);
        report.expected.iter().for_each(|line| println!("  expected: {line}"));
        report.differs.iter().for_each(|line| println!("  DIFFERS: {line}"));
        differing += report.differs.len();
    }
    if differing == 0 {
        return Ok(());
    }
    Err(Failure::Broken(format!("{differing} declarations are not as the headers have them")))
}

struct Report {
    version: Version,
    agree: usize,
    expected: Vec<String>,
    differs: Vec<String>,
}

impl Default for Report {
    fn default() -> Self {
        Self { version: BOUND, agree: 0, expected: Vec::new(), differs: Vec::new() }
    }
}

impl Report {
    fn expected(&mut self, line: String) {
        self.expected.push(line);
    }

    fn differs(&mut self, line: String) {
        let otherwise = OTHERWISE.iter().find(|(first, last, begin, _)| {
            (*first..=*last).contains(&self.version) && line.starts_with(begin)
        });
        match otherwise {
            Some((.., reason)) => self.expected(format!("{line}: {reason}")),
            None => self.differs.push(line),
        }
    }

    fn same(&mut self, what: &str, ours: impl PartialEq + ToString, header: impl ToString) {
        let (ours, header) = (ours.to_string(), header.to_string());
        if ours == header {
            self.agree += 1;
        } else {
            self.differs(format!("{what}: {ours} here, {header} in the header"));
        }
    }

    fn structs(&mut self, header: &Header) {
        for ours in ours::structs() {
            let name = ours.name;
            let theirs = header.find(named(name));
            let known: Vec<_> =
                ours.fields.iter().filter(|field| self.version.at_least(field.since)).collect();
            let Some(theirs) = theirs else {
                match known.is_empty() {
                    true => self.agree += 1,
                    false if WINDOWS.contains(&name) => {
                        self.expected(format!("{name} is declared for Windows alone"));
                    }
                    false => self.differs(format!("{name} is not declared")),
                }
                continue;
            };
            if known.is_empty() {
                let since = ours.fields[0].since;
                let size = theirs.size;
                self.expected(format!("{name} is another struct before {since}, of {size} bytes"));
                continue;
            }
            for field in &known {
                let what = format!("{name}.{}", field.name);
                let renamed =
                    RENAMED.iter().find(|(of, ours, _)| (*of, *ours) == (name, field.name));
                let find = |name: &str| theirs.fields.iter().find(|(theirs, _)| theirs == name);
                match (find(field.name), renamed) {
                    (Some((_, offset)), _) => self.same(&what, field.offset, offset),
                    (None, Some((.., old))) if find(old).is_some() => {
                        self.expected(format!("{what} is called {old}"));
                    }
                    (None, _) => self.differs(format!("{what} is not in the header")),
                }
            }
            for (field, _) in &theirs.fields {
                let renamed =
                    RENAMED.iter().any(|(of, _, old)| (*of, *old) == (name, field.as_str()));
                if !renamed && !known.iter().any(|known| known.name == field) {
                    let since = ours.fields.iter().find(|ours| ours.name == field);
                    let since = since
                        .map_or_else(|| "not declared".to_owned(), |ours| ours.since.to_string());
                    self.differs(format!("{name}.{field} is in the header, and here {since}"));
                }
            }
            self.same(&format!("align of {name}"), ours.align, theirs.align);
            let end = (ours.end_in)(self.version);
            self.same(&format!("size of {name}"), end.next_multiple_of(ours.align), theirs.size);
            if self.version == BOUND {
                self.same(&format!("size of {name}"), ours.size, theirs.size);
            } else if known.len() < ours.fields.len() {
                let newer = ours.fields.len() - known.len();
                let (size, end) = (theirs.size, (ours.end_in)(self.version));
                self.expected(format!(
                    "{name} lacks {newer} fields ({end} of {size} bytes are used)"
                ));
            }
        }
    }

    /// The fields of a device communicator that the host reads, in each layout.
    fn device_communicator(&mut self, header: &Header) {
        let (ours, theirs) = (DevCommShape::of(self.version), header.find("ncclDevComm_t"));
        let (Some(ours), Some(theirs)) = (ours, theirs) else {
            return self.same(
                "whether there are device communicators",
                ours.is_some(),
                theirs.is_some(),
            );
        };
        let offset = |name: &str| {
            theirs.fields.iter().find(|(theirs, _)| theirs == name).map(|(_, offset)| *offset)
        };
        self.same("size of ncclDevComm_t", ours.size, theirs.size);
        for (name, at) in [
            ("lsaMultimem", Some(ours.lsaMultimem)),
            ("lsaBarrier", Some(ours.lsaBarrier)),
            ("ginContextCount", ours.ginContextCount.map(|(at, _)| at)),
        ] {
            let shown =
                |at: Option<usize>| at.map_or_else(|| "none".to_owned(), |at| at.to_string());
            self.same(&format!("ncclDevComm_t.{name}"), shown(at), shown(offset(name)));
        }
    }

    fn values(&mut self, header: &Header) {
        self.same("NCCL_VERSION_CODE", self.version.code(), shown(header, "NCCL_VERSION_CODE"));
        for value in ours::enums().into_iter().chain(ours::constants()) {
            let name = value.name;
            let theirs = header.values.get(name);
            match (theirs, self.version.at_least(value.since)) {
                (None, false) => self.agree += 1,
                (Some(theirs), _) if COUNTS.contains(&name) && *theirs != value.value => {
                    let (version, since) = (self.version, value.since);
                    if version.at_least(since) {
                        self.differs(format!("{name}: {} here, {theirs} there", value.value));
                    } else {
                        self.expected(format!("{name} is a count, {theirs} before {since}"));
                    }
                }
                (Some(theirs), true) => self.same(name, value.value, theirs),
                (None, true) => self.differs(format!("{name} is not in the header")),
                (Some(_), false) => {
                    self.differs(format!("{name}, here since {}, is there", value.since));
                }
            }
        }
    }

    fn functions(&mut self, header: &Header, signatures: &BTreeMap<String, String>) {
        for function in Function::ALL {
            let Some(ours) = signatures.get(function.name()) else {
                self.differs(format!("{function} has no signature in the source"));
                continue;
            };
            let since = function.since();
            match (header.functions.get(function.name()), self.version.at_least(since)) {
                (Some(theirs), true) => self.same(function.name(), types(ours), types(theirs)),
                (None, false) => self.agree += 1,
                (None, true) if WINDOWS.contains(&function.name()) => {
                    self.expected(format!("{function} is declared for Windows alone"));
                }
                (None, true) => self.differs(format!("{function} is not in the header")),
                (Some(_), false) => {
                    self.differs(format!("{function}, here since {since}, is there"));
                }
            }
            // The names of arguments, if the header has all of them; older ones omit some.
            if self.version == BOUND
                && let Some(theirs) = header.functions.get(function.name())
            {
                self.same(function.name(), ours, theirs);
            }
        }
    }

    fn initials(&mut self, header: &Header) {
        for initial in ours::initials() {
            for (field, value) in initial.values {
                let name = format!("{}.{field}", initial.header.name);
                match header.made.get(&name) {
                    Some(theirs) => self.same(&format!("new() of {name}"), value, theirs),
                    None => self.differs(format!("new() of {name} has no value there")),
                }
            }
        }
    }

    /// Whether everything in the newest headers is declared.
    fn completeness(&mut self, header: &Header) {
        let structs: BTreeSet<_> =
            ours::structs().iter().map(|ours| header.tag(named(ours.name)).to_owned()).collect();
        for tag in header.tags().filter(|tag| !structs.contains(*tag)) {
            let known = NOT_OURS.contains(&tag) || tag.starts_with("ncclNet");
            if !known && tag.starts_with("nccl") {
                self.differs(format!("{tag} is in the header and not declared"));
            }
        }
        let values: BTreeSet<_> = ours::enums()
            .into_iter()
            .chain(ours::constants())
            .map(|value| value.name)
            .chain(NOT_CONSTANTS.iter().copied())
            .collect();
        let known = |name: &str| {
            values.contains(name) || NOT_OUR_VALUES.iter().any(|begin| name.starts_with(begin))
        };
        let named =
            header.enumerators.iter().filter(|name| name.to_lowercase().starts_with("nccl"));
        for name in header.macros.iter().chain(named) {
            match known(name) {
                true => self.agree += 1,
                false => self.differs(format!("{name} is in the header and not declared")),
            }
        }
        for name in header.functions.keys().filter(|name| name.starts_with("nccl")) {
            if !Function::ALL.iter().any(|function| function.name() == name) {
                self.expected(format!("{name} is declared and inline"));
            }
        }
    }
}

/// The header's name for a struct of ours that has none itself.
fn named(ours: &str) -> &str {
    match ours {
        "ncclConfigExtKey" => "ncclConfigExt__bindgen_ty_1",
        _ => ours,
    }
}

fn shown(header: &Header, name: &str) -> String {
    header.values.get(name).map_or_else(|| "nothing".to_owned(), i64::to_string)
}

/// A signature without blanks, paths of types, its last comma, and the suffixes of struct names.
fn plain(signature: &str) -> String {
    let mut plain: String = signature.split_whitespace().collect::<Vec<_>>().join(" ");
    for path in [":: std :: os :: raw ::", ":: std :: ffi ::", "::std::os::raw::", "::std::ffi::"] {
        plain = plain.replace(path, "");
    }
    let plain = plain.replace("* mut ", "*mut ").replace("* const ", "*const ");
    let plain = plain.replace("*mut ", "*mut~").replace("*const ", "*const~").replace(' ', "");
    let plain = plain.replace(",)", ")");
    plain.replace("_t,", ",").replace("_t)", ")").replace("ResourceHandle_t", "ResourceHandle")
}

/// A signature without the names of its arguments.
fn types(signature: &str) -> String {
    let Some((arguments, result)) = signature.rsplit_once(')') else {
        return signature.to_owned();
    };
    let arguments = arguments.trim_start_matches('(').split(',');
    let types: Vec<_> =
        arguments.map(|one| one.split_once(':').map_or(one, |(_, of)| of)).collect();
    format!("({}){result}", types.join(","))
}
