//! The memory of an instance: single allocations, the same on every rank but for their lengths.

use super::{Env, NoValue, Span};
use crate::ir::{BufferId, ElementType, Plan, Region, Role};

/// One allocation: a buffer, an element of an array, one of two copies.
#[derive(Clone, Debug)]
pub(crate) struct Object {
    pub(crate) buffer: BufferId,
    /// The index in an array.
    pub(crate) index: u32,
    pub(crate) len: Len,
    pub(crate) window: bool,
    pub(crate) role: Role,
    /// The other copy, or this one if there is none.
    pub(crate) other_copy: u32,
}

/// The length of an allocation.
#[derive(Clone, Debug, Hash)]
pub(crate) enum Len {
    /// The same on every rank.
    Same(u64),
    /// That of each rank.
    Each(Vec<u64>),
}

impl Len {
    pub(crate) fn on(&self, rank: usize) -> u64 {
        match self {
            Self::Same(len) => *len,
            Self::Each(all) => all[rank],
        }
    }

    /// The length, if it is the same on every rank.
    pub(crate) fn same(&self) -> Option<u64> {
        match self {
            Self::Same(len) => Some(*len),
            Self::Each(_) => None,
        }
    }

    /// Whether it is empty on every rank.
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::Same(len) => *len == 0,
            Self::Each(all) => all.iter().all(|len| *len == 0),
        }
    }
}

/// All of a rank's memory.
#[derive(Clone, Debug)]
pub(crate) struct Objects {
    pub(crate) all: Vec<Object>,
    /// Per buffer: the first object, the length of the array, the number of copies.
    buffers: Vec<(u32, u32, u32)>,
    elements: Vec<ElementType>,
}

/// The most lengths, those of one object on each rank counted separately.
const MOST_LENGTHS: u64 = 1 << 23;

/// Why the memory of an instance cannot be laid out.
pub(crate) enum NoMemory {
    /// A length or a count has no value.
    NoValue(BufferId, NoValue),
    /// A length or a count is negative, as it is on this rank.
    Negative(BufferId, i64, usize),
    /// Too many allocations.
    TooMany,
}

/// Why a region has no elements in its buffer.
pub(crate) enum NoSpan {
    /// One of its numbers has no value.
    NoValue(NoValue),
    /// The array has no buffers.
    NoBuffers,
    /// The array has no buffer at that index.
    Index(i64),
    /// Its range is not inside the buffer: start, end, the buffer's length and its index in the
    /// array.
    Range(i64, i64, u64, u32),
}

impl From<NoValue> for NoSpan {
    fn from(why: NoValue) -> Self {
        Self::NoValue(why)
    }
}

impl Objects {
    pub(crate) fn new(
        plan: &Plan,
        extents: &[i64],
        params: &[Vec<i64>],
        most: u64,
    ) -> Result<Self, NoMemory> {
        let mut counters = vec![None; plan.counters.len()];
        let (mut all, mut buffers) = (Vec::new(), Vec::new());
        let size = Env::new(extents, params).size.unsigned_abs();
        let mut lengths = 0_u64;
        for (id, buffer) in (0..).map(BufferId).zip(&plan.buffers) {
            let eval = |counters: &[Option<i64>], expr, rank| {
                let env = Env { counters, ..Env::new(extents, params) }.on(rank);
                match env.eval(expr) {
                    Ok(value) if value < 0 => Err(NoMemory::Negative(id, value, rank)),
                    Ok(value) => Ok(value as u64),
                    Err(why) => Err(NoMemory::NoValue(id, why)),
                }
            };
            let count = match &buffer.array {
                Some(array) => eval(&counters, &array.count, 0)?,
                None => 1,
            };
            let copies = u64::from(buffer.copies);
            if count.saturating_mul(copies).saturating_add(all.len() as u64) > most {
                return Err(NoMemory::TooMany);
            }
            let ranks = if buffer.len.mentions_rank() { size } else { 1 };
            lengths = lengths.saturating_add(count.saturating_mul(ranks));
            if lengths > MOST_LENGTHS {
                return Err(NoMemory::TooMany);
            }
            let first = all.len() as u32;
            buffers.push((first, count as u32, buffer.copies.into()));
            for index in 0..count {
                if let Some(array) = &buffer.array {
                    counters[array.index.index()] = Some(index as i64);
                }
                let len = match buffer.len.mentions_rank() {
                    true => {
                        let each =
                            (0..ranks as usize).map(|rank| eval(&counters, &buffer.len, rank));
                        Len::Each(each.collect::<Result<_, _>>()?)
                    }
                    false => Len::Same(eval(&counters, &buffer.len, 0)?),
                };
                for copy in 0..copies {
                    let here = all.len() as u32;
                    let other_copy = match (copies, copy) {
                        (2, 0) => here + 1,
                        (2, _) => here - 1,
                        _ => here,
                    };
                    all.push(Object {
                        buffer: id,
                        index: index as u32,
                        len: len.clone(),
                        window: buffer.window,
                        role: buffer.role,
                        other_copy,
                    });
                }
            }
            if let Some(array) = &buffer.array {
                counters[array.index.index()] = None;
            }
        }
        let elements = plan.buffers.iter().map(|buffer| buffer.element.clone()).collect();
        Ok(Self { all, buffers, elements })
    }

    /// The object of a buffer, in a run of even number.
    pub(crate) fn find(&self, buffer: BufferId, index: u32, next: bool) -> u32 {
        let (first, _, copies) = self.buffers[buffer.index()];
        first + index * copies + u32::from(next)
    }

    /// The elements of a region of rank `owner`, computed in `env`; `which` selects one of an
    /// array.
    pub(crate) fn span(
        &self,
        region: &Region,
        owner: usize,
        env: &Env<'_>,
        which: Option<u32>,
    ) -> Result<Span, NoSpan> {
        let count = self.count(region.buffer);
        let index = match (which, &region.index) {
            (Some(which), _) => i64::from(which),
            (None, Some(index)) => env.eval(index)?,
            (None, None) if count == 0 => return Err(NoSpan::NoBuffers),
            (None, None) => 0,
        };
        let place = u32::try_from(index).ok().filter(|index| *index < count);
        let place = place.ok_or(NoSpan::Index(index))?;
        let object = self.find(region.buffer, place, region.next);
        let len = self.all[object as usize].len.on(owner);
        let Some((start, end)) = &region.range else {
            return Ok(Span { object, start: 0, end: len });
        };
        let (start, end) = (env.eval(start)?, env.eval(end)?);
        if 0 <= start && start <= end && end as u64 <= len {
            Ok(Span { object, start: start as u64, end: end as u64 })
        } else {
            Err(NoSpan::Range(start, end, len, place))
        }
    }

    /// How many buffers an array has.
    pub(crate) fn count(&self, buffer: BufferId) -> u32 {
        self.buffers[buffer.index()].1
    }

    /// The object that a run of this number uses in place of `object` of an even run.
    pub(crate) fn in_run(&self, object: u32, run: usize) -> u32 {
        if run % 2 == 1 && object != super::NONE {
            self.all[object as usize].other_copy
        } else {
            object
        }
    }

    /// Whether all lengths are the same on every rank.
    pub(crate) fn are_even(&self) -> bool {
        self.all.iter().all(|object| object.len.same().is_some())
    }

    pub(crate) fn element(&self, object: u32) -> &ElementType {
        &self.elements[self.all[object as usize].buffer.index()]
    }
}
