//! The proof that something is not negative.
//!
//! A goal is first taken as it is, its products of atoms as unknowns of their own: [linear] reasoning
//! from what is known of its atoms. If that fails, an atom is replaced by its bounds: a polynomial that
//! is linear in an atom is smallest where the atom is smallest or largest. That goes on for a few steps;
//! what is not proved then is not proved.
//!
//! [linear]: super::linear

use std::collections::{HashMap, HashSet};

use super::atom::{Atom, Kind, common};
use super::facts::Facts;
use super::linear::contradicts;
use super::poly::{Poly, Term};

/// Replacements one after the other, and goals, at most: a short proof is found before a long one is
/// looked for.
const ROUNDS: [(usize, u32); 4] = [(0, 1), (1, 20), (2, 40), (5, 80)];
/// Facts in one search, at most.
const FACTS: usize = 96;

/// What was found out already, while the facts are the same.
#[derive(Debug, Default)]
pub(super) struct Memory {
    verdicts: HashMap<Vec<Term>, bool>,
    pub(super) definitions: HashMap<Atom, Vec<Vec<Term>>>,
    pub(super) forms: HashMap<Atom, Option<Poly>>,
}

/// One search: what it may use, and what it tried.
struct Search<'a> {
    facts: &'a [Vec<Term>],
    /// How many more goals it may try.
    goals: u32,
    failed: HashSet<Vec<Term>>,
}

impl Clone for Memory {
    /// A clone of facts is made to assume more, and then begins anew.
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Memory {
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
        self.memory.borrow_mut().verdicts.insert(terms.to_vec(), proved);
        proved
    }

    /// The same, without what is known of remainders and quotients from this one on. (What an atom is
    /// made of came before it: so that nothing is looked for while it is being looked for.)
    pub(super) fn known_before(&self, atom: Atom, poly: &Poly) -> bool {
        self.search(&self.rewritten(poly), Some(atom))
    }

    fn search(&self, goal: &Poly, before: Option<Atom>) -> bool {
        let facts = self.relevant(goal, before);
        ROUNDS.iter().any(|&(depth, goals)| {
            Search { facts: &facts, goals, failed: HashSet::new() }.prove(goal, depth)
        })
    }

    /// What is known of the atoms of a goal, and of the atoms in what is known of them.
    fn relevant(&self, goal: &Poly, before: Option<Atom>) -> Vec<Vec<Term>> {
        let mut facts: Vec<Vec<Term>> = Vec::new();
        let mut atoms: Vec<Atom> = goal.atoms();
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
        facts
    }

    pub(super) fn is_opaque(&self, atom: Atom) -> bool {
        matches!(self.atoms.borrow().kind(atom), Some(Kind::Rem(..) | Kind::Div(..)))
    }
}

impl Search<'_> {
    fn prove(&mut self, goal: &Poly, depth: usize) -> bool {
        let Some(terms) = goal.terms() else { return false };
        if terms.iter().all(|&(m, factor)| m.degree() == 0 && factor >= 0) {
            return true;
        }
        if self.failed.contains(terms) || self.goals == 0 {
            return false;
        }
        self.goals -= 1;
        if self.linear(goal)
            || (depth > 0 && (self.by_factors(goal, depth) || self.by_bounds(goal, depth)))
        {
            return true;
        }
        self.failed.insert(terms.to_vec());
        false
    }

    fn linear(&self, goal: &Poly) -> bool {
        let opposite = &-goal - 1;
        opposite.terms().is_some_and(|opposite| contradicts(opposite, self.facts))
    }

    /// By leaving out a factor that is not negative.
    fn by_factors(&mut self, goal: &Poly, depth: usize) -> bool {
        let Some(terms) = goal.terms() else { return false };
        let factor = common(terms);
        if factor.degree() == 0 || terms.len() == 1 && factor.degree() == 1 {
            return false;
        }
        if !factor.atoms().all(|atom| self.linear(&Poly::atom(atom))) {
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
        let mut ends = [Vec::new(), Vec::new()];
        for fact in self.facts {
            let Some((times, other)) = Poly::from_terms(fact.clone()).split(atom) else { continue };
            if times.is_zero() || times.atoms().contains(&atom) {
                continue;
            }
            // times * atom + other >= 0: a lower end if times is positive, an upper one if negative.
            // The goal there, times |times|, one less than which is enough as it is a whole number:
            // times * rest - slope * other + times - 1.
            let (end, size) = match times.as_constant() {
                Some(value) => (usize::from(value < 0), Poly::constant(value.abs())),
                None if self.linear(&(&times - 1)) => (0, times.clone()),
                None if self.linear(&(&-&times - 1)) => (1, -&times),
                None => continue,
            };
            let moved = &slope * &other;
            let moved = if end == 0 { -&moved } else { moved };
            ends[end].push(&(&(&(&size * &rest) + &moved) + &size) - 1);
        }
        let [lower, upper] = ends;
        let at_lower = lower.iter().any(|goal| self.prove(goal, depth - 1));
        if at_lower && self.prove(&slope, depth - 1) {
            return true;
        }
        if at_lower && !linear {
            return false;
        }
        let at_upper = upper.iter().any(|goal| self.prove(goal, depth - 1));
        at_upper && ((linear && at_lower) || self.prove(&-&slope, depth - 1))
    }
}

fn add_atoms(fact: &[Term], atoms: &mut Vec<Atom>) {
    for atom in fact.iter().flat_map(|(monomial, _)| monomial.atoms()) {
        if !atoms.contains(&atom) {
            atoms.push(atom);
        }
    }
}
