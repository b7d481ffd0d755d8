//! The elements of a region, checked to be inside its buffer.

use super::Walk;
use crate::ir::Region;
use crate::program::{NoSpan, Span};

impl Walk<'_> {
    pub(super) fn span(&mut self, number: u32, rank: usize, region: &Region) -> Option<Span> {
        self.span_of(number, rank, region, None)
    }

    /// The elements of a region on this rank; `which` selects one of an array.
    pub(super) fn span_of(
        &mut self,
        number: u32,
        rank: usize,
        region: &Region,
        which: Option<u32>,
    ) -> Option<Span> {
        let why = match self.objects.span(region, &self.env(rank), which) {
            Ok(span) => return Some(span),
            Err(why) => why,
        };
        let buffer = &self.plan.buffers[region.buffer.index()];
        let name = &buffer.name;
        let (title, help) = match why {
            NoSpan::NoValue(why) => {
                self.no_value(number, rank, why);
                return None;
            }
            NoSpan::NoBuffers => {
                (format!("`{name}` has no buffers"), "declare an array of one at least")
            }
            NoSpan::Index(index) => {
                let count = self.objects.count(region.buffer);
                let buffers = if count == 1 { "buffer" } else { "buffers" };
                let title = format!("`{name}` has {count} {buffers}, and this index is {index}");
                (title, "change the bounds of the loop, or guard the step")
            }
            NoSpan::Range(start, end, len, index) => {
                let wrong = if start > end {
                    "ends before it begins, in"
                } else if start < 0 {
                    "begins before the first element of"
                } else {
                    "is past the end of"
                };
                let elements = if len == 1 { "element" } else { "elements" };
                let index = buffer.array.as_ref().map(|_| format!("[{index}]"));
                let name = format!("{name}{}", index.unwrap_or_default());
                let title = format!(
                    "`{name}[{start}..{end}]` on rank {rank} {wrong} `{name}`, which has {len} {elements}"
                );
                let help = if start < 0 || start > end {
                    "change the range, or exclude this case with `where`"
                } else {
                    "make it longer, change the range, or exclude this case with `where`"
                };
                (title, help)
            }
        };
        self.out_of_bounds(number, rank, title, help);
        None
    }
}
