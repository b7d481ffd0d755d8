//! What a plan says that memory holds: `b = a of rank - 1`.

use typed_nccl_plan::ir::{Around, Claim, Each, Operator as Arithmetic, Reduction, Source};

use super::assign::{PARTS, reduction};
use super::collective::of_word;
use super::number::not;
use super::statement::MOST_STATEMENTS;
use super::{Looked, Reported, Resolver};
use crate::area::Area;
use crate::ast::{
    self, Assigned, Block, Counted, ExprKind, Operator, Statement, StatementKind, Term,
};
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
            StatementKind::For { counted, body, .. } => {
                let depth = self.scope.depth();
                let around = self.counting(counted).map(|each| inside(Around::Each(each)));
                let done = self.claims(body, around.as_deref().unwrap_or_default());
                self.scope.leave(depth);
                around.and(done)
            }
            StatementKind::Const { name, rows } => self.constant(name, rows),
            StatementKind::Each { names, list, body } => {
                self.for_rows(names, list, |this| this.claims(body, around))
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
                    let fault = Fault::new(statement.area, "a claim does not run on a stream");
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

    /// A loop that counts, whose counter is in scope until its block ends.
    pub(super) fn counting(&mut self, counted: &Counted) -> Looked<Each> {
        let (from, to) = (self.number(&counted.from), self.number(&counted.to));
        let powers = counted.powers.as_ref().map(|base| self.base(base)).transpose();
        let counter = self.counter(&counted.counter);
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
        let (by, mut of) = self.of_ranks(area, update, value)?;
        let to = region?;
        of.splice(0..0, update.map(|_| Source::own(to.clone())));
        self.reduces_sources(&to, by, &of, area)?;
        self.written_out += 1;
        if self.written_out > MOST_STATEMENTS {
            let title = format!("written out, this is more than {MOST_STATEMENTS} statements");
            return self.tell(Fault::new(area, title).help("count instead, as in `for i in 0..k`"));
        }
        let (around, at) = (around.to_vec(), self.at(area));
        self.valid.plan.claims.push(Claim { around, to, by, of, at });
        Ok(())
    }

    /// The sources on the right side, and their reduction.
    pub(super) fn of_ranks(
        &mut self,
        area: Area,
        update: Option<Arithmetic>,
        value: &Assigned,
    ) -> Looked<(Reduction, Vec<Source>)> {
        let mut by = update.map(|update| reduction(Some(update)));
        let mut of = Vec::new();
        match value {
            Assigned::OfRanks { by: named, sign, terms, .. } => {
                let mut sign = *sign;
                self.terms(terms, &mut sign, &[], &mut of)?;
                let named = named.as_ref().and_then(of_word);
                for own in named.into_iter().chain(sign.map(|sign| reduction(Some(sign)))) {
                    if by.replace(own).is_some_and(|by| by != own) {
                        let fault = Fault::new(area, "several reductions in one another");
                        return self.tell(fault.help("use one kind of them"));
                    }
                }
            }
            Assigned::Reduced(value) => {
                let (mut parts, mut sign) = (Vec::new(), update);
                self.parts(value, &mut sign, &mut parts, PARTS)?;
                by = sign.map(|sign| reduction(Some(sign)));
                for part in parts {
                    of.push(Source::own(self.region(part)?));
                }
            }
            Assigned::Average(list, _) => {
                by = Some(Reduction::Avg);
                for part in list {
                    of.push(Source::own(self.region(part)?));
                }
            }
        }
        Ok((by.unwrap_or(Reduction::Sum), of))
    }

    fn terms(
        &mut self,
        terms: &[Term],
        sign: &mut Option<Arithmetic>,
        around: &[Around],
        of: &mut Vec<Source>,
    ) -> Looked<()> {
        for term in terms {
            match term {
                Term::Memory { region, of: None } => {
                    of.push(Source {
                        around: around.to_vec(),
                        ..Source::own(self.region(region)?)
                    });
                }
                Term::Memory { region, of: Some(rank) } => {
                    let (rank, own) = self.before_memory(rank, sign);
                    let (region, rank) = (self.region_elsewhere(region), self.peer(rank));
                    of.push(Source { around: around.to_vec(), region: region?, rank: rank? });
                    for own in own {
                        let own = Source::own(self.region(own)?);
                        of.push(Source { around: around.to_vec(), ..own });
                    }
                }
                Term::For { counted, body } => {
                    let depth = self.scope.depth();
                    let each = self.counting(counted)?;
                    let done =
                        self.terms(body, sign, &[around, &[Around::Each(each)]].concat(), of);
                    self.scope.leave(depth);
                    done?;
                }
                Term::Each { names, list, body } => {
                    self.for_rows(names, list, |this| this.terms(body, sign, around, of))?;
                }
                Term::If { condition, then, otherwise } => {
                    let condition = self.condition(condition)?;
                    let contrary = Around::When(not(condition.clone()));
                    self.terms(then, sign, &[around, &[Around::When(condition)]].concat(), of)?;
                    self.terms(otherwise, sign, &[around, &[contrary]].concat(), of)?;
                }
            }
        }
        Ok(())
    }

    /// A rank after `of`, and the memory of this rank that follows it behind signs: `u of 0 + v`.
    fn before_memory<'e>(
        &self,
        mut rank: &'e ast::Expr,
        sign: &mut Option<Arithmetic>,
    ) -> (&'e ast::Expr, Vec<&'e ast::Expr>) {
        let mut own = Vec::new();
        while let ExprKind::Binary(before, Operator::Arithmetic(one), memory) = &rank.kind
            && matches!(one, Arithmetic::Add | Arithmetic::Mul)
            && sign.is_none_or(|sign| sign == *one)
            && memory.root().is_some_and(|name| self.is_memory(name))
        {
            *sign = Some(*one);
            own.insert(0, &**memory);
            rank = before;
        }
        (rank, own)
    }
}
