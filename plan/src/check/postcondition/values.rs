//! What elements are, as far as messages, reductions and the equations of steps say.

use std::collections::HashMap;

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

/// All values so far, each once.
#[derive(Default)]
pub(super) struct Values {
    all: Vec<Value>,
    known: HashMap<Value, u32>,
    /// Values that were reduced, and the operations that did it first.
    made: HashMap<u32, u32>,
    /// The most terms of one value: a claim has at most one per rank, and terms never become fewer.
    most: usize,
    /// Terms in all values, and whether there were too many.
    terms: usize,
    pub(super) too_many: bool,
}

/// Terms in all values at most: what bounds the memory.
const MOST_TERMS: usize = 4_000_000;

impl Values {
    pub(super) fn new(most: usize) -> Self {
        Self { most, ..Self::default() }
    }

    pub(super) fn id(&mut self, value: Value) -> u32 {
        if let Some(&id) = self.known.get(&value) {
            return id;
        }
        let id = self.all.len() as u32;
        self.all.push(value.clone());
        self.known.insert(value, id);
        id
    }

    /// What an element was when the run began.
    pub(super) fn term(&mut self, term: Term) -> u32 {
        self.id(Value::Of(None, vec![term]))
    }

    pub(super) fn of(&self, id: u32) -> &Value {
        &self.all[id as usize]
    }

    /// The operation that reduced terms to this value, the first of several.
    pub(super) fn made(&self, id: u32) -> Option<u32> {
        self.made.get(&id).copied()
    }

    /// The first value that was made of some of these terms, and of others.
    pub(super) fn first_astray(&self, whole: u32) -> Option<u32> {
        let Value::Of(_, whole) = self.of(whole) else { return None };
        let astray = |id: &u32| match self.of(*id) {
            Value::Of(_, terms) => {
                let has = |term: &Term| whole.binary_search(term).is_ok();
                let mut left = whole.iter();
                let is_part = terms.iter().all(|term| left.any(|one| one == term));
                !is_part && terms.iter().any(has)
            }
            Value::Unknown { .. } => false,
        };
        self.made.keys().copied().filter(astray).min()
    }

    /// The elements of the parts, reduced: what `op` leaves in an element.
    pub(super) fn reduce(&mut self, by: Reduction, parts: &[u32], op: u32, element: u64) -> u32 {
        if let [one] = parts {
            return *one;
        }
        let unknown = |cause| Value::Unknown { cause, mark: (op, element) };
        let mut terms = Vec::new();
        for &part in parts {
            match self.of(part) {
                Value::Of(how, more)
                    if (more.len() == 1 || *how == Some(by))
                        && terms.len() + more.len() <= self.most =>
                {
                    terms.extend(more);
                }
                &Value::Unknown { cause, .. } => return self.id(unknown(cause)),
                Value::Of(..) => return self.id(unknown(None)),
            }
        }
        let count = |part: u32| match self.of(part) {
            Value::Of(_, terms) => terms.len(),
            Value::Unknown { .. } => 0,
        };
        // An average of averages is one if each is of as many.
        if by == Reduction::Avg && parts.iter().any(|&part| count(part) != count(parts[0])) {
            return self.id(unknown(None));
        }
        self.terms += terms.len();
        if self.terms > MOST_TERMS {
            self.too_many = true;
            return self.id(unknown(None));
        }
        terms.sort_unstable();
        let id = self.id(Value::Of(Some(by), terms));
        self.made.entry(id).or_insert(op);
        id
    }

    pub(super) fn describe(&self, id: u32, report: &Report<'_>) -> String {
        let term = |(rank, object, element): &Term| {
            format!("element {element} of {} of rank {rank}", report.object_name(*object))
        };
        match self.of(id) {
            Value::Unknown { cause: Some(unit), .. } => {
                let rank = report.program.units[*unit as usize].rank;
                format!("what {} of rank {rank} made", report.unit_does(*unit).replace("runs ", ""))
            }
            Value::Unknown { .. } => "several reductions in one another".to_owned(),
            Value::Of(_, terms) if terms.len() == 1 => term(&terms[0]),
            Value::Of(by, terms) => {
                let shown: Vec<String> = terms.iter().take(4).map(term).collect();
                let more = if terms.len() > 4 { ", ..." } else { "" };
                let by = by.map_or_else(String::new, |by| by.to_string());
                format!("{by} of {} terms: {}{more}", terms.len(), shown.join(", "))
            }
        }
    }
}
