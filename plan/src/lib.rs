//! Communication plans for NCCL: a schedule for all ranks, declared once and checked.
//!
//! A [`Plan`](ir::Plan) is data: who sends what to whom, in which order, on which streams.
//! [`check`](check::check) checks it exactly at many sizes and reports errors as a
//! [story](verdict::Problem); [`check_at`](check::check_at) checks it at one size. [`build`]
//! declares one in Rust.
//!
#![doc = include_str!("model.md")]

pub mod build;
pub mod check;
pub mod cost;
pub mod draw;
mod element;
pub mod ir;
pub mod lower;
mod program;
pub mod releases;
mod sizes;
pub mod verdict;

pub use sizes::NotClaimed;
