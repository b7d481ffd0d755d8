//! Numbers, conditions, regions and peers as text, with the plan's names: `(r + 1) % n`.
//!
//! This is also how they stand in files, so that what is shown can be read back. Names that are no words
//! are in backticks; one that several things have is told apart: `axis.n`, `param.n`, `counter.n`.

use std::fmt::{self, Write};

use super::names::{Meaning, Names, Quoted};
use super::{
    AxisId, Comparison, Compute, Condition, Equation, Expr, Hop, MOST_NESTING, Peer, Plan,
    Reduction, Region,
};

/// What [`Plan::show`] shows; references to these become one.
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
    /// A distance along an axis.
    Hop(&'a Hop),
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

shown! { Expr as Number, Condition as Condition, Region as Region, Peer as Peer, Hop as Hop }

impl Plan {
    /// A number, a condition, a region or a peer as text, with this plan's names.
    ///
    /// * Numbers and conditions: `(r + 1) % n`, `sizes[i] * 2`, `r < 2 && !(m == k)`. `r` is the rank, `r.local`
    ///   its place along the axis `local`, `local` that axis' extent, `size` the number of all ranks.
    /// * Regions: `u`, `u[h .. 2 * h]`, `g[i]`, `u.next[0 .. h]`.
    /// * Peers: `(r + 1) % n` along a ring, `r + 1` along an open axis; on a mesh with the axes' names, as in
    ///   `(r.nodes + 1) % nodes, r.local - 1`.
    ///
    /// Takes any plan. An id that names nothing is shown as `axis#7`; what is nested deeper than in any
    /// well-formed plan ends in dots.
    pub fn show<'a>(&self, what: impl Into<Shown<'a>>) -> String {
        show(&Names::new(self), what.into())
    }
}

impl Plan {
    /// What a compute step leaves in a region, as it is written in `plan!`: `b += a`, `b = min(a, c)`.
    pub fn spelled_equation(&self, step: &Compute, equation: &Equation) -> String {
        let region =
            |region: Option<&Region>| region.map_or_else(String::new, |it| self.spelled(it));
        let written = step.writes.get(equation.to as usize);
        let to = region(written);
        let read = |one: &u32| step.reads.get(*one as usize);
        let sign = match equation.by {
            Reduction::Sum => "+",
            Reduction::Prod => "*",
            by => {
                let of: Vec<String> = equation.of.iter().map(|one| region(read(one))).collect();
                return format!("{to} = {by}({})", of.join(", "));
            }
        };
        let (update, of) = match &*equation.of {
            [own, rest @ ..] if !rest.is_empty() && read(own) == written => (sign, rest),
            of => ("", of),
        };
        let of: Vec<String> = of.iter().map(|one| region(read(one))).collect();
        format!("{to} {update}= {}", of.join(&format!(" {sign} ")))
    }

    /// The same as it is written in `plan!`: `rank` for `r`, `u[..h]` for `u[0 .. h]`.
    pub(crate) fn spelled<'a>(&'a self, what: impl Into<Shown<'a>>) -> String {
        let names = Names::new(self);
        let mut text = String::new();
        Writer { to: &mut text, names: &names, depth: 0, spelled: true }.all(what.into());
        text
    }
}

/// [`Plan::show`] with names that are made once.
pub(crate) fn show(names: &Names<'_>, what: Shown<'_>) -> String {
    let mut text = String::new();
    let mut writer = Writer { to: &mut text, names, depth: 0, spelled: false };
    writer.all(what);
    text
}

/// How tightly the operators bind.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Binds {
    Sum,
    Product,
    Atom,
}

/// What is deeper than this is not shown.
const DEEPEST: usize = 2 * MOST_NESTING + 2;

struct Writer<'a, 'n> {
    to: &'a mut String,
    names: &'a Names<'n>,
    depth: usize,
    spelled: bool,
}

impl Writer<'_, '_> {
    fn all(&mut self, what: Shown<'_>) {
        // Writing to a string does not fail.
        let _ = match what {
            Shown::Number(expr) => self.number(expr, Binds::Sum),
            Shown::Condition(condition) => self.condition(condition, false),
            Shown::Region(region) => self.region(region),
            Shown::Peer(peer) => self.peer(peer),
            Shown::Hop(hop) => self.hop(hop),
        };
    }

    fn rank(&self) -> &'static str {
        if self.spelled { "rank" } else { "r" }
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
        let (a, sign, b, binds, tighter) = match expr {
            Expr::Int(value) => return write!(self.to, "{value}"),
            Expr::Rank => return self.to.write_str(self.rank()),
            Expr::Size => return self.to.write_str("size"),
            Expr::Coordinate(axis) => return self.coordinate(*axis),
            Expr::Extent(axis) => return self.names.write(Meaning::Axis(*axis), self.to),
            Expr::Param(param) => return self.names.write(Meaning::Param(*param), self.to),
            Expr::Loop(counter) => return self.names.write(Meaning::Counter(*counter), self.to),
            Expr::Element(param, index) => {
                self.names.write(Meaning::Param(*param), self.to)?;
                self.to.write_char('[')?;
                self.deeper(|writer| writer.number(index, Binds::Sum))?;
                return self.to.write_char(']');
            }
            Expr::Add(a, b) => (a, '+', b, Binds::Sum, Binds::Product),
            Expr::Sub(a, b) => (a, '-', b, Binds::Sum, Binds::Product),
            Expr::Mul(a, b) => (a, '*', b, Binds::Product, Binds::Atom),
            Expr::Div(a, b) => (a, '/', b, Binds::Product, Binds::Atom),
            Expr::Rem(a, b) => (a, '%', b, Binds::Product, Binds::Atom),
            Expr::Min(a, b) => return self.call("min", a, b),
            Expr::Max(a, b) => return self.call("max", a, b),
        };
        self.to.write_str(if binds < least { "(" } else { "" })?;
        self.deeper(|writer| {
            writer.number(a, binds)?;
            write!(writer.to, " {sign} ")?;
            writer.number(b, tighter)
        })?;
        self.to.write_str(if binds < least { ")" } else { "" })
    }

    /// `min(a, b)`
    fn call(&mut self, name: &str, a: &Expr, b: &Expr) -> fmt::Result {
        write!(self.to, "{name}(")?;
        self.deeper(|writer| {
            writer.number(a, Binds::Sum)?;
            writer.to.write_str(", ")?;
            writer.number(b, Binds::Sum)
        })?;
        self.to.write_char(')')
    }

    fn region(&mut self, region: &Region) -> fmt::Result {
        match self.names.plan.buffers.get(region.buffer.index()) {
            Some(buffer) => write!(self.to, "{}", Quoted(&buffer.name))?,
            None => write!(self.to, "buffer#{}", region.buffer.0)?,
        }
        self.to.write_str(if region.next { ".next" } else { "" })?;
        if let Some(index) = &region.index {
            self.to.write_char('[')?;
            self.number(index, Binds::Sum)?;
            self.to.write_char(']')?;
        }
        if let Some((start, end)) = &region.range {
            self.to.write_char('[')?;
            if !self.spelled || *start != Expr::Int(0) {
                self.number(start, Binds::Sum)?;
            }
            self.to.write_str(if self.spelled { ".." } else { " .. " })?;
            self.number(end, Binds::Sum)?;
            self.to.write_char(']')?;
        }
        Ok(())
    }

    fn peer(&mut self, peer: &Peer) -> fmt::Result {
        match peer {
            Peer::Rank(expr) => self.number(expr, Binds::Sum),
            Peer::Shift(hops) if hops.is_empty() => self.to.write_str(self.rank()),
            Peer::Shift(hops) => hops.iter().enumerate().try_for_each(|(nth, hop)| {
                self.to.write_str(if nth == 0 { "" } else { ", " })?;
                self.hop(hop)
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
        self.names.write(Meaning::Axis(hop.axis), self.to)
    }

    /// This rank's place along an axis: `r.local`.
    fn coordinate(&mut self, axis: AxisId) -> fmt::Result {
        match self.names.plan.axes.get(axis.index()) {
            Some(axis) => write!(self.to, "{}.{}", self.rank(), Quoted(&axis.name)),
            None => write!(self.to, "{}.axis#{}", self.rank(), axis.0),
        }
    }

    /// This rank's place, moved by some distance: `r - 1`, `r + n - k`.
    fn moved(&mut self, axis: AxisId, by: &Expr, whole: bool) -> fmt::Result {
        let (before, sign, last) = match by {
            Expr::Int(0) if whole => return self.place(axis),
            Expr::Int(by) if *by < 0 && *by != i64::MIN => {
                self.place(axis)?;
                return write!(self.to, " - {}", by.unsigned_abs());
            }
            // A difference from 0, as `r - k` is read.
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
        // In parentheses, lest `r + k % n` is taken for `(r + k) % n`.
        self.deeper(|writer| writer.number(last, Binds::Atom))
    }

    /// Where this rank is on an axis, which goes without saying where there is one alone.
    fn place(&mut self, axis: AxisId) -> fmt::Result {
        match axis {
            AxisId(0) if self.names.plan.axes.len() == 1 => self.to.write_str(self.rank()),
            axis => self.coordinate(axis),
        }
    }

    /// `closed` puts parentheses around what others could bind into.
    fn condition(&mut self, condition: &Condition, closed: bool) -> fmt::Result {
        let (list, between, alone, none) = match condition {
            Condition::Compare(a, comparison, b) => {
                self.number(a, Binds::Sum)?;
                write!(self.to, " {comparison} ")?;
                return self.number(b, Binds::Sum);
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

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
        })
    }
}
