//! What a plan says that memory holds: `b = a of rank - 1`.

use typed_nccl_plan::ir::{
    Around, Claim, Each, Operator as Arithmetic, Peer, Reduction, Region, Source,
};

use super::assign::reduction;
use super::number::not;
use super::statement::MOST_STATEMENTS;
use super::{Looked, Reported, Resolver};
use crate::area::Area;
use crate::ast::{self, Assigned, Block, Statement, StatementKind, Term};
use crate::fault::Fault;

impl Resolver<'_> {
    /// The claims of a block, inside these loops and conditions.
    pub(super) fn claims(&mut self, block: &Block, around: &[Around]) -> Looked<()> {
        let depth = self.scope.depth();
        let all: Vec<_> = block.iter().map(|statement| self.claim(statement, around)).collect();
        self.scope.leave(depth);
        all.into_iter().collect()
    }

    fn claim(&mut self, statement: &Statement, around: &[Around]) -> Looked<()> {
        let inside = |one: Around| [around, &[one]].concat();
        match &statement.kind {
            StatementKind::Let { name, value } => {
                self.let_be(name, value);
                Ok(())
            }
            StatementKind::For { counter, from, to, powers, body, .. } => {
                let depth = self.scope.depth();
                let each = self.counting(counter, (from, to), powers.as_ref());
                let around = each.map(|each| inside(Around::Each(each)));
                let done = self.claims(body, around.as_deref().unwrap_or_default());
                self.scope.leave(depth);
                around.and(done)
            }
            StatementKind::Const { name, rows } => self.constant(name, rows),
            StatementKind::Each { names, list, body } => {
                for row in &*self.each_row(names, list)? {
                    let depth = self.scope.depth();
                    self.take_row(names, row);
                    let done = self.claims(body, around);
                    self.scope.leave(depth);
                    done?;
                }
                Ok(())
            }
            StatementKind::If { condition, then, otherwise } => {
                let condition = self.condition(condition)?;
                let contrary = inside(Around::When(not(condition.clone())));
                let then = self.claims(then, &inside(Around::When(condition)));
                let otherwise = otherwise.as_ref().map(|block| self.claims(block, &contrary));
                let otherwise = otherwise.transpose();
                then?;
                otherwise.map(drop)
            }
            StatementKind::Assign { to, update, value } => {
                if statement.place.on.is_some() || !statement.place.after.is_empty() {
                    let fault = Fault::new(statement.area, "a claim runs on no stream");
                    return self.tell(fault.help("leave out `on` and `after`"));
                }
                self.holds(statement.area, to, *update, value, around)
            }
            StatementKind::Broken { lost, .. } => {
                self.lose(lost);
                Err(Reported)
            }
            _ => {
                let title = "this does something, and a claim only says what memory holds";
                let fault = Fault::new(statement.area, title);
                self.tell(fault.help(
                    "claims are `b = a of rank - 1;` and `x = sum(for r in 0..n { x of r });`, also in `for` and `if`",
                ))
            }
        }
    }

    pub(super) fn counting(
        &mut self,
        counter: &proc_macro2::Ident,
        (from, to): (&ast::Expr, &ast::Expr),
        powers: Option<&ast::Expr>,
    ) -> Looked<Each> {
        let (from, to) = (self.number(from), self.number(to));
        let powers = powers.map(|base| self.base(base)).transpose();
        let counter = self.counter(counter);
        Ok(Each { counter, from: from?, to: to?, powers: powers? })
    }

    /// `x += x of rank - 1`
    fn holds(
        &mut self,
        area: Area,
        to: &ast::Expr,
        update: Option<Arithmetic>,
        value: &Assigned,
        around: &[Around],
    ) -> Looked<()> {
        let region = self.region(to);
        let mut by = update.map(|update| reduction(Some(update)));
        let mut of = Vec::new();
        match value {
            Assigned::Claimed { by: named, terms, .. } => {
                if let Some(named) = named {
                    let own = match &*named.to_string() {
                        "sum" => Reduction::Sum,
                        "prod" => Reduction::Prod,
                        "min" => Reduction::Min,
                        "max" => Reduction::Max,
                        _ => Reduction::Avg,
                    };
                    if by.replace(own).is_some_and(|by| by != own) {
                        let fault = Fault::new(area, "several reductions in one another");
                        return self.tell(fault.help("claim one kind of them"));
                    }
                }
                self.terms(terms, &[], &mut of)?;
            }
            Assigned::Reduced(value) => {
                let (mut parts, mut sign) = (Vec::new(), update);
                let help = "it is memory, or a sum, a product, `min`, `max` or `avg` of memory alone: `x = y + z`";
                self.parts(value, &mut sign, &mut parts, help)?;
                by = sign.map(|sign| reduction(Some(sign)));
                for part in parts {
                    of.push(own(self.region(part)?));
                }
            }
            Assigned::Average(list, _) => {
                by = Some(Reduction::Avg);
                for part in list {
                    of.push(own(self.region(part)?));
                }
            }
        }
        let to = region?;
        if update.is_some() {
            of.insert(0, own(to.clone()));
        }
        let by = by.unwrap_or(Reduction::Sum);
        if of.len() > 1 || of.iter().any(|source| !source.around.is_empty()) {
            let element = self.buffer(to.buffer).element.clone();
            self.reduces(&element, by == Reduction::Avg, area)?;
        }
        self.written_out += 1;
        if self.written_out > MOST_STATEMENTS {
            let title = format!("written out, this is more than {MOST_STATEMENTS} statements");
            return self.tell(Fault::new(area, title).help("count instead, as in `for i in 0..k`"));
        }
        let (around, at) = (around.to_vec(), self.at(area));
        self.valid.plan.claims.push(Claim { around, to, by, of, at });
        Ok(())
    }

    fn terms(&mut self, terms: &[Term], around: &[Around], of: &mut Vec<Source>) -> Looked<()> {
        for term in terms {
            match term {
                Term::Memory { region, of: rank } => {
                    let region = match rank {
                        Some(_) => self.region_elsewhere(region),
                        None => self.region(region),
                    };
                    let rank = rank.as_ref().map(|rank| self.peer(rank)).transpose();
                    let rank = rank?.unwrap_or(Peer::Shift(Vec::new()));
                    of.push(Source { around: around.to_vec(), region: region?, rank });
                }
                Term::For { counter, from, to, powers, body } => {
                    let depth = self.scope.depth();
                    let each = self.counting(counter, (from, to), powers.as_ref())?;
                    let done = self.terms(body, &[around, &[Around::Each(each)]].concat(), of);
                    self.scope.leave(depth);
                    done?;
                }
                Term::Each { names, list, body } => {
                    for row in &*self.each_row(names, list)? {
                        let depth = self.scope.depth();
                        self.take_row(names, row);
                        let done = self.terms(body, around, of);
                        self.scope.leave(depth);
                        done?;
                    }
                }
                Term::If { condition, then, otherwise } => {
                    let condition = self.condition(condition)?;
                    let contrary = Around::When(not(condition.clone()));
                    self.terms(then, &[around, &[Around::When(condition)]].concat(), of)?;
                    self.terms(otherwise, &[around, &[contrary]].concat(), of)?;
                }
            }
        }
        Ok(())
    }
}

fn own(region: Region) -> Source {
    Source { around: Vec::new(), region, rank: Peer::Shift(Vec::new()) }
}
