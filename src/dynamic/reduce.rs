//! Reductions chosen at run time.

use crate::backend::{Reduction, form};
use crate::communicator::Resources;
use crate::reduce::sealed::Sealed;
use crate::{Device, DynElem, Numeric, ReduceOp, ReductionName, Result, World};

/// One of `Sum`, `Prod`, `Min`, `Max` and `Avg`, as a value. An average of integers is refused at
/// the call ([`Error::NotReducible`](crate::Error::NotReducible)).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DynReduceOp {
    /// [`Sum`](crate::Sum)
    Add,
    /// [`Prod`](crate::Prod)
    Multiply,
    /// [`Min`](crate::Min)
    Least,
    /// [`Max`](crate::Max)
    Greatest,
    /// [`Avg`](crate::Avg)
    Mean,
}

impl DynReduceOp {
    fn name(self) -> ReductionName {
        match self {
            Self::Add => ReductionName::Add,
            Self::Multiply => ReductionName::Multiply,
            Self::Least => ReductionName::Least,
            Self::Greatest => ReductionName::Greatest,
            Self::Mean => ReductionName::Mean,
        }
    }
}

impl Sealed for DynReduceOp {}

#[diagnostic::do_not_recommend]
impl<T: Numeric, W: World> ReduceOp<T, W> for DynReduceOp {
    fn resolve<'r>(
        &self,
        _: &'r Resources<<W::Device as Device>::Backend>,
    ) -> Result<Reduction<'r, <W::Device as Device>::Backend>> {
        Ok(form::Reduction::BuiltIn(self.name()))
    }
}

#[diagnostic::do_not_recommend]
impl<W: World> ReduceOp<DynElem, W> for DynReduceOp {
    fn resolve<'r>(
        &self,
        _: &'r Resources<<W::Device as Device>::Backend>,
    ) -> Result<Reduction<'r, <W::Device as Device>::Backend>> {
        Ok(form::Reduction::BuiltIn(self.name()))
    }
}
