//! The elements of a region, checked to be inside its buffer.

use super::Walk;
use super::problems::OutOfBounds;
use crate::ir::Region;
use crate::program::{NONE, NoSpan, Span};

impl Walk<'_> {
    /// The elements of a region, if a statement has one.
    pub(super) fn span(&self, rank: usize, region: Option<&Region>) -> Result<Span, OutOfBounds> {
        region.map_or(Ok(Span::NOTHING), |region| self.span_of((rank, rank), region, None))
    }

    /// The number that a run passes for the length of a region: its place among those of all lists
    /// that runs pass.
    pub(super) fn count(&self, rank: usize, region: Option<&Region>) -> Result<u32, OutOfBounds> {
        if self.plan.counts.is_empty() {
            return Ok(NONE);
        }
        let Some((list, index)) = region.and_then(Region::count) else { return Ok(NONE) };
        let Some(place) = self.plan.counts.iter().position(|id| *id == list) else {
            return Ok(NONE);
        };
        let before = self.plan.counts[..place].iter().map(|id| self.sizes.params[id.index()].len());
        let number = before.sum::<usize>() as i64 + self.env(rank).eval(index)?;
        Ok(u32::try_from(number).unwrap_or(NONE))
    }

    /// The elements of a region of rank `owner`, as `rank` computes them; `which` selects one of
    /// an array.
    pub(super) fn span_of(
        &self,
        (rank, owner): (usize, usize),
        region: &Region,
        which: Option<u32>,
    ) -> Result<Span, OutOfBounds> {
        let why = match self.objects.span(region, owner, &self.env(rank), which) {
            Ok(span) => return Ok(span),
            Err(why) => why,
        };
        let buffer = &self.plan.buffers[region.buffer.index()];
        let name = &buffer.name;
        let (title, help) = match why {
            NoSpan::NoValue(why) => return Err(why.into()),
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
                let there = match rank == owner || !buffer.len.mentions_rank() {
                    true => String::new(),
                    false => format!(" on rank {owner}"),
                };
                let title = format!(
                    "`{name}[{start}..{end}]` on rank {rank} {wrong} `{name}`, which has {len} {elements}{there}"
                );
                let help = if start < 0 || start > end {
                    "change the range, or exclude this case with `where`"
                } else {
                    "make it longer, change the range, or exclude this case with `where`"
                };
                (title, help)
            }
        };
        Err(OutOfBounds::new(title, help))
    }
}
