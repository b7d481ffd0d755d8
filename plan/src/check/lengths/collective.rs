//! Collectives: their regions fit, on all ranks alike, and lie at their own place where they run in place.

use super::{Lengths, PROMISE};
use crate::arith::{Facts, Poly, Span, View};
use crate::ir::{AxisId, Collective, CollectiveKind, Expr, Location, Region};
use crate::verdict::Check;

impl Lengths<'_> {
    /// Proves that a collective's two regions fit, on every rank alike, and that it runs in place where it
    /// should.
    pub(super) fn collective(
        &mut self,
        number: u32,
        this: &Collective,
        facts: &Facts,
        view: &View,
        at: Location,
    ) {
        let (Some(send), Some(recv)) =
            (self.span(facts, &this.send, view), self.span(facts, &this.recv, view))
        else {
            return self.undecided(Check::Agreement, at, "a region of no known length", PROMISE);
        };
        let among = &self.plan.communicators[this.among.index()];
        let size = among.axes.iter().fold(Poly::from(1), |size, &axis| &size * &facts.extent(axis));
        let (sent, received) = (send.len(), recv.len());
        let fits = match this.kind {
            CollectiveKind::AllReduce(_)
            | CollectiveKind::Broadcast(_)
            | CollectiveKind::Reduce(..) => facts.equal(&sent, &received),
            CollectiveKind::AllGather | CollectiveKind::Gather(_) => {
                facts.equal(&received, &(&size * &sent))
            }
            CollectiveKind::ReduceScatter(_) | CollectiveKind::Scatter(_) => {
                facts.equal(&sent, &(&size * &received))
            }
            CollectiveKind::AllToAll => facts.equal(&sent, &received),
        };
        let looked_at = |region: &Region| {
            let len = &self.plan.buffers[region.buffer.index()].len;
            self.is_looked_at(len) && self.is_fixed(region, number)
        };
        let sizes_looked_at = among.axes.iter().all(|axis| self.fixed.axes[axis.index()]);
        let all = looked_at(&this.send) && looked_at(&this.recv) && sizes_looked_at;
        if !fits && !all {
            let title =
                "whether the regions of this collective fit cannot be decided for every size";
            self.undecided(Check::Agreement, at, title, PROMISE);
        }
        let counts = self.around.iter().any(|around| {
            let range = this.send.range.iter().flat_map(|(start, end)| [start, end]);
            let mut parts = range.chain(&this.send.index);
            parts.any(|expr| expr.any(|part| *part == Expr::Loop(around.counter)))
        });
        self.sent.insert(number, ((!counts).then(|| sent.clone()), all));
        // Without a length it is not issued: of some ranks alone, that may be what makes it right.
        if !all && !facts.less(&Poly::zero(), &sent) {
            if self.anywhere.is_some() {
                let title = "whether this collective, which is not all ranks', has a length cannot be decided \
                             for every size";
                self.undecided(Check::CollectiveOrder, at, title, PROMISE);
            }
            self.may_be_empty.insert(number);
        }
        // The same on another rank.
        let mut other_facts = facts.clone();
        let other = self.another_rank(&mut other_facts, view);
        let theirs = self.len(&other_facts, &this.send, &other);
        let same = theirs.is_some_and(|theirs| other_facts.equal(&theirs, &sent));
        if !same && !all {
            let title = "whether all ranks give this collective one length cannot be decided";
            self.undecided(Check::Agreement, at, title, PROMISE);
        }
        self.in_place(this, (&send, &recv), facts, view, at, all);
    }

    /// Whether two collectives that meet, though different statements, have one length at every size.
    pub(crate) fn meet(&self, one: u32, other: u32) -> bool {
        match (self.sent.get(&one), self.sent.get(&other)) {
            (Some((_, true)), Some((_, true))) => true,
            (Some((Some(a), _)), Some((Some(b), _))) => self.declared.equal(a, b),
            _ => false,
        }
    }

    fn in_place(
        &mut self,
        this: &Collective,
        (send, recv): (&Span, &Span),
        facts: &Facts,
        view: &View,
        at: Location,
        all: bool,
    ) {
        let same_object = this.send.buffer == this.recv.buffer && this.send.next == this.recv.next;
        if !same_object || all || facts.disjoint(send, recv) {
            return;
        }
        let axes = &self.plan.communicators[this.among.index()].axes;
        let index = axes.iter().fold(Poly::zero(), |index, &axis: &AxisId| {
            &(&index * &facts.extent(axis)) + &view.coordinate(axis)
        });
        let right = match this.kind {
            CollectiveKind::AllReduce(_)
            | CollectiveKind::Broadcast(_)
            | CollectiveKind::Reduce(..) => facts.same(send, recv),
            CollectiveKind::AllGather | CollectiveKind::Gather(_) => {
                facts.equal(&send.start, &(&recv.start + &(&index * &send.len())))
            }
            CollectiveKind::ReduceScatter(_) | CollectiveKind::Scatter(_) => {
                facts.equal(&recv.start, &(&send.start + &(&index * &recv.len())))
            }
            CollectiveKind::AllToAll => false,
        };
        // Other buffers of one array are other memory.
        let other_index = match (&this.send.index, &this.recv.index) {
            (Some(a), Some(b)) => facts.different(&facts.poly(a, view), &facts.poly(b, view)),
            _ => false,
        };
        if !right && !other_index {
            let title = "whether this collective runs at its own place cannot be decided";
            self.undecided(
                Check::Initialised,
                at,
                title,
                "rank r's part begins at r times its length",
            );
        }
    }
}
