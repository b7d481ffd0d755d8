//! Rust types that determine the elements of a plan's buffers.

use crate::ir::ElementType;

/// A type that represents an element type.
///
/// Rust types that NCCL supports represent themselves; [`F16`], [`Bf16`], [`F8E4M3`] and [`F8E5M2`]
/// represent types that Rust lacks. A generic plan uses [`Generic`], or a type of its own for each
/// of its type parameters:
///
/// ```
/// use typed_nccl_plan::build::PlanElement;
/// use typed_nccl_plan::ir::ElementType;
///
/// #[derive(Clone, Copy)]
/// struct Weight;
///
/// impl PlanElement for Weight {
///     fn element() -> ElementType {
///         ElementType::Generic("Weight".into())
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an element type that a plan moves",
    label = "not an element of a plan",
    note = "these are: i8, u8, i32, u32, i64, u64, f32, f64, `F16`, `Bf16`, `F8E4M3`, `F8E5M2` and `Generic`"
)]
pub trait PlanElement: 'static {
    /// The element type in the plan.
    fn element() -> ElementType;
}

/// Requires equal element types on both ends: implemented for every type and itself.
#[diagnostic::on_unimplemented(
    message = "this end holds `{Self}`, the other `{A}`",
    label = "both ends of an operation hold one type of elements",
    note = "NCCL moves bytes and converts nothing: give both buffers one element type"
)]
pub trait SameElement<A: PlanElement>: PlanElement {}

impl<T: PlanElement> SameElement<T> for T {}

/// The type parameter `T` of a plan: equal only to itself.
#[derive(Clone, Copy, Debug)]
pub struct Generic;

/// Half precision.
#[derive(Clone, Copy, Debug)]
pub struct F16;

/// Brain floating point.
#[derive(Clone, Copy, Debug)]
pub struct Bf16;

/// Eight bits, with an exponent of four.
#[derive(Clone, Copy, Debug)]
pub struct F8E4M3;

/// Eight bits, with an exponent of five.
#[derive(Clone, Copy, Debug)]
pub struct F8E5M2;

macro_rules! elements {
    ($($type:ty => $element:expr;)+) => {$(
        impl PlanElement for $type {
            fn element() -> ElementType {
                $element
            }
        }
    )+};
}

elements! {
    i8 => ElementType::I8;
    u8 => ElementType::U8;
    i32 => ElementType::I32;
    u32 => ElementType::U32;
    i64 => ElementType::I64;
    u64 => ElementType::U64;
    f32 => ElementType::F32;
    f64 => ElementType::F64;
    F16 => ElementType::F16;
    Bf16 => ElementType::Bf16;
    F8E4M3 => ElementType::F8E4M3;
    F8E5M2 => ElementType::F8E5M2;
    Generic => ElementType::Generic("T".into());
}
