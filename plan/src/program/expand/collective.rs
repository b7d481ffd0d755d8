//! Expands collectives: the elements that a rank sends and receives.

use super::Walk;
use super::problems::OutOfBounds;
use crate::ir::Collective;
use crate::program::{NONE, Op, OpKind};

impl Walk<'_> {
    pub(super) fn collective(&mut self, rank: usize, this: &Collective) -> Result<(), OutOfBounds> {
        let root = self.root(rank, this)?;
        let kind = this.kind.with_root(());
        let is_root = root == Some(rank);
        let spec = kind.spec();
        let (sends, receives) = (spec.send.is_on(is_root), spec.recv.is_on(is_root));
        let source = self.span(rank, sends.then_some(&this.send))?;
        let target = self.span(rank, receives.then_some(&this.recv))?;
        if source.is_empty() && target.is_empty() && (sends || receives) {
            // Zero lengths are dropped; on a rank that only sends or only receives, that side
            // counts.
            return Ok(());
        }
        let op = self.op(OpKind::Collective(kind), this.among, &this.place);
        let peer = root.map_or(NONE, |root| root as u32);
        self.push(rank, Op { peer, source, target, ..op }, &this.place);
        Ok(())
    }

    /// The root, as a rank of the plan.
    fn root(&self, rank: usize, this: &Collective) -> Result<Option<usize>, OutOfBounds> {
        let Some(root) = this.kind.root() else { return Ok(None) };
        let root = self.env(rank).eval(root)?;
        let among = this.among.index();
        let members = self.layout.members(among);
        if (0..members as i64).contains(&root) {
            let first = self.layout.first(among, rank);
            return Ok(Some(self.layout.member(among, first, root as usize)));
        }
        let name = &self.plan.communicators[among].name;
        let ranks = if members == 1 { "rank" } else { "ranks" };
        let has = match (among, members) {
            (0, 1) => "there is 1 rank".to_owned(),
            (0, _) => format!("there are {members} ranks"),
            _ => format!("`{name}` has {members} {ranks}"),
        };
        let help = match among {
            0 => "ranks are counted from 0: name one of them as the root",
            _ => "name a rank of the communicator as the root",
        };
        Err(OutOfBounds::new(format!("{has}, and this root is {root}"), help))
    }
}
