//! Sums of elements scaled by a scalar chosen at run time.

use std::marker::PhantomData;

use super::ReduceOp;
use crate::backend::{Reduction, form};
use crate::communicator::{Key, Resources};
use crate::derived::debug;
use crate::{Device, Numeric, Result, World};

/// Multiplies each rank's elements by that rank's scalar, then adds (`ncclRedOpCreatePreMulSum`).
///
/// Made by [`Communicator::pre_mul_sum`](crate::Communicator::pre_mul_sum), owned by the program,
/// and usable only with the communicator that made it. Dropping it destroys it. `S` says whether
/// its scalar can be set: [`FixedScalar`] or [`ScalarInMemory`].
///
/// ```
/// use typed_nccl::{FixedScalar, Host, PreMulSum, ScalarInMemory, SettableScalar, spmd};
///
/// fn is_settable<S: SettableScalar>(_: &PreMulSum<f32, impl typed_nccl::World, S>) {}
///
/// spmd::<Host>(2, |place| {
///     let mut comm = place.init()?;
///     let fixed: PreMulSum<f32, _, FixedScalar> = comm.pre_mul_sum(0.5)?; // as an average of two
///     let mut x = comm.device().from_slice(&[1.0, 3.0])?;
///     comm.all_reduce_in_place(&mut x, &fixed)?;
///     assert_eq!(x.to_vec()?, [1.0, 3.0]);
///     let scalar = comm.device().from_slice(&[0.0])?;
///     let in_memory: PreMulSum<f32, _, ScalarInMemory> = comm.pre_mul_sum_device(scalar)?;
///     is_settable(&in_memory); // by `comm.set_scalar(&in_memory, 0.25)`
///     comm.finish()
/// })
/// .expect("both ranks end well");
/// ```
pub struct PreMulSum<T, W: World, S = FixedScalar> {
    key: Key,
    types: PhantomData<fn() -> (T, W, S)>,
}

/// The scalar of an operator that was made from a value: the same in every operation and every
/// launch of a graph.
///
/// See the example of [`PreMulSum`].
pub enum FixedScalar {}

/// The scalar of an operator made by
/// [`pre_mul_sum_device`](crate::Communicator::pre_mul_sum_device): operations read it when they
/// run.
///
/// See the example of [`PreMulSum`].
pub enum ScalarInMemory {}

/// Scalars that [`Communicator::set_scalar`](crate::Communicator::set_scalar) sets.
///
/// See the example of [`PreMulSum`].
#[diagnostic::on_unimplemented(
    message = "the scalar of this operator is fixed",
    label = "made with a value, which NCCL has copied",
    note = "make it with `comm.pre_mul_sum_device(scalar)`, where `scalar` is a buffer of one element: operations read that when they run"
)]
pub trait SettableScalar {}

impl SettableScalar for ScalarInMemory {}

impl<T: Numeric, W: World, S> PreMulSum<T, W, S> {
    pub(crate) fn new(key: Key) -> Self {
        Self { key, types: PhantomData }
    }

    /// Whether its communicator still has it: not after the communicator's end.
    pub fn is_valid(&self) -> bool {
        self.key.is_valid()
    }

    pub(crate) fn key(&self) -> &Key {
        &self.key
    }
}

#[diagnostic::do_not_recommend]
impl<T: Numeric, W: World, S> ReduceOp<T, W> for PreMulSum<T, W, S> {
    fn resolve<'r>(
        &self,
        resources: &'r Resources<<W::Device as Device>::Backend>,
    ) -> Result<Reduction<'r, <W::Device as Device>::Backend>> {
        Ok(form::Reduction::Made(resources.operator(&self.key)?))
    }
}

#[diagnostic::do_not_recommend]
impl<T: Numeric, W: World, S> ReduceOp<T, W> for &PreMulSum<T, W, S> {
    fn resolve<'r>(
        &self,
        resources: &'r Resources<<W::Device as Device>::Backend>,
    ) -> Result<Reduction<'r, <W::Device as Device>::Backend>> {
        (**self).resolve(resources)
    }
}

impl<T, W: World, S> super::sealed::Sealed for &PreMulSum<T, W, S> {}

debug!(
    [T: Numeric, W: World, S] PreMulSum<T, W, S>,
    self => "PreMulSum of {} on {}", T::DTYPE, W::NAME
);
