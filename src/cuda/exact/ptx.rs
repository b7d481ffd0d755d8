//! The PTX of the kernels that add exactly.
//!
//! An element is added in two `f64`, whose own errors are exact; what was lost beyond them is
//! noted. Floats of which an `f64` holds every sum need one. Where that does not decide, the sum is
//! made digit by digit, of 32 bits each, from the least: so no thread needs memory of its own, for
//! which a driver may wait until the GPU is idle. `.rn` keeps the driver from fusing operations.

use crate::DType;
use crate::cuda::convert::ptx::{In, lines, read, write};
use crate::cuda::elementwise::{HEADER, entry};

/// The most contributions: sums of so many `f16` fit into an `f64`.
pub(crate) const MOST_RANKS: usize = 8192;

/// The kernels of these types, named like them.
pub(super) fn text(dtypes: &[DType]) -> String {
    let params = ["to", "count", "own", "others", "number", "stride", "by"].map(str::to_owned);
    let kernel = |dtype: &DType| entry(&dtype.to_string(), &params, MORE, &body(*dtype));
    [HEADER.to_owned()].into_iter().chain(dtypes.iter().map(kernel)).collect()
}

/// Registers of 64 bits beside those of all kernels.
const MORE: &str = ", %divisor, %first, %second, %next, %j, %rest, %lost, %t, %part, %low, %high, \
    %digit, %bit, %acc, %carry, %sign, %top, %w2, %w1, %w0, %r3, %r2, %r1, %below, %sticky, %where, %m";

/// The sum of one element, from its addresses to its store.
fn body(dtype: DType) -> String {
    let size = dtype.size();
    let addresses = lines(&[
        "cvt.rn.f64.u64 %divisor, %by",
        &format!("mul.lo.u64 %y, %i, {size}"),
        "add.u64 %first, %y, %own",
        "add.u64 %second, %y, %others",
        "add.u64 %y, %y, %to",
    ]);
    let is_short = matches!(dtype, DType::F16 | DType::F8E4M3 | DType::F8E5M2);
    let quick = match (is_short, dtype) {
        (true, _) => short(dtype),
        (false, DType::F64) => pairs(dtype) + &rounded_to_double(),
        (false, _) => pairs(dtype) + &rounded_to_odd(),
    };
    let slow = if is_short { String::new() } else { digits(dtype) };
    // One bit pattern, also where the GPU's arithmetic makes another.
    let special = "SPECIAL:
    mov.b64 %d, %total;
    setp.nan.f64 %q, %d, %d;
    @%q bra NAN;
WRITE:
";
    let nan = format!(
        "    bra DONE;
NAN:
    mov.u64 %w, {};
    st.global.u{} [%y], %w;
DONE:
",
        nan(dtype),
        8 * size
    );
    let write = write(In::Double, dtype);
    [&*addresses, &quick, &slow, special, &write, &nan].concat()
}

/// The bits of NaN, which are the host's.
fn nan(dtype: DType) -> u64 {
    match dtype {
        DType::F16 => 0x7e00,
        DType::Bf16 => 0x7fc0,
        DType::F32 => f32::NAN.to_bits().into(),
        DType::F8E4M3 | DType::F8E5M2 => 0x7f,
        _ => f64::NAN.to_bits(),
    }
}

/// The exponent of infinities and NaN.
const EXPONENT: u64 = f64::INFINITY.to_bits();

/// Reads the element at `%x` into `%d`.
fn load(dtype: DType) -> String {
    let (load, value) = read(dtype);
    match value {
        In::Double => load,
        _ => load + &lines(&["cvt.f64.f32 %d, %f"]),
    }
}

/// Runs `each` for the contributions in `%d`.
fn all(dtype: DType, label: &str, each: &str) -> String {
    let begin = lines(&["mov.b64 %x, %first", "mov.b64 %next, %second", "mov.u64 %j, 0"]);
    let end = [
        "mov.b64 %x, %next",
        "add.u64 %next, %next, %stride",
        "add.u64 %j, %j, 1",
        "setp.ge.u64 %q, %number, %j",
        &format!("@%q bra {label}"),
    ];
    [begin, format!("{label}:\n"), load(dtype), each.to_owned(), lines(&end)].concat()
}

/// Runs `each` for the contributions in `%d` after the first one, which becomes `%total`.
fn after_the_first(dtype: DType, each: &str) -> String {
    let first = lines(&["mov.b64 %x, %first"]) + &load(dtype);
    let begin = lines(&["mov.b64 %total, %d", "mov.b64 %x, %second", "mov.u64 %j, 0"]);
    let test = "ADD:
    setp.ge.u64 %q, %j, %number;
    @%q bra ADDED;
";
    let end = "    add.u64 %x, %x, %stride;
    add.u64 %j, %j, 1;
    bra ADD;
ADDED:
";
    [&first, &begin, test, &load(dtype), each, end].concat()
}

/// Replaces `a` by the nearest number to `a + b`, and `error` by what that lacks.
fn two_sum(a: &str, b: &str, error: &str) -> String {
    lines(&[
        &format!("add.rn.f64 %t, {a}, {b}"),
        &format!("sub.rn.f64 %part, %t, {a}"),
        "sub.rn.f64 %v, %t, %part",
        &format!("sub.rn.f64 %v, {a}, %v"),
        &format!("sub.rn.f64 %part, {b}, %part"),
        &format!("add.rn.f64 {error}, %v, %part"),
        &format!("mov.b64 {a}, %t"),
    ])
}

/// Goes to `label` if the number is zero of either sign.
fn if_zero(register: &str, label: &str) -> String {
    lines(&[
        &format!("shl.b64 %v, {register}, 1"),
        "setp.eq.u64 %q, %v, 0",
        &format!("@%q bra {label}"),
    ])
}

/// Goes to `label` if `%total` is infinite or NaN.
fn if_special(label: &str) -> String {
    lines(&[
        &format!("and.b64 %v, %total, {EXPONENT}"),
        &format!("setp.eq.u64 %q, %v, {EXPONENT}"),
        &format!("@%q bra {label}"),
    ])
}

/// Goes to `label` if there is nothing to divide by.
fn if_sum(label: &str) -> String {
    lines(&["setp.eq.u64 %q, %by, 1", &format!("@%q bra {label}")])
}

/// A sum that an `f64` holds.
fn short(dtype: DType) -> String {
    let add = lines(&["add.rn.f64 %total, %total, %d"]);
    after_the_first(dtype, &add) + &if_special("SPECIAL") + &one()
}

/// A sum in `%total` and `%rest`; what does not fit is noted in `%lost`.
fn pairs(dtype: DType) -> String {
    let add = [two_sum("%total", "%d", "%e"), two_sum("%rest", "%e", "%v")].concat();
    let note = lines(&["shl.b64 %v, %v, 1", "or.b64 %lost, %lost, %v"]);
    let begin = lines(&["mov.u64 %rest, 0", "mov.u64 %lost, 0"]);
    begin + &after_the_first(dtype, &(add + &note))
}

/// The value of a sum that `%total` holds, with an odd last bit if a quotient is inexact.
fn one() -> String {
    let divide = "    div.rn.f64 %d, %total, %divisor;
    xor.b64 %v, %total, 9223372036854775808;
    fma.rn.f64 %e, %d, %divisor, %v;
";
    let begin = lines(&["mov.b64 %d, %total"]) + &if_sum("WRITE");
    let odd = "    and.b64 %v, %d, 1;
    setp.eq.u64 %q, %v, 1;
    @%q bra WRITE;
    xor.b64 %v, %e, %d;
    shr.u64 %v, %v, 63;
    shl.b64 %v, %v, 1;
    sub.u64 %d, %d, 1;
    add.u64 %d, %d, %v;
    bra WRITE;
";
    [&begin, divide, &if_zero("%e", "WRITE"), odd].concat()
}

/// The value of `%total` and `%rest` for a narrower type: with an odd last bit if it is inexact.
fn rounded_to_odd() -> String {
    let is_lost = lines(&["setp.ne.u64 %q, %lost, 0", "@%q bra SLOW"]);
    let odd = "    and.b64 %v, %total, 1;
    setp.eq.u64 %q, %v, 1;
    @%q bra ODD;
    xor.b64 %v, %e, %total;
    shr.u64 %v, %v, 63;
    shl.b64 %v, %v, 1;
    add.u64 %total, %total, 1;
    sub.u64 %total, %total, %v;
ODD:
    mov.b64 %d, %total;
";
    // The quotient is wrong by three of its last places at most. Where an f32 or a bf16 begins to
    // round to another one, the last 28 bits are 0.
    let divide = "    div.rn.f64 %d, %total, %divisor;
    and.b64 %v, %d, 268435455;
    sub.u64 %v, %v, 8;
    setp.ge.u64 %q, %v, 268435440;
    @%q bra SLOW;
    bra WRITE;
";
    [
        &if_special("SPECIAL"),
        &is_lost,
        &if_zero("%rest", "ONE"),
        &two_sum("%total", "%rest", "%e"),
        &if_zero("%e", "ONE"),
        odd,
        &if_sum("WRITE"),
        divide,
        "ONE:\n",
        &one(),
    ]
    .concat()
}

/// The value of `%total` and `%rest`, rounded to nearest. Partial sums may be infinite where the
/// sum is not.
fn rounded_to_double() -> String {
    let is_lost = lines(&["setp.ne.u64 %q, %lost, 0", "@%q bra SLOW"]);
    // Division by a power of two is exact, unless the quotient is subnormal.
    let power = format!(
        "    mov.b64 %d, %total;
{}{}    sub.u64 %v, %by, 1;
    and.b64 %v, %v, %by;
    setp.ne.u64 %q, %v, 0;
    @%q bra SLOW;
    mul.rn.f64 %w, %divisor, 0d{:016X};
    and.b64 %v, %total, 9223372036854775807;
    setp.ge.u64 %q, %v, %w;
    @%q bra ONE;
    bra SLOW;
",
        if_sum("WRITE"),
        if_special("SLOW"),
        f64::MIN_POSITIVE.to_bits(),
    );
    let one = "ONE:
    div.rn.f64 %d, %total, %divisor;
    bra WRITE;
";
    [
        &if_special("SLOW"),
        &is_lost,
        &if_zero("%rest", "ONE"),
        &two_sum("%total", "%rest", "%e"),
        &if_zero("%e", "ONE"),
        &power,
        one,
    ]
    .concat()
}

/// The sum in digits of 32 bits, of which the least is 64 bits below the least `f64`, for
/// quotients. The digits of a negative sum are made again, negated.
fn digits(dtype: DType) -> String {
    // The range of digits that are not zero, and the sum of what is not finite.
    let range = format!(
        "{}    shr.u64 %v, %d, 52;
    and.b64 %v, %v, 2047;
    setp.eq.u64 %q, %v, 2047;
    @%q bra RANGE_SPECIAL;
    max.u64 %v, %v, 1;
    add.u64 %v, %v, 63;
    min.u64 %low, %low, %v;
    max.u64 %high, %high, %v;
    bra RANGE_NEXT;
RANGE_SPECIAL:
    add.rn.f64 %total, %total, %d;
RANGE_NEXT:
",
        if_zero("%d", "RANGE_NEXT")
    );
    let begin = lines(&["mov.u64 %low, 2176", "mov.u64 %high, 0", "mov.u64 %total, 0"]);
    // A contribution reaches into three digits, and the count and the carries into one more.
    let limits = lines(&[
        "shr.u64 %low, %low, 5",
        "shr.u64 %high, %high, 5",
        "add.u64 %high, %high, 4",
        "mov.u64 %sign, 0",
    ]);
    [
        "SLOW:\n",
        &begin,
        &all(dtype, "RANGE", &range),
        &if_special("SPECIAL"),
        &limits,
        PASS,
        &all(dtype, "DIGIT_OF", PART),
        ROLL,
        DIVIDE,
        KEEP,
        if dtype == DType::F64 { NEAREST } else { ODD },
        JOIN,
    ]
    .concat()
}

/// Begins a pass over the digits, and each digit.
const PASS: &str = "PASS:
    mov.u64 %carry, 0;
    mov.u64 %top, 0;
    mov.u64 %w2, 0;
    mov.u64 %w1, 0;
    mov.u64 %w0, 0;
    mov.u64 %r3, 0;
    mov.u64 %r2, 0;
    mov.u64 %r1, 0;
    mov.u64 %below, 0;
    mov.u64 %sticky, 0;
    mov.u64 %where, 2;
    mov.b64 %digit, %low;
DIGIT:
    setp.ge.u64 %q, %digit, %high;
    @%q bra DIGITS;
    shl.b64 %bit, %digit, 5;
    mov.b64 %acc, %carry;
";

/// Adds the part of a contribution that is in a digit. Shifts by 64 and more, also those that are
/// negative, leave nothing.
const PART: &str = "    shr.u64 %v, %d, 52;
    and.b64 %v, %v, 2047;
    and.b64 %m, %d, 4503599627370495;
    setp.ne.u64 %q, %v, 0;
    @%q or.b64 %m, %m, 4503599627370496;
    max.u64 %v, %v, 1;
    add.u64 %v, %v, 63;
    sub.u64 %v, %bit, %v;
    cvt.u32.u64 %a, %v;
    sub.u32 %b, 0, %a;
    shr.u64 %w, %m, %a;
    shl.b64 %m, %m, %b;
    or.b64 %w, %w, %m;
    and.b64 %w, %w, 4294967295;
    shr.u64 %v, %d, 63;
    setp.ne.u64 %q, %v, %sign;
    @%q sub.u64 %w, 0, %w;
    add.u64 %acc, %acc, %w;
";

/// Ends a digit, and a pass. The leading digits are those at the last one that is not zero.
const ROLL: &str = "    and.b64 %w, %acc, 4294967295;
    shr.s64 %carry, %acc, 32;
    setp.ne.u64 %q, %w, 0;
    @%q mov.b64 %top, %w;
    @%q mov.b64 %w2, %r1;
    @%q mov.b64 %w1, %r2;
    @%q mov.b64 %w0, %r3;
    @%q mov.b64 %sticky, %below;
    @%q mov.b64 %where, %digit;
    or.b64 %below, %below, %r3;
    mov.b64 %r3, %r2;
    mov.b64 %r2, %r1;
    mov.b64 %r1, %w;
    add.u64 %digit, %digit, 1;
    bra DIGIT;
DIGITS:
    shr.u64 %v, %carry, 63;
    setp.ne.u64 %q, %v, 0;
    @%q mov.u64 %sign, 1;
    @%q bra PASS;
    mov.u64 %d, 0;
    setp.eq.u64 %q, %top, 0;
    @%q bra WRITE;
";

/// Divides the leading digits: the quotient is `%top` and `%w1`, whatever is less in `%sticky`.
const DIVIDE: &str = "    rem.u64 %v, %top, %by;
    div.u64 %top, %top, %by;
    shl.b64 %v, %v, 32;
    or.b64 %w2, %w2, %v;
    rem.u64 %v, %w2, %by;
    div.u64 %w2, %w2, %by;
    shl.b64 %top, %top, 32;
    or.b64 %top, %top, %w2;
    shl.b64 %v, %v, 32;
    or.b64 %w1, %w1, %v;
    rem.u64 %v, %w1, %by;
    div.u64 %w1, %w1, %by;
    shl.b64 %v, %v, 32;
    or.b64 %w0, %w0, %v;
    rem.u64 %v, %w0, %by;
    div.u64 %w0, %w0, %by;
    shl.b64 %w1, %w1, 32;
    or.b64 %w1, %w1, %w0;
    or.b64 %sticky, %sticky, %v;
";

/// Keeps 53 bits, or those of a subnormal number, and the one below in `%w`; the place of the last
/// one that is kept is `%where`.
const KEEP: &str = "    clz.b64 %a, %top;
    cvt.u64.u32 %v, %a;
    sub.u64 %v, 75, %v;
    shl.b64 %w, %where, 5;
    sub.u64 %w, 160, %w;
    max.s64 %v, %v, %w;
    sub.u64 %where, %v, %w;
    cvt.u32.u64 %a, %v;
    sub.u32 %a, %a, 1;
    sub.u32 %b, 64, %a;
    sub.u32 %c, %a, 64;
    shr.u64 %w, %w1, %a;
    shl.b64 %m, %top, %b;
    or.b64 %w, %w, %m;
    shr.u64 %m, %top, %c;
    or.b64 %w, %w, %m;
    shl.b64 %m, %w, %a;
    xor.b64 %m, %m, %w1;
    or.b64 %sticky, %sticky, %m;
    shr.u64 %m, %w, %b;
    shl.b64 %v, %w, %c;
    or.b64 %m, %m, %v;
    xor.b64 %m, %m, %top;
    or.b64 %sticky, %sticky, %m;
    and.b64 %m, %w, 1;
    shr.u64 %w, %w, 1;
";

/// Rounds to nearest, ties to even: `%m` is the bit below.
const NEAREST: &str = "    setp.ne.u64 %q, %sticky, 0;
    @%q mov.u64 %sticky, 1;
    or.b64 %sticky, %sticky, %w;
    and.b64 %m, %m, %sticky;
    add.u64 %w, %w, %m;
";

/// Sets the last bit if something is below.
const ODD: &str = "    or.b64 %sticky, %sticky, %m;
    setp.ne.u64 %q, %sticky, 0;
    @%q or.b64 %w, %w, 1;
";

/// The number of these bits at this place.
const JOIN: &str = "    shl.b64 %where, %where, 52;
    add.u64 %w, %w, %where;
    min.u64 %w, %w, 9218868437227405312;
    shl.b64 %sign, %sign, 63;
    or.b64 %d, %w, %sign;
    bra WRITE;
";

#[cfg(test)]
mod tests {
    use super::text;
    use crate::cuda::exact::FLOATS;

    /// Prints the text, for an assembler:
    /// `cargo test -p typed-nccl --lib exact::ptx -- --nocapture`.
    #[test]
    fn each_type_has_a_kernel() {
        let text = text(&FLOATS);
        println!("{text}");
        for dtype in FLOATS {
            assert!(text.contains(&format!(".entry {dtype}(")), "{dtype}");
        }
        assert!(!text.contains(".local"), "a driver may wait until the GPU is idle");
    }
}
