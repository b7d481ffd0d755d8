//! The proof that something is not negative.
//!
//! A goal is first taken as it is, its products of atoms as unknowns of their own: [linear] reasoning
//! from what is known of its atoms. If that fails, an atom is replaced by its bounds: a polynomial that
//! is linear in an atom is smallest where the atom is smallest or largest. That goes on for a few steps;
//! what is not proved then is not proved.
//!
//! [linear]: super::linear

use std::collections::HashMap;
use std::rc::Rc;

use super::atom::{Atom, common};
use super::facts::Facts;
use super::fuel::Fuel;
use super::known::Known;
use super::poly::{Poly, Term};

/// Replacements one after the other, and goals, at most: a short proof is found before a long one is
/// looked for.
const ROUNDS: [(usize, u32); 3] = [(1, 20), (2, 30), (4, 50)];

/// Verdicts, and sets of facts, that are remembered at once.
const VERDICTS: usize = 20_000;
const SETS: usize = 500;

/// What was found out already, while the facts are the same.
#[derive(Debug, Default)]
pub(super) struct Memory {
    verdicts: HashMap<Vec<Term>, bool>,
    pub(super) definitions: HashMap<Atom, Vec<Vec<Term>>>,
    pub(super) forms: HashMap<Atom, Option<Poly>>,
    pub(super) known: HashMap<(Option<Atom>, Vec<Atom>), Rc<Known>>,
}

/// One search: what it may use, and what it tried.
struct Search<'a> {
    known: &'a Known,
    fuel: &'a Fuel,
    /// How many more goals it may try.
    goals: u32,
    /// Goals that were not proved in so many replacements.
    failed: HashMap<Vec<Term>, usize>,
}

impl Clone for Memory {
    /// A clone of facts is made to assume more, and then begins anew.
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Memory {
    fn decide(&mut self, goal: &[Term], proved: bool) {
        if self.verdicts.len() >= VERDICTS {
            self.verdicts.clear();
        }
        self.verdicts.insert(goal.to_vec(), proved);
    }

    pub(super) fn keep(&mut self, of: (Option<Atom>, Vec<Atom>), known: &Rc<Known>) {
        if self.known.len() >= SETS {
            self.known.clear();
        }
        self.known.insert(of, known.clone());
    }

    pub(super) fn define(&mut self, atom: Atom, facts: &[Vec<Term>]) {
        self.definitions.insert(atom, facts.to_vec());
    }
}

impl Facts {
    /// Whether `poly >= 0` is proved. `false` says nothing.
    pub(crate) fn prove_non_negative(&self, poly: &Poly) -> bool {
        let poly = self.normal(poly);
        if let Some(value) = poly.as_constant()
            && value >= 0
        {
            return true;
        }
        let Some(terms) = poly.terms() else { return false };
        if let Some(&known) = self.memory.borrow().verdicts.get(terms) {
            return known;
        }
        let proved = self.search(&poly, None);
        self.memory.borrow_mut().decide(terms, proved);
        proved
    }

    /// Whether the assumptions are proved to contradict each other: nothing gets here.
    pub(crate) fn impossible(&self) -> bool {
        let atoms = self.assumptions.iter().flat_map(|assumed| assumed.about.iter().copied());
        let mut atoms: Vec<Atom> = atoms.collect();
        atoms.sort_unstable();
        atoms.dedup();
        self.known_of(atoms, None).linear(&Poly::from(-1))
    }

    /// Whether `poly >= 0` is proved without what is known of remainders and quotients from this one on. (What an atom is
    /// made of came before it: so that nothing is looked for while it is being looked for.)
    pub(super) fn known_before(&self, atom: Atom, poly: &Poly) -> bool {
        self.search(&self.rewritten(poly), Some(atom))
    }

    fn search(&self, goal: &Poly, before: Option<Atom>) -> bool {
        if !self.fuel.take(1) {
            return false;
        }
        let known = self.known(goal, before);
        if known.linear(goal) {
            return true;
        }
        let mut search =
            Search { known: &known, fuel: &self.fuel, goals: 0, failed: HashMap::new() };
        ROUNDS.iter().any(|&(depth, goals)| {
            search.goals = goals;
            search.prove(goal, depth)
        })
    }
}

impl Search<'_> {
    fn prove(&mut self, goal: &Poly, depth: usize) -> bool {
        let Some(terms) = goal.terms() else { return false };
        if terms.iter().all(|&(m, factor)| m.degree() == 0 && factor >= 0) {
            return true;
        }
        let before = self.failed.get(terms).copied();
        if self.goals == 0
            || before.is_some_and(|before| before >= depth)
            || self.known.refute(terms)
        {
            return false;
        }
        self.goals -= 1;
        if !self.fuel.take(8) {
            return false;
        }
        if before.is_none() && self.known.linear(goal)
            || depth > 0 && (self.by_factors(goal, depth) || self.by_bounds(goal, depth))
        {
            return true;
        }
        self.failed.insert(terms.to_vec(), depth);
        false
    }

    /// By leaving out a factor that is not negative.
    fn by_factors(&mut self, goal: &Poly, depth: usize) -> bool {
        let Some(terms) = goal.terms() else { return false };
        let factor = common(terms);
        if factor.degree() == 0 || terms.len() == 1 && factor.degree() == 1 {
            return false;
        }
        if !factor.atoms().all(|atom| self.known.linear(&Poly::atom(atom))) {
            return false;
        }
        let rest = terms.iter().filter_map(|&(m, times)| Some((m.without(&factor)?, times)));
        self.prove(&Poly::from_terms(rest.collect()), depth - 1)
    }

    /// By the bounds of an atom.
    fn by_bounds(&mut self, goal: &Poly, depth: usize) -> bool {
        let mut atoms = goal.atoms();
        let nonlinear = |atom: Atom| {
            goal.terms()
                .is_some_and(|terms| terms.iter().any(|(m, _)| m.degree() > 1 && m.contains(atom)))
        };
        atoms.sort_by_key(|&atom| !nonlinear(atom));
        atoms.into_iter().any(|atom| self.by_bounds_of(goal, atom, depth))
    }

    fn by_bounds_of(&mut self, goal: &Poly, atom: Atom, depth: usize) -> bool {
        let Some((slope, rest)) = goal.split(atom) else { return false };
        let linear = !slope.atoms().contains(&atom);
        let bounds = self.known.bounds_of(atom);
        let (mut lower, mut upper) = (Vec::new(), Vec::new());
        for bound in bounds.iter() {
            // The goal there, times the size; one less than a multiple is enough, as the goal is a whole
            // number.
            let moved = &slope * &bound.other;
            let moved = if bound.upper { moved } else { -&moved };
            let goal = &(&(&(&bound.size * &rest) + &moved) + &bound.size) - 1;
            if bound.upper { upper.push(goal) } else { lower.push(goal) }
        }
        let at_lower = lower.iter().any(|goal| self.prove(goal, depth - 1));
        if at_lower && self.prove(&slope, depth - 1) {
            return true;
        }
        let at_upper = upper.iter().any(|goal| self.prove(goal, depth - 1));
        at_upper && ((linear && at_lower) || self.prove(&-&slope, depth - 1))
    }
}
