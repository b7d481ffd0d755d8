//! Contents of memory by pieces, so that the work depends on what is done, not on lengths.

use std::collections::BTreeMap;
use std::ops::Range;

use super::values::Values;

/// Consecutive elements: each is what the one before it is, one element further.
#[derive(Clone, Copy)]
struct Piece {
    start: u64,
    /// What the first element is.
    value: u32,
}

/// What some consecutive elements are. Each piece extends to the next one.
#[derive(Clone, Default)]
pub(super) struct Pieces {
    len: u64,
    all: Vec<Piece>,
}

impl Pieces {
    pub(super) fn one(len: u64, value: u32) -> Self {
        let mut one = Self::default();
        one.push(len, value);
        one
    }

    pub(super) fn push(&mut self, len: u64, value: u32) {
        if len > 0 {
            self.all.push(Piece { start: self.len, value });
            self.len += len;
        }
    }

    /// All parts, one after the other.
    pub(super) fn concat<'a>(parts: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut all = Self::default();
        for part in parts {
            let moved = |piece: &Piece| Piece { start: all.len + piece.start, ..*piece };
            all.all.extend(part.all.iter().map(moved));
            all.len += part.len;
        }
        all
    }

    /// How many pieces.
    pub(super) fn count(&self) -> usize {
        self.all.len()
    }

    /// How many elements.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// What the first element of an element's piece is, and how much further this one is.
    pub(super) fn place(&self, element: u64) -> Option<(u32, u64)> {
        if element >= self.len {
            return None;
        }
        let next = self.all.partition_point(|piece| piece.start <= element);
        let piece = self.all.get(next.checked_sub(1)?)?;
        Some((piece.value, element - piece.start))
    }

    /// What an element is.
    pub(super) fn at(&self, element: u64, values: &mut Values) -> Option<u32> {
        self.place(element).map(|(first, by)| values.further(first, by))
    }

    pub(super) fn slice(&self, range: Range<u64>, values: &mut Values) -> Self {
        let mut slice = Self::default();
        for piece in together(&[self], range) {
            if let Some(value) = self.at(piece.start, values) {
                slice.push(piece.end - piece.start, value);
            }
        }
        slice
    }
}

/// Divides a range so that no part has more than one piece in any of the ranges.
pub(super) fn together(parts: &[&Pieces], range: Range<u64>) -> Vec<Range<u64>> {
    if range.is_empty() {
        return Vec::new();
    }
    let mut bounds = vec![range.start, range.end];
    for part in parts {
        let first = part.all.partition_point(|piece| piece.start <= range.start);
        let later = part.all[first..].iter().map(|piece| piece.start);
        bounds.extend(later.take_while(|start| *start < range.end));
    }
    bounds.sort_unstable();
    bounds.dedup();
    bounds.windows(2).map(|pair| pair[0]..pair[1]).collect()
}

/// The contents of an object, which are written in parts.
pub(super) struct Contents {
    len: u64,
    /// Where each piece starts, and what its first element is.
    all: BTreeMap<u64, u32>,
}

impl Contents {
    pub(super) fn new(len: u64, value: u32) -> Self {
        Self { len, all: BTreeMap::from([(0, value)]) }
    }

    fn at(&self, element: u64, values: &mut Values) -> Option<u32> {
        let (start, value) = self.all.range(..=element).next_back()?;
        Some(values.further(*value, element - start))
    }

    pub(super) fn read(&self, range: Range<u64>, values: &mut Values) -> Pieces {
        if range.is_empty() {
            return Pieces::default();
        }
        let Some(first) = self.at(range.start, values) else { return Pieces::default() };
        let later = self.all.range(range.start + 1..range.end);
        let all = [(range.start, first)].into_iter().chain(later.map(|(at, value)| (*at, *value)));
        let all = all.map(|(at, value)| Piece { start: at - range.start, value }).collect();
        Pieces { len: range.end - range.start, all }
    }

    pub(super) fn write(&mut self, start: u64, data: &Pieces, values: &mut Values) {
        if data.len == 0 {
            return;
        }
        let end = start + data.len;
        // What is left of the last piece starts behind what is written.
        if end < self.len
            && !self.all.contains_key(&end)
            && let Some(value) = self.at(end, values)
        {
            self.all.insert(end, value);
        }
        let old: Vec<u64> = self.all.range(start..end).map(|(at, _)| *at).collect();
        for at in old {
            self.all.remove(&at);
        }
        self.all.extend(data.all.iter().map(|piece| (start + piece.start, piece.value)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::postcondition::run::reduce;
    use crate::ir::Reduction;

    /// Copies and sums of random ranges, and the same of every element alone.
    #[test]
    fn pieces_are_what_their_elements_are() {
        let (mut values, mut seed) = (Values::new(64), 1_u64);
        let mut below = |bound: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % bound
        };
        for _ in 0..50 {
            let initial: Vec<u32> = (0..3).map(|object| values.term((0, object, 0))).collect();
            let mut objects: Vec<_> = initial.iter().map(|id| Contents::new(40, *id)).collect();
            let elements = |id: &u32| (0..40).map(|at| values.further(*id, at)).collect();
            let mut expected: Vec<Vec<u32>> = initial.iter().map(elements).collect();
            for turn in 0..12 {
                let (len, from, to) = (below(20), below(3) as usize, below(3) as usize);
                let (start, into) = (below(41 - len), below(41 - len));
                let (range, target) = (start..start + len, into..into + len);
                let of = |range: &Range<u64>| range.start as usize..range.end as usize;
                let mut data = objects[from].read(range.clone(), &mut values);
                let mut each = expected[from][of(&range)].to_vec();
                if turn % 3 == 2 {
                    let other = objects[to].read(target.clone(), &mut values);
                    let parts = [&data, &other];
                    data = reduce(Reduction::Sum, &parts, 0..len, turn, &mut values);
                    for (at, (one, other)) in
                        (0..).zip(each.iter_mut().zip(&expected[to][of(&target)]))
                    {
                        *one = values.reduce(Reduction::Sum, &[*one, *other], (turn, at), 1);
                    }
                }
                objects[to].write(into, &data, &mut values);
                expected[to][of(&target)].copy_from_slice(&each);
                for (object, expected) in objects.iter().zip(&expected) {
                    let all = object.read(0..40, &mut values);
                    let found: Vec<_> = (0..40).filter_map(|at| all.at(at, &mut values)).collect();
                    assert_eq!(found, *expected);
                }
            }
        }
    }
}
