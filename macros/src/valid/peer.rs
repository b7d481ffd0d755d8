//! Peers, recognised by their form.

use typed_nccl_plan::ir::{AxisId, Cases, Expr, Hop, MOST_NESTING, MOST_OF_ONE, Operator, Peer};

use super::scope::{Meaning, Want};
use super::{Looked, Reported, Resolver};
use crate::area::Area;
use crate::ast::{self, ExprKind, text};
use crate::fault::Fault;

/// Why a number is not a peer.
enum Strange {
    /// It is computed from the rank in another way.
    Form,
    /// On a mesh the axis must be named.
    WhichAxis,
    /// It moves along one axis and wraps around another.
    OtherAxis(AxisId, AxisId),
    /// Its cases are too deep or too many.
    Cases,
    /// `rank + 1 % n`: the operator, and the step with its parentheses.
    Precedence(char, String),
}

impl Resolver<'_> {
    pub(super) fn peer(&mut self, expr: &ast::Expr) -> Looked<Peer> {
        if let ExprKind::Name(name) = &expr.kind
            && name != "rank"
            && name != "size"
            && let Meaning::Peer(peer) = self.look(name, Want::Peer)?
        {
            return Ok(peer);
        }
        if let ExprKind::Ranked(number) = &expr.kind {
            return Ok(Peer::Rank(self.number(number)?));
        }
        if let ExprKind::Cases(parts) = &expr.kind
            && !self.is_number(expr)
        {
            let [condition, then, otherwise] = &**parts;
            let condition = self.condition(condition);
            let (then, otherwise) = (self.peer(then), self.peer(otherwise));
            let (condition, then, otherwise) = (condition?, then?, otherwise?);
            let peer = Peer::of_cases(Cases { condition, then, otherwise });
            return peer.map_or_else(|| self.strange(Strange::Cases, expr.area), Ok);
        }
        let ExprKind::List(list) = &expr.kind else {
            let number = self.number(expr)?;
            return match self.recognise(&number) {
                Ok(peer) => Ok(peer),
                Err(strange) => {
                    // Report a precedence mistake inside a `let` where the `let` is written.
                    let binds = matches!(strange, Strange::Precedence(..));
                    let written = match &expr.kind {
                        ExprKind::Name(name) if binds => self.scope.written(&text(name)),
                        _ => None,
                    };
                    self.strange(strange, written.unwrap_or(expr.area))
                }
            };
        };
        if self.valid.plan.axes.len() < 2 {
            let fault = Fault::new(expr.area, "a plan of one axis has no steps along several");
            return self.tell(fault.help(match expr.mentions("rank") {
                true => "write the step alone: `(rank + 1) % n`",
                false => "a list of numbers is a constant: `const order = [0, 2, 1];`",
            }));
        }
        let mut hops = Vec::new();
        for one in list {
            let number = self.number(one)?;
            match self.recognise(&number) {
                Ok(Peer::Shift(more)) => hops.extend(more),
                Ok(Peer::Rank(_) | Peer::Cases(_)) => {
                    return self.strange(Strange::WhichAxis, one.area);
                }
                Err(strange) => return self.strange(strange, one.area),
            }
        }
        Ok(Peer::Shift(hops))
    }

    fn recognise(&self, number: &Expr) -> Result<Peer, Strange> {
        if !number.mentions_rank() || matches!(number, Expr::Absent(_)) {
            return Ok(Peer::Rank(number.clone()));
        }
        if let Expr::Choice(choice) = number {
            let (then, otherwise) = (&*choice.then, &*choice.otherwise);
            let (then, otherwise) = (self.recognise(then)?, self.recognise(otherwise)?);
            let condition = choice.condition.clone();
            return Peer::of_cases(Cases { condition, then, otherwise }).ok_or(Strange::Cases);
        }
        let alone = self.valid.plan.axes.len() == 1;
        if let Expr::Xor(a, b) = number
            && let (Expr::Rank, bits) | (bits, Expr::Rank) = (&**a, &**b)
            && alone
            && !bits.mentions_rank()
        {
            return Ok(Peer::Rank(number.clone()));
        }
        let (inside, around) = match number {
            Expr::Rem(inside, ring) => match **ring {
                Expr::Extent(axis) => (&**inside, Some(axis)),
                Expr::Size if alone => (&**inside, Some(AxisId(0))),
                _ => return Err(Strange::Form),
            },
            number => (number, None),
        };
        let mut terms = Vec::new();
        flatten(inside, true, &mut terms);
        let mut axis = None;
        let mut by: Option<Expr> = None;
        for (plus, term) in terms {
            let along = match term {
                Expr::Rank if alone => Some(AxisId(0)),
                Expr::Rank => return Err(Strange::WhichAxis),
                Expr::Coordinate(axis) => Some(*axis),
                _ => None,
            };
            match along {
                Some(_) if !plus || axis.is_some() => return Err(Strange::Form),
                Some(_) => axis = along,
                None if around.is_none() && is_around(term) => {
                    return Err(self.precedence(number, plus, term));
                }
                None if term.mentions_rank() => return Err(Strange::Form),
                None => by = Some(sum(by, plus, term.clone())),
            }
        }
        let Some(axis) = axis else { return Err(Strange::Form) };
        if let Some(around) = around
            && around != axis
        {
            return Err(Strange::OtherAxis(axis, around));
        }
        // This rank always exists, so it does not matter whether its axis is open.
        let wrap = around.is_some() || by.is_none();
        Ok(Peer::Shift(vec![Hop { axis, by: by.unwrap_or(Expr::Int(0)), wrap }]))
    }

    /// `rank + 1 % n` is meant as `(rank + 1) % n`.
    fn precedence(&self, number: &Expr, plus: bool, term: &Expr) -> Strange {
        let plan = &self.valid.plan;
        let sign = if plus { '+' } else { '-' };
        let Expr::Rem(by, ring) = term else { return Strange::Form };
        let mut terms = Vec::new();
        flatten(number, true, &mut terms);
        let rank = match terms.iter().find(|(_, term)| term.mentions_rank()) {
            Some((_, Expr::Coordinate(axis))) => {
                format!("rank.{}", plan.show(&Expr::Extent(*axis)))
            }
            _ => "rank".to_owned(),
        };
        let (by, ring) = (plan.show(&**by), plan.show(&**ring));
        Strange::Precedence(sign, format!("({rank} {sign} {by}) % {ring}"))
    }

    fn strange<T>(&mut self, strange: Strange, area: Area) -> Looked<T> {
        let axes = &self.valid.plan.axes;
        // Missing ranks are reported already.
        if axes.is_empty() {
            return Err(Reported);
        }
        let name = |axis: AxisId| axes.get(axis.index()).map_or("n", |axis| &axis.name);
        let (first, mesh) = (name(AxisId(0)), axes.len() > 1);
        let rank = if mesh { format!("rank.{first}") } else { "rank".to_owned() };
        let forms = format!(
            "`({rank} + 1) % {first}` goes around the ring, `{rank} + 1` along the open chain; `rank(..)` is the \
             rank of a number that is computed in another way"
        );
        let fault = match strange {
            Strange::Form => {
                Fault::new(area, "this depends on the rank, and is not a step from it").help(forms)
            }
            Strange::Cases => {
                let title = format!(
                    "another rank has cases more than {MOST_NESTING} deep, or more than {MOST_OF_ONE} parts"
                );
                Fault::new(area, title).help("write its number: `rank(..)`")
            }
            Strange::WhichAxis => {
                let fault = Fault::new(
                    area,
                    "this plan has several axes, and this does not say along which",
                );
                fault.help(format!(
                    "name the axis: `({rank} + 1) % {first}`; for several, `[{rank} + 1, rank.{} - 1]`",
                    name(AxisId(1))
                ))
            }
            Strange::OtherAxis(along, around) => {
                let (along, around) = (name(along), name(around));
                let title = format!("this goes along `{along}`, and around `{around}`");
                Fault::new(area, title).help(format!("write `% {along}`"))
            }
            Strange::Precedence(sign, step) => {
                Fault::new(area, format!("`%` binds tighter than `{sign}`"))
                    .help(format!("put the step in parentheses: `{step}`"))
            }
        };
        // The value of a `let` is reported once, however often it is used.
        if self.faults.iter().any(|told| told.is(&fault)) {
            Err(Reported)
        } else {
            self.tell(fault)
        }
    }

    /// Whether this is written as a number, which may name a rank too; cases are what they choose.
    fn is_number(&self, expr: &ast::Expr) -> bool {
        match &expr.kind {
            ExprKind::List(_) | ExprKind::Ranked(_) => false,
            ExprKind::Cases(parts) => parts[1..].iter().all(|part| match &part.kind {
                ExprKind::Name(name) => !self.is_peer(name),
                _ => self.is_number(part),
            }),
            _ => true,
        }
    }

    /// The value that a `let` names.
    pub(super) fn named(&mut self, value: &ast::Expr) -> Looked<Meaning> {
        if !self.is_number(value) {
            return self.peer(value).map(Meaning::Peer);
        }
        if let Some(root) = value.root()
            && !matches!(&*text(root), "rank" | "size")
        {
            match self.look(root, Want::Any)? {
                Meaning::Buffer(_) | Meaning::Region(..) => {
                    let (region, ends_alike) = self.region_and_end(value)?;
                    return Ok(Meaning::Region(Box::new(region), ends_alike));
                }
                Meaning::Peer(peer) if matches!(value.kind, ExprKind::Name(_)) => {
                    return Ok(Meaning::Peer(peer));
                }
                _ => {}
            }
        }
        self.number(value).map(Meaning::Number)
    }
}

/// The terms of a sum, and whether each is added.
fn flatten<'a>(expr: &'a Expr, plus: bool, terms: &mut Vec<(bool, &'a Expr)>) {
    match expr {
        Expr::Add(left, right) => {
            flatten(left, plus, terms);
            flatten(right, plus, terms);
        }
        Expr::Sub(left, right) => {
            flatten(left, plus, terms);
            flatten(right, !plus, terms);
        }
        term => terms.push((plus, term)),
    }
}

fn is_around(term: &Expr) -> bool {
    matches!(term, Expr::Rem(_, ring) if matches!(**ring, Expr::Extent(_) | Expr::Size))
}

fn sum(before: Option<Expr>, plus: bool, term: Expr) -> Expr {
    match before {
        None if plus => term,
        None => Operator::Sub.fold(Expr::Int(0), term),
        Some(before) => {
            let operator = if plus { Operator::Add } else { Operator::Sub };
            operator.fold(before, term)
        }
    }
}
