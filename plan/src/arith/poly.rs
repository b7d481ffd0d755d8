//! Polynomials with whole coefficients: what an expression amounts to.
//!
//! Arithmetic never wraps. What grows too large becomes *unknown*, stays so in all that is computed
//! from it, and nothing is ever proved of it.

use std::ops::{Add, Mul, Neg, Sub};

use super::atom::Atom;

/// Atoms in one product, at most.
const DEGREE: usize = 6;
/// Terms in one polynomial, at most.
const TERMS: usize = 64;
/// Coefficients lie between this and its negative.
const LARGEST: i128 = 1 << 96;

/// A product of atoms, sorted; without atoms, 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Monomial([Atom; DEGREE]);

/// A monomial and how often it counts, which is not zero.
pub(super) type Term = (Monomial, i128);

/// A polynomial over [atoms](Atom), or unknown.
///
/// There is no `==`: two of them are equal where the [facts](super::Facts) say so.
#[derive(Clone, Debug)]
pub(crate) struct Poly(Option<Vec<Term>>);

impl Monomial {
    pub(super) const ONE: Self = Self([Atom::NONE; DEGREE]);

    fn of(atom: Atom) -> Self {
        let mut one = Self::ONE;
        one.0[0] = atom;
        one
    }

    pub(super) fn degree(&self) -> usize {
        self.atoms().count()
    }

    /// Its atoms, each as often as it stands there.
    pub(super) fn atoms(&self) -> impl Iterator<Item = Atom> + '_ {
        self.0.iter().copied().take_while(|&atom| atom != Atom::NONE)
    }

    pub(super) fn contains(&self, atom: Atom) -> bool {
        self.0.contains(&atom)
    }

    fn times(&self, other: &Self) -> Option<Self> {
        let mut product = *self;
        for (at, atom) in (self.degree()..).zip(other.atoms()) {
            *product.0.get_mut(at)? = atom;
        }
        product.0.sort_unstable();
        Some(product)
    }

    /// What is left when `other` is taken out, if all of it is there.
    pub(super) fn without(&self, other: &Self) -> Option<Self> {
        let mut rest = *self;
        for atom in other.atoms() {
            let at = rest.0.iter().position(|&mine| mine == atom)?;
            rest.0[at] = Atom::NONE;
        }
        rest.0.sort_unstable();
        Some(rest)
    }

    /// This with an atom of it taken out once.
    pub(super) fn less(&self, atom: Atom) -> Option<Self> {
        self.without(&Self::of(atom))
    }
}

impl Poly {
    pub(super) const UNKNOWN: Self = Self(None);

    pub(crate) fn zero() -> Self {
        Self(Some(Vec::new()))
    }

    pub(super) fn atom(atom: Atom) -> Self {
        Self(Some(vec![(Monomial::of(atom), 1)]))
    }

    pub(super) fn constant(value: i128) -> Self {
        Self::from_terms(vec![(Monomial::ONE, value)])
    }

    pub(super) fn term(term: Term) -> Self {
        Self::from_terms(vec![term])
    }

    /// A sum of terms in any order.
    pub(super) fn from_terms(mut terms: Vec<Term>) -> Self {
        terms.sort_unstable_by_key(|&(monomial, _)| monomial);
        let mut sum: Vec<Term> = Vec::with_capacity(terms.len());
        for (monomial, factor) in terms {
            match sum.last_mut() {
                Some(last) if last.0 == monomial => match last.1.checked_add(factor) {
                    Some(total) => last.1 = total,
                    None => return Self::UNKNOWN,
                },
                _ => sum.push((monomial, factor)),
            }
        }
        sum.retain(|&(_, factor)| factor != 0);
        let bounded = sum.iter().all(|(_, factor)| factor.unsigned_abs() <= LARGEST.unsigned_abs());
        Self((bounded && sum.len() <= TERMS).then_some(sum))
    }

    /// Its terms, unless it is unknown. They are sorted; a constant one is the last.
    pub(super) fn terms(&self) -> Option<&[Term]> {
        self.0.as_deref()
    }

    /// Its value, where that is the same everywhere.
    pub(super) fn as_constant(&self) -> Option<i128> {
        match self.terms()? {
            [] => Some(0),
            [(monomial, value)] if *monomial == Monomial::ONE => Some(*value),
            _ => None,
        }
    }

    /// Its only term, if it has one only.
    pub(super) fn as_term(&self) -> Option<Term> {
        match self.terms()? {
            [term] => Some(*term),
            _ => None,
        }
    }

    pub(super) fn is_unknown(&self) -> bool {
        self.0.is_none()
    }

    pub(super) fn is_zero(&self) -> bool {
        self.terms().is_some_and(<[Term]>::is_empty)
    }

    /// Its atoms, each once. None where it is unknown.
    pub(super) fn atoms(&self) -> Vec<Atom> {
        let mut all: Vec<Atom> = self
            .terms()
            .unwrap_or_default()
            .iter()
            .flat_map(|(monomial, _)| monomial.atoms())
            .collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// `(a, b)` such that this is `a * atom + b` and `b` does not have the atom.
    pub(super) fn split(&self, atom: Atom) -> Option<(Self, Self)> {
        let (mut with, mut without) = (Vec::new(), Vec::new());
        for &(monomial, factor) in self.terms()? {
            match monomial.less(atom) {
                Some(rest) => with.push((rest, factor)),
                None => without.push((monomial, factor)),
            }
        }
        Some((Self::from_terms(with), Self::from_terms(without)))
    }

    /// This with some of its atoms replaced.
    pub(super) fn replace(&self, mut by: impl FnMut(Atom) -> Option<Self>) -> Self {
        let Some(terms) = self.terms() else { return Self::UNKNOWN };
        let mut kept = Vec::new();
        let mut sum = Self::zero();
        for &(monomial, factor) in terms {
            let mut product: Option<Self> = None;
            let mut rest = monomial;
            for atom in monomial.atoms() {
                if let (Some(new), Some(less)) = (by(atom), rest.less(atom)) {
                    rest = less;
                    product = Some(product.map_or_else(|| new.clone(), |so_far| &so_far * &new));
                }
            }
            match product {
                None => kept.push((monomial, factor)),
                Some(product) => sum = &sum + &(&product * &Self::term((rest, factor))),
            }
        }
        &sum + &Self::from_terms(kept)
    }

    pub(super) fn scale(&self, by: i128) -> Self {
        self * &Self::constant(by)
    }
}

impl From<i64> for Poly {
    fn from(value: i64) -> Self {
        Self::constant(value.into())
    }
}

impl Add for &Poly {
    type Output = Poly;

    fn add(self, other: Self) -> Poly {
        match (self.terms(), other.terms()) {
            (Some(a), Some(b)) => Poly::from_terms([a, b].concat()),
            _ => Poly::UNKNOWN,
        }
    }
}

impl Neg for &Poly {
    type Output = Poly;

    fn neg(self) -> Poly {
        // Coefficients are far from the ends of their type.
        Poly(self.terms().map(|terms| terms.iter().map(|&(m, factor)| (m, -factor)).collect()))
    }
}

impl Sub for &Poly {
    type Output = Poly;

    fn sub(self, other: Self) -> Poly {
        self + &-other
    }
}

impl Mul for &Poly {
    type Output = Poly;

    fn mul(self, other: Self) -> Poly {
        let (Some(a), Some(b)) = (self.terms(), other.terms()) else { return Poly::UNKNOWN };
        if a.len() * b.len() > TERMS * 4 {
            return Poly::UNKNOWN;
        }
        let mut product = Vec::with_capacity(a.len() * b.len());
        for (m, x) in a {
            for (n, y) in b {
                match (m.times(n), x.checked_mul(*y)) {
                    (Some(monomial), Some(factor)) => product.push((monomial, factor)),
                    _ => return Poly::UNKNOWN,
                }
            }
        }
        Poly::from_terms(product)
    }
}

macro_rules! owned {
    ($($trait:ident::$method:ident;)+) => {$(
        impl $trait for Poly {
            type Output = Self;

            fn $method(self, other: Self) -> Self {
                $trait::$method(&self, &other)
            }
        }

        impl $trait<i64> for &Poly {
            type Output = Poly;

            fn $method(self, other: i64) -> Poly {
                $trait::$method(self, &Poly::from(other))
            }
        }
    )+};
}

owned! {
    Add::add;
    Sub::sub;
    Mul::mul;
}
