//! What memory holds between two statements, while a run is followed in whatever order.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use super::pieces::{Contents, Pieces};
use super::values::Values;
use crate::program::Span;

/// The regions whose contents between two statements are asked for.
#[derive(Default)]
pub(super) struct Watch {
    all: Vec<Watched>,
    known: HashMap<(u32, u32, Span), usize>,
    /// Of a rank's object, those that are not known in full, in the order of the units.
    open: HashMap<(u32, u32), Vec<usize>>,
}

/// A region before a unit of its rank.
struct Watched {
    rank: u32,
    unit: u32,
    span: Span,
    /// What was there when a later unit wrote over it, by the first element.
    kept: BTreeMap<u64, Pieces>,
    /// How many elements are not among these.
    left: u64,
}

impl Watch {
    /// Asks for a region as it is before a unit; those of a rank in the order of its units.
    pub(super) fn add(&mut self, rank: u32, unit: u32, span: Span) -> usize {
        let Self { all, known, open } = self;
        *known.entry((rank, unit, span)).or_insert_with(|| {
            let (kept, left) = (BTreeMap::new(), span.len());
            all.push(Watched { rank, unit, span, kept, left });
            open.entry((rank, span.object)).or_default().push(all.len() - 1);
            all.len() - 1
        })
    }

    /// Keeps what a unit is about to write over, where it is asked for: the units before that wrote
    /// it have ended, since memory orders them. Returns how many regions were looked at, and pieces
    /// kept.
    pub(super) fn before_write(
        &mut self,
        (rank, unit): (u32, u32),
        span: Span,
        contents: &Contents,
        values: &mut Values,
    ) -> usize {
        let Some(open) = self.open.get_mut(&(rank, span.object)) else { return 0 };
        let earlier = open.partition_point(|at| self.all[*at].unit <= unit);
        let mut pieces = 0;
        for at in &open[..earlier] {
            pieces += self.all[*at].keep(span.start..span.end, contents, values);
        }
        open.retain(|at| self.all[*at].left > 0);
        earlier + pieces
    }

    /// The contents of every region, in the order in which they were first asked for; `None` if
    /// that takes more than so many further pieces.
    pub(super) fn finish<'m>(
        mut self,
        mut most: usize,
        memory: impl Fn(u32, u32) -> Option<&'m Contents>,
        values: &mut Values,
    ) -> Option<Vec<Pieces>> {
        for one in &mut self.all {
            if let Some(contents) = memory(one.rank, one.span.object) {
                let pieces = one.keep(one.span.start..one.span.end, contents, values);
                most = most.checked_sub(pieces)?;
            }
        }
        Some(self.all.iter().map(|one| Pieces::concat(one.kept.values())).collect())
    }
}

impl Watched {
    /// Keeps those elements of a range that are asked for and not kept yet. Returns the number of
    /// their pieces.
    fn keep(&mut self, range: Range<u64>, contents: &Contents, values: &mut Values) -> usize {
        let mut pieces = 0;
        let end = range.end.min(self.span.end);
        let mut at = range.start.max(self.span.start);
        while at < end && self.left > 0 {
            // The part that begins last before this element may reach beyond it.
            let before = self.kept.range(..=at).next_back();
            let known = before.map_or(0, |(start, part)| start + part.len());
            if known > at {
                at = known;
                continue;
            }
            let next = self.kept.range(at..end).next().map_or(end, |(start, _)| *start);
            let read = contents.read(at..next, values);
            pieces += read.count();
            self.kept.insert(at, read);
            self.left -= next - at;
            at = next;
        }
        pieces
    }
}
