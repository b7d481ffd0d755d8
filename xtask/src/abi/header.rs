//! A release's headers, parsed by bindgen: layouts, values, signatures.
//!
//! The headers include CUDA's. They need only a few names from those, which are defined here; the
//! layouts in question do not depend on them. Macros have no type, so a constant of the probe takes
//! the value of each.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::panic;
use std::path::Path;

use crate::wheels::Wheel;
use crate::{Check, Failure, target};

/// Stand-ins for CUDA's headers.
const STUBS: &[(&str, &str)] = &[
    (
        "cuda_runtime.h",
        "#pragma once\n#include <stddef.h>\n#include <stdint.h>\n\
         #define CUDART_VERSION 12000\n#define __host__\n#define __device__\n#define __global__\n\
         typedef struct CUstream_st* cudaStream_t;\ntypedef struct CUevent_st* cudaEvent_t;\n",
    ),
    ("cuda.h", "#pragma once\ntypedef enum { CU_MEM_LOCATION_TYPE_STUB = 0 } CUmemLocationType;\n"),
    ("cuda_fp16.h", "#pragma once\n"),
    ("cuda_bf16.h", "#pragma once\n#define __CUDA_BF16_TYPES_EXIST__ 1\n"),
    ("cuda_fp8.h", "#pragma once\n#define __CUDA_FP8_TYPES_EXIST__ 1\n"),
];

/// The prefix of the probe's constants.
const PROBE: &str = "abi_value_of_";
/// The prefix of variables that an initialiser sets.
const MADE: &str = "abi_made_";

const LIBCLANG: &str = "bindgen finds no libclang: install it (Debian: apt-get install libclang-dev), \
                        or set LIBCLANG_PATH to the folder of libclang.so";

const HEADERS: &str = "where stddef.h is not found, clang's own headers are missing: install them \
                       (Debian: apt-get install libclang-dev)";

/// A struct as a header declares it.
#[derive(Debug, Default)]
pub(super) struct Struct {
    pub(super) size: usize,
    pub(super) align: usize,
    /// Names and offsets.
    pub(super) fields: Vec<(String, usize)>,
}

/// The declarations of a release's headers.
#[derive(Default)]
pub(super) struct Header {
    structs: BTreeMap<String, Struct>,
    aliases: BTreeMap<String, String>,
    /// Values of enums and of the requested macros.
    pub(super) values: BTreeMap<String, i64>,
    /// The names of enum values.
    pub(super) enumerators: BTreeSet<String>,
    /// Values of fields after an initialiser, as `struct.field`.
    pub(super) made: BTreeMap<String, i64>,
    /// Argument names and types, and the type of the result, without blanks.
    pub(super) functions: BTreeMap<String, String>,
    /// Macros of `nccl.h` that have a value.
    pub(super) macros: Vec<String>,
}

/// A struct's initialiser, and the fields whose values are requested.
pub(super) struct Made {
    pub(super) name: &'static str,
    pub(super) initializer: &'static str,
    pub(super) fields: Vec<&'static str>,
}

impl Header {
    pub(super) fn read(wheel: &Wheel, macros: &[&str], made: &[Made]) -> Check<Self> {
        let include = wheel.include();
        let own = target().join("nccl-abi").join(wheel.version.to_string());
        let probe = own.join("probe.h");
        let failed = |error: io::Error| {
            Failure::NotMade(format!("{} cannot be written: {error}", own.display()))
        };
        fs::create_dir_all(&own).map_err(failed)?;
        for (name, text) in STUBS {
            fs::write(own.join(name), text).map_err(failed)?;
        }
        fs::write(&probe, text(&include, macros, made)).map_err(failed)?;

        // bindgen panics without libclang; there is no other way to find out.
        let bindings = panic::catch_unwind(|| {
            bindgen::Builder::default()
                .header(probe.to_string_lossy())
                .clang_args(["-x", "c++", "-std=c++17", "-DNCCL_OS_LINUX", "-isystem"])
                .clang_arg(own.to_string_lossy())
                .clang_arg("-isystem")
                .clang_arg(include.to_string_lossy())
                .allowlist_item("nccl.*|NCCL_.*|abi_.*")
                .prepend_enum_name(false)
                .formatter(bindgen::Formatter::None)
                .generate()
        });
        let bindings = match bindings {
            Ok(Ok(bindings)) => bindings.to_string(),
            Ok(Err(error)) => {
                let what = format!("the headers of {} are not understood", wheel.version);
                return Err(Failure::NotMade(format!("{what}: {error}\n{HEADERS}")));
            }
            Err(_) => return Err(Failure::NotMade(LIBCLANG.to_owned())),
        };
        let mut header = parse(&bindings);
        let nccl_h = fs::read_to_string(include.join("nccl.h"))
            .map_err(|error| Failure::NotMade(format!("no nccl.h: {error}")))?;
        header.macros = defined(&nccl_h);
        Ok(header)
    }

    /// A struct by any of its names.
    pub(super) fn find(&self, name: &str) -> Option<&Struct> {
        self.structs.get(self.tag(name))
    }

    /// The name in a struct's declaration.
    pub(super) fn tag<'a>(&'a self, mut name: &'a str) -> &'a str {
        while let Some(aliased) = self.aliases.get(name) {
            name = aliased;
        }
        name
    }

    /// The structs, by the names in their declarations.
    pub(super) fn tags(&self) -> impl Iterator<Item = &str> {
        self.structs.keys().map(String::as_str)
    }
}

/// A header that includes NCCL's, and captures the value of each macro that exists.
fn text(include: &Path, macros: &[&str], made: &[Made]) -> String {
    let mut text = String::from("#include <nccl.h>\n");
    for device in [
        "nccl_device/host.h",
        "nccl_device/impl/comm__types.h",
        "nccl_device/lsa_barrier.h",
        "nccl_device/gin_barrier.h",
        "nccl_device/cft_barrier.h",
        "nccl_device/ll_a2a.h",
    ] {
        if include.join(device).is_file() {
            text += &format!("#include <{device}>\n");
        }
    }
    // Writing to a string cannot fail.
    for name in macros {
        let _ = writeln!(
            text,
            "#ifdef {name}\nstatic const long long {PROBE}{name} = (long long)({name});\n#endif"
        );
    }
    for Made { name, initializer, fields } in made {
        let _ = writeln!(text, "#ifdef {initializer}");
        let _ = writeln!(text, "static constexpr {name} {MADE}{name} = {initializer};");
        for field in fields {
            let _ = writeln!(
                text,
                "static const long long {MADE}{name}__{field} = (long long)({MADE}{name}.{field});"
            );
        }
        let _ = writeln!(text, "#endif");
    }
    text
}

/// The macros of a header with a value and without arguments.
fn defined(text: &str) -> Vec<String> {
    let macros = text.lines().filter_map(|line| line.trim_start().strip_prefix("#define "));
    let valued = macros.filter_map(|rest| rest.split_once(' '));
    valued
        .filter(|(name, value)| {
            name.starts_with("NCCL_") && !name.contains('(') && !value.is_empty()
        })
        .map(|(name, _)| name.to_owned())
        .collect()
}

/// bindgen's output is a program whose relevant parts have a fixed form.
fn parse(bindings: &str) -> Header {
    let mut header = Header::default();
    layouts(bindings, &mut header);
    for item in bindings.split("pub type ").skip(1) {
        if let Some((name, rest)) = item.split_once('=')
            && let Some((aliased, _)) = rest.split_once(';')
        {
            let aliased = aliased.trim();
            if is_name(aliased) {
                header.aliases.insert(name.trim().to_owned(), aliased.to_owned());
            }
        }
    }
    for item in bindings.split("pub const ").skip(1) {
        let Some((name, rest)) = item.split_once(':') else { continue };
        let Some((of, rest)) = rest.split_once('=') else { continue };
        let Some((value, _)) = rest.split_once(';') else { continue };
        let Ok(value) = value.replace(' ', "").parse::<i64>() else { continue };
        let name = name.trim();
        if let Some(name) = name.strip_prefix(PROBE) {
            header.values.insert(name.to_owned(), value);
        } else if let Some(name) = name.strip_prefix(MADE) {
            header.made.insert(name.replacen("__", ".", 1), value);
        } else {
            header.values.entry(name.to_owned()).or_insert(value);
            // bindgen gives a macro an integer's type, and an enum's value the enum's.
            if !["u32", "i32", "u64", "i64"].contains(&of.trim()) {
                header.enumerators.insert(name.to_owned());
            }
        }
    }
    for item in bindings.split("pub fn ").skip(1) {
        let Some((name, rest)) = item.split_once('(') else { continue };
        let Some((signature, _)) = rest.split_once(';') else { continue };
        header.functions.insert(name.trim().to_owned(), super::plain(&format!("({signature}")));
    }
    header
}

/// The assertions `["Size of X"][.. - 8usize]`, `["Alignment of X"]`, `["Offset of field: X::y"]`.
fn layouts(bindings: &str, header: &mut Header) {
    for item in bindings.split("[\"").skip(1) {
        let Some((label, rest)) = item.split_once("\"]") else { continue };
        let Some((number, _)) = rest.split_once("usize") else { continue };
        let Some((_, number)) = number.rsplit_once("- ") else { continue };
        let Ok(number) = number.trim().parse() else { continue };
        if let Some(name) = label.strip_prefix("Size of ") {
            header.structs.entry(name.to_owned()).or_default().size = number;
        } else if let Some(name) = label.strip_prefix("Alignment of ") {
            header.structs.entry(name.to_owned()).or_default().align = number;
        } else if let Some(name) = label.strip_prefix("Offset of field: ")
            && let Some((name, field)) = name.split_once("::")
        {
            let fields = &mut header.structs.entry(name.to_owned()).or_default().fields;
            fields.push((field.to_owned(), number));
        }
    }
}

fn is_name(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}
