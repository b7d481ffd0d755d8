//! The operands of statements, for traversals that treat all kinds alike.

use super::{Condition, Expr, Peer, Region, Step, StepKind};

/// An operand of a statement or a declaration.
pub(crate) enum Operand<'a> {
    /// A number.
    Number(&'a Expr),
    /// A condition.
    Truth(&'a Condition),
    /// Memory.
    Region(&'a Region),
    /// A peer; for a peer by cases, also each case and its condition.
    Peer(&'a Peer),
    /// Entries without numbers.
    Entries(usize),
}

impl Operand<'_> {
    fn size(&self) -> usize {
        match self {
            Self::Number(expr) => expr.size(),
            Self::Peer(Peer::Rank(expr)) => expr.size(),
            Self::Truth(condition) => condition.size(),
            Self::Region(region) => 1 + region.numbers().map(Expr::size).sum::<usize>(),
            Self::Peer(Peer::Shift(hops)) => hops.iter().map(|hop| 1 + hop.by.size()).sum(),
            Self::Peer(Peer::Cases(_)) => 1,
            Self::Entries(len) => *len,
        }
    }
}

impl Condition {
    /// The number of its numbers and operators.
    pub(crate) fn size(&self) -> usize {
        1 + match self {
            Self::Compare(a, _, b) => a.size() + b.size(),
            Self::All(list) | Self::Any(list) => list.iter().map(Self::size).sum(),
            Self::Not(one) => one.size(),
        }
    }
}

impl Step {
    /// The statements inside this one.
    pub(crate) fn body(&self) -> &[Self] {
        match &self.kind {
            StepKind::Group(body) | StepKind::Sequence(body) => body,
            StepKind::Loop(this) => &this.body,
            StepKind::When(this) => &this.body,
            _ => &[],
        }
    }

    /// All statements in source order, outer before inner.
    pub(crate) fn all(steps: &[Self]) -> impl Iterator<Item = &Self> {
        let mut left = vec![steps.iter()];
        std::iter::from_fn(move || {
            loop {
                let Some(step) = left.last_mut()?.next() else {
                    left.pop();
                    continue;
                };
                left.push(step.body().iter());
                return Some(step);
            }
        })
    }

    /// The statement with that number, in the order of [`all`](Self::all).
    pub(crate) fn nth(steps: &[Self], number: u32) -> Option<&Self> {
        Self::all(steps).nth(number as usize)
    }

    /// The size of this statement in numbers, operators and entries, without the statements inside
    /// it.
    pub(crate) fn size(&self) -> usize {
        let mut size = 0;
        self.operands(&mut |part| size += part.size());
        size
    }

    /// The operands of this statement, without those of the statements inside it.
    pub(crate) fn operands<'a>(&'a self, each: &mut dyn FnMut(Operand<'a>)) {
        match &self.kind {
            StepKind::Compute(this) => {
                this.arguments.iter().for_each(|one| each(Operand::Number(one)));
                this.reads.iter().chain(&this.writes).for_each(|one| each(Operand::Region(one)));
                this.computes.iter().for_each(|one| each(Operand::Entries(1 + one.of.len())));
                each(Operand::Entries(this.place.after.len()));
            }
            StepKind::Assign(this) => {
                each(Operand::Region(&this.to));
                this.of.iter().for_each(|one| one.operands(each));
                each(Operand::Entries(this.place.after.len()));
            }
            StepKind::Collective(this) => {
                this.kind.root().into_iter().for_each(|root| each(Operand::Number(root)));
            }
            StepKind::Wait(this) => {
                each(Operand::Entries(this.signals.len()));
                for one in &this.signals {
                    one.peer.operands(each);
                    each(Operand::Number(&one.times));
                }
            }
            StepKind::Loop(this) => {
                each(Operand::Number(&this.from));
                each(Operand::Number(&this.to));
                this.powers.iter().for_each(|base| each(Operand::Number(base)));
            }
            StepKind::When(this) => each(Operand::Truth(&this.condition)),
            StepKind::Here(claim) => claim.operands(each),
            _ => {}
        }
        if let Some(this) = self.kind.communication() {
            this.from.into_iter().chain(this.to).for_each(|region| each(Operand::Region(region)));
            this.peer.into_iter().for_each(|peer| peer.operands(each));
            each(Operand::Entries(this.place.after.len()));
        }
    }
}

impl Peer {
    /// Its operands, those of its cases included.
    pub(crate) fn operands<'a>(&'a self, each: &mut dyn FnMut(Operand<'a>)) {
        for (peer, _) in self.all() {
            each(Operand::Peer(peer));
            if let Self::Cases(cases) = peer {
                each(Operand::Truth(&cases.condition));
            }
        }
    }
}
