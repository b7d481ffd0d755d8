//! Tables with a place for each pair of ranks, of which most are never used.

/// What is in use, and where. A place that is never used costs no memory: the table is zeroed by the
/// system, page by page, when it is first touched.
pub(super) struct Sparse<T> {
    /// By place: 0, or the number of what is there, from 1 on.
    places: Vec<u32>,
    /// With their places.
    used: Vec<(usize, T)>,
}

impl<T: Default> Sparse<T> {
    /// So many places; fewer than 2^32.
    pub(super) fn new(places: usize) -> Self {
        Self { places: vec![0; places], used: Vec::new() }
    }

    pub(super) fn get(&self, place: usize) -> Option<&T> {
        Some(&self.used.get((*self.places.get(place)? as usize).checked_sub(1)?)?.1)
    }

    /// What is at a place of the table, in use from here on.
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

    /// Everything that is in use, and where.
    pub(super) fn used(&mut self) -> impl Iterator<Item = (usize, &mut T)> {
        self.used.iter_mut().map(|(place, used)| (*place, used))
    }
}

#[cfg(test)]
mod tests {
    use super::Sparse;

    #[test]
    fn a_place_that_nobody_took_is_empty() {
        // A list of so many would take a gigabyte.
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
