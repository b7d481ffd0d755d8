//! Numbers, conditions, regions and peers as text in the syntax of `plan!`: `(rank + 1) % n`,
//! `u[..h]`.

use std::fmt::{self, Write};

use super::{
    Around, Assign, AxisId, Choice, Compute, Condition, Equation, Expr, Hop, LoopId, MOST_NESTING,
    Operator, ParamId, Peer, Plan, Reduction, Region, Source,
};

/// Arguments of [`Plan::show`], converted from references.
#[derive(Clone, Copy, Debug)]
pub enum Shown<'a> {
    /// A number.
    Number(&'a Expr),
    /// A condition.
    Condition(&'a Condition),
    /// A region.
    Region(&'a Region),
    /// A peer.
    Peer(&'a Peer),
}

macro_rules! shown {
    ($($type:ident as $variant:ident),+) => {$(
        impl<'a> From<&'a $type> for Shown<'a> {
            fn from(what: &'a $type) -> Self {
                Self::$variant(what)
            }
        }
    )+};
}

shown! { Expr as Number, Condition as Condition, Region as Region, Peer as Peer }

impl Plan {
    /// A number, a condition, a region or a peer as text in the syntax of `plan!`, with this plan's
    /// names.
    ///
    /// * Numbers and conditions: `(rank + 1) % n`, `sizes[i] * 2`, `rank < 2 && !(m == k)`.
    ///   `rank.local` is the index along the axis `local`, `local` that axis' extent, `size` the
    ///   number of all ranks.
    /// * Peers: `(rank + 1) % n` around a ring, `rank + 1` along an open axis; on a mesh
    ///   `(rank.nodes + 1) % nodes`.
    /// * Regions: `u`, `u[h..2 * h]`, `g[i]`, `u.next[..h]`.
    ///
    /// Accepts any plan. An id that refers to nothing is shown as `axis#7`; nesting beyond the
    /// limit of well-formed plans is elided with dots.
    pub fn show<'a>(&self, what: impl Into<Shown<'a>>) -> String {
        let mut text = String::new();
        let mut writer = Writer { to: &mut text, plan: self, depth: 0 };
        // Writing to a string does not fail.
        let _ = match what.into() {
            Shown::Number(expr) => writer.number(expr, Binds::Least),
            Shown::Condition(condition) => writer.condition(condition, false),
            Shown::Region(region) => writer.region(region),
            Shown::Peer(peer) => writer.peer(peer),
        };
        text
    }

    /// An equation of a compute step in the syntax of `plan!`: `b += a`, `b = min(a, c)`.
    pub fn show_equation(&self, step: &Compute, equation: &Equation) -> String {
        let region = |region: Option<&Region>| region.map_or_else(String::new, |it| self.show(it));
        let of = equation.of.iter().map(|one| region(step.reads.get(*one as usize)));
        let to = region(step.writes.get(equation.to as usize));
        show_reduced(&to, equation.by, &of.collect::<Vec<_>>())
    }

    /// An assignment in the syntax of `plan!`: `b += a`, `b = min(a, c)`, `b = u of rank + 1`.
    pub fn show_assign(&self, assign: &Assign) -> String {
        let of: Vec<String> = assign.of.iter().map(|one| self.show_source(one)).collect();
        let to = self.show(&assign.to);
        // A loop, or a peer that a sign after it would change, stands in parentheses.
        let is_plain = |one: &Source| one.around.is_empty() && (one.is_own() || of.len() == 1);
        if assign.of.iter().all(is_plain) {
            return show_reduced(&to, assign.by, &of);
        }
        format!("{to} = {}({})", assign.by, of.join(", "))
    }

    /// `u of rank + 1`, `for r in 0..n { u of r }`
    fn show_source(&self, source: &Source) -> String {
        let mut text = self.show(&source.region);
        if !source.is_own() {
            let _ = write!(text, " of {}", self.show(&source.rank));
        }
        for around in source.around.iter().rev() {
            text = match around {
                Around::When(condition) => format!("if {} {{ {text} }}", self.show(condition)),
                Around::Each(each) => {
                    let counter = self.show(&Expr::Loop(each.counter));
                    let (from, to) = (self.show(&each.from), self.show(&each.to));
                    match &each.powers {
                        None => format!("for {counter} in {from}..{to} {{ {text} }}"),
                        Some(base) => {
                            let base = self.show(base);
                            format!("for {counter} in powers of {base} below {to} {{ {text} }}")
                        }
                    }
                }
            };
        }
        text
    }
}

/// `b += a`, where the first of these regions is `b` itself; `b = min(a, c)`.
pub(crate) fn show_reduced(to: &str, by: Reduction, of: &[String]) -> String {
    let sign = match by {
        _ if of.len() < 2 => "",
        Reduction::Sum => "+",
        Reduction::Prod => "*",
        by => return format!("{to} = {by}({})", of.join(", ")),
    };
    match of {
        [own, rest @ ..] if !rest.is_empty() && own == to => {
            format!("{to} {sign}= {}", rest.join(&format!(" {sign} ")))
        }
        of => format!("{to} = {}", of.join(&format!(" {sign} "))),
    }
}

/// Precedence of operators.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Binds {
    Least,
    Sum,
    Product,
    Atom,
}

/// Deeper parts are not shown.
const DEEPEST: usize = 2 * MOST_NESTING + 2;

struct Writer<'a> {
    to: &'a mut String,
    plan: &'a Plan,
    depth: usize,
}

impl Writer<'_> {
    /// A name, or the id if it refers to nothing.
    fn name(&mut self, kind: &str, id: u32, name: Option<&String>) -> fmt::Result {
        match name {
            Some(name) => self.to.write_str(name),
            None => write!(self.to, "{kind}#{id}"),
        }
    }

    fn axis(&mut self, axis: AxisId) -> fmt::Result {
        self.name("axis", axis.0, self.plan.axes.get(axis.index()).map(|axis| &axis.name))
    }

    fn param(&mut self, param: ParamId) -> fmt::Result {
        self.name("param", param.0, self.plan.params.get(param.index()).map(|param| &param.name))
    }

    fn counter(&mut self, counter: LoopId) -> fmt::Result {
        let named = self.plan.counters.get(counter.index());
        self.name("counter", counter.0, named.map(|counter| &counter.name))
    }

    /// Runs it unless this is too deep.
    fn deeper(&mut self, run: impl FnOnce(&mut Self) -> fmt::Result) -> fmt::Result {
        if self.depth == DEEPEST {
            return self.to.write_str("..");
        }
        self.depth += 1;
        let done = run(self);
        self.depth -= 1;
        done
    }

    fn number(&mut self, expr: &Expr, least: Binds) -> fmt::Result {
        if let Some((operator, a, b)) = expr.binary() {
            return self.binary(operator, a, b, least);
        }
        match expr {
            Expr::Int(value) => write!(self.to, "{value}"),
            Expr::Rank => self.to.write_str("rank"),
            Expr::Size => self.to.write_str("size"),
            Expr::Coordinate(axis) => self.coordinate(*axis),
            Expr::Extent(axis) => self.axis(*axis),
            Expr::Param(param) => self.param(*param),
            Expr::Loop(counter) => self.counter(*counter),
            Expr::Element(param, index) => {
                self.param(*param)?;
                self.to.write_char('[')?;
                self.deeper(|writer| writer.number(index, Binds::Least))?;
                self.to.write_char(']')
            }
            Expr::Choice(choice) => self.choice(choice, least),
            Expr::Absent(index) => {
                self.to.write_str("[..][")?;
                self.deeper(|writer| writer.number(index, Binds::Least))?;
                self.to.write_char(']')
            }
            _ => self.to.write_str(".."),
        }
    }

    /// `if rank < 2 { a } else { b }`
    fn choice(&mut self, choice: &Choice, least: Binds) -> fmt::Result {
        self.to.write_str(if least > Binds::Least { "(if " } else { "if " })?;
        self.deeper(|writer| {
            writer.condition(&choice.condition, false)?;
            writer.to.write_str(" { ")?;
            writer.number(&choice.then, Binds::Least)?;
            writer.to.write_str(" } else { ")?;
            writer.number(&choice.otherwise, Binds::Least)
        })?;
        self.to.write_str(if least > Binds::Least { " })" } else { " }" })
    }

    fn binary(&mut self, operator: Operator, a: &Expr, b: &Expr, least: Binds) -> fmt::Result {
        let (binds, tighter) = match operator {
            Operator::Add | Operator::Sub => (Binds::Sum, Binds::Product),
            Operator::Mul | Operator::Div | Operator::Rem => (Binds::Product, Binds::Atom),
            Operator::Min | Operator::Max => return self.call(operator, a, b),
            Operator::Xor => (Binds::Least, Binds::Sum),
        };
        self.to.write_str(if binds < least { "(" } else { "" })?;
        self.deeper(|writer| {
            writer.number(a, binds)?;
            write!(writer.to, " {operator} ")?;
            writer.number(b, tighter)
        })?;
        self.to.write_str(if binds < least { ")" } else { "" })
    }

    /// `min(a, b)`
    fn call(&mut self, name: Operator, a: &Expr, b: &Expr) -> fmt::Result {
        write!(self.to, "{name}(")?;
        self.deeper(|writer| {
            writer.number(a, Binds::Least)?;
            writer.to.write_str(", ")?;
            writer.number(b, Binds::Least)
        })?;
        self.to.write_char(')')
    }

    fn region(&mut self, region: &Region) -> fmt::Result {
        let buffer = self.plan.buffers.get(region.buffer.index());
        self.name("buffer", region.buffer.0, buffer.map(|buffer| &buffer.name))?;
        self.to.write_str(if region.next { ".next" } else { "" })?;
        if let Some(index) = &region.index {
            self.to.write_char('[')?;
            self.number(index, Binds::Least)?;
            self.to.write_char(']')?;
        }
        if let Some((start, end)) = &region.range {
            self.to.write_char('[')?;
            if *start != Expr::Int(0) {
                self.number(start, Binds::Least)?;
            }
            self.to.write_str("..")?;
            self.number(end, Binds::Least)?;
            self.to.write_char(']')?;
        }
        Ok(())
    }

    fn peer(&mut self, peer: &Peer) -> fmt::Result {
        match peer {
            // Written out, a number computed from the rank would read as a step.
            Peer::Rank(expr) if expr.mentions_rank() => {
                self.to.write_str("rank(")?;
                self.number(expr, Binds::Least)?;
                self.to.write_char(')')
            }
            Peer::Rank(expr) => self.number(expr, Binds::Least),
            Peer::Shift(hops) if hops.is_empty() => self.to.write_str("rank"),
            Peer::Shift(hops) => hops.iter().enumerate().try_for_each(|(nth, hop)| {
                self.to.write_str(if nth == 0 { "" } else { ", " })?;
                self.hop(hop)
            }),
            Peer::Cases(cases) => self.deeper(|writer| {
                writer.to.write_str("if ")?;
                writer.condition(&cases.condition, false)?;
                writer.to.write_str(" { ")?;
                writer.peer(&cases.then)?;
                writer.to.write_str(" } else { ")?;
                writer.peer(&cases.otherwise)?;
                writer.to.write_str(" }")
            }),
        }
    }

    fn hop(&mut self, hop: &Hop) -> fmt::Result {
        if !hop.wrap {
            return self.moved(hop.axis, &hop.by, true);
        }
        let still = hop.by == Expr::Int(0);
        self.to.write_str(if still { "" } else { "(" })?;
        self.moved(hop.axis, &hop.by, true)?;
        self.to.write_str(if still { " % " } else { ") % " })?;
        self.axis(hop.axis)
    }

    /// This rank's index along an axis: `rank.local`.
    fn coordinate(&mut self, axis: AxisId) -> fmt::Result {
        self.to.write_str("rank.")?;
        self.axis(axis)
    }

    /// This rank's index plus a distance: `rank - 1`, `rank + n - k`.
    fn moved(&mut self, axis: AxisId, by: &Expr, whole: bool) -> fmt::Result {
        let (before, sign, last) = match by {
            Expr::Int(0) if whole => return self.place(axis),
            Expr::Int(by) if *by < 0 && *by != i64::MIN => {
                self.place(axis)?;
                return write!(self.to, " - {}", by.unsigned_abs());
            }
            // A difference from 0, as `rank - k` is parsed.
            Expr::Sub(a, b) if **a == Expr::Int(0) && !matches!(**b, Expr::Int(_)) => {
                (None, '-', &**b)
            }
            Expr::Add(a, b) => (Some(a), '+', &**b),
            Expr::Sub(a, b) => (Some(a), '-', &**b),
            by => (None, '+', by),
        };
        match before {
            None => self.place(axis)?,
            Some(before) => self.deeper(|writer| writer.moved(axis, before, false))?,
        }
        write!(self.to, " {sign} ")?;
        // In parentheses, so that `rank + k % n` is not mistaken for `(rank + k) % n`.
        self.deeper(|writer| writer.number(last, Binds::Atom))
    }

    /// This rank's position on an axis, omitted if there is only one.
    fn place(&mut self, axis: AxisId) -> fmt::Result {
        match axis {
            AxisId(0) if self.plan.axes.len() == 1 => self.to.write_str("rank"),
            axis => self.coordinate(axis),
        }
    }

    /// `closed` adds parentheses if operators outside could bind to a part.
    fn condition(&mut self, condition: &Condition, closed: bool) -> fmt::Result {
        let (list, between, alone, none) = match condition {
            Condition::Compare(a, comparison, b) => {
                self.number(a, Binds::Least)?;
                write!(self.to, " {comparison} ")?;
                return self.number(b, Binds::Least);
            }
            Condition::Not(one) => {
                let compares = matches!(**one, Condition::Compare(..));
                self.to.write_str(if compares { "!(" } else { "!" })?;
                self.deeper(|writer| writer.condition(one, true))?;
                return self.to.write_str(if compares { ")" } else { "" });
            }
            Condition::All(list) => (list, " && ", "all(", "true"),
            Condition::Any(list) => (list, " || ", "any(", "false"),
        };
        let (open, close) = match list.len() {
            0 => return self.to.write_str(none),
            1 => (alone, ")"),
            _ if closed => ("(", ")"),
            _ => ("", ""),
        };
        self.to.write_str(open)?;
        self.deeper(|writer| {
            list.iter().enumerate().try_for_each(|(nth, one)| {
                writer.to.write_str(if nth == 0 { "" } else { between })?;
                writer.condition(one, list.len() > 1)
            })
        })?;
        self.to.write_str(close)
    }
}
