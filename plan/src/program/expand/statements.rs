//! Expands loops, conditions, groups and sequences: which ranks run a statement, and how often.

use super::{Active, Halves, Walk};
use crate::ir::{Condition, Loop, StepKind};
use crate::program::statements::Numbered;
use crate::program::{Here, MOST_WORK, Turns};

/// How many turns of a loop beyond the limits are expanded.
const FIRST_TURNS: u32 = 1000;

impl Walk<'_> {
    pub(super) fn steps(&mut self, steps: &[Numbered<'_>], active: &Active) {
        for step in steps {
            if self.stopped {
                return;
            }
            self.step(step, active);
        }
    }

    fn step(&mut self, step: &Numbered<'_>, active: &Active) {
        let number = step.number;
        match &step.step.kind {
            StepKind::Loop(this) => self.repeat(step, this, active),
            StepKind::When(this) => {
                let some = self.guarded(step, &this.condition, active);
                self.steps(&step.body, &Active::Some(some));
            }
            StepKind::Group(_) => {
                self.grouped = Some(number);
                self.steps(&step.body, active);
                self.grouped = None;
                self.issue(number);
            }
            StepKind::Sequence(_) => self.sequence(&step.body, active),
            StepKind::Here(_) => self.here(step, active),
            _ => {
                self.leaf(step, active, Halves::Both);
                if self.grouped.is_none() {
                    self.issue(number);
                }
            }
        }
        if self.stopped {
            self.stopped_at.get_or_insert(number);
        }
    }

    /// Notes where the ranks are, and issues nothing.
    fn here(&mut self, step: &Numbered<'_>, active: &Active) {
        if self.spend(step.weight.saturating_mul(self.layout.size as u64)) {
            let ranks = self.issued.iter().enumerate();
            let ranks = ranks.map(|(rank, issued)| (active.is(rank), *issued)).collect();
            let counters = self.counters.clone();
            self.heres.push(Here { statement: step.number, counters, ranks });
        }
    }

    /// Those ranks on which a condition holds.
    fn guarded(
        &mut self,
        step: &Numbered<'_>,
        condition: &Condition,
        active: &Active,
    ) -> Vec<bool> {
        self.number = step.number;
        let ranks = 0..self.layout.size;
        if !self.spend(step.weight.saturating_mul(self.layout.size as u64)) {
            return vec![false; self.layout.size];
        }
        let mut holds = |rank: usize| {
            let holds = self.env(rank).holds(condition);
            self.found(rank, holds).unwrap_or(false)
        };
        ranks.map(|rank| active.is(rank) && holds(rank)).collect()
    }

    /// A rank receives from lower ones first, then runs its own statements, then receives from
    /// higher ones. Each statement is a unit.
    fn sequence(&mut self, body: &[Numbered<'_>], active: &Active) {
        for halves in [Halves::FromLower, Halves::Sends, Halves::FromHigher] {
            self.halves(body, active, halves);
        }
    }

    fn halves(&mut self, body: &[Numbered<'_>], active: &Active, halves: Halves) {
        for step in body {
            if self.stopped {
                return;
            }
            match &step.step.kind {
                StepKind::When(this) => {
                    let some = self.guarded(step, &this.condition, active);
                    self.halves(&step.body, &Active::Some(some), halves);
                }
                StepKind::Transfer(_) => {
                    self.leaf(step, active, halves);
                    self.issue(step.number);
                }
                _ if halves == Halves::Sends => {
                    self.leaf(step, active, halves);
                    self.issue(step.number);
                }
                _ => {}
            }
        }
    }

    fn repeat(&mut self, step: &Numbered<'_>, this: &Loop, active: &Active) {
        self.number = step.number;
        // A loop that nobody reaches may count through what has no value.
        let Some(any) = (0..self.layout.size).find(|rank| active.is(*rank)) else { return };
        let varies = this.from.mentions_rank() || this.to.mentions_rank();
        let ranks = if varies { self.layout.size } else { 1 };
        if !self.spend(step.weight.saturating_mul(ranks as u64)) {
            return;
        }
        let mut turns = Vec::with_capacity(ranks);
        for rank in 0..ranks {
            let rank = if varies { rank } else { any };
            let own = active.is(rank).then(|| Turns::of(this, &self.env(rank)));
            turns.push(own.and_then(|own| self.found(rank, own)));
        }
        let filled = turns.iter().filter_map(|turns| *turns).filter(|turns| !turns.is_empty());
        let Some(all) = filled.reduce(Turns::and) else { return };
        let each = 1 + turns.len() as u64;
        let is_long = all.most().saturating_mul(each) > MOST_WORK;
        let counter = this.counter.index();
        for (turn, value) in (0..).zip(all.iter()) {
            // Errors in an endless loop show up in its first turns.
            self.stopped |= is_long && turn == FIRST_TURNS;
            if self.stopped || !self.spend(each) {
                break;
            }
            self.counters[counter] = Some(value);
            if varies {
                let is_own = |turns: &Option<Turns>| turns.is_some_and(|own| own.contains(value));
                let some = turns.iter().enumerate();
                let some = some.map(|(rank, turns)| active.is(rank) && is_own(turns)).collect();
                self.steps(&step.body, &Active::Some(some));
            } else {
                self.steps(&step.body, active);
            }
        }
        self.counters[counter] = None;
    }
}
