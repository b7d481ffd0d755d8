//! The embedded host backend: ranks are threads or processes, device memory is host memory.
//!
//! It is the executable specification of NCCL's semantics. Operations of one communicator run one
//! after the other on any streams, a collective starts when every rank's stream has reached it, and
//! the rules for counts and in-place operation are NCCL's. Where NCCL would hang or corrupt data
//! (calls that differ, a rank that is gone), it reports an error.

mod block;
mod engine;
#[cfg_attr(not(feature = "mpi"), expect(dead_code, reason = "without MPI nothing is far"))]
pub(crate) mod far;
mod hazards;
mod kernels;
pub(crate) mod mirror;
mod moves;
mod norm;
mod ranges;
mod reads;
#[cfg_attr(not(target_os = "linux"), path = "shared/unsupported.rs")]
mod shared;

use std::convert::Infallible;
use std::ops::Range;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use block::{Block, Touch};
use engine::{Brings, ENGINE, Joining, Member, Point, StreamToken};
use mirror::{HostDevComm, Mirror, PeerParts};
use moves::{Held, How, Local};

use crate::backend::{
    AllocKind, Blame, Copies, Departer, Departure, DeviceBytes, DeviceComms, DeviceShared, Graphs,
    HostWait, Join, Launches, Lifecycle, Memory, Op, Operations, Pace, Refusal, Seen, Streams,
    Timing, Watcher, WindowId, Windows,
};
use crate::compute::{Arguments, Grid, Kernel};
use crate::error::{Error, Site, Surplus, Unsupported};
use crate::memory::{Allocation, Lease};
use crate::{DType, Element, Properties, Rank, Requirements, Result, Team, element};

/// The host backend.
#[derive(Debug)]
pub enum HostBackend {}

/// An operator that scales before it adds.
#[derive(Clone)]
pub enum Scale {
    /// One element's bytes, padded with zeros.
    Host([u8; 8]),
    /// The first element of device memory that nothing writes any more.
    Device(Arc<Allocation<HostBackend>>),
}

// SAFETY: `Block` owns `bytes` zeroed, 128-byte aligned bytes until it is dropped; dropping frees
// them. An adopted block belongs to its owner, whom `Allocation` keeps.
unsafe impl Memory for HostBackend {
    const KIND: &'static str = "host";
    type Block = Block;

    fn alloc(ordinal: u32, bytes: usize, _: AllocKind) -> Result<Block> {
        Block::zeroed(ordinal, bytes)
    }

    unsafe fn adopt(_: u32, start: *mut u8, _: usize) -> Result<Block> {
        Ok(Block::adopted(start))
    }

    unsafe fn alias(block: &Block, at: usize, _: usize) -> Result<Block> {
        // SAFETY: the caller's promise.
        Ok(unsafe { block.part(at) })
    }

    unsafe fn read(
        block: &Block,
        offset: usize,
        to: *mut u8,
        bytes: usize,
        site: Site,
    ) -> Result<()> {
        let touch = Touch { block, start: offset, bytes, write: false };
        hazards::copied(&touch, site, || {
            let _guard = touch.take(None);
            // SAFETY: the caller keeps the range inside the block and ordered writers away. The
            // guard keeps peers away, except those in other processes (decision 079), and `to` is
            // the caller's own memory.
            let from = unsafe { block.at(offset) };
            // SAFETY: as above.
            unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) };
        })
    }

    unsafe fn write(
        block: &Block,
        offset: usize,
        from: *const u8,
        bytes: usize,
        site: Site,
    ) -> Result<()> {
        let touch = Touch { block, start: offset, bytes, write: true };
        hazards::copied(&touch, site, || {
            let _guard = touch.take(None);
            // SAFETY: the caller keeps the range inside the block, and every ordered use away; the
            // guard keeps peers away, except those in other processes (decision 079).
            let to = unsafe { block.at(offset) };
            // SAFETY: as above.
            unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) };
        })
    }
}

// SAFETY: the engine runs a stream's tasks in order and ends each of them once. `done` is stored
// with release after a task's last write (made under, or before taking, the engine's lock) and
// loaded with acquire.
unsafe impl Streams for HostBackend {
    const NUMBERS_ALL: bool = true;

    type Stream = Arc<StreamToken>;
    type Point = Point;

    fn open(_: u32) -> Result<Arc<StreamToken>> {
        Ok(ENGINE.open_stream())
    }

    fn point(stream: &Arc<StreamToken>) -> Result<Point> {
        Ok(Point::now(stream))
    }

    fn wait_for(stream: &Arc<StreamToken>, point: &Point) -> Result<()> {
        ENGINE.enqueue_wait(stream, point.clone());
        Ok(())
    }

    fn hear() {
        ENGINE.hear_all();
    }

    fn reached(point: &Point) -> Result<bool> {
        let is_reached = point.reached();
        if is_reached {
            point.seen();
        }
        Ok(is_reached)
    }

    fn pause(point: &Point, at_most: Duration) {
        ENGINE.pause(point, at_most);
    }

    fn blame(point: &Point) -> Option<Blame> {
        ENGINE.blame(point)
    }

    fn take_error(point: &Point) -> Option<Error> {
        point.take_error()
    }

    fn undone(point: &Point) -> Option<Error> {
        point.undone()
    }
}

// SAFETY: the point is one of `Streams`.
unsafe impl Timing for HostBackend {
    type Time = Arc<OnceLock<Instant>>;

    fn timed(stream: &Arc<StreamToken>) -> Result<(Point, Self::Time)> {
        let time = Self::Time::default();
        ENGINE.enqueue_time(stream, time.clone());
        Ok((Point::now(stream), time))
    }

    fn between(start: &Self::Time, end: &Self::Time) -> Result<Option<Duration>> {
        let both = start.get().zip(end.get());
        Ok(both.map(|(start, end)| end.saturating_duration_since(*start)))
    }
}

// SAFETY: pinned memory is its own block, which stays until it is dropped; a copy is a task of its
// stream and holds both sides.
unsafe impl Copies for HostBackend {
    type Pinned = Block;

    fn pin(ordinal: u32, bytes: usize) -> Result<Block> {
        Block::zeroed(ordinal, bytes)
    }

    fn pinned_address(pinned: &Block) -> *mut u8 {
        pinned.start()
    }

    unsafe fn upload(
        stream: &Arc<StreamToken>,
        from: &Arc<Block>,
        to: &Arc<Allocation<Self>>,
        offset: usize,
        bytes: usize,
        site: Site,
    ) -> Result<Point> {
        let (from, to) = (from.clone(), to.clone());
        let copy = move || {
            // SAFETY: the caller keeps the range inside, ordered uses away, and `from` untouched.
            let copied = unsafe { Self::write(to.block(), offset, from.start(), bytes, site) };
            debug_assert!(copied.is_ok(), "host memory is always there");
        };
        ENGINE.enqueue_launch(stream, site, Box::new(copy));
        Ok(Point::now(stream))
    }

    unsafe fn download(
        stream: &Arc<StreamToken>,
        from: &Arc<Allocation<Self>>,
        offset: usize,
        to: &Arc<Block>,
        bytes: usize,
        site: Site,
    ) -> Result<Point> {
        let (from, to) = (from.clone(), to.clone());
        let copy = move || {
            // SAFETY: the caller keeps the range inside, ordered writers away, and `to` untouched.
            let copied = unsafe { Self::read(from.block(), offset, to.start(), bytes, site) };
            debug_assert!(copied.is_ok(), "host memory is always there");
        };
        ENGINE.enqueue_launch(stream, site, Box::new(copy));
        Ok(Point::now(stream))
    }

    unsafe fn copy(
        stream: &Arc<StreamToken>,
        (from, start): (&Arc<Allocation<Self>>, usize),
        (to, offset): (&Arc<Allocation<Self>>, usize),
        bytes: usize,
        site: Site,
    ) -> Result<()> {
        let read = vec![Held::new(from.clone(), start, bytes)];
        let written = Held::new(to.clone(), offset, bytes);
        // SAFETY: the caller keeps the ranges inside and apart.
        let work = unsafe { Local::new(read, written, How::Copy) };
        ENGINE.enqueue_local(stream, site, work);
        Ok(())
    }

    unsafe fn convert(
        stream: &Arc<StreamToken>,
        (from, start, dtype): (&Arc<Allocation<Self>>, usize, DType),
        (to, offset, into): (&Arc<Allocation<Self>>, usize, DType),
        count: usize,
        site: Site,
    ) -> Result<()> {
        let converter = element::converter(dtype, into);
        let read = [Held::new(from.clone(), start, count * dtype.size())];
        let written = Held::new(to.clone(), offset, count * into.size());
        enqueue(stream, site, read, written, move |[from], to| {
            // SAFETY: the caller keeps the ranges inside and apart, and ordered uses away; peers
            // are kept away meanwhile.
            unsafe { converter(from.start(), to, count) };
        });
        Ok(())
    }

    unsafe fn fill(
        stream: &Arc<StreamToken>,
        (to, offset): (&Arc<Allocation<Self>>, usize),
        value: [u8; 8],
        size: usize,
        count: usize,
        site: Site,
    ) -> Result<()> {
        let written = Held::new(to.clone(), offset, size * count);
        enqueue(stream, site, [], written, move |[], to| {
            for element in 0..count {
                // SAFETY: the caller keeps the range inside.
                let to = unsafe { to.add(element * size) };
                // SAFETY: as above; the value is this function's own, and peers are kept away.
                unsafe { std::ptr::copy_nonoverlapping(value.as_ptr(), to, size) };
            }
        });
        Ok(())
    }
}

/// Enqueues work on memory, and keeps peers away from it while it runs. The work gets the address
/// of what it writes.
fn enqueue<R: AsRef<[Held]> + Send + 'static>(
    stream: &StreamToken,
    site: Site,
    read: R,
    written: Held,
    work: impl FnOnce(&R, *mut u8) + Send + 'static,
) {
    let work = move || {
        let target = written.whole(true);
        // In place, the target's lock covers the source.
        let is_other =
            |one: &Touch<'_>| !std::ptr::eq(one.block, target.block) || one.start != target.start;
        let sources = read.as_ref().iter().map(|one| one.whole(false)).filter(is_other);
        let _guard = block::guard_closure(sources.chain([target]), site);
        work(&read, written.start());
    };
    ENGINE.enqueue_launch(stream, site, Box::new(work));
}

// SAFETY: a launched closure is a task of its stream, so it runs once, in the stream's order.
unsafe impl Launches for HostBackend {
    type ViewOnceTheDeviceIsKnown<'v, T: Element> = &'v [T];
    type ViewMutOnceTheDeviceIsKnown<'v, T: Element> = &'v mut [T];
    type Raw<'v> = ();
    type Guard<'v> = Vec<ranges::Guard<'v>>;

    fn guard<'v>(parts: &[Seen<'v, Self>], site: Site) -> Vec<ranges::Guard<'v>> {
        let touch =
            |&Seen { block, offset, bytes, write }| Touch { block, start: offset, bytes, write };
        block::guard_closure(parts.iter().map(touch), site)
    }

    fn launch(
        stream: &Arc<StreamToken>,
        site: Site,
        work: impl for<'v> FnOnce(()) + Send + 'static,
    ) -> Result<()> {
        ENGINE.enqueue_launch(stream, site, Box::new(move || work(())));
        Ok(())
    }

    type Loaded = ();

    fn load(_: &Arc<StreamToken>, _: &'static Kernel, _: Site) -> Result<()> {
        Ok(())
    }

    unsafe fn run(
        stream: &Arc<StreamToken>,
        site: Site,
        (kernel, ()): (&'static Kernel, ()),
        _: Grid,
        arguments: impl Arguments<Self>,
    ) -> Result<()> {
        kernels::announce(&arguments);
        let arguments = arguments.hold();
        // SAFETY: the caller's promise.
        let work = move || unsafe { kernels::run(kernel, &arguments, site) };
        ENGINE.enqueue_launch(stream, site, Box::new(work));
        Ok(())
    }

    unsafe fn view<'v, T: Element>(block: &Block, offset: usize, len: usize) -> &'v [T] {
        // SAFETY: the caller keeps the range inside the block, aligned, alive and unwritten for
        // 'v; every byte is initialised and every bit pattern is a `T`. One exception is accepted:
        // in a program without order, a put of another process may change window memory meanwhile,
        // as that process writes by its own mapping and locks (decision 079).
        let start = unsafe { block.at(offset) };
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts(start.cast(), len) }
    }

    unsafe fn view_mut<'v, T: Element>(block: &Block, offset: usize, len: usize) -> &'v mut [T] {
        // SAFETY: as in `view`, with its exception, and the caller keeps every other use away for
        // 'v.
        let start = unsafe { block.at(offset) };
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(start.cast(), len) }
    }
}

// SAFETY: tasks hold their memory by `Arc`, so an early end frees nothing that they use.
unsafe impl Lifecycle for HostBackend {
    type Comm = Member;
    type Operator = Scale;

    type Joining = Joining;
    type Dividing = Infallible;

    const IN_PROCESS: bool = true;
    const JOINS_LATE: bool = true;

    fn join(join: Join, _: Option<Infallible>) -> Result<Joining> {
        Joining::new(join)
    }

    fn joined(joining: &mut Joining) -> Result<Option<Member>> {
        joining.joined()
    }

    fn divided(dividing: &mut Infallible) -> Result<bool> {
        match *dividing {}
    }

    fn absent(id: u64, rank: Rank, why: &str) {
        ENGINE.absent(id, rank.index(), why);
    }

    fn is_idle(comm: &Member) -> bool {
        ENGINE.is_idle(comm)
    }

    fn watch(wait: HostWait<'_, Self>) -> Option<Watcher> {
        Some(ENGINE.wait(wait))
    }

    fn pace(comm: &Member) -> Box<dyn Pace> {
        Box::new(comm.place())
    }

    fn departer(comm: &Member) -> Departer {
        let place = comm.place();
        Box::new(move |why, how| ENGINE.depart(place, why, how))
    }

    fn pre_mul_sum(_: &Member, _: DType, scalar: [u8; 8]) -> Result<Scale> {
        Ok(Scale::Host(scalar))
    }

    fn pre_mul_sum_device(_: &Member, _: DType, scalar: &Arc<Allocation<Self>>) -> Result<Scale> {
        Ok(Scale::Device(scalar.clone()))
    }

    fn unawaited(comm: &Member) -> Vec<Surplus> {
        ENGINE.unawaited(comm)
    }

    fn finalize(comm: Member) {
        drop(comm);
    }

    fn abort(comm: Member, why: &str) {
        ENGINE.depart(comm.place(), why, Departure::AtOnce);
    }
}

// SAFETY: the moves read and write exactly the spans of the operations, which are held by `Arc`,
// after every participating rank has reached the operation and before any proceeds. Puts stay
// inside the peer's part, which the typed layer checked.
unsafe impl Operations for HostBackend {
    unsafe fn issue(comm: &Member, stream: &Arc<StreamToken>, ops: &[Op<'_, Self>]) -> Result<()> {
        ENGINE.issue(comm, stream, ops);
        Ok(())
    }

    fn refuse(comm: &Member, ops: &[Refusal], reason: &Error) {
        ENGINE.refuse(comm, ops, reason);
    }

    fn exchanged(comm: &Member, exchanges: u64) {
        ENGINE.exchanged(comm, exchanges);
    }
}

// SAFETY: a launch consists of the captured calls, which the typed layer makes.
unsafe impl Graphs for HostBackend {
    const ARE_CAPTURED: bool = false;

    type Graph = Infallible;

    fn scalar(operator: &Scale) -> Option<&Arc<Allocation<Self>>> {
        match operator {
            Scale::Host(_) => None,
            Scale::Device(scalar) => Some(scalar),
        }
    }

    fn replay(stream: &Arc<StreamToken>, calls: impl FnOnce() -> Result<()>) -> Result<()> {
        ENGINE.enqueue_replay(stream, true);
        let called = calls();
        ENGINE.enqueue_replay(stream, false);
        called
    }

    fn lease(comm: &Member, allocation: &Arc<Allocation<Self>>) {
        ENGINE.lease(comm, allocation);
    }

    fn capture(
        _: &[&Member],
        _: usize,
        _: impl FnOnce(&[Arc<StreamToken>]) -> Result<()>,
    ) -> Result<Infallible> {
        Err(Error::from(Unsupported {
            what: "a graph of a device".to_owned(),
            needs: "a GPU".to_owned(),
            found: "the host makes the captured calls again".to_owned(),
        }))
    }

    unsafe fn launch_graph(_: &[&Member], _: &Arc<StreamToken>, graph: &Infallible) -> Result<()> {
        match *graph {}
    }
}

// SAFETY: the engine holds the allocation until `unregister` or the communicator's end. Its block
// is shared, range by range, before a peer can access it.
unsafe impl Windows for HostBackend {
    type Window = ();

    fn register(
        comm: &Member,
        id: WindowId,
        allocation: &Arc<Allocation<Self>>,
        bytes: usize,
        _: u32,
    ) -> Result<()> {
        ENGINE.register(comm, id, allocation, bytes)
    }

    fn unregister(comm: &Member, id: WindowId, (): ()) {
        ENGINE.unregister(comm, id);
    }

    fn address(block: &Block) -> *mut u8 {
        block.start()
    }

    fn peer_address(comm: &Member, id: WindowId, peer: Rank) -> Option<*mut u8> {
        ENGINE.peer_address(comm, id, peer.index())
    }

    fn multimem_address(_: &Member, _: WindowId) -> Option<*mut u8> {
        None
    }

    fn lsa_team(comm: &Member, world: Team) -> Team {
        // On several machines the ranks of one need not follow each other.
        let alone = || Team { rank: 0, size: 1, first: world.rank, stride: 1, ..world };
        if ENGINE.is_spread(comm) { alone() } else { world }
    }

    fn register_buffer(
        _: &Member,
        lease: &Arc<Lease<Self>>,
        bytes: Range<usize>,
    ) -> Result<Option<u64>> {
        Ok(Some((lease.allocation().block().start().addr() + bytes.start) as u64))
    }

    fn deregister_buffer(_: &Member, _: &Arc<Lease<Self>>, _: Option<u64>) -> Result<()> {
        Ok(())
    }
}

// SAFETY: a device communicator of the host has no memory.
unsafe impl DeviceComms for HostBackend {
    type DevComm<'v> = HostDevComm<'v>;
    type Mirror = Mirror;
    type Peers = PeerParts;

    fn peers(
        shared: &DeviceShared<Self>,
        window: WindowId,
        lens: &dyn Fn(usize) -> usize,
        _: &'static str,
    ) -> Result<PeerParts> {
        let parts = shared.mirror().and_then(|mirror| mirror.parts(window));
        parts.map(|parts| PeerParts::new(parts, lens)).ok_or_else(|| shared.ended())
    }

    fn view_of(shared: &DeviceShared<Self>) -> HostDevComm<'_> {
        HostDevComm::new(shared)
    }

    fn has_for(comm: &Member, requirements: &Requirements) -> Result<()> {
        if ENGINE.is_spread(comm) {
            return Err(Error::from(Unsupported {
                what: "a device communicator".to_owned(),
                needs: "ranks of one machine".to_owned(),
                found: "ranks on several machines".to_owned(),
            }));
        }
        let Some(option) = requirements.for_kernels() else { return Ok(()) };
        Err(Error::from(Unsupported {
            what: format!("`{option}`"),
            needs: "kernels of a GPU".to_owned(),
            found: "the host runs closures".to_owned(),
        }))
    }

    fn make(
        comm: &Member,
        id: WindowId,
        _: &Requirements,
        _: &Properties,
    ) -> Result<DeviceBytes<Mirror>> {
        let mirror = Some(Mirror::new(comm.place(), id));
        Ok(DeviceBytes { mirror, ..DeviceBytes::default() })
    }

    fn unmake(comm: &Member, id: WindowId) {
        ENGINE.unmake_device_comm(Brings::new(comm.place(), id));
    }

    fn announce(bytes: &DeviceBytes<Mirror>) {
        if let Some(mirror) = &bytes.mirror {
            mirror.announce();
        }
    }
}
