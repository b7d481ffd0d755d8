//! Tables with an entry for each pair of ranks, most of which are never used.

/// The entries in use. Unused entries take no memory, as the system zeroes the table page by page
/// on first access.
pub(super) struct Sparse<T> {
    /// By place: 0, or the entry's number, starting at 1.
    places: Vec<u32>,
    /// The entries, with their places.
    used: Vec<(usize, T)>,
}

impl<T: Default> Sparse<T> {
    /// A table of this many places, fewer than 2^32.
    pub(super) fn new(places: usize) -> Self {
        Self { places: vec![0; places], used: Vec::new() }
    }

    pub(super) fn get(&self, place: usize) -> Option<&T> {
        Some(&self.used.get((*self.places.get(place)? as usize).checked_sub(1)?)?.1)
    }

    /// The entry at a place, which is in use from here on.
    pub(super) fn take(&mut self, place: usize) -> &mut T {
        if self.places[place] == 0 {
            self.used.push((place, T::default()));
            self.places[place] = u32::try_from(self.used.len()).unwrap_or(u32::MAX);
        }
        &mut self.used[self.places[place] as usize - 1].1
    }

    pub(super) fn is_empty(&self) -> bool {
        self.used.is_empty()
    }

    /// All entries in use, with their places.
    pub(super) fn used(&mut self) -> impl Iterator<Item = (usize, &mut T)> {
        self.used.iter_mut().map(|(place, used)| (*place, used))
    }
}

#[cfg(test)]
mod tests {
    use super::Sparse;

    #[test]
    fn a_place_that_nobody_took_is_empty() {
        // A dense table of this size would take a gigabyte.
        let mut table = Sparse::<[u64; 8]>::new(1 << 24);
        assert!(table.get(7).is_none() && table.get(1 << 24).is_none());
        table.take((1 << 24) - 1)[0] = 3;
        table.take(7)[0] += 1;
        table.take(7)[0] += 1;
        assert_eq!(table.get(7).map(|value| value[0]), Some(2));
        let mut used: Vec<_> = table.used().map(|(place, value)| (place, value[0])).collect();
        used.sort_unstable();
        assert_eq!(used, [(7, 2), ((1 << 24) - 1, 3)]);
    }
}
