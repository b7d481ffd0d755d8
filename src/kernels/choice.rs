//! Chooses which operations use a kernel of this library, and which algorithm. All ranks choose
//! alike, since the inputs are the same on all of them: sizes, types, the number of ranks.
//!
//! The thresholds are those that plans use: [`Topology::h200_node`].

use typed_nccl_plan::cost::{AllReduceBy, Topology};

use crate::DType;
use crate::backend::KernelWay;

/// The most bytes that a kernel takes.
const MOST: usize = 1 << 30;

/// Whether kernels compute with this element type.
pub(super) fn computes(dtype: DType) -> bool {
    moves(dtype) && dtype.in_plans().is_computed_by_kernels()
}

/// Whether kernels move this element type. Complex and plain types may have other sizes and
/// alignments than the elements of kernels.
pub(super) fn moves(dtype: DType) -> bool {
    dtype.is_primitive()
}

/// The algorithm of an `all_reduce` of this many bytes; `None` where NCCL's is better, or the only
/// one.
pub(super) fn all_reduce(
    bytes: usize,
    dtype: DType,
    ranks: usize,
    asked: Option<KernelWay>,
) -> Option<KernelWay> {
    if !computes(dtype) || bytes > MOST {
        return None;
    }
    asked.or_else(|| {
        let (by, _) = Topology::h200_node().kernels.all_reduce(ranks, 1, bytes as f64)?;
        Some(match by {
            AllReduceBy::Words => KernelWay::OneShot,
            AllReduceBy::Blocks => KernelWay::OneShotInBlocks,
            AllReduceBy::TwoShots => KernelWay::TwoShot,
        })
    })
}

/// Whether a rank's messages, this many bytes in all, use a kernel.
pub(super) fn messages(bytes: usize) -> bool {
    Topology::h200_node().kernels.messages(1, bytes as f64).is_some()
}

/// Whether the sum of rows of this many bytes fits.
pub(super) fn rms_norm(bytes: usize) -> bool {
    bytes <= MOST
}

#[cfg(test)]
mod tests {
    use super::{KernelWay, all_reduce, messages};
    use crate::DType;

    #[test]
    fn small_ones_go_in_words_large_ones_by_nccl() {
        let way = |bytes, ranks| all_reduce(bytes, DType::F32, ranks, None);
        assert_eq!(way(1024, 2), Some(KernelWay::OneShot));
        assert_eq!(way(1 << 20, 2), Some(KernelWay::OneShotInBlocks));
        assert_eq!(way(256 << 10, 8), Some(KernelWay::TwoShot));
        assert_eq!((way(8 << 20, 2), way(1 << 20, 8)), (None, None));
        let asked = Some(KernelWay::TwoShot);
        assert_eq!(all_reduce(8, DType::F32, 2, asked), asked);
        assert_eq!(all_reduce(8, DType::F8E5M2, 2, asked), None);
        assert!(messages(512 << 10) && !messages((512 << 10) + 1));
    }
}
