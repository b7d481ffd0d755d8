//! Expands collectives: the elements that a rank sends and receives.

use super::Walk;
use super::leaf::op;
use crate::ir::Collective;
use crate::program::{NONE, Op, OpKind, Span};

impl Walk<'_> {
    pub(super) fn collective(&mut self, number: u32, rank: usize, this: &Collective) {
        let among = this.among.index();
        let first = self.layout.first(among, rank);
        let members = self.layout.members(among);
        let root = match this.kind.root().map(|root| self.env(rank).eval(root)) {
            None => None,
            Some(Ok(root)) if (0..members as i64).contains(&root) => {
                Some(self.layout.member(among, first, root as usize))
            }
            Some(Ok(root)) => {
                let name = &self.plan.communicators[among].name;
                let ranks = if members == 1 { "rank" } else { "ranks" };
                let title = match (among, members) {
                    (0, 1) => format!("there is 1 rank, and this root is {root}"),
                    (0, _) => format!("there are {members} ranks, and this root is {root}"),
                    _ => format!("`{name}` has {members} {ranks}, and this root is {root}"),
                };
                let help = match among {
                    0 => "ranks are counted from 0: name one of them as the root",
                    _ => "name a rank of the communicator as the root",
                };
                return self.out_of_bounds(number, rank, title, help);
            }
            Some(Err(why)) => return self.no_value(number, rank, why),
        };
        let kind = this.kind.with_root(());
        let is_root = root == Some(rank);
        let spec = kind.spec();
        let (sends, receives) = (spec.send.is_on(is_root), spec.recv.is_on(is_root));
        let span = |walk: &mut Self, region, used: bool| match used {
            true => walk.span(number, rank, region),
            false => Some(Span::NOTHING),
        };
        let (Some(source), Some(target)) =
            (span(self, &this.send, sends), span(self, &this.recv, receives))
        else {
            return;
        };
        if source.is_empty() && target.is_empty() && (sends || receives) {
            // Zero lengths are dropped; on a rank that only sends or only receives, that side
            // counts.
            return;
        }
        let op = op(OpKind::Collective(kind), number, this.among.0, &this.place);
        let peer = root.map_or(NONE, |root| root as u32);
        self.push(rank, Op { peer, source, target, ..op }, &this.place);
    }
}
