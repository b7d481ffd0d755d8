//! Views by value as operands of a launch: `x.slice(..3)` where `&x.slice(..3)` works.
//!
//! A launch keeps its operands until it is recorded, so a view by value borrows its buffer as long
//! as a reference to the view does. A buffer by value is refused: the caller would lose it.

use std::sync::Arc;

use super::Held;
use super::launch::{Operand, OperandOn, StreamAccess};
use crate::backend::{Launches, Seen};
use crate::memory::Allocation;
use crate::{
    Buffer, Device, Element, Readable, Result, Slice, SliceMut, WindowKind, WindowSlice, World,
};

/// What a closure gets, as for a reference.
macro_rules! shown {
    (
        [$($params:tt)*] $operand:ty, of $T:ident on $device:ty,
        $view:ident as $View:ident, writes: $writes:literal
    ) => {
        impl<$($params)*> Operand for $operand {
            type Backend = <$device as Device>::Backend;
            type View<'v> = <<$device as Device>::Backend as Launches>::$View<'v, $T>;
            type Held = Held<<$device as Device>::Backend>;

            fn seen<'v>(held: &'v Self::Held, seen: &mut Vec<Seen<'v, Self::Backend>>) {
                seen.push(held.seen::<$T>($writes));
            }

            unsafe fn view<'v>(held: &'v Self::Held) -> Self::View<'v> {
                // SAFETY: as for `&A` and `&mut A`: a view by value is a loan too, which lives at
                // the call. A buffer is never taken.
                unsafe { held.$view::<$T>() }
            }
        }
    };
}

/// Implements the operand traits as they are for a reference.
macro_rules! by_value {
    (
        [$($params:tt)*] $operand:ty, of $T:ident on $device:ty,
        $view:ident as $View:ident, writes: $writes:literal
    ) => {
        shown!([$($params)*] $operand, of $T on $device, $view as $View, writes: $writes);

        #[diagnostic::do_not_recommend]
        impl<$($params)*> OperandOn<$device> for $operand {
            fn hold(&self, stream: &StreamAccess<'_, $device>) -> Result<<Self as Operand>::Held> {
                stream.take(self)
            }

            fn used(&self) -> Option<(&Arc<Allocation<<$device as Device>::Backend>>, bool)> {
                Some((Readable::place(self).0, $writes))
            }
        }
    };
}

by_value!(
    [T: Element, D: Device] Slice<'_, T, D>, of T on D,
    view as ViewOnceTheDeviceIsKnown, writes: false
);
by_value!(
    [T: Element, D: Device] SliceMut<'_, T, D>, of T on D,
    view_mut as ViewMutOnceTheDeviceIsKnown, writes: true
);
by_value!(
    [T: Element, W: World, K: WindowKind] WindowSlice<'_, T, W, K>, of T on W::Device,
    view as ViewOnceTheDeviceIsKnown, writes: false
);
// No operand on any device. It is implemented so that a buffer by value is one error, without
// another about the closure.
shown!(
    [T: Element, D: Device, M] Buffer<T, D, M>, of T on D,
    view as ViewOnceTheDeviceIsKnown, writes: false
);
