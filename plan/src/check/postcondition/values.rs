//! What elements are, as far as messages, reductions and the equations of steps say.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};

use crate::check::report::Report;
use crate::ir::Reduction;

/// One term: the rank, the object and the element that it was when the run began.
pub(super) type Term = (u32, u32, u64);

/// What an element is.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Value {
    /// Terms in their order, reduced so; one term alone is itself.
    Of(Option<Reduction>, Vec<Term>),
    /// What nothing is known of.
    Unknown {
        /// The unit of the step that does not say what it computes; none where reductions are
        /// mixed.
        cause: Option<u32>,
        /// Which one of them it is.
        mark: (u32, u64),
    },
}

impl Value {
    /// What the element is that is so much further in the same piece. Terms keep their order.
    fn further(&self, by: u64) -> Self {
        match self {
            Self::Of(how, terms) => {
                let terms = terms.iter().map(|&(rank, object, at)| (rank, object, at + by));
                Self::Of(*how, terms.collect())
            }
            &Self::Unknown { cause, mark: (op, at) } => {
                Self::Unknown { cause, mark: (op, at + by) }
            }
        }
    }

    pub(super) fn describe(&self, report: &Report<'_>) -> String {
        let term = |(rank, object, element): &Term| {
            format!("element {element} of {} of rank {rank}", report.object_name(*object))
        };
        match self {
            Self::Unknown { cause: Some(unit), .. } => {
                let rank = report.program.units[*unit as usize].rank;
                format!("what {} of rank {rank} made", report.unit_does(*unit).replace("runs ", ""))
            }
            Self::Unknown { .. } => "several reductions in one another".to_owned(),
            Self::Of(_, terms) if terms.len() == 1 => term(&terms[0]),
            Self::Of(by, terms) => {
                let shown: Vec<String> = terms.iter().take(4).map(term).collect();
                let more = if terms.len() > 4 { ", ..." } else { "" };
                let by = by.map_or_else(String::new, |by| by.to_string());
                format!("{by} of {} terms: {}{more}", terms.len(), shown.join(", "))
            }
        }
    }
}

/// All values so far, each once.
#[derive(Default)]
pub(super) struct Values {
    all: Vec<Value>,
    known: HashMap<Value, u32>,
    /// What was reduced, in order.
    made: Vec<Made>,
    /// The most terms of one value: a claim has at most one per rank, and terms never become fewer.
    most: usize,
    /// Terms of all values that were reduced or looked at further on.
    terms: usize,
}

/// A piece whose elements an operation reduced.
struct Made {
    /// What the first element is.
    value: u32,
    len: u64,
    op: u32,
}

/// Terms in all values at most: what bounds the memory.
const MOST_TERMS: usize = 4_000_000;

impl Values {
    pub(super) fn new(most: usize) -> Self {
        Self { most, ..Self::default() }
    }

    /// Whether there were too many terms. The values since then are not right.
    pub(super) fn too_many(&self) -> bool {
        self.terms > MOST_TERMS
    }

    pub(super) fn id(&mut self, value: Value) -> u32 {
        let entry = self.known.entry(value);
        if let Entry::Vacant(new) = &entry {
            self.all.push(new.key().clone());
        }
        *entry.or_insert(self.all.len() as u32 - 1)
    }

    /// What an element was when the run began.
    pub(super) fn term(&mut self, term: Term) -> u32 {
        self.id(Value::Of(None, vec![term]))
    }

    /// What the element is that is so much further in the same piece.
    pub(super) fn further(&mut self, id: u32, by: u64) -> u32 {
        if by == 0 || self.too_many() {
            return id;
        }
        self.terms += self.count(id).max(1);
        self.id(self.at((id, by)))
    }

    fn of(&self, id: u32) -> &Value {
        &self.all[id as usize]
    }

    /// What an element is, by what the first of its piece is.
    pub(super) fn at(&self, (first, by): (u32, u64)) -> Value {
        self.of(first).further(by)
    }

    fn count(&self, id: u32) -> usize {
        match self.of(id) {
            Value::Of(_, terms) => terms.len(),
            Value::Unknown { .. } => 0,
        }
    }

    /// The operation that reduced terms to this value, the first of several.
    pub(super) fn made(&self, value: &Value) -> Option<u32> {
        let Value::Of(_, terms) = value else { return None };
        let is_in = |made: &&Made| match self.of(made.value) {
            Value::Of(_, first) => {
                let by = terms[0].2.checked_sub(first[0].2).filter(|by| *by < made.len);
                by.is_some_and(|by| self.of(made.value).further(by) == *value)
            }
            Value::Unknown { .. } => false,
        };
        self.made.iter().find(is_in).map(|made| made.op)
    }

    /// The first value that was made of some of these terms, and of others.
    pub(super) fn first_astray(&self, whole: &Value) -> Option<Value> {
        let Value::Of(_, whole) = whole else { return None };
        self.made.iter().find_map(|made| {
            let value = self.of(made.value);
            let Value::Of(_, first) = value else { return None };
            // How much further an element has one of the terms.
            let mut further = BTreeSet::new();
            for &(rank, object, at) in first {
                let begin = whole.partition_point(|term| *term < (rank, object, at));
                let terms = whole[begin..].iter();
                let terms = terms.take_while(|term| (term.0, term.1) == (rank, object));
                further.extend(terms.map(|term| term.2 - at).take_while(|by| *by < made.len));
            }
            further.into_iter().map(|by| value.further(by)).find(|value| match value {
                Value::Of(_, terms) => {
                    let mut left = whole.iter();
                    !terms.iter().all(|term| left.any(|one| one == term))
                }
                Value::Unknown { .. } => false,
            })
        })
    }

    /// The elements of the parts, reduced: what `op` leaves in so many elements from this one on.
    pub(super) fn reduce(
        &mut self,
        by: Reduction,
        parts: &[u32],
        (op, element): (u32, u64),
        len: u64,
    ) -> u32 {
        if let [one] = parts {
            return *one;
        }
        let joined = self.joined(by, parts);
        self.terms += joined.as_ref().map_or(parts.len(), Vec::len);
        let unknown = |cause| Value::Unknown { cause, mark: (op, element) };
        match joined {
            Ok(mut terms) if !self.too_many() => {
                terms.sort_unstable();
                let value = self.id(Value::Of(Some(by), terms));
                self.made.push(Made { value, len, op });
                value
            }
            Ok(_) => self.id(unknown(None)),
            Err(cause) => self.id(unknown(cause)),
        }
    }

    /// The terms of all parts, or why they are not known.
    fn joined(&self, by: Reduction, parts: &[u32]) -> Result<Vec<Term>, Option<u32>> {
        let mut terms = Vec::new();
        for &part in parts {
            match self.of(part) {
                Value::Of(how, more)
                    if (more.len() == 1 || *how == Some(by))
                        && terms.len() + more.len() <= self.most =>
                {
                    terms.extend(more);
                }
                Value::Of(..) => return Err(None),
                Value::Unknown { cause, .. } => return Err(*cause),
            }
        }
        // An average of averages is one if each is of as many.
        let is_uneven = |part: &u32| self.count(*part) != self.count(parts[0]);
        if by == Reduction::Avg && parts.iter().any(is_uneven) { Err(None) } else { Ok(terms) }
    }
}
