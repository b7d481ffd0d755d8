//! Numbers that differ, regions that lie apart.

use super::atom::Kind;
use super::facts::Facts;
use super::poly::{Monomial, Poly};
use crate::ir::{Comparison, Condition, Expr};

use super::view::View;

/// Remainders and chunks inside each other, at most.
const DEPTH: usize = 4;
/// Lengths that chunks may have, tried for one pair of regions, at most.
const CHUNKS: usize = 6;

/// Elements from `start` to before `end`.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    pub(crate) start: Poly,
    pub(crate) end: Poly,
}

impl Span {
    pub(crate) fn new(start: Poly, end: Poly) -> Self {
        Self { start, end }
    }

    /// From the first element to before this one.
    pub(crate) fn to(end: Poly) -> Self {
        Self { start: Poly::zero(), end }
    }

    pub(crate) fn len(&self) -> Poly {
        &self.end - &self.start
    }
}

impl Facts {
    /// Whether a condition is proved to hold, or proved not to.
    pub(crate) fn decide(&self, condition: &Condition, view: &View) -> Option<bool> {
        match condition {
            Condition::Compare(a, by, b) => {
                let (a, b) = (self.poly(a, view), self.poly(b, view));
                let (holds, fails) = match by {
                    Comparison::Equal => (self.equal(&a, &b), self.different(&a, &b)),
                    Comparison::NotEqual => (self.different(&a, &b), self.equal(&a, &b)),
                    Comparison::Less => (self.less(&a, &b), self.at_most(&b, &a)),
                    Comparison::LessOrEqual => (self.at_most(&a, &b), self.less(&b, &a)),
                    Comparison::Greater => (self.less(&b, &a), self.at_most(&a, &b)),
                    Comparison::GreaterOrEqual => (self.at_most(&b, &a), self.less(&a, &b)),
                };
                if holds { Some(true) } else { fails.then_some(false) }
            }
            Condition::Not(other) => self.decide(other, view).map(|holds| !holds),
            Condition::All(list) => self.decide_all(list, true, view),
            Condition::Any(list) => self.decide_all(list, false, view),
        }
    }

    /// `neutral` if all of them are that, the opposite if one is.
    fn decide_all(&self, list: &[Condition], neutral: bool, view: &View) -> Option<bool> {
        let mut verdict = Some(neutral);
        for one in list {
            match self.decide(one, view) {
                Some(value) if value != neutral => return Some(value),
                Some(_) => {}
                None => verdict = None,
            }
        }
        verdict
    }

    /// Whether `expr` surely has a value: divisors are above zero, indices of lists are not negative.
    pub(crate) fn has_value(&self, expr: &Expr, view: &View) -> bool {
        match expr {
            Expr::Div(a, b) | Expr::Rem(a, b) => {
                self.has_value(a, view)
                    && self.has_value(b, view)
                    && self.less(&Poly::zero(), &self.poly(b, view))
            }
            Expr::Add(a, b) | Expr::Sub(a, b) | Expr::Mul(a, b) => {
                self.has_value(a, view) && self.has_value(b, view)
            }
            Expr::Element(param, index) => {
                let at = self.poly(index, view);
                self.has_value(index, view)
                    && self.prove_non_negative(&at)
                    && self.count(*param).is_some_and(|count| self.less(&at, &count))
            }
            Expr::Int(_)
            | Expr::Rank
            | Expr::Size
            | Expr::Coordinate(_)
            | Expr::Extent(_)
            | Expr::Param(_)
            | Expr::Loop(_) => true,
        }
    }

    /// Whether `a <= b` is proved.
    pub(crate) fn at_most(&self, a: &Poly, b: &Poly) -> bool {
        self.prove_non_negative(&(b - a))
    }

    /// Whether `a < b` is proved.
    pub(crate) fn less(&self, a: &Poly, b: &Poly) -> bool {
        self.prove_non_negative(&(&(b - a) - 1))
    }

    /// Whether `a == b` is proved.
    pub(crate) fn equal(&self, a: &Poly, b: &Poly) -> bool {
        let difference = self.normal(&(a - b));
        match difference.as_constant() {
            Some(value) => value == 0,
            None => self.prove_non_negative(&difference) && self.prove_non_negative(&-&difference),
        }
    }

    /// Whether `a != b` is proved.
    pub(crate) fn different(&self, a: &Poly, b: &Poly) -> bool {
        self.not_zero(&self.normal(&(a - b)), DEPTH)
    }

    /// Whether one region is proved to lie in another: it starts there or later and ends there or before.
    /// An empty region is asked for its place too.
    pub(crate) fn contained(&self, inner: &Span, outer: &Span) -> bool {
        self.at_most(&outer.start, &inner.start) && self.at_most(&inner.end, &outer.end)
    }

    /// Whether two regions are proved to be the same elements.
    pub(crate) fn same(&self, a: &Span, b: &Span) -> bool {
        self.equal(&a.start, &b.start) && self.equal(&a.end, &b.end)
    }

    /// Whether two regions are proved to have no element in common.
    pub(crate) fn disjoint(&self, a: &Span, b: &Span) -> bool {
        let distance = self.normal(&(&a.start - &b.start));
        self.apart(&distance, &a.len(), &b.len(), DEPTH)
            || self.prove_non_negative(&-&a.len())
            || self.prove_non_negative(&-&b.len())
    }

    fn not_zero(&self, number: &Poly, depth: usize) -> bool {
        if let Some(value) = number.as_constant() {
            return value != 0;
        }
        if number.is_unknown() {
            return false;
        }
        let reversed = -number;
        let assumed = |known: &Poly| {
            let known = self.normal(known);
            (number - &known).is_zero() || (&reversed - &known).is_zero()
        };
        self.non_zero.iter().any(assumed)
            || self.apart(number, &Poly::from(1), &Poly::from(1), depth)
            || depth > 0 && self.not_zero_modulo(number, depth)
    }

    /// By a modulus of which the number is no multiple: `(r + 1) % n` is not r.
    fn not_zero_modulo(&self, number: &Poly, depth: usize) -> bool {
        let mut moduli: Vec<Poly> = Vec::new();
        for atom in number.atoms() {
            if let Some(Kind::Rem(_, by)) = self.atoms.borrow().kind(atom) {
                moduli.push(Poly::from_terms(by.clone()));
            }
        }
        moduli.extend(self.chunks(number));
        moduli.iter().any(|modulus| {
            let rest = self.atoms.borrow().modulo(number, modulus);
            let rest = self.normal(&rest);
            !(&rest - number).is_zero()
                && self.less(&rest, modulus)
                && self.less(&-&rest, modulus)
                && self.not_zero(&rest, depth - 1)
        })
    }

    /// Whether regions of these lengths are apart, of which one starts so much after the other.
    fn apart(&self, distance: &Poly, len: &Poly, other: &Poly, depth: usize) -> bool {
        self.at_most(other, distance)
            || self.at_most(len, &-distance)
            || depth > 0
                && self.chunks(distance).iter().any(|chunk| {
                    let (whole, rest) = quotient(distance, chunk);
                    let reversed = -&rest;
                    let between = |from: &Poly, more: &Poly, to: &Poly| {
                        self.at_most(from, more) && self.at_most(&(more + to), chunk)
                    };
                    // Either the regions lie in different chunks (if they lie in chunks), or they lie
                    // in different parts of whichever chunks they lie in.
                    !whole.is_zero()
                        && self.prove_non_negative(chunk)
                        && (self.at_most(&(other - &rest), chunk)
                            && self.at_most(&(len + &rest), chunk)
                            && self.not_zero(&whole, depth - 1)
                            || between(other, &rest, len)
                            || between(len, &reversed, other))
                })
    }

    /// Lengths of chunks that a distance may be a number of.
    fn chunks(&self, distance: &Poly) -> Vec<Poly> {
        let mut chunks: Vec<Poly> = Vec::new();
        for atom in distance.atoms() {
            let Some((slope, _)) = distance.split(atom) else { continue };
            let mut candidates: Vec<Poly> = Vec::new();
            for &(monomial, factor) in slope.terms().unwrap_or_default() {
                candidates.push(Poly::term((monomial, factor.abs())));
                candidates.push(Poly::term((monomial, 1)));
            }
            candidates.push(slope);
            for chunk in candidates {
                // Chunks of one element are the numbers themselves.
                let new = chunks
                    .iter()
                    .all(|known| !(known - &chunk).is_zero() && !(known + &chunk).is_zero());
                if new && chunks.len() < CHUNKS && chunk.as_constant() != Some(1) {
                    chunks.push(chunk);
                }
            }
        }
        chunks
    }
}

/// `(whole, rest)` such that `number` is `whole * chunk + rest`.
fn quotient(number: &Poly, chunk: &Poly) -> (Poly, Poly) {
    let unknown = (Poly::zero(), Poly::UNKNOWN);
    let (Some(terms), Some(divisor)) = (number.terms(), chunk.terms()) else { return unknown };
    let mut whole = Poly::zero();
    if let [(monomial, factor)] = divisor {
        let parts = terms.iter().filter(|(_, times)| times % factor == 0);
        let parts = parts.filter_map(|(m, times)| Some((m.without(monomial)?, times / factor)));
        whole = Poly::from_terms(parts.collect());
    } else {
        for atom in number.atoms() {
            let Some((slope, _)) = number.split(atom) else { return unknown };
            for sign in [1, -1] {
                if (&slope - &chunk.scale(sign)).is_zero() {
                    whole = &whole + &(&Poly::term((Monomial::ONE, sign)) * &Poly::atom(atom));
                }
            }
        }
    }
    let rest = number - &(&whole * chunk);
    (whole, rest)
}
