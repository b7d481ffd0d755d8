//! Sums of scaled elements, the scalar chosen at run time.

use std::fmt;
use std::marker::PhantomData;

use super::ReduceOp;
use crate::backend::Reduction;
use crate::communicator::{Key, Resources};
use crate::{Device, Numeric, Result, World};

/// Multiplies each rank's elements by that rank's scalar, then adds (`ncclRedOpCreatePreMulSum`).
///
/// Made by [`Communicator::pre_mul_sum`](crate::Communicator::pre_mul_sum), owned by the program,
/// and usable with the communicator that made it. Dropping it is enough to destroy it.
pub struct PreMulSum<T, W: World> {
    key: Key,
    types: PhantomData<fn() -> (T, W)>,
}

impl<T: Numeric, W: World> PreMulSum<T, W> {
    pub(crate) fn new(key: Key) -> Self {
        Self { key, types: PhantomData }
    }
}

#[diagnostic::do_not_recommend]
impl<T: Numeric, W: World> ReduceOp<T, W> for PreMulSum<T, W> {
    fn resolve(
        &self,
        resources: &Resources<<W::Device as Device>::Backend>,
    ) -> Result<Reduction<<W::Device as Device>::Backend>> {
        Ok(Reduction::Made(resources.operator(&self.key)?))
    }
}

#[diagnostic::do_not_recommend]
impl<T: Numeric, W: World> ReduceOp<T, W> for &PreMulSum<T, W> {
    fn resolve(
        &self,
        resources: &Resources<<W::Device as Device>::Backend>,
    ) -> Result<Reduction<<W::Device as Device>::Backend>> {
        (**self).resolve(resources)
    }
}

impl<T, W: World> super::sealed::Sealed for &PreMulSum<T, W> {}

impl<T: Numeric, W: World> fmt::Debug for PreMulSum<T, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PreMulSum of {} on {}", T::DTYPE, W::NAME)
    }
}
