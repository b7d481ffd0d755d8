//! The sizes of a plan that is about to run: whether the plan claims them, and the memory that they
//! need.

use std::fmt;

use super::named;
use crate::ir::{BufferId, Plan, Values};
use crate::program::{Breach, Env, NoMemory, Objects};
use crate::verdict::Sizes;

/// The most allocations of one rank.
const MOST_ALLOCATIONS: u64 = 1 << 20;

/// The most turns of the loops around one condition: seconds.
const MOST_TURNS: u64 = 1 << 26;

/// Why a plan does not support these sizes. Displayed as one sentence: the given value, and the
/// plan's claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotClaimed {
    /// The plan is malformed.
    Malformed {
        /// The reason.
        why: String,
    },
    /// The number of extents is not the number of axes.
    Axes {
        /// The plan's axes, by name.
        axes: Vec<String>,
        /// How many extents were given.
        found: usize,
    },
    /// A parameter has no value, or more than one.
    Param {
        /// The parameter.
        name: String,
        /// How many values were given.
        found: usize,
        /// How many it takes.
        needed: i64,
    },
    /// A value is not among those permitted for an axis or a parameter.
    Value {
        /// Its name.
        name: String,
        /// Whether it is an axis: a number of ranks.
        is_axis: bool,
        /// The given value.
        found: i64,
        /// The permitted values.
        values: Values,
    },
    /// A promise does not hold.
    Promise {
        /// The promise, as text.
        promise: String,
        /// The counters of the loops around it, and the sizes.
        sizes: String,
    },
    /// The loops around a promise have too many turns to look at.
    Turns {
        /// The promise, as text.
        promise: String,
        /// The sizes.
        sizes: String,
    },
    /// A length or a count cannot be computed, is negative, or requires more allocations than one
    /// rank may have.
    Memory {
        /// The buffer.
        buffer: String,
        /// The reason.
        why: String,
    },
}

impl fmt::Display for NotClaimed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed { why } => f.write_str(why),
            Self::Axes { axes, found } => {
                write!(
                    f,
                    "{found} extents are given, and the plan has the axes {}",
                    axes.join(", ")
                )
            }
            Self::Param { name, found: 0, .. } => write!(f, "`{name}` has no value"),
            Self::Param { name, found, needed } => {
                write!(f, "`{name}` takes {needed} values, and {found} are given")
            }
            Self::Value { name, is_axis, found, values } => {
                let ranks = match (is_axis, found) {
                    (true, 1) => " rank",
                    (true, _) => " ranks",
                    (false, _) => "",
                };
                write!(f, "`{name}` is {found}{ranks}, and the plan is for {}", Claimed(values))
            }
            Self::Promise { promise, sizes } => {
                write!(f, "`{promise}` does not hold for {sizes}")
            }
            Self::Turns { promise, sizes } => {
                write!(
                    f,
                    "the loop around `{promise}` has too many turns for {sizes}: at most {MOST_TURNS} are looked at"
                )
            }
            Self::Memory { buffer, why } => write!(f, "the length of `{buffer}`: {why}"),
        }
    }
}

impl std::error::Error for NotClaimed {}

/// Values in the plan's syntax.
struct Claimed<'a>(&'a Values);

impl fmt::Display for Claimed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Values::Exactly(only) => write!(f, "{only}"),
            Values::OneOf(list) => {
                let list: Vec<String> = list.iter().map(i64::to_string).collect();
                match list.split_last() {
                    Some((last, rest)) if !rest.is_empty() => {
                        write!(f, "{} or {last}", rest.join(", "))
                    }
                    _ => f.write_str(&list.concat()),
                }
            }
            Values::Range(first, last) => write!(f, "{first} to {last}"),
            Values::AtLeast(first) => write!(f, "{first} or more"),
            Values::Powers(of) => write!(f, "powers of {of}"),
        }
    }
}

impl Plan {
    /// The instance with these extents and parameters: one extent per axis, one number per
    /// parameter, or all elements for a list.
    ///
    /// # Errors
    /// The plan does not claim it.
    pub fn sizes(&self, extents: &[i64], params: &[Vec<i64>]) -> Result<Sizes, NotClaimed> {
        if let Some(problem) = self.validate().into_iter().next() {
            return Err(NotClaimed::Malformed { why: problem.title });
        }
        if extents.len() != self.axes.len() {
            let axes = self.axes.iter().map(|axis| axis.name.clone()).collect();
            return Err(NotClaimed::Axes { axes, found: extents.len() });
        }
        for (axis, &found) in self.axes.iter().zip(extents) {
            if found < 1 || !axis.extent.contains(found) {
                let (name, values) = (axis.name.clone(), axis.extent.clone());
                return Err(NotClaimed::Value { name, is_axis: true, found, values });
            }
        }
        for (at, param) in self.params.iter().enumerate() {
            let found = params.get(at).map_or(&[][..], Vec::as_slice);
            let needed = match &param.count {
                None => 1,
                Some(count) => {
                    let params = &params[..at.min(params.len())];
                    // An unknown length accepts no value.
                    Env::new(extents, params).eval(count).unwrap_or(-1)
                }
            };
            let name = || param.name.clone();
            if i64::try_from(found.len()) != Ok(needed) {
                return Err(NotClaimed::Param { name: name(), found: found.len(), needed });
            }
            if let Some(&found) = found.iter().find(|&&value| !param.values.contains(value)) {
                let values = param.values.clone();
                return Err(NotClaimed::Value { name: name(), is_axis: false, found, values });
            }
        }
        let sizes = named(self, extents, params);
        for promise in &self.promises {
            let breach = Env::new(extents, params).breach(promise, MOST_TURNS);
            if let Some(Breach::TooManyTurns) = breach {
                let promise = self.show(&promise.condition);
                return Err(NotClaimed::Turns { promise, sizes: sizes.text });
            }
            if let Some(Breach::In(turn)) = breach {
                let counters = turn.iter().map(|(counter, value)| {
                    format!("{} = {value}, ", self.counters[counter.index()].name)
                });
                let sizes = counters.collect::<String>() + &sizes.text;
                let promise = self.show(&promise.condition);
                return Err(NotClaimed::Promise { promise, sizes });
            }
        }
        Ok(sizes)
    }

    /// The length of each buffer of a rank in elements, by its index in the plan: one number, or
    /// one for each buffer of an array. Both copies of a swapped buffer have that length.
    ///
    /// # Errors
    /// A length has no value, or is negative.
    pub fn lengths(&self, sizes: &Sizes, rank: usize) -> Result<Vec<Vec<u64>>, NotClaimed> {
        let sizes = self.sizes(&sizes.extents, &sizes.params)?;
        let size = sizes.extents.iter().try_fold(1, |size: i64, &extent| size.checked_mul(extent));
        let why = match size {
            None => Some("its ranks are too many to count".to_owned()),
            Some(size) if rank as u64 >= size.unsigned_abs() => Some(format!("no rank is {rank}")),
            Some(_) => None,
        };
        if let Some(why) = why {
            return Err(NotClaimed::Memory { buffer: self.name.clone(), why });
        }
        let objects = Objects::new(self, &sizes.extents, &sizes.params, MOST_ALLOCATIONS);
        let objects = objects.map_err(|why| {
            let of = |id: BufferId| self.buffers[id.index()].name.clone();
            let (buffer, why) = match why {
                NoMemory::NoValue(id, why) => (of(id), why.to_string()),
                NoMemory::Negative(id, len, rank) => {
                    match self.buffers[id.index()].len.mentions_rank() {
                        true => (of(id), format!("it is {len} on rank {rank}")),
                        false => (of(id), format!("it is {len}")),
                    }
                }
                NoMemory::TooMany => (self.name.clone(), "too many allocations".to_owned()),
            };
            NotClaimed::Memory { buffer, why }
        })?;
        let mut lengths: Vec<Vec<u64>> = vec![Vec::new(); self.buffers.len()];
        for object in &objects.all {
            let of = &mut lengths[object.buffer.index()];
            if of.len() == object.index as usize {
                of.push(object.len.on(rank));
            }
        }
        Ok(lengths)
    }
}
