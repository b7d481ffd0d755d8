//! Collectives: their memory, their reduction, their root.

use proc_macro2::Ident;
use typed_nccl_plan::ir::{
    CollectiveKind, CollectiveName, CommunicatorId, Expr, Operator, Reduction, Region,
};

use super::{Looked, Reported, Resolver};
use crate::ast::{self, ExprKind};
use crate::fault::Fault;
use crate::nearest::nearest;

/// A collective whose names are looked up.
pub(super) struct Meant {
    pub(super) kind: CollectiveKind,
    pub(super) send: Region,
    pub(super) recv: Region,
    pub(super) among: CommunicatorId,
}

impl Resolver<'_> {
    pub(super) fn collective(&mut self, written: &ast::Collective) -> Looked<Meant> {
        // Memory after a comma is one mistake, whatever follows from it.
        if let Some(fault) = self.memory_behind(written) {
            return self.tell(fault);
        }
        let among = self.among(written.through.as_ref());
        let send = self.region(&written.send);
        let recv = written.recv.as_ref().map(|recv| self.region(recv));
        let reduction = self.reduction(written);
        let root = self.root(written);
        let (among, send, recv) = (among?, send?, recv.transpose()?);
        let (reduction, root) = (reduction?, root?);
        if written.which.reduces() {
            let element = self.buffer(send.buffer).element.clone();
            let by = written.others.first().map_or(written.area, |by| by.area);
            self.reduces(&element, reduction == Reduction::Avg, by)?;
        }
        let kind = CollectiveKind::new(written.which, reduction, root);
        let (send, recv) = match recv {
            Some(recv) => (send, recv),
            None => self.in_place(&kind, send, among, written)?,
        };
        Ok(Meant { kind, send, recv, among })
    }

    /// The two regions of an in-place collective from the one that is written: the side that is one
    /// rank's part is this rank's part of it.
    fn in_place(
        &mut self,
        kind: &CollectiveKind,
        whole: Region,
        among: CommunicatorId,
        written: &ast::Collective,
    ) -> Looked<(Region, Region)> {
        Ok(match kind.spec().wholes() {
            (false, true) => (self.own(&whole, among), whole),
            (true, false) => {
                let own = self.own(&whole, among);
                (whole, own)
            }
            (true, true) => {
                let fault = Fault::new(written.area, "an all-to-all does not run in place");
                return self.tell(fault.help("give it memory of its own: `all_to_all(a -> b)`"));
            }
            (false, false) => (whole.clone(), whole),
        })
    }

    /// This rank's part of a region among the ranks of a communicator.
    fn own(&self, whole: &Region, among: CommunicatorId) -> Region {
        let (mut size, mut rank) = (Expr::Size, Expr::Rank);
        if among != CommunicatorId(0)
            && let Some(communicator) = self.valid.plan.communicators.get(among.index())
        {
            let mut axes = communicator.axes.iter().copied();
            let first = axes.next();
            (size, rank) = first.map_or((Expr::Int(1), Expr::Int(0)), |first| {
                (Expr::Extent(first), Expr::Coordinate(first))
            });
            for axis in axes {
                let before = Operator::Mul.fold(rank, Expr::Extent(axis));
                rank = Operator::Add.fold(before, Expr::Coordinate(axis));
                size = Operator::Mul.fold(size, Expr::Extent(axis));
            }
        }
        let mut own = whole.clone();
        self.divide(&mut own, size, rank);
        own
    }

    /// The reduction; arbitrary for a collective without one.
    fn reduction(&mut self, written: &ast::Collective) -> Looked<Reduction> {
        let (name, example) = (&written.name, written.which.spec().example);
        let mut others = written.others.iter();
        if !written.which.reduces() {
            return match others.find(|other| reduction(other).is_some()) {
                // It was meant as the root, which is reported.
                Some(_) if written.which.has_root() && written.root.is_none() => Err(Reported),
                Some(by) => {
                    let fault = Fault::new(by.area, format!("`{name}` has no reduction"));
                    self.tell(fault.help(format!("write it as `{example}`")))
                }
                None => Ok(Reduction::Sum),
            };
        }
        let Some(first) = others.next() else {
            let fault = Fault::new(written.area, format!("`{name}` does not name its reduction"));
            return self.tell(fault.help(format!(
                "write it as `{example}`; the reductions are `sum`, `prod`, `min`, `max` and `avg`"
            )));
        };
        if let Some(other) = others.find(|other| reduction(other).is_some()) {
            if reduction(first).is_some() {
                return self.tell(Fault::new(other.area, "a collective has one reduction"));
            }
            let fault = Fault::new(first.area, format!("`{first}` is not a reduction"));
            let only = ast::Collective { others: vec![other.clone()], ..written.clone() };
            return self.tell(
                fault.help(format!("the memory says how many elements there are: write `{only}`")),
            );
        }
        self.operator(first)
    }

    fn operator(&mut self, by: &ast::Expr) -> Looked<Reduction> {
        if let Some(reduction) = reduction(by) {
            return Ok(reduction);
        }
        let fault = Fault::new(by.area, format!("`{by}` is not a reduction"));
        let written = by.to_string().to_lowercase();
        let near = nearest(&written, Reduction::ALL.into_iter().map(Reduction::word));
        self.tell(fault.help(match near {
            Some(near) => format!("did you mean `{near}`?"),
            None => "these are: `sum`, `prod`, `min`, `max` and `avg`".to_owned(),
        }))
    }

    /// The root; arbitrary for a collective without one.
    fn root(&mut self, written: &ast::Collective) -> Looked<Expr> {
        let (name, example) = (&written.name, written.which.spec().example);
        let after = written.others.get(usize::from(written.which.reduces())..).unwrap_or_default();
        let spare =
            after.iter().find(|other| !written.which.reduces() || reduction(other).is_none());
        let Some(root) = &written.root else {
            return match spare {
                None if !written.which.has_root() => Ok(Expr::Int(0)),
                // A reduction is reported with the reductions.
                Some(spare) if !written.which.has_root() && reduction(spare).is_some() => {
                    Ok(Expr::Int(0))
                }
                Some(spare) if !written.which.has_root() => {
                    let fault = Fault::new(spare.area, format!("`{name}` does not take `{spare}`"));
                    self.tell(fault.help(format!("write it as `{example}`")))
                }
                spare => self.no_root(written, spare, example),
            };
        };
        if !written.which.has_root() {
            let fault = Fault::new(root.area, format!("`{name}` has no root"));
            return self.tell(fault.help(format!("write it as `{example}`")));
        }
        match spare {
            None => self.number(root),
            Some(spare) if reduction(spare).is_some() => Err(Reported),
            Some(spare) => self.tell(Fault::new(spare.area, "a collective has one root")),
        }
    }

    /// The error for a missing root; `spare` was perhaps meant to be it.
    fn no_root(
        &mut self,
        written: &ast::Collective,
        spare: Option<&ast::Expr>,
        example: &str,
    ) -> Looked<Expr> {
        let help = match spare.filter(|by| reduction(by).is_none()) {
            Some(by) if self.number(by)?.mentions_rank() => {
                format!("name one rank, the same on all of them, as in `{example}`")
            }
            Some(by) => format!("write `root = {by}`, as in `{example}`"),
            None => format!("write it as `{example}`"),
        };
        let title = format!("`{}` does not say which rank is its root", written.name);
        let area = spare.map_or(written.area, |by| by.area);
        self.tell(Fault::new(area, title).help(help))
    }

    /// The error for memory in place of the reduction or the root: it was meant to be received.
    fn memory_behind(&self, written: &ast::Collective) -> Option<Fault> {
        let is_memory = |one: &ast::Expr| one.root().is_some_and(|root| self.is_memory(root));
        let mut others = written.others.iter();
        let memory = others.find(|one| reduction(one).is_none() && is_memory(one))?;
        let title = match (written.which.reduces(), written.which.has_root()) {
            (true, false) => format!("`{memory}` is memory, not a reduction"),
            (true, true) => format!("`{memory}` is memory, and neither a reduction nor a root"),
            (false, true) => format!("`{memory}` is memory, not a root"),
            (false, false) => format!("what `{}` receives into goes after `->`", written.name),
        };
        let mut meant = written.clone();
        meant.others.retain(|one| reduction(one).is_some() && written.which.reduces());
        if written.which.reduces() && meant.others.is_empty() {
            meant.others.push(named("sum", memory));
        }
        if written.which.has_root() && meant.root.is_none() {
            meant.root = Some(ast::Expr { kind: ExprKind::Int(0), ..memory.clone() });
        }
        // `all_reduce(sum, x)`, where `sum` is not declared
        let swapped = reduction(&written.send).is_some() && !is_memory(&written.send);
        let same = written.send.to_string() == memory.to_string();
        let help = match written.recv {
            Some(_) => format!("write `{meant}`"),
            None if swapped => {
                meant.others = vec![written.send.clone()];
                meant.send = memory.clone();
                format!("the memory comes first: `{meant}`")
            }
            None if same && written.which == CollectiveName::AllToAll => {
                "from one buffer into another: `all_to_all(a -> b)`".to_owned()
            }
            None if same => format!("in place: `{meant}`"),
            None => {
                meant.recv = Some(memory.clone());
                format!("from one buffer into another: `{meant}`")
            }
        };
        Some(Fault::new(memory.area, title).help(help))
    }
}

/// The reduction of that name.
fn reduction(written: &ast::Expr) -> Option<Reduction> {
    let ExprKind::Name(name) = &written.kind else { return None };
    of_word(name)
}

pub(super) fn of_word(name: &Ident) -> Option<Reduction> {
    Reduction::ALL.into_iter().find(|known| name == known.word())
}

fn named(name: &str, at: &ast::Expr) -> ast::Expr {
    let kind = ExprKind::Name(Ident::new(name, at.area.first));
    ast::Expr { kind, ..at.clone() }
}
