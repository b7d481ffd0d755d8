//! Handles of a plan's memory, and of the parts that statements use.

use std::fmt;
use std::marker::PhantomData;

use super::arena::Stamp;
use super::number::Number;
use super::span::Span;
use super::{Open, PlanBuilder};
use crate::element::PlanElement;
use crate::ir::{self, BufferId, LoopId};

/// Memory that puts cannot use.
#[derive(Clone, Copy, Debug)]
pub struct Plain;

/// Memory that is a symmetric window.
#[derive(Clone, Copy, Debug)]
pub struct Symmetric;

/// A buffer with one copy.
#[derive(Clone, Copy, Debug)]
pub struct Single;

/// A buffer with two copies, which swap after every run.
#[derive(Clone, Copy, Debug)]
pub struct Swapped;

/// A buffer of the plan. As an operand it stands for the whole buffer, and for the current copy of
/// a swapped one.
pub struct Buffer<T, K = Plain, C = Single> {
    pub(crate) base: Base,
    pub(crate) len: Number,
    pub(crate) kind: PhantomData<fn() -> (T, K, C)>,
}

/// An array of buffers of the plan, which may differ in length. [`at`](Self::at) selects one; a
/// compute step also takes the whole array.
pub struct Buffers<T, K = Plain, C = Single> {
    pub(crate) base: Base,
    pub(crate) index: LoopId,
    pub(crate) len: Number,
    pub(crate) kind: PhantomData<fn() -> (T, K, C)>,
}

/// Part of a buffer, in elements.
pub struct Slice<T, K = Plain> {
    base: Base,
    range: Option<(Number, Number)>,
    kind: PhantomData<fn() -> (T, K)>,
}

/// A symmetric window, which puts require.
pub type Window<T> = Buffer<T, Symmetric>;

/// A symmetric window with two copies, which swap after every run.
pub type SwappedWindow<T> = Buffer<T, Symmetric, Swapped>;

/// The fields that handles share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Base {
    pub(crate) of: Stamp,
    pub(crate) buffer: BufferId,
    pub(crate) index: Option<Number>,
    pub(crate) next: bool,
}

/// A part of memory before it is added to the plan.
#[derive(Clone, Copy, Debug)]
pub struct Draft {
    base: Base,
    range: Option<(Number, Number)>,
}

/// Memory that a compute step uses: a buffer, part of one, or a whole array.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no memory of a plan",
    label = "not a buffer, a part of one, or an array of buffers"
)]
pub trait Memory: Copy + sealed::Sealed {
    /// The element type.
    type Element: PlanElement;

    /// The part of memory.
    #[doc(hidden)]
    fn draft(self) -> Draft;
}

/// Memory that an NCCL operation uses: a buffer, or part of one.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not one buffer, nor part of one",
    label = "each side of an operation is one buffer",
    note = "of an array, say which buffer: `.at(i)`"
)]
pub trait Part: Memory {}

/// Memory that a put uses: a symmetric window, or part of one.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no window: a put reads and writes symmetric windows alone",
    label = "this memory is no window",
    note = "declare it with `.window()` before its role, as in `plan.window().in_out(\"u\", m)`, or use `transfer`"
)]
pub trait WindowPart: Part {}

/// Buffers with two copies, which swap after every run.
#[diagnostic::on_unimplemented(
    message = "this buffer has one copy, and `next` names the other one of two",
    label = "there is no other copy",
    note = "declare it with `.swapped()` before its role, as in `plan.swapped().in_out(\"u\", m)`"
)]
pub trait TwoCopies: sealed::Sealed {}

impl TwoCopies for Swapped {}
impl sealed::Sealed for Swapped {}

mod sealed {
    pub trait Sealed {}
}

impl<T: PlanElement, K, C> Buffer<T, K, C> {
    /// The whole buffer.
    pub fn all(self) -> Slice<T, K> {
        Slice { base: self.base, range: None, kind: PhantomData }
    }

    /// The range of elements, its end excluded.
    pub fn slice(self, range: impl Span) -> Slice<T, K> {
        let (from, to) = range.ends();
        let range = (from.unwrap_or_else(|| 0.into()), to.unwrap_or(self.len));
        Slice { range: Some(range), ..self.all() }
    }

    /// Part `index` of `count` equal parts.
    pub fn chunk(self, count: impl Into<Number>, index: impl Into<Number>) -> Slice<T, K> {
        let (index, each) = (index.into(), self.len / count);
        self.slice(index * each..(index + 1) * each)
    }

    /// The other copy, which becomes current in the next run.
    pub fn next(self) -> Self
    where
        C: TwoCopies,
    {
        Self { base: Base { next: true, ..self.base }, ..self }
    }

    /// How many elements it has.
    pub fn len(self) -> Number {
        self.len
    }
}

impl<T, K, C> Buffers<T, K, C> {
    /// The buffer at that index, from 0.
    pub fn at(self, index: impl Into<Number>) -> Buffer<T, K, C> {
        let index = index.into();
        Buffer {
            base: Base { index: Some(index), ..self.base },
            len: Number(self.len.0.replace(self.index, index.0)),
            kind: PhantomData,
        }
    }
}

impl PlanBuilder<Open> {
    /// The region in the plan.
    #[allow(clippy::manual_map, reason = "a closure would hide the caller")]
    #[track_caller]
    pub(crate) fn region(&mut self, part: impl Memory) -> ir::Region {
        let Draft { base, range } = part.draft();
        self.belongs(base.of);
        ir::Region {
            buffer: base.buffer,
            index: match base.index {
                Some(index) => Some(self.expr(index)),
                None => None,
            },
            next: base.next,
            range: match range {
                Some((from, to)) => Some((self.expr(from), self.expr(to))),
                None => None,
            },
        }
    }
}

macro_rules! memory {
    ($($handle:ident<T, K $(, $copies:ident)?>: |$one:ident| $range:expr;)+) => {$(
        impl<T, K $(, $copies)?> Clone for $handle<T, K $(, $copies)?> {
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<T, K $(, $copies)?> Copy for $handle<T, K $(, $copies)?> {}

        impl<T, K $(, $copies)?> fmt::Debug for $handle<T, K $(, $copies)?> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($handle)).field("base", &self.base).finish_non_exhaustive()
            }
        }

        impl<T, K $(, $copies)?> sealed::Sealed for $handle<T, K $(, $copies)?> {}

        impl<T: PlanElement, K $(, $copies)?> Memory for $handle<T, K $(, $copies)?> {
            type Element = T;

            fn draft(self) -> Draft {
                let $one = self;
                Draft { base: $one.base, range: $range }
            }
        }
    )+};
}

memory! {
    Buffer<T, K, C>: |one| None;
    Buffers<T, K, C>: |one| None;
    Slice<T, K>: |one| one.range;
}

impl<T: PlanElement, K, C> Part for Buffer<T, K, C> {}
impl<T: PlanElement, K> Part for Slice<T, K> {}
impl<T: PlanElement, C> WindowPart for Buffer<T, Symmetric, C> {}
impl<T: PlanElement> WindowPart for Slice<T, Symmetric> {}
