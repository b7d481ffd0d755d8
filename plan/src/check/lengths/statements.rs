//! A walk over the statements: what is known at each, and what has to be proved there.

use super::{Lengths, Seen, backwards};
use crate::arith::{Facts, View};
use crate::ir::{Expr, Peer, Region, Step, StepKind};
use crate::verdict::Check;

impl<'a> Lengths<'a> {
    pub(super) fn steps(
        &mut self,
        steps: &'a [Step],
        facts: &Facts,
        view: &View,
        group: &mut Option<Vec<Seen<'a>>>,
    ) {
        for step in steps {
            if !self.fuel.take(1) {
                let title = "the proof for every size takes more than what is checked";
                return self.undecided(Check::Bounds, step.at, title, "make the plan smaller");
            }
            let number = self.number;
            self.number += 1;
            match &step.kind {
                StepKind::Loop(this) => {
                    // In a group, the body is looked at twice, and so on inwards.
                    self.fuel.take(64 + 8 * self.around.len() as u64);
                    let mut facts = facts.clone();
                    let inside = facts.enter(view, this);
                    self.around.push(this);
                    let Some(outer) = group else {
                        self.within(|proof| proof.steps(&this.body, &facts, &inside, &mut None));
                        self.around.pop();
                        continue;
                    };
                    let first = self.number;
                    let mut one = Some(Vec::new());
                    self.within(|proof| proof.steps(&this.body, &facts, &inside, &mut one));
                    // Another iteration of the same group.
                    let mut apart = facts.clone();
                    let other = apart.enter(view, this);
                    let counter = Expr::Loop(this.counter);
                    apart.assume_different(
                        &facts.poly(&counter, &inside),
                        &facts.poly(&counter, &other),
                    );
                    self.number = first;
                    let mut two = Some(Vec::new());
                    self.within(|proof| proof.steps(&this.body, &apart, &other, &mut two));
                    self.around.pop();
                    let (one, two) = (one.unwrap_or_default(), two.unwrap_or_default());
                    self.aliases(&one, &facts);
                    for a in &one {
                        if !self.may_compare(two.len(), step.at) {
                            break;
                        }
                        for b in &two {
                            self.alias(a, b, &apart);
                        }
                    }
                    outer.extend(one);
                }
                StepKind::When(this) => {
                    let is_outermost = this.condition.mentions_rank() && self.anywhere.is_none();
                    if is_outermost {
                        self.anywhere = Some(facts.clone());
                    }
                    let mut facts = facts.clone();
                    facts.assume(&this.condition, view);
                    self.within(|proof| proof.steps(&this.body, &facts, view, group));
                    if is_outermost {
                        self.anywhere = None;
                    }
                }
                StepKind::Group(body) => {
                    let mut inside = Some(Vec::new());
                    self.steps(body, facts, view, &mut inside);
                    self.aliases(&inside.unwrap_or_default(), facts);
                }
                StepKind::Sequence(body) => self.steps(body, facts, view, &mut None),
                _ => {
                    self.loops.insert(number, self.around.clone());
                    self.register(number, step);
                    if group.is_none() && self.is_known_already(number, step) {
                        continue;
                    }
                    let mut own = Vec::new();
                    self.leaf(number, step, facts, view, &mut own);
                    match group {
                        Some(group) => group.extend(own),
                        None => self.aliases(&own, facts),
                    }
                }
            }
        }
    }

    fn leaf(
        &mut self,
        number: u32,
        step: &'a Step,
        facts: &Facts,
        view: &View,
        seen: &mut Vec<Seen<'a>>,
    ) {
        let at = step.at;
        let leaf = number;
        let mut see = |region: &'a Region, view: &View, writes: bool| {
            seen.push(Seen { region, view: view.clone(), writes, at, leaf, elsewhere: false });
        };
        match &step.kind {
            StepKind::Compute(this) => {
                for argument in &this.arguments {
                    self.argument(number, argument, facts, view, at);
                }
                for region in this.reads.iter().chain(&this.writes) {
                    if region.index.is_some()
                        || self.plan.buffers[region.buffer.index()].array.is_none()
                    {
                        self.inside(number, region, facts, view, at);
                    }
                }
            }
            StepKind::Collective(this) => {
                self.inside(number, &this.send, facts, view, at);
                self.inside(number, &this.recv, facts, view, at);
                self.collective(number, this, facts, view, at);
                see(&this.send, view, false);
                see(&this.recv, view, true);
            }
            StepKind::Transfer(this) => {
                let mut facts = facts.clone();
                let Some(_) = hop(&mut facts, view, &this.peer) else { return };
                self.inside(number, &this.from, &facts, view, at);
                self.inside(number, &this.to, &facts, view, at);
                self.alike(number, (&this.from, view), (&this.to, view), &facts, at);
                see(&this.from, view, false);
                if let Peer::Shift(hops) = &this.peer {
                    // What this rank receives is computed by the one that sends it.
                    let sender = facts.hop(view, &backwards(hops));
                    see(&this.to, &sender, true);
                    seen.last_mut().into_iter().for_each(|seen| seen.elsewhere = true);
                }
            }
            StepKind::Send(this) => {
                let mut facts = facts.clone();
                let Some(_) = hop(&mut facts, view, &this.peer) else { return };
                self.inside(number, &this.from, &facts, view, at);
                self.half(number, &this.from, &facts, view, at);
                see(&this.from, view, false);
            }
            StepKind::Receive(this) => {
                let mut facts = facts.clone();
                let Some(_) = hop(&mut facts, view, &this.peer) else { return };
                self.inside(number, &this.to, &facts, view, at);
                self.half(number, &this.to, &facts, view, at);
                see(&this.to, view, true);
            }
            StepKind::Put(this) => {
                let mut facts = facts.clone();
                let Some(_) = hop(&mut facts, view, &this.peer) else { return };
                self.inside(number, &this.from, &facts, view, at);
                self.inside(number, &this.to, &facts, view, at);
                self.alike(number, (&this.from, view), (&this.to, view), &facts, at);
                see(&this.from, view, false);
            }
            _ => {}
        }
    }
}

fn hop(facts: &mut Facts, view: &View, peer: &Peer) -> Option<View> {
    match peer {
        Peer::Shift(hops) => Some(facts.hop(view, hops)),
        Peer::Rank(_) => None,
    }
}
