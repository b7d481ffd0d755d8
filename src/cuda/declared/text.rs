//! The text that is compiled: a kernel's body inside its function.

use std::fmt::Write;

use crate::DType;
use crate::compute::{Kernel, Source, SourceKind, Type};

/// The whole source of a kernel, and its name for the compiler.
pub(super) fn whole(kernel: &Kernel, source: &Source) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = match source.kind {
        SourceKind::Body => types(kernel, &mut text).and_then(|()| body(kernel, source, &mut text)),
        SourceKind::Unit => types(kernel, &mut text)
            .and_then(|()| write!(text, "#line 1 {:?}\n{}", source.file, source.text)),
        SourceKind::Ptx => text.write_str(source.text),
    };
    text
}

/// A complex type or one of the program's own among the types that C++ would have to know.
pub(super) fn plain(kernel: &Kernel, source: &Source) -> Option<DType> {
    let is_plain = |dtype: &DType| !dtype.is_primitive();
    match source.kind {
        SourceKind::Body => dtypes(kernel).find(is_plain),
        SourceKind::Unit => kernel.types.iter().map(|(_, dtype)| *dtype).find(is_plain),
        SourceKind::Ptx => None,
    }
}

/// The types of a kernel's arguments and type parameters.
fn dtypes(kernel: &Kernel) -> impl Iterator<Item = DType> {
    let parameters = kernel.parameters.iter().filter_map(|parameter| match parameter.ty {
        Type::Scalar(_, dtype) => dtype,
        Type::Read(dtype) | Type::Write(dtype) => Some(dtype),
        Type::Windowed(dtype) | Type::PartOfWindow(dtype) => Some(dtype),
        Type::Comm | Type::Barrier => None,
    });
    parameters.chain(kernel.types.iter().map(|(_, dtype)| *dtype))
}

/// Adds the element types that C++ lacks, and the kernel's type parameters.
fn types(kernel: &Kernel, text: &mut String) -> std::fmt::Result {
    let used = DType::ALL.into_iter().filter(|dtype| dtypes(kernel).any(|used| used == *dtype));
    let mut headers: Vec<_> = used.filter_map(|dtype| dtype.names().header).collect();
    // Types of one header are neighbours.
    headers.dedup();
    for header in headers {
        writeln!(text, "#include <{header}>")?;
    }
    if communicates(kernel) {
        text.write_str(DEVICE_API)?;
    }
    for (name, dtype) in kernel.types {
        writeln!(text, "typedef {} {name};", dtype.names().cuda)?;
    }
    Ok(())
}

fn body(kernel: &Kernel, source: &Source, text: &mut String) -> std::fmt::Result {
    write!(text, "extern \"C\" __global__ void {}(", kernel.name)?;
    for (nth, parameter) in kernel.parameters.iter().enumerate() {
        let name = parameter.name;
        text.write_str(if nth == 0 { "" } else { ", " })?;
        match parameter.ty {
            Type::Scalar(cuda, _) => write!(text, "{cuda} {name}")?,
            Type::Read(dtype) => {
                write!(text, "const {}* {name}, size_t {name}_len", dtype.names().cuda)?;
            }
            Type::Write(dtype) => {
                write!(text, "{}* {name}, size_t {name}_len", dtype.names().cuda)?
            }
            Type::Comm => write!(text, "const __grid_constant__ ncclDevComm {name}")?,
            Type::Barrier => write!(text, "unsigned int {name}")?,
            Type::Windowed(_) => write!(text, "ncclWindow_t {name}, size_t {name}_len")?,
            Type::PartOfWindow(_) => {
                write!(text, "ncclWindow_t {name}, size_t {name}_start, size_t {name}_len")?;
            }
        }
    }
    // Errors refer to the lines of the user's file.
    writeln!(text, ")\n{{\n#line {} {:?}\n{}\n}}", source.line, source.file, source.text)
}

/// Whether the kernel's parameters include types from NCCL's headers.
pub(super) fn communicates(kernel: &Kernel) -> bool {
    // Windows and barriers require one.
    kernel.parameters.iter().any(|parameter| matches!(parameter.ty, Type::Comm))
}

/// NCCL's device API as far as NVRTC compiles it: without GIN, whose packed bit fields it lays out
/// differently.
const DEVICE_API: &str = "\
#include <cuda/std/cstdint>
#include <cuda/std/climits>
#include <cuda/std/type_traits>
#include <cuda/std/utility>
#include <cuda/atomic>
#include <nccl_device/coop.h>
#include <nccl_device/impl/core__funcs.h>
#include <nccl_device/impl/ptr__funcs.h>
#include <nccl_device/impl/comm__funcs.h>
#include <nccl_device/impl/lsa_barrier__funcs.h>
#include <nccl_device/impl/ll_a2a__funcs.h>
";
