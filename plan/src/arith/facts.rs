//! What is known about the numbers of a plan.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use super::atom::{Atom, Atoms, Kind};
use super::fuel::Fuel;
use super::poly::{Monomial, Poly, Term};
use super::prove::Memory;
use super::view::View;
use crate::ir::{AxisId, Comparison, Condition, Expr, ParamId, Plan, Values};

/// Assumptions at most; more are forgotten.
const ASSUMPTIONS: usize = 200;

/// What is known: the plan's declarations, and what was assumed since.
///
/// Clone it to assume something for a while. Polynomials and views of one go with its clones too: what
/// they mean does not depend on what is assumed. Assumptions that contradict each other prove
/// everything about what they mention.
///
/// An instance whose promises cannot be evaluated, because of a division by zero, is no instance: a
/// promise `len % parts == 0` says that `parts` is above zero.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    declared: Rc<Declared>,
    pub(super) atoms: Rc<RefCell<Atoms>>,
    pub(super) assumptions: Vec<Assumption>,
    /// These are not zero.
    pub(super) non_zero: Vec<Poly>,
    /// Equalities: these atoms stand for those polynomials. A later one may replace atoms of an earlier
    /// one's polynomial, never the other way round.
    pub(super) solved: HashMap<Atom, Poly>,
    pub(super) memory: RefCell<Memory>,
    pub(super) fuel: Fuel,
}

/// Something that is not negative.
#[derive(Clone, Debug)]
pub(super) struct Assumption {
    pub(super) fact: Vec<Term>,
    /// The atoms of which it may tell something, directly or through what is known of its own.
    pub(super) about: Vec<Atom>,
}

#[derive(Debug)]
struct Declared {
    extents: Vec<Values>,
    params: Vec<Values>,
    /// How many elements the parameters have that are lists.
    counts: Vec<Option<Expr>>,
}

impl Facts {
    /// What a plan's axes, parameters and promises say; proofs take as much as they like.
    #[cfg(test)]
    pub(crate) fn of(plan: &Plan) -> Self {
        Self::within(plan, &Fuel::new(u64::MAX))
    }

    /// What a plan's axes, parameters and promises say, for proofs that together take so much.
    pub(crate) fn within(plan: &Plan, fuel: &Fuel) -> Self {
        let declared = Declared {
            extents: plan.axes.iter().map(|axis| axis.extent.clone()).collect(),
            params: plan.params.iter().map(|param| param.values.clone()).collect(),
            counts: plan.params.iter().map(|param| param.count.clone()).collect(),
        };
        let mut facts = Self {
            declared: Rc::new(declared),
            atoms: Rc::default(),
            assumptions: Vec::new(),
            non_zero: Vec::new(),
            solved: HashMap::new(),
            memory: RefCell::default(),
            fuel: fuel.clone(),
        };
        for axis in facts.axes() {
            facts.extent(axis);
        }
        for axis in facts.axes() {
            if let Some(only) = exactly(&facts.declared.extents[axis.index()]) {
                facts.assume_equal(&facts.extent(axis), &Poly::from(only));
            }
        }
        for (i, param) in (0..).zip(&plan.params) {
            if let (Some(only), None) = (exactly(&param.values), &param.count) {
                let param = facts.poly(&Expr::Param(ParamId(i)), &View::uniform());
                facts.assume_equal(&param, &Poly::from(only));
            }
        }
        for promise in &plan.promises {
            facts.assume(&promise.condition, &View::uniform());
        }
        facts
    }

    /// The plan's axes.
    pub(super) fn axes(&self) -> impl Iterator<Item = AxisId> + use<> {
        (0..).map(AxisId).take(self.declared.extents.len())
    }

    /// How many elements a parameter has that is a list.
    pub(crate) fn count(&self, param: ParamId) -> Option<Poly> {
        let count = self.declared.counts.get(param.index())?.as_ref()?;
        Some(self.poly(count, &View::uniform()))
    }

    /// Assumes that a condition holds. Of alternatives, nothing is remembered.
    pub(crate) fn assume(&mut self, condition: &Condition, view: &View) {
        self.suppose(condition, true, view);
    }

    /// Assumes that a condition does not hold.
    pub(crate) fn assume_not(&mut self, condition: &Condition, view: &View) {
        self.suppose(condition, false, view);
    }

    fn suppose(&mut self, condition: &Condition, holds: bool, view: &View) {
        // What is assumed is compared with all that was.
        if !self.fuel.take(16) {
            return;
        }
        match (condition, holds) {
            (Condition::Compare(a, by, b), _) => {
                let by = if holds { *by } else { opposite(*by) };
                let (a, b) = (self.poly(a, view), self.poly(b, view));
                match by {
                    Comparison::Equal => self.assume_equal(&a, &b),
                    Comparison::NotEqual => self.assume_different(&a, &b),
                    Comparison::Less => self.assume_non_negative(&(&(&b - &a) - 1)),
                    Comparison::LessOrEqual => self.assume_non_negative(&(&b - &a)),
                    Comparison::Greater => self.assume_non_negative(&(&(&a - &b) - 1)),
                    Comparison::GreaterOrEqual => self.assume_non_negative(&(&a - &b)),
                }
            }
            (Condition::Not(other), _) => self.suppose(other, !holds, view),
            (Condition::All(list), true) | (Condition::Any(list), false) => {
                for one in list {
                    self.suppose(one, holds, view);
                }
            }
            (Condition::All(list), false) | (Condition::Any(list), true) => {
                if let [only] = list.as_slice() {
                    self.suppose(only, holds, view);
                }
            }
        }
    }

    /// Assumes `from <= value < to`.
    pub(crate) fn assume_in(&mut self, value: &Poly, from: &Poly, to: &Poly) {
        self.assume_non_negative(&(value - from));
        self.assume_non_negative(&(&(to - value) - 1));
    }

    /// Assumes `poly >= 0`.
    pub(crate) fn assume_non_negative(&mut self, poly: &Poly) {
        if !self.fuel.take(1 + self.non_zero.len() as u64) {
            return;
        }
        self.remember(poly);
        // What was only known to differ may now be known to be larger.
        for known in std::mem::take(&mut self.non_zero) {
            self.assume_different(&known, &Poly::zero());
        }
    }

    /// Assumes `a != b`.
    pub(crate) fn assume_different(&mut self, a: &Poly, b: &Poly) {
        let difference = self.normal(&(a - b));
        let reversed = -&difference;
        if self.prove_non_negative(&difference) {
            self.remember(&(&difference - 1));
        } else if self.prove_non_negative(&reversed) {
            self.remember(&(&reversed - 1));
        } else if self.non_zero.len() < ASSUMPTIONS {
            self.memory.take();
            self.non_zero.push(difference);
        }
    }

    /// Assumes `a == b`.
    pub(crate) fn assume_equal(&mut self, a: &Poly, b: &Poly) {
        let zero = self.normal(&(a - b));
        if zero.is_zero() {
            return;
        }
        let zero = divided(&zero);
        if let Some(written_out) = self.without_remainder(&zero) {
            // Said in both ways: the remainder has that value, and the number is that much above a
            // multiple.
            self.remember(&zero);
            self.remember(&-&zero);
            let zero = self.normal(&written_out);
            self.solve(&zero);
        } else {
            self.solve(&zero);
        }
    }

    /// Makes an equality a rule that replaces an atom where it can, and two inequalities elsewhere.
    fn solve(&mut self, zero: &Poly) {
        let Some((atom, value)) = self.solution(zero) else {
            self.remember(zero);
            self.remember(&-zero);
            return;
        };
        // Everything that is known is said anew.
        if !self.fuel.take(1 + self.assumptions.len() as u64 + self.non_zero.len() as u64) {
            return;
        }
        // What was known of the atom by its nature is now to be known of its value.
        let mut known = self.definition(atom);
        known.extend(std::mem::take(&mut self.assumptions).into_iter().map(|old| old.fact));
        let different = std::mem::take(&mut self.non_zero);
        self.memory.take();
        self.solved.insert(atom, value);
        for fact in known {
            self.remember(&Poly::from_terms(fact));
        }
        for poly in different {
            self.assume_different(&poly, &Poly::zero());
        }
    }

    /// An atom that `zero == 0` determines, and its value.
    fn solution(&self, zero: &Poly) -> Option<(Atom, Poly)> {
        let atoms = self.atoms.borrow();
        let mut best: Option<(usize, Atom, Poly)> = None;
        for atom in zero.atoms() {
            let preference = match atoms.kind(atom)? {
                Kind::Param(_) => 0,
                Kind::Coordinate(..) => 1,
                Kind::Extent(_) => 2,
                Kind::Free(_) => 3,
                Kind::Element(..) => 4,
                Kind::Div(..) | Kind::Rem(..) => continue,
            };
            let (times, rest) = zero.split(atom)?;
            let value = match times.as_constant() {
                Some(1) => -&rest,
                Some(-1) => rest,
                _ => continue,
            };
            let nested = value.terms().is_none_or(|value| atoms.mentions(value, atom));
            if !nested && best.as_ref().is_none_or(|(p, ..)| preference < *p) {
                best = Some((preference, atom, value));
            }
        }
        best.map(|(_, atom, value)| (atom, value))
    }

    /// For `x % m + rest`, what it is zero together with: `x + rest - m * q` for a new q.
    fn without_remainder(&mut self, zero: &Poly) -> Option<Poly> {
        for atom in zero.atoms() {
            let (times, rest) = zero.split(atom)?;
            let value = match times.as_constant() {
                Some(1) => -&rest,
                Some(-1) => rest,
                _ => continue,
            };
            let Some(Kind::Rem(of, by)) = self.atoms.borrow().kind(atom).cloned() else { continue };
            if value.atoms().into_iter().any(|part| self.is_opaque(part)) {
                continue;
            }
            let (of, by) = (Poly::from_terms(of), Poly::from_terms(by));
            // It could be evaluated, so the divisor is above zero.
            self.remember(&(&by - 1));
            let whole = self.free();
            let above = &of - &value;
            if self.prove_non_negative(&above) {
                self.remember(&whole);
            }
            return Some(&above - &(&by * &whole));
        }
        None
    }

    fn remember(&mut self, poly: &Poly) {
        let poly = self.normal(poly);
        if let Some(terms) = poly.terms()
            && poly.as_constant().is_none_or(|value| value < 0)
        {
            let fact = tightened(terms);
            let new = self.assumptions.iter().all(|known| known.fact != fact);
            if new && self.assumptions.len() < ASSUMPTIONS {
                self.memory.take();
                let about = self.atoms.borrow_mut().around(&fact);
                self.assumptions.push(Assumption { fact, about });
            }
        }
    }

    /// What holds of an atom by its nature: these are not negative.
    pub(super) fn definition(&self, atom: Atom) -> Vec<Vec<Term>> {
        if let Some(known) = self.memory.borrow().definitions.get(&atom) {
            return known.clone();
        }
        let Some(kind) = self.atoms.borrow().kind(atom).cloned() else { return Vec::new() };
        let of_values = |values: Option<&Values>, least: i64| {
            let first = values.and_then(Values::first).map(|first| first.max(least));
            let last = values.and_then(Values::last);
            let it = Poly::atom(atom);
            let above = first.map(|first| &it - first);
            let below = last.map(|last| &Poly::from(last) - &it);
            above.into_iter().chain(below).collect::<Vec<_>>()
        };
        let polys = match kind {
            Kind::Extent(axis) => of_values(self.declared.extents.get(axis.index()), 1),
            Kind::Param(param) | Kind::Element(param, _) => {
                of_values(self.declared.params.get(param.index()), i64::MIN)
            }
            Kind::Coordinate(_, axis) => {
                let it = Poly::atom(atom);
                vec![it.clone(), &(&self.extent(axis) - &it) - 1]
            }
            Kind::Free(_) => Vec::new(),
            Kind::Div(of, by) => self.of_quotient(atom, &of, &by),
            Kind::Rem(of, by) => self.of_remainder(atom, &of, &by),
        };
        let facts: Vec<Vec<Term>> =
            polys.iter().filter_map(|poly| self.rewritten(poly).terms().map(tightened)).collect();
        self.memory.borrow_mut().define(atom, &facts);
        facts
    }

    fn of_quotient(&self, atom: Atom, of: &[Term], by: &[Term]) -> Vec<Poly> {
        let (it, of, by) =
            (Poly::atom(atom), Poly::from_terms(of.to_vec()), Poly::from_terms(by.to_vec()));
        if !self.known_before(atom, &(&by - 1)) {
            return Vec::new();
        }
        let rest = &of - &(&by * &it);
        let mut facts = vec![rest.clone(), &(&by - &rest) - 1];
        if self.known_before(atom, &of) {
            facts.extend([it.clone(), &of - &it]);
        }
        facts
    }

    fn of_remainder(&self, atom: Atom, of: &[Term], by: &[Term]) -> Vec<Poly> {
        let quotient = self.atoms.borrow().quotient(of, by);
        let (it, of, by) =
            (Poly::atom(atom), Poly::from_terms(of.to_vec()), Poly::from_terms(by.to_vec()));
        if !self.known_before(atom, &(&by - 1)) {
            return Vec::new();
        }
        let mut facts = vec![it.clone(), &(&by - &it) - 1];
        if self.known_before(atom, &of) {
            facts.push(&of - &it);
        }
        if let Some(quotient) = quotient {
            let rest = &(&of - &(&by * &Poly::atom(quotient))) - &it;
            facts.extend([-&rest, rest]);
        }
        facts
    }
}

/// Something that is zero just when `zero` is, without a common factor.
fn divided(zero: &Poly) -> Poly {
    let Some(terms) = zero.terms() else { return Poly::UNKNOWN };
    let by = terms.iter().fold(0, |by, &(_, factor)| gcd(by, factor.unsigned_abs()));
    match i128::try_from(by) {
        Ok(by @ 2..) => {
            Poly::from_terms(terms.iter().map(|&(m, factor)| (m, factor / by)).collect())
        }
        _ => zero.clone(),
    }
}

fn exactly(values: &Values) -> Option<i64> {
    match (values.first(), values.last()) {
        (Some(first), Some(last)) if first == last => Some(first),
        _ => None,
    }
}

fn opposite(comparison: Comparison) -> Comparison {
    match comparison {
        Comparison::Equal => Comparison::NotEqual,
        Comparison::NotEqual => Comparison::Equal,
        Comparison::Less => Comparison::GreaterOrEqual,
        Comparison::LessOrEqual => Comparison::Greater,
        Comparison::Greater => Comparison::LessOrEqual,
        Comparison::GreaterOrEqual => Comparison::Less,
    }
}

/// The strongest fact in whole numbers that is a multiple of this one: `2x - 3 >= 0` is `x - 2 >= 0`.
fn tightened(terms: &[Term]) -> Vec<Term> {
    let all = terms.iter().filter(|(monomial, _)| *monomial != Monomial::ONE);
    let by = all.fold(0, |by, &(_, factor)| gcd(by, factor.unsigned_abs()));
    let Ok(by @ 2..) = i128::try_from(by) else { return terms.to_vec() };
    terms
        .iter()
        .map(|&(monomial, factor)| (monomial, factor.div_euclid(by)))
        .filter(|&(_, factor)| factor != 0)
        .collect()
}

pub(super) fn gcd(a: u128, b: u128) -> u128 {
    if b == 0 { a } else { gcd(b, a % b) }
}
