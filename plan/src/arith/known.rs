//! What is known of some atoms, ready to be reasoned with.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use super::atom::{Atom, Kind};
use super::facts::Facts;
use super::linear::System;
use super::models::Models;
use super::poly::{Poly, Term};

/// Facts about one set of atoms, at most.
const FACTS: usize = 96;

/// All facts that may matter to a goal about some atoms: they are the same for all such goals.
#[derive(Debug)]
pub(super) struct Known {
    system: System,
    atoms: Vec<Atom>,
    models: OnceCell<Models>,
    bounds: RefCell<HashMap<Atom, Rc<[Bound]>>>,
}

/// `size * atom + other >= 0`, or `-size * atom + other >= 0` if it is an upper one. The size is positive.
#[derive(Debug)]
pub(super) struct Bound {
    pub(super) upper: bool,
    pub(super) size: Poly,
    pub(super) other: Poly,
}

impl Known {
    fn new(facts: Vec<Vec<Term>>, atoms: Vec<Atom>) -> Self {
        let (models, bounds) = (OnceCell::new(), RefCell::default());
        Self { system: System::new(facts), atoms, models, bounds }
    }

    /// Whether a goal is proved by adding up facts.
    pub(super) fn linear(&self, goal: &Poly) -> bool {
        let opposite = &-goal - 1;
        let (Some(goal), Some(opposite)) = (goal.terms(), opposite.terms()) else { return false };
        let refuted = self.models.get().is_some_and(|models| models.refute(goal));
        !refuted && self.system.contradicts(opposite)
    }

    /// Whether a goal is surely not to be proved.
    pub(super) fn refute(&self, goal: &[Term]) -> bool {
        self.models.get_or_init(|| Models::of(self.system.facts(), &self.atoms)).refute(goal)
    }

    /// What the facts say of an atom alone, times something.
    pub(super) fn bounds_of(&self, atom: Atom) -> Rc<[Bound]> {
        if let Some(known) = self.bounds.borrow().get(&atom) {
            return known.clone();
        }
        let mut bounds = Vec::new();
        let facts = self.system.facts().iter();
        for fact in facts.filter(|fact| fact.iter().any(|(m, _)| m.contains(atom))) {
            let Some((times, other)) = Poly::from_terms(fact.clone()).split(atom) else { continue };
            let upper = match times.as_constant() {
                Some(value) => value < 0,
                None if times.atoms().contains(&atom) => continue,
                None if self.linear(&(&times - 1)) => false,
                None if self.linear(&(&-&times - 1)) => true,
                None => continue,
            };
            bounds.push(Bound { upper, size: if upper { -&times } else { times }, other });
        }
        let bounds: Rc<[Bound]> = bounds.into();
        self.bounds.borrow_mut().insert(atom, bounds.clone());
        bounds
    }
}

impl Facts {
    /// What is known of the atoms of a goal, and of the atoms in what is known of them; without what is
    /// known of remainders and quotients from `before` on.
    pub(super) fn known(&self, goal: &Poly, before: Option<Atom>) -> Rc<Known> {
        self.known_of(goal.atoms(), before)
    }

    pub(super) fn known_of(&self, atoms: Vec<Atom>, before: Option<Atom>) -> Rc<Known> {
        let key = (before, atoms);
        if let Some(known) = self.memory.borrow().known.get(&key) {
            return known.clone();
        }
        let known = Rc::new(self.gathered(key.1.clone(), before));
        self.memory.borrow_mut().keep(key, &known);
        known
    }

    fn gathered(&self, mut atoms: Vec<Atom>, before: Option<Atom>) -> Known {
        let mut facts: Vec<Vec<Term>> = Vec::new();
        let mut used = vec![false; self.assumptions.len()];
        let mut at = 0;
        loop {
            for (assumed, used) in self.assumptions.iter().zip(&mut used) {
                let about = &assumed.about;
                if !*used && (about.is_empty() || about.iter().any(|part| atoms.contains(part))) {
                    *used = true;
                    facts.push(assumed.fact.clone());
                    add_atoms(&assumed.fact, &mut atoms);
                }
            }
            let Some(&atom) = atoms.get(at) else { break };
            at += 1;
            if before.is_some_and(|before| before <= atom && self.is_opaque(atom)) {
                continue;
            }
            for fact in self.definition(atom) {
                let fact = match before {
                    None => self.normal(&Poly::from_terms(fact)).terms().map(<[Term]>::to_vec),
                    Some(_) => Some(fact),
                };
                if let Some(fact) = fact {
                    add_atoms(&fact, &mut atoms);
                    facts.push(fact);
                }
            }
        }
        facts.truncate(FACTS);
        Known::new(facts, atoms)
    }

    pub(super) fn is_opaque(&self, atom: Atom) -> bool {
        matches!(self.atoms.borrow().kind(atom), Some(Kind::Rem(..) | Kind::Div(..)))
    }
}

fn add_atoms(fact: &[Term], atoms: &mut Vec<Atom>) {
    for atom in fact.iter().flat_map(|(monomial, _)| monomial.atoms()) {
        if !atoms.contains(&atom) {
            atoms.push(atom);
        }
    }
}
