//! Local work: assignments.

use typed_nccl_plan::ir::{Around, Assign, Reduction, Region, Source};
use typed_nccl_plan::verdict::Check;

use super::Walk;
use crate::number::Malformed;
use crate::unit::{Act, Span};

/// The sources of an assignment on a rank, and whether one of them is missing.
type Sources = (Vec<(Option<usize>, Span)>, bool);

impl Walk<'_> {
    /// Local work: it reads single buffers, also windows of other ranks, and writes one, of one
    /// type and one length (A2).
    pub(super) fn assign(&mut self, assign: &Assign) -> Result<(), Malformed> {
        if self.group.is_some() {
            return self.bad("an assignment in a group");
        }
        let element = |region: &Region| {
            self.instance.plan.buffers.get(region.buffer.index()).map(|one| &one.element)
        };
        let to = element(&assign.to);
        let is_integer = to.is_some_and(|to| !to.averages());
        let reduces = assign.of.len() > 1 || assign.of.iter().any(|one| !one.around.is_empty());
        if assign.of.is_empty()
            || assign.of.len() > 16
            || assign.of.iter().any(|one| element(&one.region) != to)
            || reduces && assign.by == Reduction::Avg && is_integer
        {
            return self.bad("an assignment of nothing, of two types or of an average of integers");
        }
        let target = self.region(&assign.to)?;
        let mut sources = Sources::default();
        for source in &assign.of {
            self.source(source, &source.around, &mut sources)?;
        }
        let (of, is_short) = sources;
        let rank = self.rank;
        if of.len() > 64 {
            self.outcome.note(Check::Bounds, || format!("rank {rank} reduces too much at once"));
        }
        let keeps = |(of, span): &(Option<usize>, Span)| of.is_none() && *span == target;
        if of.is_empty() || is_short && matches!(&of[..], [only] if keeps(only)) {
            return Ok(());
        }
        let own = of.iter().filter(|(of, _)| of.is_none());
        if own.into_iter().any(|(_, span)| *span != target && span.meets(&target)) {
            self.outcome.note(Check::Hazards, || format!("rank {rank}: an assignment overlaps"));
        }
        if of.iter().any(|(_, one)| one.said != target.said) {
            let text = || format!("rank {rank}: an assignment of several lengths");
            self.outcome.note(Check::Agreement, text);
        }
        let act = Act::Assign { to: target, by: assign.by, of };
        match self.sequence.clone() {
            Some(place) => self.half(place, 1, self.rank, act, None, &assign.place),
            None => self.issue(self.rank, 0, act, None, &assign.place),
        }
    }

    fn source(
        &mut self,
        source: &Source,
        around: &[Around],
        all: &mut Sources,
    ) -> Result<(), Malformed> {
        match around.split_first() {
            Some((Around::When(condition), inner)) => {
                if self.scope().holds(condition)? {
                    self.source(source, inner, all)?;
                }
            }
            Some((Around::Each(each), inner)) => {
                let (from, to) = (self.scope().number(&each.from)?, self.scope().number(&each.to)?);
                let base =
                    each.powers.as_ref().map(|base| self.scope().number(base)).transpose()?;
                if base.is_some_and(|base| base < 2) {
                    return self.bad("powers without an end");
                }
                let is_power = |mut value: i64, base: i64| {
                    while value > 1 && value % base == 0 {
                        value /= base;
                    }
                    value == 1
                };
                for value in (from..to).filter(|&value| base.is_none_or(|b| is_power(value, b))) {
                    self.counters[each.counter.index()] = Some(value);
                    self.source(source, inner, all)?;
                }
                self.counters[each.counter.index()] = None;
            }
            None => {
                let Some(owner) = self.peer(&source.rank, None)? else {
                    all.1 = true;
                    return Ok(());
                };
                let span = self.region_of(owner, &source.region)?;
                let buffer = &self.instance.plan.buffers[source.region.buffer.index()];
                if owner != self.rank && !buffer.window {
                    let why = || format!("a get, and `{}` is no window", buffer.name);
                    self.outcome.note(Check::Bounds, why);
                }
                all.0.push(((owner != self.rank).then_some(owner), span));
            }
        }
        Ok(())
    }
}
