//! Inequalities between the numbers of a plan, proved for every instance.
//!
//! An expression becomes a [`Poly`]: a polynomial over extents, parameters, coordinates, counters,
//! quotients and remainders. [`Facts`] are what a plan declares, and what is assumed on the way into
//! its guards and loops; they prove that a polynomial is not negative, that two numbers are equal or
//! different, that two regions are apart. A [`View`] is the rank and the iteration that an expression is
//! seen from. [`sample()`] gives small instances.
//!
//! What is proved holds in every instance in which the expressions have values. What is not proved may
//! hold all the same. Sums and products of whole numbers are meant here, not those of a machine: that
//! they fit is checked when a plan is bound.

mod apart;
mod atom;
mod facts;
mod fuel;
mod known;
mod linear;
mod models;
mod normal;
mod poly;
mod prove;
mod sample;
mod view;

pub(crate) use apart::Span;
pub(crate) use facts::Facts;
pub(crate) use fuel::Fuel;
pub(crate) use poly::Poly;
pub(crate) use sample::sample;
pub(crate) use view::View;

#[cfg(test)]
mod sound;
#[cfg(test)]
pub(crate) mod tests;
