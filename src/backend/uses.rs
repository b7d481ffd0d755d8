//! The memory that operations use.

use std::sync::Arc;

use super::{Allocation, Backend, Collective, Op, form};
use crate::Result;
use crate::memory::{Order, Uses};

/// An operation's memory, and whether it is written.
#[inline]
pub(crate) fn uses<'a, B: Backend>(
    op: &Op<'a, B>,
) -> impl Iterator<Item = (&'a Arc<Allocation<B>>, bool)> + use<'a, B> {
    let (read, written) = op.sides();
    let scalar = match op {
        Op::Collective(collective) => collective.scalar(),
        _ => None,
    };
    let read = read.map(|span| span.allocation()).into_iter().chain(scalar);
    let written = written.map(|span| (span.allocation(), true));
    read.map(|allocation| (allocation, false)).chain(written)
}

impl<B: Backend> Uses<B> for &[Op<'_, B>] {
    fn each(&self, mut each: impl FnMut(&Order<B>, bool) -> Result<()>) -> Result<()> {
        for op in *self {
            uses(op).try_for_each(|(allocation, write)| each(&allocation.order, write))?;
        }
        Ok(())
    }
}

impl<'a, B: Backend> Collective<'a, B> {
    /// The memory of its scalar, if the scalar is in memory.
    #[inline]
    pub(crate) fn scalar(&self) -> Option<&'a Arc<Allocation<B>>> {
        match self.reduction {
            Some(form::Reduction::Made(operator)) => B::scalar(operator),
            _ => None,
        }
    }
}
