//! What elements are, as far as messages, reductions and the equations of steps say.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};

use crate::check::report::Report;
use crate::ir::Reduction;

/// One term: the rank, the object and the element that it was when the run began. With [`MADE`] in
/// place of the rank: the unit, the operation and the element, of a step that does not say what it
/// computes.
pub(super) type Term = (u32, u32, u64);

/// Marks what a step made. There are far fewer ranks and units.
const MADE: u32 = 1 << 31;

/// What a step made that does not say what it computes.
pub(super) fn made_by(unit: u32, op: u32) -> Term {
    (MADE | unit, op, 0)
}

/// What an element is.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Value {
    /// Terms in their order, reduced so, each once for a minimum or maximum; one alone is itself.
    Of(Option<Reduction>, Vec<Term>),
    /// Several reductions in one another, made by an operation, and which of its elements it is.
    Mixed(u32, u64),
}

impl Value {
    /// What the element is that is so much further in the same piece. Terms keep their order.
    fn further(&self, by: u64) -> Self {
        match self {
            Self::Of(how, terms) => {
                let terms = terms.iter().map(|&(rank, object, at)| (rank, object, at + by));
                Self::Of(*how, terms.collect())
            }
            &Self::Mixed(op, at) => Self::Mixed(op, at + by),
        }
    }

    /// A step that does not say what it computes, and is part of this.
    pub(super) fn unsaid(&self) -> Option<u32> {
        let Self::Of(_, terms) = self else { return None };
        terms.iter().find(|term| term.0 & MADE != 0).map(|term| term.0 & !MADE)
    }

    pub(super) fn describe(&self, report: &Report<'_>) -> String {
        let term = |&(rank, object, element): &Term| {
            if rank & MADE == 0 {
                return format!(
                    "element {element} of {} of rank {rank}",
                    report.object_name(object)
                );
            }
            let unit = rank & !MADE;
            let rank = report.program.units[unit as usize].rank;
            format!("what {} of rank {rank} made", report.unit_does(unit).replace("runs ", ""))
        };
        match self {
            Self::Mixed(..) => "several reductions in one another".to_owned(),
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
    /// The most terms of one value: a claim has no more, and terms never become fewer.
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
pub(super) const MOST_TERMS: usize = 4_000_000;

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
            Value::Mixed(..) => 0,
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
            Value::Mixed(..) => false,
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
                Value::Mixed(..) => false,
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
        let mut parts = parts.to_vec();
        if is_idempotent(by) {
            parts.sort_unstable();
            parts.dedup();
        }
        if let [one] = parts[..] {
            return one;
        }
        let joined = self.joined(by, &parts);
        let all: usize = parts.iter().map(|part| self.count(*part)).sum();
        self.terms += match &joined {
            Some(terms) if all <= MOST_TERMS && !is_idempotent(by) => terms.len(),
            None if all <= MOST_TERMS => parts.len(),
            _ => all,
        };
        match joined {
            Some(terms) if !self.too_many() => {
                let value = self.id(Value::Of(Some(by), terms));
                self.made.push(Made { value, len, op });
                value
            }
            _ => self.id(Value::Mixed(op, element)),
        }
    }

    /// The terms of all parts in order, unless reductions are mixed.
    fn joined(&self, by: Reduction, parts: &[u32]) -> Option<Vec<Term>> {
        let most = if is_idempotent(by) { MOST_TERMS } else { self.most };
        let mut terms = Vec::new();
        for &part in parts {
            match self.of(part) {
                Value::Of(how, more)
                    if (more.len() == 1 || *how == Some(by))
                        && terms.len() + more.len() <= most =>
                {
                    terms.extend(more);
                }
                _ => return None,
            }
        }
        terms.sort_unstable();
        if is_idempotent(by) {
            terms.dedup();
        }
        // An average of averages is one if each is of as many.
        let is_uneven = |part: &u32| self.count(*part) != self.count(parts[0]);
        let is_right = by != Reduction::Avg || !parts.iter().any(is_uneven);
        (is_right && terms.len() <= self.most).then_some(terms)
    }
}

/// Whether a term that comes twice counts once.
fn is_idempotent(by: Reduction) -> bool {
    matches!(by, Reduction::Min | Reduction::Max)
}
