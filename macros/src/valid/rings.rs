//! Names that a plan wraps around, such as `n` in `(rank + 1) % n`: they are meant to be ranks.

use typed_nccl_plan::ir::Operator as Arithmetic;

use crate::ast::{Assigned, Block, Expr, ExprKind, Operator, StatementKind, Term, text};

pub(super) fn names(block: &Block) -> Vec<String> {
    let mut names = Vec::new();
    walk(block, &mut names);
    names
}

fn walk(block: &Block, names: &mut Vec<String>) {
    for statement in block {
        match &statement.kind {
            StatementKind::Let { value, .. } => ring(value, names),
            StatementKind::Send { peer, .. }
            | StatementKind::Receive { peer, .. }
            | StatementKind::Put { peer, .. }
            | StatementKind::Signal { peer, .. } => ring(peer, names),
            StatementKind::Wait { signals, .. } => {
                signals.iter().for_each(|one| ring(&one.peer, names));
            }
            StatementKind::Assign { value: Assigned::OfRanks { terms, .. }, .. } => {
                of_ranks(terms, names);
            }
            StatementKind::Group(body)
            | StatementKind::Sequence(body)
            | StatementKind::On(body)
            | StatementKind::For { body, .. }
            | StatementKind::Each { body, .. } => walk(body, names),
            StatementKind::If { then, otherwise, .. } => {
                walk(then, names);
                otherwise.iter().for_each(|block| walk(block, names));
            }
            StatementKind::Broken { bodies, .. } => {
                bodies.iter().for_each(|block| walk(block, names));
            }
            _ => {}
        }
    }
}

fn of_ranks(terms: &[Term], names: &mut Vec<String>) {
    for term in terms {
        match term {
            Term::Memory { of, .. } => of.iter().for_each(|peer| ring(peer, names)),
            Term::For { body, .. } | Term::Each { body, .. } => of_ranks(body, names),
            Term::If { then, otherwise, .. } => {
                of_ranks(then, names);
                of_ranks(otherwise, names);
            }
        }
    }
}

fn ring(peer: &Expr, names: &mut Vec<String>) {
    if let ExprKind::Cases(parts) = &peer.kind {
        parts.iter().for_each(|part| ring(part, names));
    }
    if let ExprKind::Binary(step, Operator::Arithmetic(Arithmetic::Rem), around) = &peer.kind
        && step.mentions("rank")
        && let ExprKind::Name(name) = &around.kind
    {
        names.push(text(name));
    }
}
