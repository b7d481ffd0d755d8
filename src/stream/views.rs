//! Memory as operands of a launch: references to it, and views by value, `x.slice(..3)` where
//! `&x.slice(..3)` works.
//!
//! A launch keeps its operands until it is recorded, so a view by value borrows its buffer as long
//! as a reference to the view does. A buffer by value is refused: the caller would lose it.

use std::sync::Arc;

use super::Held;
use super::launch::{Operand, OperandOn, StreamAccess};
use crate::backend::{Launches, Seen};
use crate::memory::Allocation;
use crate::{
    Buffer, Device, Element, Elements, Readable, Result, Slice, SliceMut, WindowKind, WindowSlice,
    World, Writable,
};

/// What a closure gets.
macro_rules! shown {
    ($(
        [$($params:tt)*] $operand:ty, of $T:ty, on $device:ty,
        $view:ident as $View:ident, write: $write:literal;
    )+) => { $(
        impl<$($params)*> Operand for $operand {
            type Backend = <$device as Device>::Backend;
            type View<'v> = <<$device as Device>::Backend as Launches>::$View<'v, $T>;
            type Held = Held<<$device as Device>::Backend>;

            fn seen<'v>(held: &'v Self::Held, seen: &mut Vec<Seen<'v, Self::Backend>>) {
                seen.push(held.seen::<$T>($write));
            }

            unsafe fn view<'v>(held: &'v Self::Held) -> Self::View<'v> {
                // SAFETY: the span came from a view of these elements, so it is aligned and in
                // bounds, and `held` keeps the memory. The launch's booking keeps writers away, and
                // readers from what is written. Operands of one launch overlap only if none is
                // written: all loans live at the call, and no buffer is taken by value. An
                // unordered put of another process may change a host window (decision 079).
                unsafe { held.$view::<$T>() }
            }
        }
    )+ };
}

shown! {
    [A: Elements<Elem: Element>] &A, of A::Elem, on A::Device,
    view as ViewOnceTheDeviceIsKnown, write: false;

    [A: Elements<Elem: Element>] &mut A, of A::Elem, on A::Device,
    view_mut as ViewMutOnceTheDeviceIsKnown, write: true;

    [T: Element, D: Device] Slice<'_, T, D>, of T, on D,
    view as ViewOnceTheDeviceIsKnown, write: false;

    [T: Element, D: Device] SliceMut<'_, T, D>, of T, on D,
    view_mut as ViewMutOnceTheDeviceIsKnown, write: true;

    [T: Element, W: World, K: WindowKind] WindowSlice<'_, T, W, K>, of T, on W::Device,
    view as ViewOnceTheDeviceIsKnown, write: false;

    // No operand on any device. It is implemented so that a buffer by value is one error, without
    // another about the closure.
    [T: Element, D: Device, M] Buffer<T, D, M>, of T, on D,
    view as ViewOnceTheDeviceIsKnown, write: false;
}

/// What a stream takes.
macro_rules! taken {
    ($([$($params:tt)*] $operand:ty, on $device:ty, write: $write:literal;)+) => { $(
        #[diagnostic::do_not_recommend]
        impl<$($params)*> OperandOn<$device> for $operand {
            fn hold(&self, stream: &StreamAccess<'_, $device>) -> Result<<Self as Operand>::Held> {
                stream.take(self)
            }

            fn used(&self) -> Option<(&Arc<Allocation<<$device as Device>::Backend>>, bool)> {
                Some((Readable::place(self).0, $write))
            }
        }
    )+ };
}

taken! {
    [D: Device, A: Readable<D, Elem: Element>] &A, on D, write: false;
    [D: Device, A: Writable<D, Elem: Element>] &mut A, on D, write: true;
    [T: Element, D: Device] Slice<'_, T, D>, on D, write: false;
    [T: Element, D: Device] SliceMut<'_, T, D>, on D, write: true;
    [T: Element, W: World, K: WindowKind] WindowSlice<'_, T, W, K>, on W::Device, write: false;
}
