//! The operands of statements, for traversals that treat all kinds alike.

use super::{CollectiveKind, Condition, Expr, Peer, Place, Region, Step, StepKind};

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
        let number = |expr: &Expr| {
            let mut size = 0;
            expr.any(|_| {
                size += 1;
                false
            });
            size
        };
        match self {
            Self::Number(expr) => number(expr),
            Self::Peer(Peer::Rank(expr)) => number(expr),
            Self::Truth(condition) => condition.size(),
            Self::Region(region) => {
                let range = region.range.iter().flat_map(|(start, end)| [start, end]);
                1 + region.index.iter().chain(range).map(number).sum::<usize>()
            }
            Self::Peer(Peer::Shift(hops)) => hops.iter().map(|hop| 1 + number(&hop.by)).sum(),
            Self::Peer(Peer::Cases(_)) => 1,
            Self::Entries(len) => *len,
        }
    }
}

impl Condition {
    /// The number of its numbers and operators.
    pub(crate) fn size(&self) -> usize {
        let number = |expr: &Expr| Operand::Number(expr).size();
        1 + match self {
            Self::Compare(a, _, b) => number(a) + number(b),
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
        let (mut place, mut peer): (Option<&'a Place>, Option<&'a Peer>) = (None, None);
        match &self.kind {
            StepKind::Compute(this) => {
                this.arguments.iter().for_each(|one| each(Operand::Number(one)));
                this.reads.iter().chain(&this.writes).for_each(|one| each(Operand::Region(one)));
                this.computes.iter().for_each(|one| each(Operand::Entries(1 + one.of.len())));
                place = Some(&this.place);
            }
            StepKind::Collective(this) => {
                collective(&this.kind, each);
                each(Operand::Region(&this.send));
                each(Operand::Region(&this.recv));
                place = Some(&this.place);
            }
            StepKind::Transfer(this) => {
                each(Operand::Region(&this.from));
                each(Operand::Region(&this.to));
                (place, peer) = (Some(&this.place), Some(&this.peer));
            }
            StepKind::Send(this) => {
                each(Operand::Region(&this.from));
                (place, peer) = (Some(&this.place), Some(&this.peer));
            }
            StepKind::Receive(this) => {
                each(Operand::Region(&this.to));
                (place, peer) = (Some(&this.place), Some(&this.peer));
            }
            StepKind::Put(this) => {
                each(Operand::Region(&this.from));
                each(Operand::Region(&this.to));
                (place, peer) = (Some(&this.place), Some(&this.peer));
            }
            StepKind::Signal(this) => {
                (place, peer) = (Some(&this.place), Some(&this.peer));
            }
            StepKind::Wait(this) => {
                each(Operand::Entries(this.signals.len()));
                for one in &this.signals {
                    self::peer(&one.peer, each);
                    each(Operand::Number(&one.times));
                }
                place = Some(&this.place);
            }
            StepKind::Loop(this) => {
                each(Operand::Number(&this.from));
                each(Operand::Number(&this.to));
            }
            StepKind::When(this) => each(Operand::Truth(&this.condition)),
            StepKind::Group(_) | StepKind::Sequence(_) => {}
        }
        if let Some(peer) = peer {
            self::peer(peer, each);
        }
        if let Some(place) = place {
            each(Operand::Entries(place.after.len()));
        }
    }
}

fn peer<'a>(peer: &'a Peer, each: &mut dyn FnMut(Operand<'a>)) {
    for (peer, _) in peer.all() {
        each(Operand::Peer(peer));
        if let Peer::Cases(cases) = peer {
            each(Operand::Truth(&cases.condition));
        }
    }
}

/// The root of a collective, if it has one.
pub(super) fn collective<'a>(kind: &'a CollectiveKind, each: &mut dyn FnMut(Operand<'a>)) {
    if let Some(root) = kind.root() {
        each(Operand::Number(root));
    }
}
