//! Names of declarations, to what they name.

use std::collections::HashMap;

use crate::ir::Plan;
use crate::ir::names::{Meaning, Names};
use crate::ir::{AxisId, LoopId, ParamId};

use super::node::short;

/// What declarations are called, kind by kind.
pub(super) struct Declared<'a> {
    pub(super) names: Names<'a>,
    pub(super) axes: Kind<'a>,
    pub(super) params: Kind<'a>,
    pub(super) counters: Kind<'a>,
    pub(super) communicators: Kind<'a>,
    pub(super) buffers: Kind<'a>,
    pub(super) signals: Kind<'a>,
    pub(super) streams: Kind<'a>,
}

/// Which counter a loop or an array counts with: several may have one name.
///
/// A name alone means the one that was declared after the last one taken under this name, or the last.
pub(super) struct Counters<'a> {
    /// Which there are of each name, and how many of them come no later than the last one taken.
    by_name: HashMap<&'a str, (Vec<u32>, usize)>,
}

/// The names of one kind of declarations.
pub(super) struct Kind<'a> {
    /// What one of them is: "stream".
    pub(super) what: &'static str,
    ids: HashMap<&'a str, u32>,
    /// The first ones, for messages.
    some: Vec<&'a str>,
}

impl<'a> Declared<'a> {
    pub(super) fn new(plan: &'a Plan) -> Self {
        Self {
            names: Names::new(plan),
            axes: Kind::new("axis", plan.axes.iter().map(|one| &*one.name)),
            params: Kind::new("parameter", plan.params.iter().map(|one| &*one.name)),
            counters: Kind::new("counter", plan.counters.iter().map(|one| &*one.name)),
            communicators: Kind::new(
                "communicator",
                plan.communicators.iter().map(|one| &*one.name),
            ),
            buffers: Kind::new("buffer", plan.buffers.iter().map(|one| &*one.name)),
            signals: Kind::new("signal", plan.signals.iter().map(|one| &*one.name)),
            streams: Kind::new("stream", plan.streams.iter().map(|one| &*one.name)),
        }
    }

    /// The kind that a qualifier in a number stands for, and what a name of it means.
    pub(super) fn qualified(&self, qualifier: &str) -> Option<(&Kind<'a>, fn(u32) -> Meaning)> {
        match qualifier {
            "axis" => Some((&self.axes, |id| Meaning::Axis(AxisId(id)))),
            "param" => Some((&self.params, |id| Meaning::Param(ParamId(id)))),
            "counter" => Some((&self.counters, |id| Meaning::Counter(LoopId(id)))),
            _ => None,
        }
    }

    /// What a number may mention, for messages.
    pub(super) fn numbers(&self) -> String {
        let kinds = [&self.axes, &self.params, &self.counters];
        let names: Vec<_> =
            kinds.iter().flat_map(|kind| &kind.some).map(|name| short(name)).collect();
        format!("a number may name r, size, {}", names.join(", "))
    }
}

impl<'a> Counters<'a> {
    pub(super) fn new(plan: &'a Plan) -> Self {
        let mut by_name = HashMap::<_, (Vec<u32>, usize)>::new();
        for (id, counter) in (0..).zip(&plan.counters) {
            by_name.entry(&*counter.name).or_default().0.push(id);
        }
        Self { by_name }
    }

    /// The counter of that name, the `nth` from 1 if that is said.
    pub(super) fn take(&mut self, name: &str, nth: Option<usize>) -> Option<u32> {
        let (ids, next) = self.by_name.get_mut(name)?;
        let at = match nth {
            Some(nth) => nth.checked_sub(1)?,
            None => (*next).min(ids.len() - 1),
        };
        let id = ids.get(at)?;
        *next = at + 1;
        Some(*id)
    }

    /// Takes a counter, and returns which of its name it is where the name alone would mean another.
    pub(super) fn nth(&mut self, name: &str, id: u32) -> Option<usize> {
        let (ids, next) = self.by_name.get_mut(name)?;
        let at = ids.binary_search(&id).ok()?;
        let meant = std::mem::replace(next, at + 1).min(ids.len() - 1);
        (at != meant).then_some(at + 1)
    }
}

impl<'a> Kind<'a> {
    fn new(what: &'static str, names: impl Iterator<Item = &'a str> + Clone) -> Self {
        let some = names.clone().take(8).collect();
        let mut ids = HashMap::new();
        for (id, name) in (0..).zip(names) {
            // Of two with one name the first counts; that there are two is told once all is read.
            ids.entry(name).or_insert(id);
        }
        Self { what, ids, some }
    }

    pub(super) fn id(&self, name: &str) -> Option<u32> {
        self.ids.get(name).copied()
    }

    /// Which there are, for messages.
    pub(super) fn declared(&self) -> String {
        let Self { what, ids, some } = self;
        if some.is_empty() {
            return format!("declare one, as this plan declares no {what}");
        }
        let some: Vec<_> = some.iter().map(|name| format!("`{}`", short(name))).collect();
        let more = if ids.len() > some.len() { ", .." } else { "" };
        format!("declare it, or name one of {}{more}", some.join(", "))
    }
}
