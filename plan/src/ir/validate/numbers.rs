//! Validates numbers, conditions, regions and peers: the names that are allowed in each context.

use super::Found;
use crate::ir::{Condition, Expr, Location, Peer, Region};

/// The context of a number, which decides what it may depend on.
#[derive(Clone, Copy)]
pub(super) struct Use<'a> {
    /// The context in words: "the length of buffer `u`".
    pub(super) what: &'a str,
    /// Whether it may differ between ranks.
    pub(super) rank: bool,
    /// The number of parameters declared before it.
    pub(super) params: usize,
}

impl Found<'_> {
    /// A number of a statement, which may depend on anything.
    pub(super) fn number(&mut self, expr: &Expr, what: &str, at: Location) {
        let params = self.plan.params.len();
        self.number_as(expr, Use { what, rank: true, params }, at);
    }

    /// A number that is the same on every rank.
    pub(super) fn even(&mut self, expr: &Expr, what: &str, at: Location) {
        let params = self.plan.params.len();
        self.number_as(expr, Use { what, rank: false, params }, at);
    }

    pub(super) fn number_as(&mut self, expr: &Expr, used: Use<'_>, at: Location) {
        let mut told_rank = used.rank;
        expr.any(|part| {
            self.mention(part, used, &mut told_rank, at);
            false
        });
    }

    fn mention(&mut self, part: &Expr, used: Use<'_>, told_rank: &mut bool, at: Location) {
        let what = used.what;
        match part {
            Expr::Rank | Expr::Coordinate(_) if !*told_rank => {
                *told_rank = true;
                let title = format!("{what} mentions the rank");
                self.say(at, title, "use extents and parameters, which are the same on every rank");
            }
            Expr::Coordinate(axis) | Expr::Extent(axis) => {
                self.in_range(axis.index(), self.plan.axes.len(), what, "axis", at);
            }
            Expr::Param(param) | Expr::Element(param, _) => {
                let index = param.index();
                if !self.in_range(index, self.plan.params.len(), what, "parameter", at) {
                    return;
                }
                let declared = &self.plan.params[index];
                let name = &declared.name;
                if index >= used.params {
                    let title =
                        format!("{what} mentions `{name}`, which is not declared before it");
                    self.say(at, title, format!("declare `{name}` first"));
                }
                match (part, &declared.count) {
                    (Expr::Param(_), Some(_)) => {
                        let title = format!("{what} uses `{name}`, a list, as a number");
                        self.say(at, title, format!("name one of its elements, as in `{name}[0]`"));
                    }
                    (Expr::Element(..), None) => {
                        let title = format!("{what} uses `{name}`, a number, as a list");
                        let help =
                            format!("write `{name}` without an index, or declare how many it has");
                        self.say(at, title, help);
                    }
                    _ => {}
                }
            }
            Expr::Loop(counter) if !self.scope.contains(counter) => {
                let index = counter.index();
                if self.in_range(index, self.plan.counters.len(), what, "counter", at) {
                    let name = &self.plan.counters[index].name;
                    let title = format!("{what} mentions `{name}`, which counts nothing around it");
                    self.say(at, title, format!("use `{name}` inside the loop that counts it"));
                }
            }
            _ => {}
        }
    }

    pub(super) fn condition(
        &mut self,
        condition: &Condition,
        what: &str,
        rank: bool,
        at: Location,
    ) {
        let params = self.plan.params.len();
        let mut told_rank = rank;
        condition.any(&mut |part| {
            self.mention(part, Use { what, rank, params }, &mut told_rank, at);
            false
        });
    }

    /// A region of a statement. `whole` says whether it may be a whole array.
    pub(super) fn region(&mut self, region: &Region, what: &str, whole: bool, at: Location) {
        let index = region.buffer.index();
        if self.in_range(index, self.plan.buffers.len(), what, "buffer", at) {
            let buffer = &self.plan.buffers[index];
            let name = &buffer.name;
            match (&buffer.array, &region.index) {
                (Some(_), None) if !whole => {
                    let title = format!(
                        "`{name}` is an array, and this statement needs one of its buffers"
                    );
                    self.say(at, title, format!("name one of them, as in `{name}[0]`"));
                }
                // The buffers may differ in length, so no range is in all of them.
                (Some(_), None) if region.range.is_some() => {
                    let title =
                        format!("`{name}` is an array, and a range needs one of its buffers");
                    let help =
                        format!("name one of them, as in `{name}[0]`, or leave out the range");
                    self.say(at, title, help);
                }
                (None, Some(_)) => {
                    let title = format!("{what} has an index, and `{name}` is a single buffer");
                    let help = format!("leave out the index, or declare `{name}` as an array");
                    self.say(at, title, help);
                }
                _ => {}
            }
            if region.next && buffer.copies != 2 {
                let title = format!("{what} is the next copy of `{name}`, which has one");
                self.say(
                    at,
                    title,
                    format!("declare `{name}` swapped, with two copies, or leave out `next`"),
                );
            }
        }
        if let Some(index) = &region.index {
            self.number(index, "the index of a region", at);
        }
        if let Some((start, end)) = &region.range {
            self.number(start, "the start of a region", at);
            self.number(end, "the end of a region", at);
        }
    }

    /// A peer through a communicator that was validated before.
    pub(super) fn peer(&mut self, peer: &Peer, among: usize, at: Location) {
        let hops = match peer {
            Peer::Rank(expr) => return self.number(expr, "the peer", at),
            Peer::Cases(cases) => {
                self.condition(&cases.condition, "the peer", true, at);
                self.peer(&cases.then, among, at);
                return self.peer(&cases.otherwise, among, at);
            }
            Peer::Shift(hops) => hops,
        };
        for (nth, hop) in hops.iter().enumerate() {
            self.even(&hop.by, "how far the peer is", at);
            let index = hop.axis.index();
            if !self.in_range(index, self.plan.axes.len(), "the peer", "axis", at) {
                continue;
            }
            let name = &self.plan.axes[index].name;
            // Report only the first repetition, which also bounds the search.
            if hops[..nth.min(self.plan.axes.len())].iter().any(|before| before.axis == hop.axis) {
                let title = format!("the peer goes along `{name}` twice");
                return self.say(at, title, "add the two distances");
            }
            if let Some(communicator) = self.plan.communicators.get(among)
                && !communicator.axes.contains(&hop.axis)
            {
                let title = format!(
                    "the peer lies along `{name}`, and ranks of `{}` do not differ there",
                    communicator.name
                );
                self.say(at, title, format!("use a communicator that has the axis `{name}`"));
            }
        }
    }

    /// Whether an id refers to something; reported if not.
    pub(super) fn in_range(
        &mut self,
        index: usize,
        len: usize,
        what: &str,
        kind: &str,
        at: Location,
    ) -> bool {
        if index < len {
            return true;
        }
        let title = format!("{what} names {kind} number {index}, and the plan has {len}");
        self.say(at, title, format!("declare the {kind}, or name one that is declared"));
        false
    }
}
