//! Numbers and conditions.

use proc_macro2::Ident;
use typed_nccl_plan::ir::{AxisId, Comparison, Condition, Expr, Operator as Arithmetic};

use super::scope::{Meaning, Want};
use super::{Looked, Reported, Resolver};
use crate::area::Area;
use crate::ast::{self, ExprKind, Operator, text};
use crate::fault::Fault;

impl Resolver<'_> {
    pub(super) fn number(&mut self, expr: &ast::Expr) -> Looked<Expr> {
        match &expr.kind {
            ExprKind::Int(value) => Ok(Expr::Int(*value)),
            ExprKind::Name(name) if name == "rank" => Ok(Expr::Rank),
            ExprKind::Name(name) if name == "size" => Ok(Expr::Size),
            ExprKind::Name(name) => match self.look(name, Want::Number)? {
                Meaning::Axis(axis) => Ok(Expr::Extent(axis)),
                Meaning::Param(param) => Ok(Expr::Param(param)),
                Meaning::Counter(counter) => Ok(Expr::Loop(counter)),
                Meaning::Number(number) => Ok(number),
                Meaning::List(_) | Meaning::Constants(_) => {
                    let title = format!("expected a number, and `{name}` is a list of numbers");
                    let fault = Fault::new(name.span(), title);
                    self.tell(fault.help(format!("name one of its elements: `{name}[0]`")))
                }
                _ => Err(Reported),
            },
            ExprKind::Field(base, axis) => self.coordinate(base, axis, expr.area),
            ExprKind::Index(base, index) => {
                let ExprKind::Name(name) = &base.kind else {
                    return self.tell(no_number(expr.area));
                };
                match self.look(name, Want::Number)? {
                    Meaning::List(list) => Ok(Expr::element(list, self.number(index)?)),
                    Meaning::Constants(rows) => {
                        let index = self.number(index)?;
                        self.pick(name, &rows, index, expr.area)
                    }
                    meaning => {
                        let title = format!("`{name}` is {}, no list", meaning.what());
                        let help = format!("declare it as one: `{name}: [usize; k]`");
                        self.tell(Fault::new(name.span(), title).help(help))
                    }
                }
            }
            ExprKind::Negated(one) => Ok(Arithmetic::Sub.fold(Expr::Int(0), self.number(one)?)),
            ExprKind::Binary(left, Operator::Arithmetic(operator), right) => {
                // Check both sides before returning an error.
                let (left, right) = (self.number(left), self.number(right));
                Ok(operator.fold(left?, right?))
            }
            ExprKind::Binary(..) => {
                let fault = Fault::new(expr.area, "expected a number, found a condition");
                self.tell(fault.help("conditions go in `if` and in `where`"))
            }
            ExprKind::Cases(parts) => {
                let [condition, then, otherwise] = &**parts;
                let condition = self.condition(condition);
                let (then, otherwise) = (self.number(then), self.number(otherwise));
                Ok(Expr::choice(condition?, then?, otherwise?))
            }
            ExprKind::Ranked(number) => {
                let fault = Fault::new(expr.area, "this is another rank, and a number is expected");
                self.tell(fault.help(format!("write `{number}`")))
            }
            _ => self.tell(no_number(expr.area)),
        }
    }

    /// The base of the powers that a loop counts through.
    pub(super) fn base(&mut self, expr: &ast::Expr) -> Looked<Expr> {
        let base = self.number(expr)?;
        let fault = match base {
            Expr::Int(base) if base < 2 => {
                Fault::new(expr.area, format!("the powers of {base} have no end"))
                    .help("write `powers of 2 below n`, or another number of 2 or more")
            }
            ref base if base.mentions_rank() => {
                Fault::new(expr.area, "these are powers of another number on each rank")
                    .help("use a number that is the same on every rank")
            }
            base => return Ok(base),
        };
        self.tell(fault)
    }

    fn coordinate(&mut self, base: &ast::Expr, axis: &Ident, area: Area) -> Looked<Expr> {
        match &base.kind {
            ExprKind::Name(rank) if rank == "rank" => match self.axis(axis)? {
                AxisId(0) if self.valid.plan.axes.len() == 1 => Ok(Expr::Rank),
                axis => Ok(Expr::Coordinate(axis)),
            },
            ExprKind::Name(name) if axis == "rank" => {
                let fault = Fault::new(area, "this is not a number");
                self.tell(
                    fault.help(format!("this rank's place along `{0}` is `rank.{0}`", text(name))),
                )
            }
            _ => self.tell(no_number(area)),
        }
    }

    pub(super) fn condition(&mut self, expr: &ast::Expr) -> Looked<Condition> {
        match &expr.kind {
            ExprKind::Binary(left, Operator::Compare(comparison), right) => {
                let (left, right) = (self.number(left), self.number(right));
                Ok(Condition::Compare(left?, *comparison, right?))
            }
            ExprKind::Binary(left, operator @ (Operator::And | Operator::Or), right) => {
                let (left, right) = (self.condition(left), self.condition(right));
                let (left, right) = (left?, right?);
                let and = *operator == Operator::And;
                let mut list = Vec::new();
                for one in [left, right] {
                    match one {
                        Condition::All(several) if and => list.extend(several),
                        Condition::Any(several) if !and => list.extend(several),
                        one => list.push(one),
                    }
                }
                Ok(if and { Condition::All(list) } else { Condition::Any(list) })
            }
            ExprKind::Not(one) => Ok(not(self.condition(one)?)),
            _ => {
                let fault = Fault::new(expr.area, "expected a condition");
                self.tell(fault.help("compare two numbers, as in `rank == 0`"))
            }
        }
    }
}

/// The negation of a condition.
pub(super) fn not(condition: Condition) -> Condition {
    match condition {
        Condition::Compare(left, comparison, right) => {
            let comparison = match comparison {
                Comparison::Equal => Comparison::NotEqual,
                Comparison::NotEqual => Comparison::Equal,
                Comparison::Less => Comparison::GreaterOrEqual,
                Comparison::LessOrEqual => Comparison::Greater,
                Comparison::Greater => Comparison::LessOrEqual,
                Comparison::GreaterOrEqual => Comparison::Less,
            };
            Condition::Compare(left, comparison, right)
        }
        Condition::Not(one) => *one,
        several => Condition::Not(Box::new(several)),
    }
}

fn no_number(area: Area) -> Fault {
    Fault::new(area, "expected a number")
        .help("numbers are made of digits, names, `rank`, `xs[i]`, `+ - * / % ^`, `min`, `max` and `if .. { a } else { b }`")
}
