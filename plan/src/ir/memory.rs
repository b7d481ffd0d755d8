//! The memory of a plan: buffers, windows, and the regions of them that a step touches.

use serde::{Deserialize, Serialize};

use super::words::words;
use super::{BufferId, ElementType, Expr, Location, LoopId, ParamId};

words! {
    /// A buffer's role for the caller.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Role {
        /// The caller fills it; the plan only reads it.
        In = "in",
        /// The plan fills it.
        Out = "out",
        /// The caller fills it; the plan reads and writes it.
        InOut = "inout",
        /// Internal to the plan: its content is unspecified at the start of a run.
        Local = "local",
    }
}

/// Memory that the plan names. Every rank has its own.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Buffer {
    /// Its name.
    pub name: String,
    /// The type of its elements.
    pub element: ElementType,
    /// Its length in elements; of a window, the same on every rank. In an array it may depend on
    /// [`Array::index`].
    pub len: Expr,
    /// The array, for an array of buffers.
    #[serde(default)]
    pub array: Option<Array>,
    /// Its role for the caller.
    pub role: Role,
    /// Whether it is a symmetric window, which puts require.
    #[serde(default)]
    pub window: bool,
    /// 1, or 2 for a buffer whose two copies swap after every run of the plan.
    #[serde(default = "one")]
    pub copies: u8,
    /// Where it is declared.
    #[serde(default)]
    pub at: Location,
}

/// An array of buffers: separate allocations, which may differ in length.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Array {
    /// The number of buffers, the same on every rank.
    pub count: Expr,
    /// The index in the length of its buffers, as [`Expr::Loop`].
    pub index: LoopId,
}

/// Part of a buffer, in elements.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Region {
    /// Which buffer.
    pub buffer: BufferId,
    /// The index in an array. `None` for a single buffer, and for a whole array in a compute step.
    #[serde(default)]
    pub index: Option<Expr>,
    /// Whether it is in the other one of two copies, which becomes current in the next run.
    #[serde(default)]
    pub next: bool,
    /// The range of elements, its end excluded; `None` for the whole buffer.
    #[serde(default)]
    pub range: Option<(Expr, Expr)>,
}

fn one() -> u8 {
    1
}

impl Region {
    /// All of a single buffer.
    pub const fn all(buffer: BufferId) -> Self {
        Self { buffer, index: None, next: false, range: None }
    }

    /// The element of a list that is its length, if that is one: `x[a..a + counts[i]]`.
    pub fn count(&self) -> Option<(ParamId, &Expr)> {
        let (start, end) = self.range.as_ref()?;
        let of = |number: &Expr, rest: &Expr| number == start && matches!(rest, Expr::Element(..));
        match end {
            Expr::Element(list, index) if *start == Expr::Int(0) => Some((*list, index)),
            Expr::Add(a, b) => match (&**a, &**b) {
                (a, Expr::Element(list, index)) if of(a, b) => Some((*list, index)),
                (Expr::Element(list, index), b) if of(b, a) => Some((*list, index)),
                _ => None,
            },
            _ => None,
        }
    }

    /// The numbers in it.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = &Expr> {
        let range = self.range.iter().flat_map(|(start, end)| [start, end]);
        self.index.iter().chain(range)
    }
}
