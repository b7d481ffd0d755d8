//! What ranks did, for operators: a timeline of operations and waits (`TYPED_NCCL_TRACE`), and the
//! last operations of each communicator (`TYPED_NCCL_FLIGHT_RECORD`). `docs/guide/src/watch.md`
//! shows both.
//!
//! A communicator that is recorded has a [`Journal`], which `communicator/issue.rs` writes for both
//! backends. It never counts a stream as known, so its calls take the path that a first call takes;
//! a communicator that is not recorded pays nothing on the fast path.

mod clock;
mod flight;
mod journal;
mod kept;
mod pattern;
mod timeline;

pub use flight::FlightRecord;
pub(crate) use journal::{Journal, Who, in_plan};
pub(crate) use kept::{Recorded, failed, goes};

use std::env;
use std::ops::Deref;
use std::sync::{Arc, LazyLock};

use crate::backend::Backend;
use crate::error::{Error, Site};
use crate::health::{Change, Health};
use crate::stream::StreamCore;

use pattern::Pattern;
use timeline::Timeline;

/// The variable that names the timeline's file.
const TRACE: &str = "TYPED_NCCL_TRACE";
/// The variable that begins the names of flight records.
const FLIGHT: &str = "TYPED_NCCL_FLIGHT_RECORD";

/// How many groups a journal keeps unless the program says otherwise: as many as PyTorch.
pub(crate) const KEPT: usize = 2000;

/// What the environment asks for.
struct Settings {
    timeline: Option<Timeline>,
    flight: Option<Pattern>,
}

static SETTINGS: LazyLock<Settings> = LazyLock::new(|| {
    let set = |name| env::var(name).ok().filter(|text| !text.is_empty());
    Settings {
        timeline: set(TRACE).map(|text| Timeline::new(Pattern::file(text))),
        flight: set(FLIGHT).map(Pattern::prefix),
    }
});

/// Whether the environment asks for any of it.
pub(crate) fn is_on() -> bool {
    SETTINGS.timeline.is_some() || SETTINGS.flight.is_some()
}

fn timeline() -> Option<&'static Timeline> {
    SETTINGS.timeline.as_ref()
}

/// A host wait, which ends when this is dropped.
#[must_use = "a wait is open until it is dropped"]
pub(crate) struct Wait(Option<u32>);

/// Records a host wait of a communicator's rank. `of` is called only if there is a timeline.
pub(crate) fn wait<H: Deref<Target = Health>>(
    of: impl FnOnce() -> Option<H>,
    operation: &'static str,
    site: Site,
) -> Wait {
    let Some(timeline) = timeline() else { return Wait(None) };
    let Some(health) = of() else { return Wait(None) };
    timeline.wait(health.row(), health.name(), operation, site);
    Wait(Some(health.row()))
}

impl Drop for Wait {
    fn drop(&mut self) {
        if let (Some(row), Some(timeline)) = (self.0, timeline()) {
            timeline.wait_over(row);
        }
    }
}

/// Work of the program's own, which is enqueued until this is dropped.
#[must_use = "the work is what is enqueued until this is dropped"]
pub(crate) struct Work<'s, B: Backend>(Option<(Arc<Journal<B>>, &'s StreamCore<B>, u64)>);

/// Records work that the program enqueues on a stream itself, on the timeline of the rank that uses
/// the device. Must be called when the stream's waits for the work's memory are enqueued.
pub(crate) fn work<'s, B: Backend>(
    stream: &'s StreamCore<B>,
    what: &str,
    site: Site,
) -> Work<'s, B> {
    if timeline().is_none() || journal::is_in_plan() {
        return Work(None);
    }
    Work(kept::of_device(stream.ordinal()).map(|journal| {
        let number = journal.begins_work(stream, what, site);
        (journal, stream, number)
    }))
}

impl<B: Backend> Drop for Work<'_, B> {
    fn drop(&mut self) {
        if let Some((journal, stream, number)) = self.0.take() {
            journal.enqueued(stream, number, &Ok(()));
        }
    }
}

/// Names a stream on the timeline. `name` is called only if there is one.
pub(crate) fn name_stream<N: AsRef<str>>(stream: u64, name: impl FnOnce() -> N) {
    if let Some(timeline) = timeline() {
        timeline.name(stream, name().as_ref());
    }
}

/// Records a change of a communicator's state. A fault is recorded when it happens.
pub(crate) fn change(row: u32, communicator: &'static str, change: &Change) {
    if let (Some(timeline), false) = (timeline(), matches!(change, Change::Failed(_))) {
        timeline.instant(row, communicator, change.name(), &change.to_string());
    }
}

/// Records an error of a rank's operations, when it happens. May be called under a lock.
pub(crate) fn error(row: u32, communicator: &'static str, error: &Error) {
    if let Some(timeline) = timeline() {
        timeline.instant(row, communicator, error.kind(), &error.to_string());
    }
}
