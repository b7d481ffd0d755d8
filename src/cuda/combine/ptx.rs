//! The PTX of the kernels. An element is read and written as conversions do, and accumulates in
//! that register: integers in 64 bits, of which the low ones are stored, floats of up to 32 bits in
//! an `f32`. That is also how the host backend computes.

use crate::cuda::convert::ptx::{In, lines, read, write};
use crate::{DType, ReductionName};

/// A kernel that reduces `count` elements of this many regions.
pub(super) fn text(by: ReductionName, dtype: DType, regions: usize) -> String {
    let size = dtype.size();
    let numbers = || 0..regions;
    let params: String = numbers().map(|nth| format!(", .param .u64 from{nth}")).collect();
    let registers: String = numbers().map(|nth| format!(", %from{nth}")).collect();
    let loads: String =
        numbers().map(|nth| format!("    ld.param.u64 %from{nth}, [from{nth}];\n")).collect();
    let (load, value) = read(dtype);
    let (register, acc) = registers_of(value);
    let parts: String = numbers()
        .map(|nth| {
            let combine = match nth {
                0 => format!("mov.b{} {acc}, {register}", bits(value)),
                _ => operation(by, value),
            };
            lines(&[&format!("add.u64 %x, %y, %from{nth}")]) + &load + &lines(&[&combine])
        })
        .collect();
    let end = match (by, value) {
        (ReductionName::Mean, In::Single) => {
            format!("div.rn.f32 {register}, {acc}, 0f{:08X}", (regions as f32).to_bits())
        }
        (ReductionName::Mean, In::Double) => {
            format!("div.rn.f64 {register}, {acc}, 0d{:016X}", (regions as f64).to_bits())
        }
        _ => format!("mov.b{} {register}, {acc}", bits(value)),
    };
    let (end, write) = (lines(&[&end]), write(value, dtype));
    format!(
        "
.version 7.0
.target sm_50
.address_size 64

.visible .entry combine(.param .u64 to, .param .u64 count{params})
{{
    .reg .pred %p, %q;
    .reg .b16 %h;
    .reg .b32 %block, %width, %blocks, %thread, %f, %u, %a, %b, %c, %s, %sum;
    .reg .b64 %to, %count, %i, %step, %x, %y, %w, %v, %d, %e, %total{registers};
    ld.param.u64 %to, [to];
    ld.param.u64 %count, [count];
{loads}    mov.u32 %block, %ctaid.x;
    mov.u32 %blocks, %nctaid.x;
    mov.u32 %width, %ntid.x;
    mov.u32 %thread, %tid.x;
    mul.wide.u32 %step, %blocks, %width;
    mul.wide.u32 %i, %block, %width;
    cvt.u64.u32 %x, %thread;
    add.u64 %i, %i, %x;
NEXT:
    setp.ge.u64 %p, %i, %count;
    @%p bra END;
    mul.lo.u64 %y, %i, {size};
{parts}{end}    add.u64 %y, %y, %to;
{write}    add.u64 %i, %i, %step;
    bra NEXT;
END:
    ret;
}}
"
    )
}

/// The register of an element, and that of its reduction.
fn registers_of(value: In) -> (&'static str, &'static str) {
    match value {
        In::Signed | In::Unsigned => ("%w", "%total"),
        In::Single => ("%f", "%sum"),
        In::Double => ("%d", "%total"),
    }
}

fn bits(value: In) -> u32 {
    if value == In::Single { 32 } else { 64 }
}

/// Adds an element to the reduction. Sums and products of floats are rounded one by one, since
/// `.rn` keeps the driver from fusing them.
fn operation(by: ReductionName, value: In) -> String {
    let (register, acc) = registers_of(value);
    let instruction = match (by, value) {
        (ReductionName::Multiply, In::Signed | In::Unsigned) => "mul.lo.s64",
        (ReductionName::Multiply, In::Single) => "mul.rn.f32",
        (ReductionName::Multiply, In::Double) => "mul.rn.f64",
        (ReductionName::Least, In::Signed) => "min.s64",
        (ReductionName::Least, In::Unsigned) => "min.u64",
        (ReductionName::Least, In::Single) => "min.f32",
        (ReductionName::Least, In::Double) => "min.f64",
        (ReductionName::Greatest, In::Signed) => "max.s64",
        (ReductionName::Greatest, In::Unsigned) => "max.u64",
        (ReductionName::Greatest, In::Single) => "max.f32",
        (ReductionName::Greatest, In::Double) => "max.f64",
        (_, In::Signed | In::Unsigned) => "add.s64",
        (_, In::Single) => "add.rn.f32",
        (_, In::Double) => "add.rn.f64",
    };
    format!("{instruction} {acc}, {acc}, {register}")
}
