//! Element types. All that plans and the macros know of one is a row of the table.

use std::fmt;

use serde::{Deserialize, Serialize};
use stand_ins::{Bf16, Bool, F8E4M3, F8E5M2, F16};

/// In a row: the variant; its name in Rust; the type that represents it while a plan is built;
/// bytes; its kind. Plans are encoded by the order of rows.
macro_rules! elements {
    ($(($variant:ident, $name:literal, $type:ty, $bytes:literal, $kind:ident))+) => {
        /// The type of a buffer's elements.
        #[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        #[allow(missing_docs, reason = "the names are the types")]
        pub enum ElementType {
            $($variant,)+
            /// A type parameter of the plan, by name: equal only to itself.
            Generic(String),
        }

        impl ElementType {
            /// All but type parameters, by their names in Rust.
            pub const NAMED: [(&str, Self); [$($name),+].len()] = [$(($name, Self::$variant)),+];

            /// Bytes per element. A type parameter counts as four.
            pub const fn bytes(&self) -> u64 {
                match self {
                    $(Self::$variant => $bytes,)+
                    Self::Generic(_) => 4,
                }
            }

            /// Its kind.
            pub const fn kind(&self) -> ElementKind {
                match self {
                    $(Self::$variant => ElementKind::$kind,)+
                    Self::Generic(_) => ElementKind::Parameter,
                }
            }
        }

        impl fmt::Display for ElementType {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$variant => f.write_str(&$name.to_lowercase()),)+
                    Self::Generic(name) => f.write_str(name),
                }
            }
        }

        $(
            impl PlanElement for $type {
                fn element() -> ElementType {
                    ElementType::$variant
                }
            }
        )+
    };
}

elements! {
    (I8, "i8", i8, 1, Integer)
    (U8, "u8", u8, 1, Integer)
    (I32, "i32", i32, 4, Integer)
    (U32, "u32", u32, 4, Integer)
    (I64, "i64", i64, 8, Integer)
    (U64, "u64", u64, 8, Integer)
    (F16, "f16", F16, 2, CrateFloat)
    (Bf16, "bf16", Bf16, 2, CrateFloat)
    (F32, "f32", f32, 4, Float)
    (F64, "f64", f64, 8, Float)
    (F8E4M3, "F8E4M3", F8E4M3, 1, SmallFloat)
    (F8E5M2, "F8E5M2", F8E5M2, 1, SmallFloat)
    (I16, "i16", i16, 2, ShortInteger)
    (U16, "u16", u16, 2, ShortInteger)
    (Bool, "Bool", Bool, 1, Truth)
}

/// What distinguishes element types in plans and kernels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ElementKind {
    /// An integer of Rust.
    Integer,
    /// A floating-point type of Rust.
    Float,
    /// A floating-point type that Rust lacks.
    CrateFloat,
    /// One that this library's kernels do not compute with either.
    SmallFloat,
    /// An integer of Rust that NCCL and this library's kernels do not compute with.
    ShortInteger,
    /// A truth value, which no plan computes with.
    Truth,
    /// A type parameter.
    Parameter,
}

impl ElementType {
    /// Whether its elements can be averaged.
    pub const fn averages(&self) -> bool {
        !matches!(
            self.kind(),
            ElementKind::Integer | ElementKind::ShortInteger | ElementKind::Truth
        )
    }

    /// Whether it can be reduced. Of a type parameter only binding can tell.
    pub const fn reduces(&self) -> bool {
        !matches!(self.kind(), ElementKind::Truth)
    }

    /// Whether this library's kernels move it. A type parameter without a name stands for a type of
    /// the program, whose size they do not know.
    pub(crate) const fn is_moved_by_kernels(&self) -> bool {
        !matches!(self, Self::Generic(name) if name.is_empty())
    }

    /// Whether this library's kernels compute with it.
    pub const fn is_computed_by_kernels(&self) -> bool {
        !matches!(
            self.kind(),
            ElementKind::SmallFloat | ElementKind::ShortInteger | ElementKind::Truth
        )
    }
}

/// A type that represents an element type.
///
/// Rust types that NCCL supports represent themselves; [`F16`], [`Bf16`], [`F8E4M3`], [`F8E5M2`]
/// and [`Bool`] represent types that Rust lacks. A generic plan uses [`Generic`], or a type of its
/// own for each of its type parameters:
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
    note = "these are: i8, u8, i16, u16, i32, u32, i64, u64, f32, f64, `F16`, `Bf16`, `F8E4M3`, `F8E5M2`, `Bool` and `Generic`"
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
///
/// ```
/// use typed_nccl_plan::build::{Generic, PlanBuilder};
///
/// let mut plan = PlanBuilder::new("any type");
/// plan.ranks(1..);
/// let x = plan.in_out::<Generic>("x", 4); // its type is given when the plan is bound
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Generic;

/// Types that represent those which Rust lacks.
pub mod stand_ins {
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

    /// A truth value of one byte, which may be any.
    #[derive(Clone, Copy, Debug)]
    pub struct Bool;
}

impl PlanElement for Generic {
    fn element() -> ElementType {
        ElementType::Generic("T".into())
    }
}
