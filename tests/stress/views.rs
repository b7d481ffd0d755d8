//! A rank's stores in a round: shared, or in exclusive parts.

use typed_nccl::SliceMut;

use super::device::Dev;
use super::step::{At, Collective, InPlace, Part, Transfer};
use super::store::Store;

enum View<'v> {
    /// Operations read it, or puts write it.
    Shared(&'v Store),
    /// Operations of this rank write parts of it, from front to end.
    Parts { rest: Option<SliceMut<'v, u32, Dev>>, start: usize },
}

pub(crate) struct Views<'v>(Vec<View<'v>>);

impl<'v> Views<'v> {
    pub(crate) fn new(stores: &'v mut [Store], parts: &[Part]) -> Self {
        let is_written = |index: usize| {
            parts.iter().any(|part| match part {
                Part::Collective(Collective { to, .. }) => to.store == index,
                Part::InPlace(InPlace { at, .. }) => at.store == index,
                Part::Transfer(Transfer { to, .. }) => to.store == index,
                Part::Put(_) | Part::Signal { .. } => false,
            })
        };
        let view = |(index, store): (usize, &'v mut Store)| match is_written(index) {
            true => View::Parts { rest: Some(store.all_mut()), start: 0 },
            false => View::Shared(store),
        };
        Self(stores.iter_mut().enumerate().map(view).collect())
    }

    pub(crate) fn is_shared(&self, index: usize) -> bool {
        matches!(self.0[index], View::Shared(_))
    }

    pub(crate) fn shared(&self, index: usize) -> &'v Store {
        match &self.0[index] {
            View::Shared(store) => store,
            View::Parts { .. } => panic!("rounds read what they do not write"),
        }
    }

    /// The next part to write.
    pub(crate) fn part(&mut self, at: At, len: usize) -> SliceMut<'v, u32, Dev> {
        match &mut self.0[at.store] {
            View::Parts { rest, start } => {
                let all = rest.take().expect("it is put back");
                let (_, after) = all.split_at_mut(at.start - *start);
                let (part, after) = after.split_at_mut(len);
                (*rest, *start) = (Some(after), at.start + len);
                part
            }
            View::Shared(_) => panic!("rounds write what they do not read"),
        }
    }
}
