//! A device that does nothing, and the NCCL of it: what is left of a call is what the types cost.
//!
//! The only operation that gets through is all_reduce, to [`NullApi::all_reduce`]: a pointer in a
//! table that was filled at run time, as it is after loading a library. A direct call goes to the
//! same pointer with the same arguments.

use std::cell::Cell;
use std::hint::black_box;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use typed_nccl::error::Site;

use typed_nccl::backend::{
    AllocKind, Allocation, Blame, Collective, Copies, Departer, DeviceComms, DeviceShared,
    Gathered, Graphs, Join, KernelOffer, KernelWork, Kernels, Launches, Lease, Lifecycle, Memory,
    Op, Operations, Piece, Reads, Reduction, Refusal, Seen, Streams, Timing, WindowId, Windows,
};
use typed_nccl::error::{Abort, Call, CollectiveName, Error};
use typed_nccl::kernel::{Arguments, Grid, Kernel};
use typed_nccl::{DType, Device, Element, Rank, ReductionName, Result, Team, World};

/// A handle of the null library: a communicator's or a stream's.
pub(crate) type Handle = usize;

/// `ncclAllReduce`, with opaque handles.
pub(crate) type AllReduce =
    unsafe extern "C" fn(*const u8, *mut u8, usize, i32, i32, Handle, Handle) -> i32;

/// The null library's functions.
#[derive(Debug)]
pub(crate) struct NullApi {
    /// `ncclAllReduce`
    pub(crate) all_reduce: AllReduce,
}

/// `ncclSuccess`
pub(crate) const SUCCESS: i32 = 0;

impl NullApi {
    /// Loads it: nothing about the result is known when the program is compiled.
    pub(crate) fn load() -> &'static Self {
        static API: NullApi = NullApi { all_reduce: null_all_reduce };
        black_box(&API)
    }
}

/// Takes everything that `ncclAllReduce` takes, does nothing, succeeds.
#[inline(never)]
unsafe extern "C" fn null_all_reduce(
    _send: *const u8,
    _recv: *mut u8,
    _count: usize,
    _dtype: i32,
    _op: i32,
    _comm: Handle,
    _stream: Handle,
) -> i32 {
    SUCCESS
}

/// `ncclRedOp_t`
#[inline]
pub(crate) fn op_number(name: ReductionName) -> i32 {
    match name {
        ReductionName::Add => 0,
        ReductionName::Multiply => 1,
        ReductionName::Greatest => 2,
        ReductionName::Least => 3,
        ReductionName::Mean => 4,
        _ => -1,
    }
}

/// A null device, by its number.
#[derive(Clone, Debug)]
pub(crate) struct Null(pub(crate) u32);

impl World for Null {
    type Device = Self;
}

// SAFETY: the ordinal does not change.
unsafe impl Device for Null {
    type Backend = NullBackend;
    const KIND: &'static str = "null";

    fn ordinal(&self) -> u32 {
        self.0
    }
}

/// Carries out nothing.
#[derive(Debug)]
pub(crate) enum NullBackend {}

/// Memory that is there, so that there is something to point to. Words, for the alignment.
pub(crate) struct NullBlock(Box<[Cell<u128>]>);

// SAFETY: the cells are reached through `Memory::read` and `Memory::write` only, whose callers keep
// conflicting uses apart.
unsafe impl Send for NullBlock {}
// SAFETY: as above.
unsafe impl Sync for NullBlock {}

impl NullBlock {
    /// The address `offset` bytes in, which is at most the block's length.
    #[inline]
    fn at(&self, offset: usize) -> *mut u8 {
        self.0.as_ptr().cast_mut().cast::<u8>().wrapping_add(offset)
    }
}

// SAFETY: a block is at least `bytes` zeroed bytes in 16-byte words, freed when it is dropped.
unsafe impl Memory for NullBackend {
    const KIND: &'static str = "null";
    type Block = NullBlock;

    fn alloc(_: u32, bytes: usize, _: AllocKind) -> Result<NullBlock> {
        Ok(NullBlock(vec![Cell::new(0); bytes.div_ceil(16)].into_boxed_slice()))
    }

    unsafe fn read(
        block: &NullBlock,
        offset: usize,
        to: *mut u8,
        bytes: usize,
        _: Site,
    ) -> Result<()> {
        // SAFETY: the caller keeps the range inside the block, and writers away; `to` is the
        // caller's own memory.
        unsafe { std::ptr::copy_nonoverlapping(block.at(offset), to, bytes) };
        Ok(())
    }

    unsafe fn write(
        block: &NullBlock,
        offset: usize,
        from: *const u8,
        bytes: usize,
        _: Site,
    ) -> Result<()> {
        // SAFETY: the caller keeps the range inside the block, and every other use away; the bytes
        // are in cells, so writing them through a shared reference is sound.
        unsafe { std::ptr::copy_nonoverlapping(from, block.at(offset), bytes) };
        Ok(())
    }
}

// SAFETY: nothing is ever enqueued, so every point is reached.
unsafe impl Streams for NullBackend {
    type Stream = Handle;
    type Point = ();

    fn open(_: u32) -> Result<Handle> {
        Ok(black_box(2))
    }

    fn point(_: &Handle) -> Result<()> {
        Ok(())
    }

    fn wait_for(_: &Handle, (): &()) -> Result<()> {
        Ok(())
    }

    fn reached((): &()) -> Result<bool> {
        Ok(true)
    }

    fn pause((): &(), _: Duration) {}

    fn blame((): &()) -> Option<Blame> {
        None
    }

    fn take_error((): &()) -> Option<Error> {
        None
    }
}

// SAFETY: every point is reached.
unsafe impl Timing for NullBackend {
    type Time = ();

    fn timed(_: &Handle) -> Result<((), ())> {
        Ok(((), ()))
    }

    fn between((): &(), (): &()) -> Result<Option<Duration>> {
        Ok(Some(Duration::ZERO))
    }
}

// SAFETY: nothing is ever copied.
unsafe impl Copies for NullBackend {
    type Pinned = NullBlock;

    fn pin(_: u32, bytes: usize) -> Result<NullBlock> {
        Self::alloc(0, bytes, AllocKind::Plain)
    }

    fn pinned_address(pinned: &NullBlock) -> *mut u8 {
        pinned.at(0)
    }

    unsafe fn upload(
        _: &Handle,
        _: &Arc<NullBlock>,
        _: &Arc<Allocation<Self>>,
        _: usize,
        _: usize,
        _: Site,
    ) -> Result<()> {
        Ok(())
    }

    unsafe fn download(
        _: &Handle,
        _: &Arc<Allocation<Self>>,
        _: usize,
        _: &Arc<NullBlock>,
        _: usize,
        _: Site,
    ) -> Result<()> {
        Ok(())
    }

    unsafe fn copy(
        _: &Handle,
        _: (&Arc<Allocation<Self>>, usize),
        _: (&Arc<Allocation<Self>>, usize),
        _: usize,
        _: Site,
    ) -> Result<()> {
        Ok(())
    }

    unsafe fn convert(
        _: &Handle,
        _: (&Arc<Allocation<Self>>, usize, DType),
        _: (&Arc<Allocation<Self>>, usize, DType),
        _: usize,
        _: Site,
    ) -> Result<()> {
        Ok(())
    }

    unsafe fn fill(
        _: &Handle,
        _: (&Arc<Allocation<Self>>, usize),
        _: [u8; 8],
        _: usize,
        _: usize,
        _: Site,
    ) -> Result<()> {
        Ok(())
    }
}

// SAFETY: closures do not run.
unsafe impl Launches for NullBackend {
    type ViewOnceTheDeviceIsKnown<'v, T: Element> = PhantomData<&'v T>;
    type ViewMutOnceTheDeviceIsKnown<'v, T: Element> = PhantomData<&'v mut T>;
    type Raw<'v> = ();
    type Guard<'v> = ();

    fn guard(_: &[Seen<'_, Self>], _: Site) {}

    fn launch(_: &Handle, _: Site, _: impl for<'v> FnOnce(()) + Send + 'static) -> Result<()> {
        Ok(())
    }

    type Loaded = ();

    fn load(_: &Handle, _: &'static Kernel, _: Site) -> Result<()> {
        Ok(())
    }

    unsafe fn run(
        _: &Handle,
        _: Site,
        _: (&'static Kernel, ()),
        _: Grid,
        arguments: impl Arguments<Self>,
    ) -> Result<()> {
        arguments.each(|shown| {
            black_box(shown);
        });
        Ok(())
    }

    unsafe fn view<'v, T: Element>(_: &NullBlock, _: usize, _: usize) -> PhantomData<&'v T> {
        PhantomData
    }

    unsafe fn view_mut<'v, T: Element>(
        _: &NullBlock,
        _: usize,
        _: usize,
    ) -> PhantomData<&'v mut T> {
        PhantomData
    }
}

/// A communicator of the null library.
pub(crate) struct NullComm {
    api: &'static NullApi,
    handle: Handle,
}

// SAFETY: nothing is ever enqueued, so nothing touches memory later.
unsafe impl Lifecycle for NullBackend {
    type Comm = NullComm;
    type Operator = i32;

    type Joining = ();
    type Dividing = ();

    fn join(_: Join, _: Option<()>) -> Result<()> {
        Ok(())
    }

    fn divided((): &mut ()) -> Result<bool> {
        Ok(true)
    }

    fn joined((): &mut ()) -> Result<Option<NullComm>> {
        Ok(Some(NullComm { api: NullApi::load(), handle: black_box(1) }))
    }

    fn is_idle(_: &NullComm) -> bool {
        true
    }

    fn departer(_: &NullComm) -> Departer {
        Box::new(|_, _| {})
    }

    fn pre_mul_sum(_: &NullComm, _: DType, _: [u8; 8]) -> Result<i32> {
        Ok(5)
    }

    fn pre_mul_sum_device(_: &NullComm, _: DType, _: &Arc<Allocation<Self>>) -> Result<i32> {
        Ok(5)
    }

    fn finalize(_: NullComm) {}

    fn abort(_: NullComm, _: &str) {}
}

// SAFETY: the null library touches no memory.
unsafe impl Operations for NullBackend {
    #[inline]
    unsafe fn issue(comm: &NullComm, stream: &Handle, ops: &[Op<'_, Self>]) -> Result<()> {
        let [Op::Collective(collective)] = ops else { return Ok(()) };
        let Collective {
            name, call, reduction: Some(op), send: Some(send), recv: Some(recv), ..
        } = collective
        else {
            return Ok(());
        };
        if *name != CollectiveName::AllReduce {
            return Ok(());
        }
        let op = match op {
            Reduction::<Self>::BuiltIn(name) => op_number(*name),
            Reduction::<Self>::Made(operator) => **operator,
        };
        // SAFETY: the null library's function asks for nothing.
        let status = unsafe {
            (comm.api.all_reduce)(
                send.allocation().block().at(send.offset()),
                recv.allocation().block().at(recv.offset()),
                call.count,
                // ncclFloat32, or bytes.
                if call.dtype == DType::F32 { 7 } else { 1 },
                op,
                comm.handle,
                *stream,
            )
        };
        if status == SUCCESS { Ok(()) } else { Err(failed(call.site)) }
    }

    fn refuse(_: &NullComm, _: &[Refusal], _: &Error) {}
}

// SAFETY: nobody puts anything.
unsafe impl Windows for NullBackend {
    type Window = ();

    fn register(
        _: &NullComm,
        _: WindowId,
        _: &Arc<Allocation<Self>>,
        _: usize,
        _: u32,
    ) -> Result<()> {
        Ok(())
    }

    fn unregister(_: &NullComm, _: WindowId, (): ()) {}

    fn address(block: &NullBlock) -> *mut u8 {
        block.at(0)
    }

    fn peer_address(_: &NullComm, _: WindowId, _: Rank) -> Option<*mut u8> {
        None
    }

    fn multimem_address(_: &NullComm, _: WindowId) -> Option<*mut u8> {
        None
    }

    fn lsa_team(_: &NullComm, world: Team) -> Team {
        world
    }

    fn register_buffer(_: &NullComm, _: &Arc<Lease<Self>>, _: Range<usize>) -> Result<Option<u64>> {
        Ok(None)
    }

    fn deregister_buffer(_: &NullComm, _: &Arc<Lease<Self>>, _: Option<u64>) -> Result<()> {
        Ok(())
    }
}

// SAFETY: it makes none.
unsafe impl DeviceComms for NullBackend {
    type DevComm<'v> = ();
    type Mirror = ();
    type Peers = ();

    fn peers(
        _: &DeviceShared<Self>,
        _: WindowId,
        _: &dyn Fn(usize) -> usize,
        _: &'static str,
    ) -> Result<()> {
        Ok(())
    }

    fn view_of(_: &DeviceShared<Self>) {}
}

// SAFETY: a graph touches nothing.
unsafe impl Graphs for NullBackend {
    const ARE_CAPTURED: bool = true;

    type Graph = ();

    fn capture(
        _: &[&NullComm],
        streams: usize,
        enqueue: impl FnOnce(&[Handle]) -> Result<()>,
    ) -> Result<()> {
        enqueue(&vec![black_box(3); streams.max(1)])
    }

    unsafe fn launch_graph(comms: &[&NullComm], stream: &Handle, (): &()) -> Result<()> {
        black_box((comms, stream));
        Ok(())
    }
}

// SAFETY: its kernels touch nothing.
unsafe impl Kernels for NullBackend {
    fn offer_kernels(_: &NullComm) -> Result<Option<KernelOffer>> {
        Ok(Some(KernelOffer { blocks: 1 }))
    }

    unsafe fn enqueue(
        _: &NullComm,
        _: &Handle,
        call: &Call,
        work: KernelWork,
        pieces: &[Piece],
    ) -> Result<()> {
        black_box((call, work, pieces));
        Ok(())
    }
}

// SAFETY: it reads nothing.
unsafe impl Reads for NullBackend {
    type Part = ();

    fn reaches(_: &NullComm, _: Rank, _: Team) -> bool {
        true
    }

    fn part(_: &NullComm, _: WindowId, _: Rank) -> Option<()> {
        Some(())
    }

    unsafe fn gather(_: &NullComm, _: &Handle, gathered: Gathered<'_, Self>) -> Result<()> {
        black_box(gathered.count);
        Ok(())
    }
}

#[cold]
fn failed(at: Site) -> Error {
    let by = Rank::from_index(0);
    Error::Abort(Box::new(Abort { why: "the null library failed".to_owned(), by, at }))
}
