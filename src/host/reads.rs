//! Reads of peers' windows: tasks of the reader's stream, which lock what they read there as puts
//! lock what they write.

use std::sync::Arc;

use super::HostBackend;
use super::block::{self, Touch};
use super::engine::{ENGINE, Member, StreamToken};
use super::hazards;
use super::moves::{Held, combine};
use crate::backend::{Gathered, Reads, Source, Team, WindowId};
use crate::error::{Call, Error, Operation};
use crate::{Rank, Result};

/// A peer's part of a window, and who reads it.
pub struct Part {
    pub(super) memory: Held,
    /// For the check of the order of uses, if there is one.
    pub(super) by: Option<hazards::Put>,
}

/// A source of a task: its memory, and the reader of a peer's.
struct Taken(Held, Option<hazards::Put>);

// SAFETY: a part holds its memory: the peer's allocation, or the mapping of its process's memory.
unsafe impl Reads for HostBackend {
    type Part = Part;

    fn reaches(comm: &Member, peer: Rank, world: Team) -> bool {
        peer.index() == world.rank || !ENGINE.is_spread(comm)
    }

    fn part(comm: &Member, id: WindowId, peer: Rank) -> Option<Part> {
        ENGINE.part(comm, id, peer.index())
    }

    unsafe fn gather(
        comm: &Member,
        stream: &Arc<StreamToken>,
        gathered: Gathered<'_, Self>,
    ) -> Result<()> {
        let Gathered { by, dtype, of, to: (to, offset), count, site } = gathered;
        let bytes = count * dtype.size();
        let call = Call::new(Operation::PutSignal, dtype, count, site);
        let taken = |source| match source {
            Source::Own(memory, start) => {
                Some(Taken(Held::new(Arc::clone(memory), start, bytes), None))
            }
            // The ranks' parts of a window are of one length.
            Source::Peer(Part { memory, by }, start) => {
                let by = by.map(|by| hazards::Put { call, ..by });
                Some(Taken(memory.part(start, bytes)?, by))
            }
        };
        let Some(of) = of.into_iter().map(taken).collect::<Option<Vec<Taken>>>() else {
            return Err(Error::other("a peer's window is shorter than it said".to_owned()));
        };
        let reading = ENGINE.reading(comm);
        let written = Held::new(to.clone(), offset, bytes);
        let work = move || {
            let _reading = reading;
            let target = written.whole(true);
            let is_other = |one: &Touch<'_>| {
                !std::ptr::eq(one.block, target.block) || one.start != target.start
            };
            let touches = of.iter().map(|Taken(memory, by)| (memory.whole(false), by.as_ref()));
            let sources = touches.filter(|(touch, _)| is_other(touch));
            let _guard = block::guard_reader(sources.chain([(target, None)]), site);
            let from: Vec<_> = of.iter().map(|one| one.0.start().cast_const()).collect();
            match from[..] {
                // SAFETY: the caller keeps the ranges inside and apart; all are held and locked.
                [from] => unsafe { std::ptr::copy_nonoverlapping(from, written.start(), bytes) },
                _ => {
                    let (dtype, count) = by.computes_with(dtype, count);
                    // SAFETY: as above, aligned, and apart or equal.
                    unsafe { combine(by, dtype, &from, written.start(), count) }
                }
            }
        };
        ENGINE.enqueue_launch(stream, site, Box::new(work));
        Ok(())
    }
}
