//! Hazards: uses of a window that nothing orders with a peer's put, or with a peer's read by local
//! work of a plan, whatever their actual timing.
//!
//! The check uses vector clocks. Every task of a stream, every put and every access by the host
//! itself is an event of a line, and each clock holds how many events of each line are certainly
//! over. A use of memory that peers put into is compared with the last uses of the same bytes. If
//! one of the two is a put, one writes, and the later one does not know that the earlier one is
//! over, that is a [`Hazard`], and both ranks get the error. `docs/decisions/023-order-not-time.md`
//! says what establishes order, and on whose promise.
//!
//! The owner's own uses are not compared with each other, as memory orders them by itself. Accesses
//! through raw pointers are not seen. In doubt the check is silent: by design it has no false
//! alarms.
//!
//! It is on in debug builds and with `TYPED_NCCL_CHECK=order`; `TYPED_NCCL_CHECK=off` turns it off.

mod by;
mod comm;
mod known;
mod line;
mod stream;

pub(super) use by::Put;
pub(super) use comm::{CommOrder, collective, local, message, operates};
pub(super) use stream::StreamOrder;

use std::sync::{LazyLock, Weak};

use typed_nccl_match::When;

use by::By;

use super::block::Touch;
use super::engine;
use crate::Result;
use crate::communicator::Health;
use crate::error::{Error, Hazard, NoOrder, OtherUse, Site, reported};

/// The uses of a block that may still conflict.
pub(super) type Uses = typed_nccl_match::Uses<By>;
type Use = typed_nccl_match::Use<By>;

static ON: LazyLock<bool> = LazyLock::new(|| match std::env::var("TYPED_NCCL_CHECK").as_deref() {
    Ok("order") => true,
    Ok("off" | "") => false,
    Ok(other) => {
        log::warn!("TYPED_NCCL_CHECK is `{other}`, not `order` or `off`: the default holds");
        cfg!(debug_assertions)
    }
    Err(_) => cfg!(debug_assertions),
});

/// Whether the order of uses is checked.
#[inline]
pub(super) fn is_on() -> bool {
    *ON
}

/// The closure that this thread runs, whose accesses count in its stream's order.
fn task() -> Option<When> {
    Some(engine::current()?.order()?.at_task())
}

/// Records the memory that a closure is about to access.
pub(super) fn closure(touch: &Touch<'_>, site: Site) {
    if let Some(when) = task() {
        used(touch, By::Owner(site), &when).into_iter().for_each(Clash::tell);
    }
}

/// Records what the present task is about to read of a peer's memory.
pub(super) fn got(touch: &Touch<'_>, reader: &Put) {
    if let Some(when) = task() {
        used(touch, By::Get(reader.clone()), &when).into_iter().for_each(Clash::tell);
    }
}

/// Records a read or write of memory by the host itself: immediately, or as a stream's task.
/// Returns the use that it is not ordered with.
pub(super) fn copied(touch: &Touch<'_>, site: Site, copy: impl FnOnce()) -> Result<()> {
    if !is_on() || !touch.block.is_shared() {
        copy();
        return Ok(());
    }
    if task().is_some() {
        closure(touch, site);
        copy();
        return Ok(());
    }
    let when = known::begins();
    let clashes = used(touch, By::Owner(site), &when);
    copy();
    known::ends(when.event);
    clashes.into_iter().map(Clash::tell_peer).fold(Ok(()), Result::and)
}

/// Adds a use of a block that peers put into. Returns the uses that it is not ordered with.
fn used(touch: &Touch<'_>, by: By, when: &When) -> Vec<Clash> {
    let ranges = touch.block.ranges().filter(|ranges| ranges.has_owner());
    let Some(ranges) = ranges else { return Vec::new() };
    let bytes = (touch.start, touch.start + touch.bytes);
    let next = Use::new(bytes, touch.write, by.peer().is_some(), by, when);
    let earlier = ranges.uses().add(next.clone(), &when.after, known::now);
    earlier.iter().filter_map(|earlier| Clash::of(earlier, &next)).collect()
}

/// Two unordered uses, and the ranks to inform.
struct Clash {
    error: Error,
    /// The memory's owner, and the senders of the puts.
    owner: Weak<Health>,
    puts: [Option<Weak<Health>>; 2],
}

impl Clash {
    fn of(first: &Use, second: &Use) -> Option<Self> {
        let (put, put_is_first, other) = match (&first.by, &second.by) {
            // Of a put and a read, the put is told as such.
            (By::Get(_), By::Put(put)) => (put, false, first),
            (By::Put(put) | By::Get(put), _) => (put, true, second),
            (_, By::Put(put) | By::Get(put)) => (put, false, first),
            _ => return None,
        };
        let reads = matches!(
            (&first.by, &second.by),
            (By::Get(_), By::Owner(_)) | (By::Owner(_), By::Get(_))
        );
        let (rank, site, is_put) = match &other.by {
            By::Owner(site) => (put.to, *site, false),
            By::Put(other) => (other.from, other.call.site, true),
            By::Get(other) => (other.from, other.call.site, false),
        };
        if !put.can_be_awaited() {
            return None;
        }
        let other = OtherUse { rank, site, is_put, is_write: other.write };
        let (start, end) = (first.start.max(second.start), first.end.min(second.end));
        let no_order =
            NoOrder { name: put.name, put: put.call, reads, from: put.from, put_is_first, other };
        let hazard = Hazard { rank: put.to, start, end, no_order: Some(no_order) };
        let puts = [&first.by, &second.by].map(|by| Some(by.peer()?.health.clone()));
        Some(Self { error: Error::from(hazard), owner: put.owner.clone(), puts })
    }

    /// Reports it to the ranks at their next host waits.
    fn tell(self) {
        if let Some(owner) = self.owner.upgrade() {
            owner.pend(self.error.clone());
        }
        self.tell_peers();
    }

    /// Reports it to the sender; the owner gets it as an error at once.
    fn tell_peer(self) -> Result<()> {
        self.tell_peers();
        Err(reported(self.error))
    }

    fn tell_peers(&self) {
        for puts in self.puts.iter().flatten().filter(|puts| !puts.ptr_eq(&self.owner)) {
            if let Some(puts) = puts.upgrade() {
                puts.pend(self.error.clone());
            }
        }
    }
}
