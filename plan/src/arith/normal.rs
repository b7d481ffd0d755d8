//! Normal forms: equalities used, remainders and quotients that are known written out.

use super::atom::{Atom, Kind};
use super::facts::Facts;
use super::poly::{Poly, Term};

/// Atoms in atoms, at most.
const DEPTH: usize = 64;

impl Facts {
    /// The same number, written with fewer atoms where the facts allow it.
    pub(super) fn normal(&self, poly: &Poly) -> Poly {
        self.rebuilt(poly, true, 0)
    }

    /// The same number, with equalities used but nothing proved.
    pub(super) fn rewritten(&self, poly: &Poly) -> Poly {
        if self.solved.is_empty() { poly.clone() } else { self.rebuilt(poly, false, 0) }
    }

    fn rebuilt(&self, poly: &Poly, prove: bool, depth: usize) -> Poly {
        if depth > DEPTH {
            return poly.clone();
        }
        poly.replace(|atom| self.form(atom, prove, depth))
    }

    /// What to write for an atom, unless itself.
    fn form(&self, atom: Atom, prove: bool, depth: usize) -> Option<Poly> {
        if prove && let Some(known) = self.memory.borrow().forms.get(&atom) {
            return known.clone();
        }
        let form = self.found_form(atom, prove, depth);
        if prove {
            self.memory.borrow_mut().forms.insert(atom, form.clone());
        }
        form
    }

    fn found_form(&self, atom: Atom, prove: bool, depth: usize) -> Option<Poly> {
        if let Some(value) = self.solved.get(&atom) {
            return Some(self.rebuilt(value, prove, depth + 1));
        }
        let kind = self.atoms.borrow().kind(atom).cloned()?;
        let part = |terms: Vec<Term>| self.rebuilt(&Poly::from_terms(terms), prove, depth + 1);
        let new = match kind {
            Kind::Element(param, index) => {
                let index = part(index).terms()?.to_vec();
                Poly::atom(self.atoms.borrow_mut().atom(Kind::Element(param, index)))
            }
            Kind::Rem(of, by) => {
                let (of, by) = (part(of), part(by));
                let new = self.atoms.borrow_mut().rem(&of, &by);
                if prove { self.written_out(new) } else { new }
            }
            Kind::Div(of, by) => {
                let (of, by) = (part(of), part(by));
                let new = self.atoms.borrow_mut().div(&of, &by);
                if prove { self.written_out(new) } else { new }
            }
            _ => return None,
        };
        // An unknown instead of an atom would lose what is known of the atom.
        (new.terms().is_some() && !is_atom(&new, atom)).then_some(new)
    }

    /// `x % m` or `x / m` (with something added) for an x that lies in `[-m, 2 * m)`, in known thirds.
    fn written_out(&self, poly: Poly) -> Poly {
        for atom in poly.atoms() {
            let Some(kind) = self.atoms.borrow().kind(atom).cloned() else { continue };
            let (Kind::Rem(of, by) | Kind::Div(of, by)) = &kind else { continue };
            let (of, by) = (Poly::from_terms(of.clone()), Poly::from_terms(by.clone()));
            for times in [0, 1, -1] {
                let rest = &of - &by.scale(times);
                if self.known_before(atom, &rest) && self.known_before(atom, &(&(&by - &rest) - 1))
                {
                    let value = match kind {
                        Kind::Rem(..) => rest,
                        _ => Poly::constant(times),
                    };
                    return poly.replace(|part| (part == atom).then(|| value.clone()));
                }
            }
        }
        poly
    }
}

fn is_atom(poly: &Poly, atom: Atom) -> bool {
    poly.as_term() == Poly::atom(atom).as_term()
}
