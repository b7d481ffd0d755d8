//! What polynomials are made of: numbers that differ from instance to instance, from rank to rank or
//! from iteration to iteration, and quotients and remainders, which are no polynomials.

use std::collections::HashMap;

use super::poly::{Monomial, Poly, Term};
use crate::ir::{AxisId, ParamId};

/// A number that is not known, by its place in the [`Atoms`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Atom(u32);

/// What an atom stands for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// How many ranks an axis has.
    Extent(AxisId),
    /// A parameter that is one number.
    Param(ParamId),
    /// An element of a parameter that is a list, by its index.
    Element(ParamId, Vec<Term>),
    /// The place along an axis of a rank variable, by its number.
    Coordinate(u32, AxisId),
    /// Known through assumptions alone: a loop counter, a quotient that a promise says is whole.
    Free(u32),
    /// A quotient, rounded down.
    Div(Vec<Term>, Vec<Term>),
    /// A remainder.
    Rem(Vec<Term>, Vec<Term>),
}

/// All atoms so far: equal ones are the same.
///
/// Quotients and remainders come in a normal form. It is right wherever the divisor is above zero,
/// and elsewhere an expression has no value.
#[derive(Debug, Default)]
pub(super) struct Atoms {
    kinds: Vec<Kind>,
    places: HashMap<Kind, Atom>,
    named: u32,
}

impl Atom {
    /// No atom; after all others.
    pub(super) const NONE: Self = Self(u32::MAX);
}

impl Atoms {
    pub(super) fn atom(&mut self, kind: Kind) -> Atom {
        if let Some(&known) = self.places.get(&kind) {
            return known;
        }
        let new = Atom(u32::try_from(self.kinds.len()).unwrap_or(u32::MAX - 1));
        self.kinds.push(kind.clone());
        self.places.insert(kind, new);
        new
    }

    /// A number for a rank variable or a free atom that no other has.
    pub(super) fn name(&mut self) -> u32 {
        self.named += 1;
        self.named
    }

    pub(super) fn free(&mut self) -> Poly {
        let name = self.name();
        Poly::atom(self.atom(Kind::Free(name)))
    }

    pub(super) fn kind(&self, atom: Atom) -> Option<&Kind> {
        self.kinds.get(atom.0 as usize)
    }

    /// The quotient of the same two, if someone asked for it.
    pub(super) fn quotient(&self, of: &[Term], by: &[Term]) -> Option<Atom> {
        self.places.get(&Kind::Div(of.to_vec(), by.to_vec())).copied()
    }

    /// Whether an atom stands in `poly`, or in something that stands in it.
    pub(super) fn mentions(&self, poly: &[Term], atom: Atom) -> bool {
        poly.iter().flat_map(|(monomial, _)| monomial.atoms()).any(|part| {
            part == atom
                || match self.kind(part) {
                    Some(Kind::Element(_, index)) => self.mentions(index, atom),
                    Some(Kind::Div(a, b) | Kind::Rem(a, b)) => {
                        self.mentions(a, atom) || self.mentions(b, atom)
                    }
                    _ => false,
                }
        })
    }

    /// The atoms in a polynomial, in those, and the extents of the axes of coordinates.
    pub(super) fn around(&mut self, poly: &[Term]) -> Vec<Atom> {
        let mut all: Vec<Atom> = Vec::new();
        let mut left: Vec<Term> = poly.to_vec();
        while let Some((monomial, _)) = left.pop() {
            for atom in monomial.atoms() {
                if all.contains(&atom) {
                    continue;
                }
                all.push(atom);
                match self.kind(atom).cloned() {
                    Some(Kind::Element(_, index)) => left.extend(index),
                    Some(Kind::Div(of, by) | Kind::Rem(of, by)) => left.extend([of, by].concat()),
                    Some(Kind::Coordinate(_, axis)) => all.push(self.atom(Kind::Extent(axis))),
                    _ => {}
                }
            }
        }
        all
    }

    /// `of % by`
    pub(super) fn rem(&mut self, of: &Poly, by: &Poly) -> Poly {
        let of = self.modulo(of, by);
        match (of.as_constant(), by.as_constant()) {
            (_, Some(..=0)) => Poly::UNKNOWN,
            (Some(0), _) => of,
            (Some(of), Some(by)) => Poly::constant(of.rem_euclid(by)),
            _ => match (of.terms(), by.terms()) {
                (Some(of), Some(by)) => Poly::atom(self.atom(Kind::Rem(of.to_vec(), by.to_vec()))),
                _ => Poly::UNKNOWN,
            },
        }
    }

    /// `of / by`
    pub(super) fn div(&mut self, of: &Poly, by: &Poly) -> Poly {
        let (whole, rest) = parts(of, by);
        let rest = match (rest.as_constant(), by.as_constant()) {
            (_, Some(..=0)) => Poly::UNKNOWN,
            (Some(0), _) => rest,
            (Some(rest), Some(by)) => Poly::constant(rest.div_euclid(by)),
            _ => match (rest.terms(), by.terms()) {
                (Some(of), Some(by)) => Poly::atom(self.atom(Kind::Div(of.to_vec(), by.to_vec()))),
                _ => Poly::UNKNOWN,
            },
        };
        &whole + &rest
    }

    /// Something simpler that differs from `poly` by a multiple of `by`.
    pub(super) fn modulo(&self, poly: &Poly, by: &Poly) -> Poly {
        let mut poly = poly.clone();
        loop {
            let mut nested = false;
            poly = poly.replace(|atom| match self.kind(atom) {
                Some(Kind::Rem(of, modulus)) if divides(by, modulus) => {
                    nested = true;
                    Some(Poly::from_terms(of.clone()))
                }
                _ => None,
            });
            if !nested {
                return parts(&poly, by).1;
            }
        }
    }
}

/// Whether `modulus` is surely a multiple of `by`.
fn divides(by: &Poly, modulus: &[Term]) -> bool {
    by.terms() == Some(modulus) || parts(&Poly::from_terms(modulus.to_vec()), by).1.is_zero()
}

/// `(whole, rest)` such that `poly` is `whole * by + rest`.
fn parts(poly: &Poly, by: &Poly) -> (Poly, Poly) {
    let (Some(terms), Some((divisor, factor))) = (poly.terms(), by.as_term()) else {
        return (Poly::zero(), if by.terms().is_some() { poly.clone() } else { Poly::UNKNOWN });
    };
    let (mut whole, mut rest) = (Vec::new(), Vec::new());
    for &(monomial, times) in terms {
        match monomial.without(&divisor) {
            Some(quotient) => {
                whole.push((quotient, times.div_euclid(factor)));
                rest.push((monomial, times.rem_euclid(factor)));
            }
            None => rest.push((monomial, times)),
        }
    }
    (Poly::from_terms(whole), Poly::from_terms(rest))
}

/// The product of atoms that divides all terms.
pub(super) fn common(terms: &[Term]) -> Monomial {
    let Some((first, rest)) = terms.split_first() else { return Monomial::ONE };
    let mut all = first.0;
    for (monomial, _) in rest {
        let mut left = *monomial;
        for atom in all.atoms().collect::<Vec<_>>() {
            match left.less(atom) {
                Some(less) => left = less,
                None => all = all.less(atom).unwrap_or(Monomial::ONE),
            }
        }
    }
    all
}
