//! The placement of an exported tensor's elements in its buffer.

/// The order of an exported tensor's elements in its buffer.
///
/// See the example of [`export`](super::export).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Layout<'s> {
    /// The last index varies fastest: C, NumPy and PyTorch.
    C,
    /// The first index varies fastest: Fortran.
    F,
    /// By strides, in elements. The tensor may skip elements of the buffer (rows with padding), but
    /// cannot contain one twice.
    Strides(&'s [usize]),
}

impl Layout<'_> {
    /// The strides of a tensor of that shape, in elements, over `len` elements; `None` if it does
    /// not fit.
    pub(super) fn strides(self, shape: &[usize], len: usize) -> Option<Vec<usize>> {
        let count = shape.iter().try_fold(1_usize, |count, &n| count.checked_mul(n))?;
        let strides = match self {
            Self::C => dense(shape.iter().rev()).map(|mut strides| {
                strides.reverse();
                strides
            }),
            Self::F => dense(shape.iter()),
            Self::Strides(strides) => {
                return fits(shape, strides, len).then(|| strides.to_vec());
            }
        };
        strides.filter(|_| count == len)
    }
}

/// Contiguous strides, beginning with 1.
fn dense<'n>(shape: impl Iterator<Item = &'n usize>) -> Option<Vec<usize>> {
    let mut next = 1_usize;
    shape
        .map(|&n| {
            let stride = next;
            next = next.checked_mul(n.max(1))?;
            Some(stride)
        })
        .collect()
}

/// Whether every index is one of `len` elements, and no element occurs twice.
fn fits(shape: &[usize], strides: &[usize], len: usize) -> bool {
    if shape.len() != strides.len() {
        return false;
    }
    if shape.contains(&0) {
        return true;
    }
    let mut axes: Vec<_> = shape.iter().zip(strides).filter(|&(&n, _)| n > 1).collect();
    axes.sort_by_key(|&(_, stride)| *stride);
    // The elements of the axes so far are within the first `reach`.
    let reach = axes.into_iter().try_fold(1_usize, |reach, (&n, &stride)| {
        let last = stride.checked_mul(n - 1)?.checked_add(reach)?;
        (stride >= reach).then_some(last)
    });
    reach.is_some_and(|reach| reach <= len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c_and_fortran_order() {
        assert_eq!(Layout::C.strides(&[2, 3, 4], 24), Some(vec![12, 4, 1]));
        assert_eq!(Layout::F.strides(&[2, 3, 4], 24), Some(vec![1, 2, 6]));
        assert_eq!(Layout::C.strides(&[], 1), Some(vec![]));
        assert_eq!(Layout::F.strides(&[3, 0], 0), Some(vec![1, 3]));
        assert_eq!(Layout::C.strides(&[2, 3], 7), None);
        assert_eq!(Layout::C.strides(&[usize::MAX, 2], 1), None);
        assert_eq!(Layout::F.strides(&[usize::MAX, usize::MAX, 0], 0), None);
    }

    #[test]
    fn strides_within_the_buffer() {
        let fits = |shape: &[usize], strides: &[usize], len| {
            Layout::Strides(strides).strides(shape, len).is_some()
        };
        assert!(fits(&[2, 3], &[4, 1], 7), "padded rows");
        assert!(!fits(&[2, 3], &[4, 1], 6), "past the end");
        assert!(!fits(&[2, 3], &[0, 1], 3), "broadcast");
        assert!(!fits(&[2, 3], &[2, 1], 6), "rows that overlap");
        assert!(fits(&[3, 1], &[1, 0], 3), "the stride of one element is nobody's business");
        assert!(!fits(&[2], &[1, 1], 9), "as many strides as axes");
        assert!(fits(&[0, 5], &[9, 9], 0), "nothing is anywhere");
        assert!(!fits(&[2, 2], &[usize::MAX, 1], usize::MAX));
    }
}
