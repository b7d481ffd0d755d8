//! Expressions and messages as source text, for the help in messages.

use std::fmt::{self, Display, Formatter};

use typed_nccl_plan::ir::Operator as Arithmetic;

use super::{Awaited, Collective, Expr, ExprKind, Operator, StatementKind, text};

/// Binds tightest.
const ATOM: u8 = 8;

/// How tightly an expression binds; parts that bind less tightly need parentheses.
fn binds(expr: &Expr) -> u8 {
    match &expr.kind {
        ExprKind::Binary(_, operator, _) => match operator {
            Operator::Or => 1,
            Operator::And => 2,
            Operator::Compare(_) => 3,
            Operator::Arithmetic(Arithmetic::Xor) => 4,
            Operator::Arithmetic(Arithmetic::Add | Arithmetic::Sub) => 5,
            Operator::Arithmetic(Arithmetic::Min | Arithmetic::Max) => ATOM,
            Operator::Arithmetic(_) => 6,
        },
        ExprKind::Negated(_) | ExprKind::Not(_) => 7,
        ExprKind::Cases(_) => 0,
        _ => ATOM,
    }
}

fn part(expr: &Expr, least: u8, f: &mut Formatter<'_>) -> fmt::Result {
    if binds(expr) < least { write!(f, "({expr})") } else { write!(f, "{expr}") }
}

impl Display for Expr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.kind {
            ExprKind::Int(value) => write!(f, "{value}"),
            ExprKind::Name(name) => f.write_str(&text(name)),
            ExprKind::Field(base, name) => {
                part(base, ATOM, f)?;
                write!(f, ".{}", text(name))
            }
            ExprKind::Index(base, index) => write!(f, "{base}[{index}]"),
            ExprKind::Slice(base, from, to) => {
                write!(f, "{base}[")?;
                from.iter().try_for_each(|from| write!(f, "{from}"))?;
                f.write_str("..")?;
                to.iter().try_for_each(|to| write!(f, "{to}"))?;
                f.write_str("]")
            }
            ExprKind::Method(base, name, arguments) => {
                part(base, ATOM, f)?;
                write!(f, ".{}(", text(name))?;
                list(arguments, f)?;
                f.write_str(")")
            }
            ExprKind::Negated(one) => {
                f.write_str("-")?;
                part(one, 7, f)
            }
            ExprKind::Not(one) => {
                f.write_str("!")?;
                part(one, 7, f)
            }
            ExprKind::Binary(left, operator, right) if binds(self) == ATOM => {
                write!(f, "{operator}({left}, {right})")
            }
            ExprKind::Binary(left, operator, right) => {
                part(left, binds(self), f)?;
                write!(f, " {operator} ")?;
                part(right, binds(self) + 1, f)
            }
            ExprKind::Ranked(number) => write!(f, "rank({number})"),
            ExprKind::Cases(parts) => {
                let [condition, then, otherwise] = &**parts;
                write!(f, "if {condition} {{ {then} }} else {{ {otherwise} }}")
            }
            ExprKind::List(parts) => {
                f.write_str("[")?;
                list(parts, f)?;
                f.write_str("]")
            }
        }
    }
}

fn list(parts: &[Expr], f: &mut Formatter<'_>) -> fmt::Result {
    for (nth, part) in parts.iter().enumerate() {
        write!(f, "{}{part}", if nth == 0 { "" } else { ", " })?;
    }
    Ok(())
}

impl Display for Operator {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Arithmetic(operator) => operator.fmt(f),
            Self::Compare(comparison) => comparison.fmt(f),
            Self::And => f.write_str("&&"),
            Self::Or => f.write_str("||"),
        }
    }
}

impl Display for Collective {
    /// Without its communicator.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}({}", self.name, self.send)?;
        self.recv.iter().try_for_each(|recv| write!(f, " -> {recv}"))?;
        self.others.iter().try_for_each(|other| write!(f, ", {other}"))?;
        self.root.iter().try_for_each(|root| write!(f, ", root = {root}"))?;
        f.write_str(")")
    }
}

impl StatementKind {
    /// A message or a collective without its communicator, if it is one that fits on a line.
    pub(crate) fn message(&self) -> Option<String> {
        Some(match self {
            Self::Send { from, peer, into, .. } => match into {
                Some(into) => format!("send {from} to {peer} into {into}"),
                None => format!("send {from} to {peer}"),
            },
            Self::Receive { into, peer, .. } => format!("recv {into} from {peer}"),
            Self::Put { from, peer, into, signal, .. } => {
                let signal = signal.as_ref().map(|signal| format!(" signal {}", text(signal)));
                format!("put {from} to {peer} into {into}{}", signal.unwrap_or_default())
            }
            Self::Signal { signal, peer, .. } => format!("signal {} to {peer}", text(signal)),
            Self::Wait { signals, .. } => {
                let one = |one: &Awaited| {
                    let times = one.times.as_ref().map(|times| format!("{times} of "));
                    let signal = text(&one.signal);
                    format!("{}{signal} from {}", times.unwrap_or_default(), one.peer)
                };
                format!("wait {}", signals.iter().map(one).collect::<Vec<_>>().join(", "))
            }
            Self::Collective(collective) => collective.to_string(),
            _ => return None,
        })
    }
}
