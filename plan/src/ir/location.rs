//! Locations in the source of a plan.

use serde::{Deserialize, Serialize};

/// A line and a column (both from 1) of one of the plan's [files](crate::ir::Plan::files).
///
/// Plain data: a macro fills it from spans, a builder from its caller, a file from its text.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(deny_unknown_fields)]
pub struct Location {
    /// Index into [`Plan::files`](crate::ir::Plan::files).
    #[serde(default)]
    pub file: u16,
    /// Line, from 1; 0 if unknown.
    pub line: u32,
    /// Column, from 1; 0 if unknown.
    #[serde(default)]
    pub column: u32,
}

impl Location {
    /// A location in the plan's first file.
    pub const fn new(line: u32, column: u32) -> Self {
        Self { file: 0, line, column }
    }
}
