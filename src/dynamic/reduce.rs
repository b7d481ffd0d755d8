//! Reductions chosen at run time.

use crate::backend::{Reduction, form};
use crate::communicator::Resources;
use crate::reduce::sealed::Sealed;
use crate::{Device, DynElem, Numeric, ReduceOp, ReductionName, Result, World};

/// A reduction, as a value. One that does not reduce the data type is refused at the call
/// ([`Error::NotReducible`](crate::Error::NotReducible)).
///
/// ```
/// # use typed_nccl::{DType, DynBuffer, DynReduceOp, Host, Seat};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// let op = match "max" {
///     "sum" => DynReduceOp::Add,
///     _ => DynReduceOp::Greatest,
/// };
/// let mut x = DynBuffer::zeros(comm.device(), DType::F32, 4)?;
/// comm.all_reduce_in_place(&mut x, op)?;
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
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
    /// [`Sum::exact`](crate::Sum::exact)
    ExactAdd,
    /// [`Avg::exact`](crate::Avg::exact)
    ExactMean,
    /// [`Sum::in_f32`](crate::Sum::in_f32)
    WideAdd,
    /// [`Avg::in_f32`](crate::Avg::in_f32)
    WideMean,
    /// [`BitAnd`](crate::BitAnd)
    BitwiseAnd,
    /// [`BitOr`](crate::BitOr)
    BitwiseOr,
    /// [`BitXor`](crate::BitXor)
    BitwiseXor,
    /// [`And`](crate::And)
    LogicalAnd,
    /// [`Or`](crate::Or)
    LogicalOr,
}

impl DynReduceOp {
    pub(super) fn name(self) -> ReductionName {
        match self {
            Self::Add => ReductionName::Add,
            Self::Multiply => ReductionName::Multiply,
            Self::Least => ReductionName::Least,
            Self::Greatest => ReductionName::Greatest,
            Self::Mean => ReductionName::Mean,
            Self::ExactAdd => ReductionName::ExactAdd,
            Self::ExactMean => ReductionName::ExactMean,
            Self::WideAdd => ReductionName::WideAdd,
            Self::WideMean => ReductionName::WideMean,
            Self::BitwiseAnd => ReductionName::BitwiseAnd,
            Self::BitwiseOr => ReductionName::BitwiseOr,
            Self::BitwiseXor => ReductionName::BitwiseXor,
            Self::LogicalAnd => ReductionName::LogicalAnd,
            Self::LogicalOr => ReductionName::LogicalOr,
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
