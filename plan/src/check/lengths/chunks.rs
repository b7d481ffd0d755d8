//! A13 around a ring of any number n of ranks: a region of n equal chunks, each written once.
//!
//! Which chunk a message fills is a number from 0 to below n, so it is enough to know it modulo n: there it is
//! linear in the rank and the counter of the loop, whatever remainders it is written with. Where the sender
//! computes it, the sender is the receiver less the distance. A loop whose chunk numbers go up or down by one
//! fills an arc of the circle of chunks, a message outside loops an arc of one. Arcs that follow one another
//! and are n long together hold each chunk once. All arcs turn with the receiver's rank alike, so that what is
//! said for one receiver holds for all.

use super::Lengths;
use crate::arith::{Facts, Poly, Span, View};
use crate::ir::{AxisId, Coverage, Expr, Loop, LoopId, Peer, Region, Step, StepKind};

/// Statements that fill a region, at most.
const MOST: usize = 64;
/// Parts of a formula that are asked whether they are the chunk's number, at most.
const NUMBERS: usize = 32;

/// The one axis.
const RING: AxisId = AxisId(0);

/// A message or put that writes to the declared buffer, on every rank.
struct Write<'a> {
    to: &'a Region,
    /// The peer, where the rank that sends computes the place.
    sender: Option<&'a Peer>,
    around: Option<&'a Loop>,
}

/// A number modulo n: some times the rank, some times the counter, and a number.
#[derive(Clone, Copy, Default)]
struct Residue {
    rank: i64,
    counter: i64,
    more: i64,
}

/// A number, and some times n.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Linear {
    more: i64,
    times: i64,
}

/// Chunks one after another, around the circle.
struct Arc {
    /// How often the receiver's rank turns it.
    rank: i64,
    /// The first chunk, modulo n.
    first: i64,
    len: Linear,
}

impl Lengths<'_> {
    /// Whether a declared region is n chunks of one length, each of which is written once on every rank.
    /// `false` says nothing.
    pub(crate) fn covers_by_chunks(&self, covered: &Coverage) -> bool {
        let region = &covered.region;
        let buffer = &self.plan.buffers[region.buffer.index()];
        let [axis] = &self.plan.axes[..] else { return false };
        let Some(least) = axis.extent.first().filter(|first| *first >= 1) else { return false };
        if region.index.is_some() || region.next || buffer.array.is_some() || buffer.copies != 1 {
            return false;
        }
        let mut writes = Vec::new();
        if !collect(&self.plan.steps, region, Around::Nothing, &mut writes) || writes.len() > MOST {
            return false;
        }
        let arcs: Option<Vec<Arc>> =
            writes.iter().map(|write| self.arc(covered, write, least)).collect();
        arcs.is_some_and(close_the_circle)
    }

    /// The chunks that a statement writes.
    fn arc(&self, covered: &Coverage, write: &Write<'_>, least: i64) -> Option<Arc> {
        let counter = write.around.map(|around| around.counter);
        let number = self.chunk_number(covered, write)?;
        let mut of = residue(&number, counter)?;
        if let Some(peer) = write.sender {
            let by = distance(peer, counter)?;
            of.counter = of.counter.checked_sub(of.rank.checked_mul(by.counter)?)?;
            of.more = of.more.checked_sub(of.rank.checked_mul(by.more)?)?;
        }
        let Some(around) = write.around else {
            return Some(Arc { rank: of.rank, first: of.more, len: Linear { more: 1, times: 0 } });
        };
        let (from, to) = (linear(&around.from)?, linear(&around.to)?);
        let len = Linear {
            more: to.more.checked_sub(from.more)?,
            times: to.times.checked_sub(from.times)?,
        };
        // Never fewer than none, so that a loop that runs not at all is as long as it says.
        let at_least = len.times.checked_mul(least)?.checked_add(len.more)?;
        let first = match of.counter {
            1 => of.more.checked_add(from.more)?,
            -1 => of.more.checked_sub(to.more)?.checked_add(1)?,
            _ => return None,
        };
        (len.times >= 0 && at_least >= 0).then_some(Arc { rank: of.rank, first, len })
    }

    /// The number of the chunk that a statement writes, as it is written in the region's start.
    fn chunk_number(&self, covered: &Coverage, write: &Write<'_>) -> Option<Expr> {
        let (start, _) = write.to.range.as_ref()?;
        let mut numbers = Vec::new();
        start.any(|part| {
            numbers.push(part.clone());
            numbers.len() >= NUMBERS
        });
        let counter = write.around.map(|around| around.counter);
        numbers.into_iter().find(|number| {
            residue(number, counter).is_some() && self.is_chunk(covered, write, number)
        })
    }

    /// Whether a statement writes the chunk of that number, seen from the rank and in the iteration that
    /// compute it.
    fn is_chunk(&self, covered: &Coverage, write: &Write<'_>, number: &Expr) -> bool {
        if !self.may_prove() {
            return false;
        }
        let mut facts = Facts::within(self.plan, &self.fuel);
        let mut view = facts.rank();
        if let Some(around) = write.around {
            view = facts.enter(&view, around);
        }
        let spans = (
            self.span(&facts, &covered.region, &View::uniform()),
            self.span(&facts, write.to, &view),
        );
        let (Some(whole), Some(part)) = spans else { return false };
        let (n, number) = (facts.extent(RING), facts.poly(number, &view));
        let each = part.len();
        let Span { start, .. } = &part;
        facts.equal(&(&n * &each), &whole.len())
            && facts.equal(start, &(&whole.start + &(&number * &each)))
            && facts.at_most(&Poly::zero(), &number)
            && facts.less(&number, &n)
    }
}

/// What is around a statement.
#[derive(Clone, Copy)]
enum Around<'a> {
    Nothing,
    One(&'a Loop),
    /// A condition, or loops in loops: when this runs is not known here.
    More,
}

/// What messages and puts write to a buffer; `false` where it is not known how often they do.
fn collect<'a>(
    steps: &'a [Step],
    region: &Region,
    around: Around<'a>,
    writes: &mut Vec<Write<'a>>,
) -> bool {
    steps.iter().all(|step| {
        let (to, peer, by_sender) = match &step.kind {
            StepKind::Transfer(this) => (&this.to, &this.peer, true),
            StepKind::Put(this) => (&this.to, &this.peer, true),
            StepKind::Receive(this) => (&this.to, &this.peer, false),
            StepKind::Loop(this) => {
                let inside = match around {
                    Around::Nothing => Around::One(this),
                    _ => Around::More,
                };
                return collect(&this.body, region, inside, writes);
            }
            StepKind::When(this) => return collect(&this.body, region, Around::More, writes),
            _ => return collect(step.body(), region, around, writes),
        };
        if to.buffer != region.buffer {
            return true;
        }
        // Around a ring, every rank has its peer.
        let wraps = matches!(peer, Peer::Shift(hops) if hops.iter().all(|hop| hop.wrap));
        let around = match around {
            Around::Nothing => None,
            Around::One(this) => Some(this),
            Around::More => return false,
        };
        writes.push(Write { to, sender: by_sender.then_some(peer), around });
        wraps && to.index.is_none() && !to.next && writes.len() <= MOST
    })
}

/// Whether arcs, in some order, follow one another and are n long together.
fn close_the_circle(mut arcs: Vec<Arc>) -> bool {
    let Some(first) = arcs.pop() else { return false };
    let (rank, mut at, mut len) = (first.rank, first.first, Linear::default());
    let mut next = Some(first);
    while let Some(arc) = next {
        // Where the next one starts is known modulo n, so what n adds does not matter.
        let ends = (
            at.checked_add(arc.len.more),
            len.more.checked_add(arc.len.more),
            len.times.checked_add(arc.len.times),
        );
        let (Some(end), Some(more), Some(times)) = ends else { return false };
        (at, len) = (end, Linear { more, times });
        let follows = arcs.iter().position(|arc| arc.rank == rank && arc.first == at);
        next = follows.map(|place| arcs.swap_remove(place));
    }
    arcs.is_empty() && len == Linear { more: 0, times: 1 }
}

/// How far a peer is, modulo n: the same on every rank.
fn distance(peer: &Peer, counter: Option<LoopId>) -> Option<Residue> {
    let Peer::Shift(hops) = peer else { return None };
    hops.iter().try_fold(Residue::default(), |sum, hop| {
        let by = residue(&hop.by, counter)?;
        (hop.axis == RING && hop.wrap && by.rank == 0).then_some(())?;
        sum.with(by, i64::checked_add)
    })
}

/// A number modulo n.
fn residue(expr: &Expr, counter: Option<LoopId>) -> Option<Residue> {
    let none = Residue::default();
    match expr {
        Expr::Int(value) => Some(Residue { more: *value, ..none }),
        Expr::Rank | Expr::Coordinate(RING) => Some(Residue { rank: 1, ..none }),
        Expr::Size | Expr::Extent(RING) => Some(none),
        Expr::Loop(id) if Some(*id) == counter => Some(Residue { counter: 1, ..none }),
        Expr::Add(a, b) => residue(a, counter)?.with(residue(b, counter)?, i64::checked_add),
        Expr::Sub(a, b) => residue(a, counter)?.with(residue(b, counter)?, i64::checked_sub),
        Expr::Mul(a, b) => match (residue(a, counter)?, residue(b, counter)?) {
            (Residue { rank: 0, counter: 0, more }, of)
            | (of, Residue { rank: 0, counter: 0, more }) => {
                of.with(Residue { rank: more, counter: more, more }, i64::checked_mul)
            }
            _ => None,
        },
        Expr::Rem(of, by) if matches!(**by, Expr::Size | Expr::Extent(RING)) => {
            residue(of, counter)
        }
        _ => None,
    }
}

impl Residue {
    fn with(self, other: Self, op: fn(i64, i64) -> Option<i64>) -> Option<Self> {
        Some(Self {
            rank: op(self.rank, other.rank)?,
            counter: op(self.counter, other.counter)?,
            more: op(self.more, other.more)?,
        })
    }
}

/// A bound of a loop.
fn linear(expr: &Expr) -> Option<Linear> {
    let sum = |a: &Expr, b: &Expr, op: fn(i64, i64) -> Option<i64>| {
        let (a, b) = (linear(a)?, linear(b)?);
        Some(Linear { more: op(a.more, b.more)?, times: op(a.times, b.times)? })
    };
    match expr {
        Expr::Int(value) => Some(Linear { more: *value, times: 0 }),
        Expr::Size | Expr::Extent(RING) => Some(Linear { more: 0, times: 1 }),
        Expr::Add(a, b) => sum(a, b, i64::checked_add),
        Expr::Sub(a, b) => sum(a, b, i64::checked_sub),
        _ => None,
    }
}
