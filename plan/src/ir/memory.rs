//! What a plan moves: buffers, windows, and the parts of them that a step touches.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{BufferId, Expr, Location, LoopId};

/// The type of a buffer's elements.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names are the types")]
pub enum ElementType {
    I8,
    U8,
    I32,
    U32,
    I64,
    U64,
    F16,
    Bf16,
    F32,
    F64,
    F8E4M3,
    F8E5M2,
    /// A type parameter of the plan, by its name: equal to itself alone.
    Generic(String),
}

/// What a buffer is to the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The caller fills it; the plan only reads.
    In,
    /// The plan fills it.
    Out,
    /// The caller fills it, the plan reads and writes.
    InOut,
    /// The plan's own: its content is unspecified when a run begins.
    Local,
}

impl Role {
    /// What the language calls it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::In => "in",
            Self::Out => "out",
            Self::InOut => "inout",
            Self::Local => "local",
        }
    }
}

/// Memory that the plan names. Every rank has its own, of the same length.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Buffer {
    /// What the plan calls it.
    pub name: String,
    /// The type of its elements.
    pub element: ElementType,
    /// How many elements it has. Mentions no rank; in an array, [`Array::index`] may be mentioned.
    pub len: Expr,
    /// For an array of buffers: how many.
    #[serde(default)]
    pub array: Option<Array>,
    /// What it is to the caller.
    pub role: Role,
    /// Whether it is a symmetric window: the memory that puts read and write.
    #[serde(default)]
    pub window: bool,
    /// 1, or 2 for a buffer whose two copies swap with every run of the plan.
    #[serde(default = "one")]
    pub copies: u8,
    /// Where it is declared.
    #[serde(default)]
    pub at: Location,
}

/// An array of buffers: allocations of their own, which may differ in length.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Array {
    /// How many. Mentions no rank.
    pub count: Expr,
    /// What the length of its buffers calls the index, as [`Expr::Loop`].
    pub index: LoopId,
}

/// Part of a buffer, in elements.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Region {
    /// Which buffer.
    pub buffer: BufferId,
    /// Which one of an array; `None` for a single buffer, and for all of an array in a compute step.
    #[serde(default)]
    pub index: Option<Expr>,
    /// The other one of two copies: what the next run calls the current one.
    #[serde(default)]
    pub next: bool,
    /// From the first element to before the last; `None` for all of it.
    #[serde(default)]
    pub range: Option<(Expr, Expr)>,
}

fn one() -> u8 {
    1
}

impl ElementType {
    /// Bytes of one element. A type parameter counts as four.
    pub fn bytes(&self) -> u64 {
        match self {
            Self::I8 | Self::U8 | Self::F8E4M3 | Self::F8E5M2 => 1,
            Self::F16 | Self::Bf16 => 2,
            Self::I32 | Self::U32 | Self::F32 | Self::Generic(_) => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
        }
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::I8 => "i8",
            Self::U8 => "u8",
            Self::I32 => "i32",
            Self::U32 => "u32",
            Self::I64 => "i64",
            Self::U64 => "u64",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::F8E4M3 => "f8e4m3",
            Self::F8E5M2 => "f8e5m2",
            Self::Generic(name) => name,
        })
    }
}

impl Region {
    /// All of a single buffer.
    pub const fn all(buffer: BufferId) -> Self {
        Self { buffer, index: None, next: false, range: None }
    }
}
