//! Divides a communicator, by `ncclCommSplit`, which all of its ranks call, or `ncclCommShrink`,
//! which only the remaining ranks call.
//!
//! The call waits for every rank that makes it, including those of other children. A rank lost
//! meanwhile holds up the others until the parent is revoked, so a rank that gives up poisons the
//! parent.

use std::ffi::c_int;

use nccl_sys::{
    Function, NCCL_COMM_NULL, NCCL_SHRINK_DEFAULT, NCCL_SPLIT_NOCOLOR, ncclComm_t, ncclResult_t,
};

use super::api::lacking;
use super::comm::Comm;
use super::exit;
use super::making::{Made, Making, Parent, Wanted, failed};
use super::values::number;
use crate::Result;
use crate::backend::{ChildPlace, Part};
use crate::error::Error;

/// The NCCL function, and the ranks without a part.
enum Way<Split, Shrink> {
    Split(Split),
    Shrink(Shrink, Vec<c_int>),
}

impl Comm {
    /// Whether the loaded release has `ncclCommShrink`, 2.27, and its child may outlive the parent,
    /// because it does not use the parent's resources.
    pub(super) fn leaves_out(&self) -> bool {
        let shares = self.config.split_share || self.config.shrink_share;
        self.nccl.api.has(Function::ncclCommShrink) && !shares && !self.is_adopted
    }

    /// Starts this rank's part; `None` if children join by ids of their own.
    pub(super) fn divide(&self, part: &Part) -> Result<Option<Making>> {
        let Part { place, borrows, without } = part;
        // Children of such a parent share its resources, whatever is asked for, and NCCL does not
        // allow a child to outlive its parent. How another library made a communicator is unknown.
        let shares = match without.is_empty() {
            true => self.config.split_share,
            false => self.config.shrink_share,
        };
        let is_older = !without.is_empty() && !self.nccl.api.has(Function::ncclCommShrink);
        if self.is_adopted || is_older || shares && !borrows {
            return Ok(None);
        }
        let (shared, health) = (self.shared.clone(), self.health.clone());
        let parent = Parent { comm: shared.clone(), health: health.clone() };
        let place = place.as_ref();
        let (color, key) = place.map_or((NCCL_SPLIT_NOCOLOR, 0), |place: &ChildPlace| {
            // NCCL's numbers start at 0, as ours do.
            (number(place.color), number(place.rank))
        });
        let wanted = Wanted {
            comm: health.id(),
            nccl: self.nccl,
            gpu: self.gpu,
            size: place.map_or(0, |place| number(place.size)),
            config: place.map_or(&self.config, |place| &place.config).clone(),
            name: place.map_or(shared.family.name, |place| place.name),
            deadline: place.map_or(self.deadline, |place| place.deadline),
        };
        let missing = lacking("a child");
        let api = &self.nccl.api;
        let (function, way) = match without.is_empty() {
            true => ("ncclCommSplit", Way::Split(api.ncclCommSplit().map_err(&missing)?)),
            false => {
                let list: Vec<c_int> = without.iter().map(|rank| number(*rank)).collect();
                ("ncclCommShrink", Way::Shrink(api.ncclCommShrink().map_err(&missing)?, list))
            }
        };
        let size = self.size as usize;
        let thread = format!("NCCL split of rank {}", shared.rank);
        let call = move || -> Result<Option<Made>> {
            let mut config = wanted.config();
            wanted.gpu.bind()?;
            let ended = || failed(size, "the communicator has ended".to_owned());
            let inside = exit::enter(health.id()).ok_or_else(ended)?;
            let mut comm: ncclComm_t = NCCL_COMM_NULL;
            let result = shared.divides(|parent| match way {
                // SAFETY: the parent is alive, as its end waits for this. Its rank waits for this
                // too and makes no other call with it. `comm` is valid for a write and `config` is
                // complete.
                Way::Split(split) => unsafe {
                    split(parent, color, key, &raw mut comm, &raw mut config)
                },
                Way::Shrink(shrink, mut list) => {
                    let (count, flags) = (list.len() as c_int, NCCL_SHRINK_DEFAULT);
                    let ranks = list.as_mut_ptr();
                    // SAFETY: as above; the list has `count` ranks, all of the parent.
                    unsafe { shrink(parent, ranks, count, &raw mut comm, &raw mut config, flags) }
                }
            });
            drop(inside);
            let result = result.ok_or_else(ended)?;
            if color == NCCL_SPLIT_NOCOLOR && result == ncclResult_t::ncclSuccess {
                return Ok(None);
            }
            let made = wanted.made(function, result, comm);
            made.map(Some).map_err(|error: Error| {
                shared.family.hear_of_deaths(&health);
                health.check().err().unwrap_or(error)
            })
        };
        Making::start(thread, size, Some(parent), call).map(Some)
    }
}
