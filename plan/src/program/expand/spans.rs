//! Which elements a region is, and whether it lies inside its buffer.

use super::Walk;
use crate::ir::Region;
use crate::program::Span;

impl Walk<'_> {
    pub(super) fn span(&mut self, number: u32, rank: usize, region: &Region) -> Option<Span> {
        self.span_of(number, rank, region, None)
    }

    /// The elements that a region is, for this rank; `which` names one of an array.
    pub(super) fn span_of(
        &mut self,
        number: u32,
        rank: usize,
        region: &Region,
        which: Option<u32>,
    ) -> Option<Span> {
        let name = &self.plan.buffers[region.buffer.index()].name;
        let index = match (which, &region.index) {
            (Some(which), _) => which,
            (None, None) => 0,
            (None, Some(expr)) => match self.env(rank).eval(expr) {
                Ok(index) if (0..i64::from(self.objects.count(region.buffer))).contains(&index) => {
                    index as u32
                }
                Ok(index) => {
                    let count = self.objects.count(region.buffer);
                    let buffers = if count == 1 { "buffer" } else { "buffers" };
                    let title =
                        format!("`{name}` has {count} {buffers}, and this index is {index}");
                    let help = "change the bounds of the loop, or guard the step";
                    self.out_of_bounds(number, rank, title, help);
                    return None;
                }
                Err(why) => {
                    self.no_value(number, rank, why);
                    return None;
                }
            },
        };
        if index >= self.objects.count(region.buffer) {
            let title = format!("`{name}` has no buffers");
            self.out_of_bounds(number, rank, title, "declare an array of one at least");
            return None;
        }
        let object = self.objects.find(region.buffer, index, region.next);
        let len = self.objects.all[object as usize].len;
        let Some((start, end)) = &region.range else {
            return Some(Span { object, start: 0, end: len });
        };
        let env = self.env(rank);
        match (env.eval(start), env.eval(end)) {
            (Ok(start), Ok(end)) if 0 <= start && start <= end && end as u64 <= len => {
                Some(Span { object, start: start as u64, end: end as u64 })
            }
            (Ok(start), Ok(end)) => {
                let wrong = if start > end {
                    "ends before it begins, in"
                } else if start < 0 {
                    "begins before the first element of"
                } else {
                    "is past the end of"
                };
                let elements = if len == 1 { "element" } else { "elements" };
                let which = self.plan.buffers[region.buffer.index()].array.as_ref();
                let name = which.map_or_else(|| name.clone(), |_| format!("{name}[{index}]"));
                let title = format!(
                    "`{name}[{start}..{end}]` on rank {rank} {wrong} `{name}`, which has {len} {elements}"
                );
                let help = if start < 0 || start > end {
                    "change the range, or exclude this case with `where`"
                } else {
                    "make it longer, change the range, or exclude this case with `where`"
                };
                self.out_of_bounds(number, rank, title, help);
                None
            }
            (Err(why), _) | (_, Err(why)) => {
                self.no_value(number, rank, why);
                None
            }
        }
    }
}
