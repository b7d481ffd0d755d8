//! The proof that something is not negative.
//!
//! A goal is first taken as it is, its products of atoms as unknowns of their own: [linear] reasoning
//! from what is known of its atoms. If that fails, an atom is replaced by its bounds: a polynomial that
//! is linear in an atom is smallest where the atom is smallest or largest. That goes on for a few steps;
//! what is not proved then is not proved.
//!
//! [linear]: super::linear

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use super::atom::{Atom, Kind, common};
use super::facts::Facts;
use super::linear::contradicts;
use super::models::Models;
use super::poly::{Poly, Term};

/// Replacements one after the other, and goals, at most: a short proof is found before a long one is
/// looked for.
const ROUNDS: [(usize, u32); 3] = [(1, 20), (2, 40), (5, 80)];
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
    models: Models,
    /// How many more goals it may try.
    goals: u32,
    failed: HashSet<Vec<Term>>,
    bounds: HashMap<Atom, Rc<[Bound]>>,
}

/// `size * atom + other >= 0`, or `-size * atom + other >= 0` if it is an upper one. The size is positive.
struct Bound {
    upper: bool,
    size: Poly,
    other: Poly,
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
        let (facts, atoms) = self.relevant(goal, before);
        let mut search = Search::new(&facts);
        if search.linear(goal) {
            return true;
        }
        search.models = Models::of(&facts, &atoms);
        ROUNDS.iter().any(|&(depth, goals)| {
            search.goals = goals;
            search.failed.clear();
            search.prove(goal, depth)
        })
    }

    /// What is known of the atoms of a goal, and of the atoms in what is known of them.
    fn relevant(&self, goal: &Poly, before: Option<Atom>) -> (Vec<Vec<Term>>, Vec<Atom>) {
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
        (facts, atoms)
    }

    pub(super) fn is_opaque(&self, atom: Atom) -> bool {
        matches!(self.atoms.borrow().kind(atom), Some(Kind::Rem(..) | Kind::Div(..)))
    }
}

impl<'a> Search<'a> {
    fn new(facts: &'a [Vec<Term>]) -> Self {
        let (models, failed, bounds) = (Models::NONE, HashSet::new(), HashMap::new());
        Self { facts, models, goals: 0, failed, bounds }
    }

    fn prove(&mut self, goal: &Poly, depth: usize) -> bool {
        let Some(terms) = goal.terms() else { return false };
        if terms.iter().all(|&(m, factor)| m.degree() == 0 && factor >= 0) {
            return true;
        }
        if self.goals == 0 || self.models.refute(terms) || self.failed.contains(terms) {
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
        let (Some(goal), Some(opposite)) = (goal.terms(), opposite.terms()) else { return false };
        !self.models.refute(goal) && contradicts(opposite, self.facts)
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

    /// What the facts say of an atom alone, times something.
    fn bounds_of(&mut self, atom: Atom) -> Rc<[Bound]> {
        if let Some(known) = self.bounds.get(&atom) {
            return known.clone();
        }
        let mut bounds = Vec::new();
        for fact in self.facts.iter().filter(|fact| fact.iter().any(|(m, _)| m.contains(atom))) {
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
        self.bounds.insert(atom, bounds.clone());
        bounds
    }

    fn by_bounds_of(&mut self, goal: &Poly, atom: Atom, depth: usize) -> bool {
        let Some((slope, rest)) = goal.split(atom) else { return false };
        let linear = !slope.atoms().contains(&atom);
        let bounds = self.bounds_of(atom);
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
