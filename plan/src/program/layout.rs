//! The placement of an instance's ranks on its axes and in its communicators.

use super::eval::{Env, NoValue};
use crate::ir::{AxisId, Hop, Plan};

/// The ranks of an instance.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) extents: Vec<i64>,
    /// The distance between neighbours along each axis.
    strides: Vec<i64>,
    pub(crate) size: usize,
    communicators: Vec<Members>,
}

/// The instances of one communicator: ranks of one of them differ along `axes`.
#[derive(Clone, Debug)]
struct Members {
    axes: Vec<usize>,
    /// Offsets of the members from the first one, in the order of their ranks.
    offsets: Vec<u32>,
}

impl Layout {
    /// The ranks; `None` if their number exceeds 32 bits.
    pub(crate) fn new(plan: &Plan, extents: &[i64]) -> Option<Self> {
        let size = extents.iter().try_fold(1_i64, |size, extent| size.checked_mul(*extent))?;
        if !(1..=1 << 22).contains(&size) {
            return None;
        }
        let mut strides = vec![1; extents.len()];
        for axis in (0..extents.len().saturating_sub(1)).rev() {
            strides[axis] = strides[axis + 1] * extents[axis + 1];
        }
        let communicators = plan
            .communicators
            .iter()
            .map(|communicator| {
                let axes: Vec<usize> = communicator.axes.iter().map(|axis| axis.index()).collect();
                let mut offsets = vec![0_u32];
                for &axis in &axes {
                    let along = (0..extents[axis]).map(|at| (at * strides[axis]) as u32);
                    let along: Vec<u32> = along.collect();
                    offsets = offsets
                        .iter()
                        .flat_map(|base| along.iter().map(move |offset| base + offset))
                        .collect();
                }
                Members { axes, offsets }
            })
            .collect();
        Some(Self { extents: extents.to_vec(), strides, size: size as usize, communicators })
    }

    /// The index of `rank` along an axis.
    pub(crate) fn coordinate(&self, rank: usize, axis: AxisId) -> i64 {
        rank as i64 / self.strides[axis.index()] % self.extents[axis.index()]
    }

    /// The rank at that distance along an axis, if it exists.
    pub(crate) fn shift(&self, rank: usize, axis: AxisId, by: i64, wrap: bool) -> Option<usize> {
        let (extent, stride) = (self.extents[axis.index()], self.strides[axis.index()]);
        let from = self.coordinate(rank, axis);
        let to = if wrap {
            (from + by.rem_euclid(extent)) % extent
        } else {
            from.checked_add(by).filter(|to| (0..extent).contains(to))?
        };
        Some((rank as i64 + (to - from) * stride) as usize)
    }

    /// The rank at the end of these hops; `None` if the chain ends before it.
    pub(crate) fn hop(
        &self,
        mut at: usize,
        hops: &[Hop],
        env: &Env<'_>,
    ) -> Result<Option<usize>, NoValue> {
        for Hop { axis, by, wrap } in hops {
            match self.shift(at, *axis, env.eval(by)?, *wrap) {
                Some(there) => at = there,
                None => return Ok(None),
            }
        }
        Ok(Some(at))
    }

    /// The first rank of the communicator of `rank`, which identifies the instance.
    pub(crate) fn first(&self, communicator: usize, rank: usize) -> usize {
        self.communicators[communicator].axes.iter().fold(rank, |first, &axis| {
            let at = rank as i64 / self.strides[axis] % self.extents[axis];
            first - (at * self.strides[axis]) as usize
        })
    }

    /// How many ranks each instance of the communicator has.
    pub(crate) fn members(&self, communicator: usize) -> usize {
        self.communicators[communicator].offsets.len()
    }

    /// The plan's rank for a communicator's rank, in the instance that begins with `first`.
    pub(crate) fn member(&self, communicator: usize, first: usize, index: usize) -> usize {
        first + self.communicators[communicator].offsets[index] as usize
    }

    /// The ranks of the communicator of `rank`, in order.
    pub(crate) fn together(&self, communicator: usize, rank: usize) -> impl Iterator<Item = usize> {
        let first = self.first(communicator, rank);
        self.communicators[communicator].offsets.iter().map(move |offset| first + *offset as usize)
    }

    /// The communicator's rank for a rank of the plan.
    pub(crate) fn index(&self, communicator: usize, rank: usize) -> usize {
        self.communicators[communicator].axes.iter().fold(0, |index, &axis| {
            let at = rank as i64 / self.strides[axis] % self.extents[axis];
            index * self.extents[axis] as usize + at as usize
        })
    }
}
