//! From a call to its stream: groups, and the connections that ranks make first.

use std::cell::RefCell;
use std::sync::{Arc, LazyLock};

use nccl_sys::{Version, ncclResult_t};

use super::batch::{Batch, Work};
use super::driver;
use super::end::Hold;
use super::later::later;
use super::member::{Link, Member};
use super::signals::Cells;
use crate::capture;
use crate::state::{Answer, Refusal, State};

/// A checked call.
struct Pending {
    member: Arc<Member>,
    stream: usize,
    work: Work,
}

thread_local! {
    /// The calls of the open group of this thread.
    static GROUP: RefCell<Vec<Pending>> = const { RefCell::new(Vec::new()) };
}

/// Enqueues a call, or keeps it until the group ends.
pub(crate) fn enqueue(
    state: &mut State,
    member: &Arc<Member>,
    stream: usize,
    work: Work,
) -> Answer {
    driver::is_of(stream, member.context)?;
    let pending = Pending { member: member.clone(), stream, work };
    if state.thread().groups > 0 {
        GROUP.with_borrow_mut(|group| group.push(pending));
        return Ok(());
    }
    let links = Links::of(state);
    later(move || launch(links, vec![pending]))
}

/// The outermost group of this thread has ended.
pub(crate) fn close_group(state: &State) -> Answer {
    let group = GROUP.take();
    let links = Links::of(state);
    if group.is_empty() { Ok(()) } else { later(move || launch(links, group)) }
}

/// Drops the calls of this thread's group, and returns their number.
pub(crate) fn drop_group() -> usize {
    GROUP.take().len()
}

fn launch(links: Links, group: Vec<Pending>) -> Answer {
    links.connect(&group)?;
    let mut batches: Vec<(Arc<Member>, usize, Vec<Work>)> = Vec::new();
    for Pending { member, stream, work } in group {
        let same = |(known, on, _): &&mut (Arc<Member>, usize, Vec<Work>)| {
            Arc::ptr_eq(known, &member) && *on == stream
        };
        match batches.iter_mut().find(same) {
            Some((_, _, calls)) => calls.push(work),
            None => batches.push((member, stream, vec![work])),
        }
    }
    batches.into_iter().try_for_each(|(member, stream, calls)| {
        if capture::of(stream) == 0 {
            let batch = Batch::of(&member, &calls);
            return driver::enqueue(stream, Box::new(move || batch.run(&member, Cells::Live)));
        }
        driver::enqueue_each(stream, move || {
            let (batch, member) = (Batch::of(&member, &calls), member.clone());
            Box::new(move || batch.run(&member, links.cells))
        })
    })
}

/// The connections that a release makes on first use, on the calling thread, and its signals of
/// graphs.
#[derive(Clone, Copy)]
struct Links {
    collectives: bool,
    signals: bool,
    cells: Cells,
}

impl Links {
    fn of(state: &State) -> Self {
        static AT_INIT: LazyLock<bool> =
            LazyLock::new(|| std::env::var("NCCL_RUNTIME_CONNECT").is_ok_and(|at| at == "0"));
        Self {
            collectives: state.at_least(Version::new(2, 22, 3)) && !*AT_INIT,
            signals: !state.at_least(Version::new(2, 31, 2)),
            cells: match state.at_least(Version::new(2, 32, 3)) {
                true => Cells::Counted,
                false => Cells::InTurns,
            },
        }
    }

    /// Makes the connections that the group is the first to use: waits for the other ranks of each.
    fn connect(self, group: &[Pending]) -> Answer {
        let mut awaited = Vec::new();
        for Pending { member, work, .. } in group {
            let what = match work.link() {
                Some(Link::Collectives) if self.collectives => "collectives",
                Some(Link::Signals) if self.signals => "signals",
                _ => continue,
            };
            if work.link().is_some_and(|link| member.connects(link)) {
                member.room.post(what, &member.room.others(), &[]);
                awaited.push((member, what));
            }
        }
        let _hold = Hold::new();
        for (member, what) in awaited {
            for peer in member.room.others() {
                let came = member.wait(|| member.room.take(what, peer));
                came.ok_or_else(|| Refusal {
                    result: ncclResult_t::ncclInternalError,
                    words: "revoked while it connected".to_owned(),
                })?;
            }
        }
        Ok(())
    }
}
