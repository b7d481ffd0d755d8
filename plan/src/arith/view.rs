//! From where an expression is looked at: which rank, in which iterations.

use super::atom::{Atoms, Kind};
use super::facts::Facts;
use super::poly::Poly;
use crate::ir::{AxisId, Expr, Hop, Loop, LoopId};

/// Expressions nested deeper than this are unknown.
const DEPTH: usize = 200;

/// A rank and the iterations that it is in, as polynomials: where an [`Expr`] is evaluated.
///
/// Two ranks, or two iterations of one loop, are two views: the same expression seen from both gives
/// two polynomials that can be compared.
#[derive(Clone, Debug)]
pub(crate) struct View {
    /// The place along each axis; none in what does not depend on the rank.
    coordinates: Vec<Poly>,
    counters: Vec<(LoopId, Poly)>,
}

impl View {
    /// The view of what mentions no rank: expressions that do are unknown from here.
    pub(crate) fn uniform() -> Self {
        Self { coordinates: Vec::new(), counters: Vec::new() }
    }

    /// The view of the rank with these places along the axes.
    pub(crate) fn at(coordinates: Vec<Poly>) -> Self {
        Self { coordinates, counters: Vec::new() }
    }

    /// The same rank where a counter, or the index of an array, has that value.
    pub(crate) fn with(&self, counter: LoopId, value: Poly) -> Self {
        let mut view = self.clone();
        view.counters.retain(|&(known, _)| known != counter);
        view.counters.push((counter, value));
        view
    }

    /// The place along an axis.
    pub(crate) fn coordinate(&self, axis: AxisId) -> Poly {
        self.coordinates.get(axis.index()).cloned().unwrap_or(Poly::UNKNOWN)
    }

    fn counter(&self, counter: LoopId) -> Poly {
        self.counters
            .iter()
            .find(|&&(known, _)| known == counter)
            .map_or(Poly::UNKNOWN, |(_, value)| value.clone())
    }
}

impl Facts {
    /// Some rank: any of them.
    pub(crate) fn rank(&mut self) -> View {
        let mut atoms = self.atoms.borrow_mut();
        let point = atoms.name();
        let coordinate = |axis| Poly::atom(atoms.atom(Kind::Coordinate(point, axis)));
        View::at(self.axes().map(coordinate).collect())
    }

    /// The rank that a hop leads to, with the iterations of `from`. Along an open axis it is assumed to
    /// be there.
    pub(crate) fn hop(&mut self, from: &View, hops: &[Hop]) -> View {
        let mut view = from.clone();
        for hop in hops {
            let Some(place) = view.coordinates.get(hop.axis.index()) else { continue };
            let there = place + &self.poly(&hop.by, from);
            let extent = self.extent(hop.axis);
            let there = if hop.wrap {
                self.atoms.borrow_mut().rem(&there, &extent)
            } else {
                self.assume_in(&there, &Poly::zero(), &extent);
                there
            };
            view.coordinates[hop.axis.index()] = there;
        }
        view
    }

    /// The rank of that number in the whole plan, with the iterations of `from`. It is not assumed to be
    /// there.
    pub(crate) fn rank_numbered(&self, number: &Poly, from: &View) -> View {
        let mut atoms = self.atoms.borrow_mut();
        let mut left = number.clone();
        let mut coordinates: Vec<Poly> = Vec::new();
        let axes: Vec<AxisId> = self.axes().collect();
        for (i, &axis) in axes.iter().enumerate().rev() {
            let extent = Poly::atom(atoms.atom(Kind::Extent(axis)));
            if i == 0 {
                coordinates.push(left.clone());
            } else {
                coordinates.push(atoms.rem(&left, &extent));
                left = atoms.div(&left, &extent);
            }
        }
        coordinates.reverse();
        View { coordinates, counters: from.counters.clone() }
    }

    /// Some iteration of a loop whose bounds are seen from `view`: assumes that there is one.
    pub(crate) fn enter(&mut self, view: &View, repeat: &Loop) -> View {
        let (from, to) = (self.poly(&repeat.from, view), self.poly(&repeat.to, view));
        let counter = self.free();
        self.assume_in(&counter, &from, &to);
        view.with(repeat.counter, counter)
    }

    /// Some index of an array of so many, or any number in `[0, count)`.
    pub(crate) fn index(&mut self, view: &View, name: LoopId, count: &Poly) -> View {
        let index = self.free();
        self.assume_in(&index, &Poly::zero(), count);
        view.with(name, index)
    }

    /// A number of which nothing is known.
    pub(crate) fn free(&mut self) -> Poly {
        self.atoms.borrow_mut().free()
    }

    /// How many ranks an axis has.
    pub(crate) fn extent(&self, axis: AxisId) -> Poly {
        Poly::atom(self.atoms.borrow_mut().atom(Kind::Extent(axis)))
    }

    /// What an expression amounts to.
    pub(crate) fn poly(&self, expr: &Expr, view: &View) -> Poly {
        let axes: Vec<AxisId> = self.axes().collect();
        // A large number is said in many steps.
        let mut size = 0_u64;
        expr.any(|_| {
            size += 1;
            false
        });
        if size > 64 && !self.fuel.take(size / 8) {
            return Poly::UNKNOWN;
        }
        convert(expr, view, &axes, &mut self.atoms.borrow_mut(), 0)
    }
}

fn convert(expr: &Expr, view: &View, axes: &[AxisId], atoms: &mut Atoms, depth: usize) -> Poly {
    if depth > DEPTH {
        return Poly::UNKNOWN;
    }
    let go = |part: &Expr, atoms: &mut Atoms| convert(part, view, axes, atoms, depth + 1);
    match expr {
        Expr::Int(value) => Poly::from(*value),
        Expr::Rank if view.coordinates.len() != axes.len() => Poly::UNKNOWN,
        Expr::Rank => axes.iter().fold(Poly::zero(), |number, &axis| {
            let extent = Poly::atom(atoms.atom(Kind::Extent(axis)));
            &(&number * &extent) + &view.coordinate(axis)
        }),
        Expr::Size => axes
            .iter()
            .fold(Poly::from(1), |size, &axis| &size * &Poly::atom(atoms.atom(Kind::Extent(axis)))),
        Expr::Coordinate(axis) => view.coordinate(*axis),
        Expr::Extent(axis) => Poly::atom(atoms.atom(Kind::Extent(*axis))),
        Expr::Param(param) => Poly::atom(atoms.atom(Kind::Param(*param))),
        Expr::Element(param, index) => match go(index, atoms).terms() {
            Some(index) => Poly::atom(atoms.atom(Kind::Element(*param, index.to_vec()))),
            None => Poly::UNKNOWN,
        },
        Expr::Loop(counter) => view.counter(*counter),
        Expr::Add(a, b) => go(a, atoms) + go(b, atoms),
        Expr::Sub(a, b) => go(a, atoms) - go(b, atoms),
        Expr::Mul(a, b) => go(a, atoms) * go(b, atoms),
        Expr::Div(a, b) => {
            let (a, b) = (go(a, atoms), go(b, atoms));
            atoms.div(&a, &b)
        }
        Expr::Rem(a, b) => {
            let (a, b) = (go(a, atoms), go(b, atoms));
            atoms.rem(&a, &b)
        }
    }
}
