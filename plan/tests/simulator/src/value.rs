//! What an element holds: where it came from, and what was combined into it.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

use typed_nccl_plan::ir::{CollectiveKind, Reduction};

/// An element. Equal values were made in the same way, up to the order within a reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Value {
    /// Nobody wrote it yet: what was there before, which differs from place to place.
    Undefined(u64),
    /// Somebody is writing it.
    Torn(u64),
    /// What the caller left there, or a compute step.
    Plain(u64),
    /// Several combined: how many, and the sum of their hashes; in a minimum or maximum each once.
    Reduced(Reduction, u32, u64),
}

thread_local! {
    /// What minima and maxima are of, by the sum of the hashes.
    static OF: RefCell<HashMap<u64, BTreeSet<u64>>> = RefCell::default();
}

pub(crate) fn hash(what: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

/// Values combined. A reduction of reductions of the same kind is one; averages only if they are of
/// equally many.
pub(crate) fn reduce(by: Reduction, values: impl Iterator<Item = Value>) -> Value {
    let values: Vec<Value> = values.collect();
    let counts: BTreeSet<u32> = values
        .iter()
        .map(|value| match value {
            Value::Reduced(Reduction::Avg, count, _) => *count,
            _ => 1,
        })
        .collect();
    let joins = by != Reduction::Avg || counts.len() == 1;
    if matches!(by, Reduction::Min | Reduction::Max) {
        return of_once(by, &values);
    }
    let (mut many, mut sum, mut only) = (0u32, 0u64, Value::Undefined(0));
    for value in values {
        only = value;
        match value {
            Value::Reduced(kind, count, hashes) if kind == by && joins => {
                many += count;
                sum = sum.wrapping_add(hashes);
            }
            _ => {
                many += 1;
                sum = sum.wrapping_add(hash(value));
            }
        }
    }
    if many == 1 { only } else { Value::Reduced(by, many, sum) }
}

/// A minimum or a maximum: what comes twice counts once.
fn of_once(by: Reduction, values: &[Value]) -> Value {
    let all: BTreeSet<u64> = values
        .iter()
        .flat_map(|value| match value {
            Value::Reduced(kind, _, sum) if *kind == by => {
                OF.with_borrow(|of| of.get(sum).cloned().unwrap_or_default())
            }
            other => BTreeSet::from([hash(other)]),
        })
        .collect();
    if let [first, rest @ ..] = values
        && rest.iter().all(|value| value == first)
    {
        return *first;
    }
    let sum = all.iter().fold(0, |sum: u64, one| sum.wrapping_add(*one));
    let many = all.len() as u32;
    OF.with_borrow_mut(|of| of.insert(sum, all));
    Value::Reduced(by, many, sum)
}

/// What a collective leaves on member `me`, from what each member sent; `None` if it leaves
/// nothing.
pub(crate) fn collect<Root>(
    kind: &CollectiveKind<Root>,
    root: Option<usize>,
    me: usize,
    count: usize,
    sent: &[Vec<Value>],
) -> Option<Vec<Value>> {
    let part = |member: usize, at: usize| {
        let values = sent.get(member).and_then(|values| values.get(at));
        values.copied().unwrap_or(Value::Undefined(0))
    };
    let here = root == Some(me);
    let from = root.unwrap_or(0);
    let members = sent.len();
    let each = |at: usize, by| reduce(by, (0..members).map(|member| part(member, at)));
    let gathered = || {
        let places = (0..members * count).map(|at| (at / count.max(1), at % count.max(1)));
        places.map(|(member, at)| part(member, at)).collect()
    };
    Some(match kind {
        CollectiveKind::AllReduce(by) => (0..count).map(|at| each(at, *by)).collect(),
        CollectiveKind::Reduce(by, _) if here => (0..count).map(|at| each(at, *by)).collect(),
        CollectiveKind::Broadcast(_) => (0..count).map(|at| part(from, at)).collect(),
        CollectiveKind::AllGather => gathered(),
        CollectiveKind::Gather(_) if here => gathered(),
        CollectiveKind::ReduceScatter(by) => {
            (0..count).map(|at| each(me * count + at, *by)).collect()
        }
        CollectiveKind::Scatter(_) => (0..count).map(|at| part(from, me * count + at)).collect(),
        CollectiveKind::AllToAll => {
            let places = (0..members * count).map(|at| (at / count.max(1), at % count.max(1)));
            places.map(|(member, at)| part(member, me * count + at)).collect()
        }
        CollectiveKind::Reduce(..) | CollectiveKind::Gather(_) => return None,
    })
}
