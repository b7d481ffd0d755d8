//! Collectives: their memory, their reduction, their root.

use proc_macro2::Ident;
use typed_nccl_plan::ir::{CollectiveKind, CommunicatorId, Expr, Reduction, Region};

use super::number::binary;
use super::{Looked, Resolver, Told};
use crate::ast::{self, Operator};
use crate::fault::Fault;
use crate::nearest::nearest;
use crate::parse::words::example;

/// A collective whose names are looked up.
pub(super) struct Meant {
    pub(super) kind: CollectiveKind,
    pub(super) send: Region,
    pub(super) recv: Region,
    pub(super) among: CommunicatorId,
}

/// What a collective needs besides its memory, and how it is written.
struct Form {
    reduction: bool,
    root: bool,
    example: &'static str,
}

const REDUCTIONS: [(&str, Reduction); 5] = [
    ("sum", Reduction::Sum),
    ("prod", Reduction::Prod),
    ("min", Reduction::Min),
    ("max", Reduction::Max),
    ("avg", Reduction::Avg),
];

fn form(name: &str) -> Form {
    let (reduction, root) = match name {
        "all_reduce" | "reduce_scatter" => (true, false),
        "reduce" => (true, true),
        "broadcast" | "gather" | "scatter" => (false, true),
        _ => (false, false),
    };
    Form { reduction, root, example: example(name) }
}

impl Resolver<'_> {
    pub(super) fn collective(&mut self, written: &ast::Collective) -> Looked<Meant> {
        let name = written.name.to_string();
        let form = form(&name);
        let among = self.among(written.through.as_ref());
        let send = self.region(&written.send);
        let recv = written.recv.as_ref().map(|recv| self.region(recv));
        let reduction = self.reduction(written, &form);
        let root = self.root(written, &form);
        let (among, send, recv) = (among?, send?, recv.transpose()?);
        let (reduction, root) = (reduction?, root?);
        if form.reduction {
            let element = self.buffer(send.buffer).element.clone();
            let by = written.reduction.as_ref().map_or(written.area, |by| by.span().into());
            self.reduces(&element, reduction == Reduction::Avg, by)?;
        }
        let kind = match &*name {
            "all_reduce" => CollectiveKind::AllReduce(reduction),
            "reduce" => CollectiveKind::Reduce(reduction, root),
            "reduce_scatter" => CollectiveKind::ReduceScatter(reduction),
            "broadcast" => CollectiveKind::Broadcast(root),
            "gather" => CollectiveKind::Gather(root),
            "scatter" => CollectiveKind::Scatter(root),
            "all_to_all" => CollectiveKind::AllToAll,
            _ => CollectiveKind::AllGather,
        };
        let (send, recv) = match recv {
            Some(recv) => (send, recv),
            None => self.in_place(&kind, send, among, written)?,
        };
        Ok(Meant { kind, send, recv, among })
    }

    /// Where a collective sends and receives of which one region is written: the part that is one rank's
    /// is this rank's part of it.
    fn in_place(
        &mut self,
        kind: &CollectiveKind,
        whole: Region,
        among: CommunicatorId,
        written: &ast::Collective,
    ) -> Looked<(Region, Region)> {
        Ok(match kind {
            CollectiveKind::AllGather | CollectiveKind::Gather(_) => {
                (self.own(&whole, among), whole)
            }
            CollectiveKind::ReduceScatter(_) | CollectiveKind::Scatter(_) => {
                let own = self.own(&whole, among);
                (whole, own)
            }
            CollectiveKind::AllToAll => {
                let fault = Fault::new(written.area, "an all-to-all does not run in place");
                return self.tell(fault.help("give it memory of its own: `all_to_all(a -> b)`"));
            }
            _ => (whole.clone(), whole),
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
                let before = binary(Operator::Mul, rank, Expr::Extent(axis));
                rank = binary(Operator::Add, before, Expr::Coordinate(axis));
                size = binary(Operator::Mul, size, Expr::Extent(axis));
            }
        }
        let mut own = whole.clone();
        self.divide(&mut own, size, rank);
        own
    }

    /// The reduction; anything, where the collective has none.
    fn reduction(&mut self, written: &ast::Collective, form: &Form) -> Looked<Reduction> {
        let (name, example) = (&written.name, form.example);
        match &written.reduction {
            Some(by) if form.reduction => self.operator(by),
            // It was meant as the root, which is told.
            Some(_) if form.root && written.root.is_none() => Err(Told),
            Some(by) => {
                let fault = Fault::new(by.span(), format!("`{name}` has no reduction"));
                self.tell(fault.help(format!("write it as `{example}`")))
            }
            None if form.reduction => {
                let fault =
                    Fault::new(written.area, format!("`{name}` does not say by what it reduces"));
                self.tell(fault.help(format!(
                    "write it as `{example}`; the reductions are `sum`, `prod`, `min`, `max` and `avg`"
                )))
            }
            None => Ok(Reduction::Sum),
        }
    }

    fn operator(&mut self, by: &Ident) -> Looked<Reduction> {
        let name = by.to_string();
        if let Some((_, reduction)) = REDUCTIONS.iter().find(|(known, _)| *known == name) {
            return Ok(*reduction);
        }
        let fault = Fault::new(by.span(), format!("`{name}` is no reduction"));
        let near = nearest(&name.to_lowercase(), REDUCTIONS.iter().map(|(name, _)| *name));
        self.tell(fault.help(match near {
            Some(near) => format!("did you mean `{near}`?"),
            None => "these are: `sum`, `prod`, `min`, `max` and `avg`".to_owned(),
        }))
    }

    /// The root; anything, where the collective has none.
    fn root(&mut self, written: &ast::Collective, form: &Form) -> Looked<Expr> {
        let (name, example) = (&written.name, form.example);
        match &written.root {
            Some(root) if form.root => self.number(root),
            Some(root) => {
                let fault = Fault::new(root.area, format!("`{name}` has no root"));
                self.tell(fault.help(format!("write it as `{example}`")))
            }
            None if form.root => {
                let meant = written.reduction.as_ref().filter(|_| !form.reduction);
                let area = meant.map_or(written.area, |by| by.span().into());
                let help = match meant {
                    Some(by) => format!("write `root = {by}`, as in `{example}`"),
                    None => format!("write it as `{example}`"),
                };
                let title = format!("`{name}` does not say which rank is its root");
                self.tell(Fault::new(area, title).help(help))
            }
            None => Ok(Expr::Int(0)),
        }
    }
}
