//! A window or an operator as a lane receives it, in the lane's own world.

use std::fmt;
use std::marker::PhantomData;
use std::ops::RangeBounds;

use super::OfLane;
use crate::backend::Reduction;
use crate::communicator::Resources;
use crate::derived::copy;
use crate::{
    AsRank, Device, DeviceFamily, Element, Numeric, PreMulSum, ReduceOp, Result, Slice, Window,
    WindowKind, WindowPlace, WindowSlice, World,
};

type Back<W> = <<W as World>::Device as Device>::Backend;

/// One rank's window in its lane, from `&PerRank<Window<..>>`.
///
/// ```
/// # use typed_nccl::{Clique, Host, LaneOp, LaneWindow};
/// let mut clique = Clique::init(Host::open_each(&[0, 1])?)?;
/// let (window, mut sum) = (clique.window::<f32>(4)?, clique.alloc::<f32>(2)?);
/// let ops = clique.pre_mul_sum(|rank| rank.index() as f32)?; // 0 * rank 0's + 1 * rank 1's
/// clique.group((&window, &mut sum, &ops), |lane, (window, sum, op)| {
///     let (window, op): (LaneWindow<'_, '_, _, _, _>, LaneOp<'_, '_, _, _>) = (window, op);
///     lane.all_reduce(window.slice(0..2), sum, op)
/// })?;
/// assert_eq!(clique.to_host(&sum)?, [[0.0; 2]; 2]);
/// # clique.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
pub struct LaneWindow<'e, 'id, T, W: World, K> {
    window: &'e Window<T, W, K>,
    lane: PhantomData<OfLane<'id, W>>,
}

impl<'e, 'id, T: Element, W: World, K: WindowKind> LaneWindow<'e, 'id, T, W, K>
where
    W::Device: DeviceFamily,
{
    pub(super) fn new(window: &'e Window<T, W, K>) -> Self {
        Self { window, lane: PhantomData }
    }

    /// How many elements this rank's part has.
    pub fn len(&self) -> usize {
        self.window.len()
    }

    /// Whether this rank's part has no elements.
    pub fn is_empty(&self) -> bool {
        self.window.is_empty()
    }

    /// How many elements `rank`'s part has; see [`Window::len_at`].
    pub fn len_at(&self, rank: impl AsRank) -> usize {
        self.window.len_at(rank)
    }

    /// A view of `range` of this rank's part; see [`Window::slice`].
    #[track_caller]
    pub fn slice(&self, range: impl RangeBounds<usize>) -> WindowSlice<'e, T, OfLane<'id, W>, K> {
        self.window.slice(range).named()
    }

    /// The place `offset` elements into the window, the target of a put; see [`Window::at`].
    pub fn at(&self, offset: usize) -> WindowPlace<'e, T, OfLane<'id, W>, K> {
        self.window.at(offset).named()
    }

    /// A shared view of this rank's part.
    pub fn local(&self) -> Slice<'e, T, <W::Device as DeviceFamily>::Scoped<'id>> {
        self.window.local().on()
    }
}

copy!([T, W: World, K] LaneWindow<'_, '_, T, W, K>);

impl<T: Element, W: World, K: WindowKind> fmt::Debug for LaneWindow<'_, '_, T, W, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.window, f)
    }
}

/// One rank's operator in its lane, from `&PerRank<PreMulSum<..>>`.
///
/// See the example of [`LaneWindow`].
pub struct LaneOp<'e, 'id, T, W: World> {
    op: &'e PreMulSum<T, W>,
    lane: PhantomData<OfLane<'id, W>>,
}

impl<'e, T, W: World> LaneOp<'e, '_, T, W> {
    pub(super) fn new(op: &'e PreMulSum<T, W>) -> Self {
        Self { op, lane: PhantomData }
    }
}

copy!([T, W: World] LaneOp<'_, '_, T, W>);

impl<T, W: World> crate::reduce::sealed::Sealed for LaneOp<'_, '_, T, W> {}

#[diagnostic::do_not_recommend]
impl<'id, T: Numeric, W: World> ReduceOp<T, OfLane<'id, W>> for LaneOp<'_, 'id, T, W>
where
    W::Device: DeviceFamily,
{
    fn resolve<'r>(&self, resources: &'r Resources<Back<W>>) -> Result<Reduction<'r, Back<W>>> {
        self.op.resolve(resources)
    }
}

impl<T: Numeric, W: World> fmt::Debug for LaneOp<'_, '_, T, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.op, f)
    }
}
