//! What a statement consists of, for walks that treat all kinds alike.

use super::{CollectiveKind, Condition, Expr, Peer, Place, Region, Step, StepKind};

/// A part of a statement or of a declaration.
pub(crate) enum Part<'a> {
    /// A number.
    Number(&'a Expr),
    /// A condition.
    Truth(&'a Condition),
    /// Memory.
    Region(&'a Region),
    /// Another rank.
    Peer(&'a Peer),
    /// Entries that hold no numbers.
    Entries(usize),
}

impl Part<'_> {
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
            Self::Entries(len) => *len,
        }
    }
}

impl Condition {
    /// How many numbers and operators this has.
    pub(crate) fn size(&self) -> usize {
        let number = |expr: &Expr| Part::Number(expr).size();
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

    /// All statements, in the order in which they are written, each before what is inside it.
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

    /// The statement of that number, as [`all`](Self::all) counts them.
    pub(crate) fn nth(steps: &[Self], number: u32) -> Option<&Self> {
        Self::all(steps).nth(number as usize)
    }

    /// How many numbers, operators and entries this statement has, without the statements inside it.
    pub(crate) fn size(&self) -> usize {
        let mut size = 0;
        self.parts(&mut |part| size += part.size());
        size
    }

    /// The parts of this statement, without those of the statements inside it.
    pub(crate) fn parts<'a>(&'a self, each: &mut dyn FnMut(Part<'a>)) {
        let (mut place, mut peer): (Option<&'a Place>, Option<&'a Peer>) = (None, None);
        match &self.kind {
            StepKind::Compute(this) => {
                this.arguments.iter().for_each(|one| each(Part::Number(one)));
                this.reads.iter().chain(&this.writes).for_each(|one| each(Part::Region(one)));
                this.computes.iter().for_each(|one| each(Part::Entries(1 + one.of.len())));
                place = Some(&this.place);
            }
            StepKind::Collective(this) => {
                collective(&this.kind, each);
                each(Part::Region(&this.send));
                each(Part::Region(&this.recv));
                place = Some(&this.place);
            }
            StepKind::Transfer(this) => {
                each(Part::Region(&this.from));
                each(Part::Region(&this.to));
                (place, peer) = (Some(&this.place), Some(&this.peer));
            }
            StepKind::Send(this) => {
                each(Part::Region(&this.from));
                (place, peer) = (Some(&this.place), Some(&this.peer));
            }
            StepKind::Receive(this) => {
                each(Part::Region(&this.to));
                (place, peer) = (Some(&this.place), Some(&this.peer));
            }
            StepKind::Put(this) => {
                each(Part::Region(&this.from));
                each(Part::Region(&this.to));
                (place, peer) = (Some(&this.place), Some(&this.peer));
            }
            StepKind::Signal(this) => {
                (place, peer) = (Some(&this.place), Some(&this.peer));
            }
            StepKind::Wait(this) => {
                each(Part::Entries(this.signals.len()));
                for one in &this.signals {
                    each(Part::Peer(&one.peer));
                    each(Part::Number(&one.times));
                }
                place = Some(&this.place);
            }
            StepKind::Loop(this) => {
                each(Part::Number(&this.from));
                each(Part::Number(&this.to));
            }
            StepKind::When(this) => each(Part::Truth(&this.condition)),
            StepKind::Group(_) | StepKind::Sequence(_) => {}
        }
        if let Some(peer) = peer {
            each(Part::Peer(peer));
        }
        if let Some(place) = place {
            each(Part::Entries(place.after.len()));
        }
    }
}

/// The root of a collective, where it has one.
pub(super) fn collective<'a>(kind: &'a CollectiveKind, each: &mut dyn FnMut(Part<'a>)) {
    if let Some(root) = kind.root() {
        each(Part::Number(root));
    }
}
