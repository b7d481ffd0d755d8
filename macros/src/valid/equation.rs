//! The equations of a compute step: `run add(read a, update b) computes b += a`.
//!
//! Memory is named by the method's argument, or as it is written among them.

use proc_macro2::Ident;
use typed_nccl_plan::ir::{Equation, Operator as Arithmetic};

use super::assign::reduction;
use super::compute::{Given, Value};
use super::{Looked, Resolver};
use crate::ast::{self, ArgumentKind, ExprKind, Operator, text};
use crate::fault::Fault;

/// A step's arguments and their names.
struct Gets<'a> {
    step: &'a Ident,
    names: &'a [String],
    given: &'a [Given],
}

impl Gets<'_> {
    /// The index of an argument among those that are read, or those that are written.
    fn nth(&self, argument: usize, counts: impl Fn(ArgumentKind) -> bool) -> u32 {
        let before = self.given[..argument].iter();
        before.filter(|one| matches!(one.value, Value::Region(_)) && counts(one.kind)).count()
            as u32
    }

    fn read(&self, argument: usize) -> u32 {
        self.nth(argument, |kind| matches!(kind, ArgumentKind::Read | ArgumentKind::Update))
    }

    fn written(&self, argument: usize) -> u32 {
        self.nth(argument, |kind| matches!(kind, ArgumentKind::Write | ArgumentKind::Update))
    }
}

impl Resolver<'_> {
    pub(super) fn equations(
        &mut self,
        step: &Ident,
        written: &[ast::Equation],
        names: &[String],
        given: &[Given],
    ) -> Looked<Vec<Equation>> {
        let gets = Gets { step, names, given };
        let equations: Vec<_> = written.iter().map(|one| self.equation(one, &gets)).collect();
        equations.into_iter().collect()
    }

    fn equation(&mut self, written: &ast::Equation, gets: &Gets<'_>) -> Looked<Equation> {
        let ast::Equation { to, update, value } = written;
        let into = self.argument(to, gets)?;
        let does = gets.given[into].kind;
        if does == ArgumentKind::Read {
            let fault = Fault::new(to.area, format!("`{}` does not write `{to}`", gets.step));
            return self.tell(fault.help(format!("say `update {to}`, or `write {to}`, before")));
        }
        if update.is_some() && does == ArgumentKind::Write {
            let title = format!("this adds to `{to}`, which `{}` only writes", gets.step);
            let title = match update {
                Some(Arithmetic::Mul) => title.replace("adds to", "multiplies"),
                _ => title,
            };
            let help = format!("say `update {to}`: the step reads what is there, and writes it");
            return self.tell(Fault::new(to.area, title).help(help));
        }
        let mut by = *update;
        let mut parts = Vec::new();
        let help = "a step computes a sum, a product, `min` or `max`, of memory alone: `b = a + c`";
        self.parts(value, &mut by, &mut parts, help)?;
        let mut of: Vec<u32> = update.iter().map(|_| gets.read(into)).collect();
        for part in parts {
            let argument = self.argument(part, gets)?;
            if gets.given[argument].kind == ArgumentKind::Write {
                let title = format!("`{}` does not read `{part}`", gets.step);
                let help =
                    format!("say `update {part}`: the step reads what is there, and writes it");
                return self.tell(Fault::new(part.area, title).help(help));
            }
            of.push(gets.read(argument));
        }
        Ok(Equation { to: gets.written(into), by: reduction(by), of })
    }

    /// The memory that is reduced, all by one operator.
    pub(super) fn parts<'e>(
        &mut self,
        value: &'e ast::Expr,
        by: &mut Option<Arithmetic>,
        parts: &mut Vec<&'e ast::Expr>,
        help: &str,
    ) -> Looked<()> {
        match &value.kind {
            ExprKind::Binary(left, operator, right) => {
                let reduces = match operator {
                    Operator::Arithmetic(Arithmetic::Sub | Arithmetic::Div | Arithmetic::Rem) => {
                        None
                    }
                    Operator::Arithmetic(one) => {
                        Some(*one).filter(|one| by.is_none_or(|by| by == *one))
                    }
                    _ => None,
                };
                if reduces.is_none() {
                    let title = "this is not one reduction";
                    return self.tell(Fault::new(value.area, title).help(help));
                }
                *by = reduces;
                self.parts(left, by, parts, help)?;
                self.parts(right, by, parts, help)
            }
            _ => {
                parts.push(value);
                Ok(())
            }
        }
    }

    /// The argument that an expression refers to.
    fn argument(&mut self, written: &ast::Expr, gets: &Gets<'_>) -> Looked<usize> {
        let is_region = |at: &usize| matches!(gets.given[*at].value, Value::Region(_));
        if let ExprKind::Name(name) = &written.kind
            && let Some(at) = gets.names.iter().position(|known| *known == text(name))
            && is_region(&at)
        {
            return Ok(at);
        }
        let these: Vec<String> = (0..gets.given.len())
            .filter(is_region)
            .map(|at| format!("`{}`", gets.names[at]))
            .collect();
        let help = match &*these {
            [] => format!("name memory in the parentheses: `{}(read a, update b)`", gets.step),
            these => format!("name what it gets: {}", these.join(", ")),
        };
        let ExprKind::Int(_) = written.kind else {
            let region = self.region(written)?;
            let is_it = |one: &Given| matches!(&one.value, Value::Region(one) if *one == region);
            return match gets.given.iter().position(is_it) {
                Some(at) => Ok(at),
                None => {
                    let title = format!("`{}` does not get `{written}`", gets.step);
                    self.tell(Fault::new(written.area, title).help(help))
                }
            };
        };
        self.tell(Fault::new(written.area, "a step computes with memory alone").help(help))
    }
}
