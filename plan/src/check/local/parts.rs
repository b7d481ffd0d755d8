//! Who used which elements of an object since they were last written.

use std::collections::BTreeMap;

use crate::program::Span;

/// The uses of one object. Elements that no range has were not used yet.
#[derive(Default)]
pub(super) struct Parts(BTreeMap<u64, Part>);

/// Elements that were used alike.
#[derive(Clone, Default)]
struct Part {
    end: u64,
    /// The stream and the unit of the last write.
    wrote: Option<(u16, u32)>,
    /// Of each stream that read since then, its last unit.
    reads: Vec<(u16, u32)>,
    /// How many waits for signals there had been at the last write.
    waits: u32,
}

/// Another stream's last use that a unit has to wait for.
pub(super) struct Use {
    pub(super) stream: u16,
    pub(super) unit: u32,
    /// The elements that both use.
    pub(super) both: Span,
}

impl Parts {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Collects, for each stream but `own`, its last use that a read or a write of these elements
    /// has to wait for. Returns how many waits for signals surely came before the elements were
    /// last written.
    pub(super) fn conflicts(&self, own: u16, span: Span, writes: bool, uses: &mut Vec<Use>) -> u32 {
        uses.clear();
        let (mut waits, mut next) = (u32::MAX, span.start);
        let before = self.0.range(..span.start).next_back();
        for (&start, part) in before.into_iter().chain(self.0.range(span.start..span.end)) {
            if part.end <= span.start {
                continue;
            }
            let (start, end) = (start.max(span.start), part.end.min(span.end));
            waits = if start > next { 0 } else { waits.min(part.waits) };
            next = end;
            let both = Span { start, end, ..span };
            let reads = part.reads.iter().filter(|_| writes);
            for &(stream, unit) in reads.chain(&part.wrote).filter(|(stream, _)| *stream != own) {
                note(uses, Use { stream, unit, both });
            }
        }
        if next < span.end { 0 } else { waits }
    }

    /// Notes a write.
    pub(super) fn write(&mut self, (stream, unit): (u16, u32), span: Span, waits: u32) {
        if span.is_empty() {
            return;
        }
        self.cut(span);
        let (start, end) = (span.start, span.end);
        while let Some((&inside, _)) = self.0.range(start..end).next() {
            self.0.remove(&inside);
        }
        let part = Part { end, wrote: Some((stream, unit)), reads: Vec::new(), waits };
        self.0.insert(start, part);
    }

    /// Notes a read.
    pub(super) fn read(&mut self, (stream, unit): (u16, u32), span: Span) {
        if span.is_empty() {
            return;
        }
        self.cut(span);
        let mut gaps = Vec::new();
        let mut next = span.start;
        for (&start, part) in self.0.range_mut(span.start..span.end) {
            if start > next {
                gaps.push((next, start));
            }
            next = part.end;
            match part.reads.iter_mut().find(|(known, _)| *known == stream) {
                Some(known) => known.1 = unit,
                None => part.reads.push((stream, unit)),
            }
        }
        if next < span.end {
            gaps.push((next, span.end));
        }
        for (start, end) in gaps {
            self.0.insert(start, Part { end, reads: vec![(stream, unit)], ..Part::default() });
        }
    }

    /// Makes ranges begin and end where this one does.
    fn cut(&mut self, span: Span) {
        for at in [span.start, span.end] {
            if let Some((_, part)) = self.0.range_mut(..at).next_back()
                && part.end > at
            {
                let rest = part.clone();
                part.end = at;
                self.0.insert(at, rest);
            }
        }
    }
}

/// Of one stream, the last unit counts: what it did before has ended by then.
fn note(uses: &mut Vec<Use>, one: Use) {
    match uses.iter_mut().find(|known| known.stream == one.stream) {
        None => uses.push(one),
        Some(known) if known.unit < one.unit => *known = one,
        Some(known) if known.unit == one.unit => known.both.end = one.both.end,
        Some(_) => {}
    }
}
