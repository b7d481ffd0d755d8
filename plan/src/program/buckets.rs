//! Indices in buckets, each bucket in their order.

use std::ops::Range;

/// The indices of a list, sorted by bucket.
pub(crate) struct Buckets {
    all: Vec<u32>,
    /// Where each bucket begins, and one more for the end.
    begins: Vec<u32>,
}

impl Buckets {
    /// `of` gives the bucket of each item.
    pub(crate) fn new(count: usize, of: impl Iterator<Item = usize> + Clone) -> Self {
        let mut begins = vec![0_u32; count + 1];
        of.clone().for_each(|bucket| begins[bucket + 1] += 1);
        for bucket in 0..count {
            begins[bucket + 1] += begins[bucket];
        }
        let (mut next, mut all) = (begins.clone(), vec![0; begins[count] as usize]);
        for (at, bucket) in (0..).zip(of) {
            let slot = &mut next[bucket];
            all[*slot as usize] = at;
            *slot += 1;
        }
        Self { all, begins }
    }

    /// The indices in a bucket.
    pub(crate) fn of(&self, bucket: usize) -> &[u32] {
        &self.all[self.range(bucket)]
    }

    /// All indices, bucket by bucket, and where each bucket begins.
    pub(crate) fn into_parts(self) -> (Vec<u32>, Vec<u32>) {
        (self.all, self.begins)
    }

    fn range(&self, bucket: usize) -> Range<usize> {
        self.begins[bucket] as usize..self.begins[bucket + 1] as usize
    }
}
