//! Communication plans for NCCL: a schedule for all ranks, declared once, proved to match and to end.
//!
//! A [`Plan`](ir::Plan) is data: who sends what to whom, in which order, on which streams.
//! [`check`](check::check) decides whether it is right for every size that it claims, and tells a
//! [story](verdict::Problem) where it is not. [`build`] declares one in Rust, nearly as it would be said.
//!
#![doc = include_str!("model.md")]

#[cfg_attr(not(test), expect(dead_code, unused_imports, reason = "the checks begin to use it"))]
mod arith;
pub mod build;
pub mod check;
pub mod cost;
pub mod draw;
pub mod ir;
pub mod json;
pub mod lower;
mod program;
mod sizes;
pub mod verdict;

pub use sizes::NotClaimed;
