//! The state of this library's own kernels in a communicator, and their launches.
//!
//! Each rank has memory that the others write, in an internal window. Launches of a communicator
//! run one after the other, on any streams. Kernels wait for other ranks, so they are told to stop
//! before the host waits for them: when a communicator ends or is revoked.

use std::cell::{Cell, OnceCell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use nccl_sys::{NCCL_WIN_COLL_SYMMETRIC, ncclWindow_t};

use super::api::lacking;
use super::comm::Comm;
use super::graphs::{self, What};
use super::recorder::Leg;
use super::values;
use crate::backend::{
    AllocKind, Allocation, Combined, KernelOffer, KernelWay, KernelWork, Kernels, MOST_PIECES,
    NOBODY, Piece, Refusal, Windows,
};
use crate::cuda::kernels::{self, Arguments, Function, Norm, Op, Stop};
use crate::cuda::{CudaBackend, CudaStream, Gpu, combine};
use crate::error::{Call, Error, Operation, Unsupported};
use crate::{DType, Rank, ReductionName, Result, Team};

/// What a communicator needs for kernels.
pub(super) struct KernelResources {
    /// Written by the other ranks.
    staging: Arc<Allocation<CudaBackend>>,
    /// How many batches each block has run.
    counts: Arc<Allocation<CudaBackend>>,
    kernel_stop: Arc<KernelStop>,
    made: OnceCell<Made>,
    /// The stream of the last launch.
    last: RefCell<Option<Arc<CudaStream>>>,
}

/// Stops a communicator's kernels from any thread.
pub(super) struct KernelStop {
    stop: Stop,
    counts: Arc<Allocation<CudaBackend>>,
    gpu: &'static Gpu,
    /// Whether a kernel was launched.
    used: AtomicBool,
}

impl KernelStop {
    /// Tells kernels that wait for other ranks to end.
    pub(super) fn signal(&self) {
        self.stop.set();
    }

    /// Returns once no kernel accesses the other ranks' memory: running kernels have ended, and
    /// later ones end at once. Streams are not waited for, since a kernel may be queued behind work
    /// that the caller is about to end.
    pub(super) fn signal_and_wait(&self) {
        self.signal();
        if !self.used.load(Relaxed) {
            return;
        }
        // After a fault nothing runs any more.
        if let Err(error) = self.await_kernels() {
            log::warn!("{error}");
        }
    }

    fn await_kernels(&self) -> Result<()> {
        let counts = self.counts.block().address().expose_provenance() as u64;
        // SAFETY: the counts are held here.
        unsafe { self.gpu.end_kernels(counts) }?;
        let (started, mut warned) = (Instant::now(), false);
        loop {
            // Blocks store that they run, or that they are done and have sent everything. Earlier
            // stores arrive within this time.
            thread::sleep(Duration::from_millis(1));
            // SAFETY: as above.
            if !unsafe { self.gpu.kernels_run(counts) }? {
                thread::sleep(Duration::from_millis(1));
                return Ok(());
            }
            if !warned && started.elapsed() > RUNNING {
                warned = true;
                log::warn!("a kernel still runs: the other ranks' memory stays until it is over");
            }
        }
    }
}

/// How long a kernel that no longer waits takes, unless it has to wait for the GPU.
const RUNNING: Duration = Duration::from_secs(1);

/// What all ranks make together.
struct Made {
    /// The arguments of every launch, without its operations.
    arguments: Arguments,
    /// The most blocks that a launch uses.
    blocks: u32,
    /// The window of the staging memory, until it is deregistered.
    window: Cell<Option<ncclWindow_t>>,
}

impl KernelResources {
    fn new(comm: &Comm) -> Result<Self> {
        let (ordinal, size) = (comm.gpu.ordinal(), comm.size as usize);
        // Memory is zeroed, and zero is no batch's flag.
        let staging = Allocation::new(ordinal, kernels::staging(size), AllocKind::Nccl)?;
        let counts = Allocation::new(ordinal, kernels::COUNTS, AllocKind::Plain)?;
        let (made, last) = (OnceCell::new(), RefCell::default());
        let (stop, gpu) = (Stop::new(comm.gpu)?, comm.gpu);
        let kernel_stop = Arc::new(KernelStop {
            stop,
            counts: counts.clone(),
            gpu,
            used: AtomicBool::new(false),
        });
        Ok(Self { staging, counts, kernel_stop, made, last })
    }

    /// The memory that others may write until they have ended.
    pub(super) fn into_memory(self) -> [Arc<Allocation<CudaBackend>>; 2] {
        [self.staging, self.counts]
    }

    /// Orders the next launch, on `stream`, after the last one.
    pub(super) fn order(&self, stream: &Arc<CudaStream>) -> Result<()> {
        if self.last.borrow().as_ref().is_some_and(|last| Arc::ptr_eq(last, stream)) {
            return Ok(());
        }
        self.kernel_stop.used.store(true, Relaxed);
        match self.last.replace(Some(stream.clone())) {
            Some(last) => stream.after(last.handle().cast()),
            None => Ok(()),
        }
    }
}

// SAFETY: a kernel accesses what its arguments name: the pieces, this communicator's memory on all
// ranks, and its words. That memory is held until all ranks of the process have ended. A kernel
// ends before that, with the communicator's streams.
unsafe impl Kernels for CudaBackend {
    fn offer_kernels(comm: &Comm) -> Result<Option<KernelOffer>> {
        can(comm)?;
        comm.gpu.kernels()?;
        if comm.kernel_resources.get().is_none() {
            let kernel_resources = KernelResources::new(comm)?;
            comm.shared.kernel_stop.get_or_init(|| kernel_resources.kernel_stop.clone());
            let _ = comm.kernel_resources.set(kernel_resources);
        }
        Ok(Some(KernelOffer { blocks: comm.gpu.multiprocessors() }))
    }

    fn make_kernels(comm: &Comm, agreed: KernelOffer) -> Result<()> {
        let Some(kernel_resources) = comm.kernel_resources.get() else { return Err(not_made()) };
        if kernel_resources.made.get().is_some() {
            return Ok(());
        }
        let (size, flags) = (comm.size as usize, NCCL_WIN_COLL_SYMMETRIC.cast_unsigned());
        let window = comm.register(&kernel_resources.staging, kernels::staging(size), flags)?;
        let mut staging = [0; kernels::RANKS];
        for (rank, place) in staging.iter_mut().enumerate().take(size) {
            let Some(address) = comm.peer_address(window, Rank::at(rank)) else {
                let found = format!("NCCL gives no address of rank {rank}'s");
                return Err(comm.poison(missing("memory that all ranks reach", found)));
            };
            *place = address.expose_provenance() as u64;
        }
        let (rank, ranks) = (comm.shared.rank as u32, comm.size);
        let none = Op { source: 0, target: 0, bytes: 0, to: NOBODY, from: NOBODY };
        let arguments = Arguments {
            staging,
            batches: kernel_resources.counts.block().address().expose_provenance() as u64,
            stop: kernel_resources.kernel_stop.stop.address(),
            rank,
            ranks,
            count: 0,
            groups: 0,
            reduction: 0,
            divisor: 1,
            starts: [0; MOST_PIECES],
            ops: [none; MOST_PIECES],
        };
        let (blocks, window) = (agreed.blocks.max(1), Cell::new(Some(window)));
        let _ = kernel_resources.made.set(Made { arguments, blocks, window });
        Ok(())
    }

    fn unmake_kernels(comm: &Comm) {
        let Some(kernel_resources) = comm.kernel_resources.get() else { return };
        if let Some(window) = kernel_resources.made.get().and_then(|made| made.window.take()) {
            comm.deregister(window, kernel_resources.staging.clone());
        }
    }

    fn can_combine(
        stream: &Arc<CudaStream>,
        by: ReductionName,
        dtype: DType,
        regions: usize,
    ) -> Result<()> {
        if dtype.part().is_some() {
            return Err(values::no_products(by, dtype));
        }
        combine::load(stream, (by, dtype, regions))
    }

    unsafe fn combine(stream: &Arc<CudaStream>, combined: Combined<'_, Self>) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { combine::enqueue(stream, &combined) }
    }

    unsafe fn enqueue(
        comm: &Comm,
        stream: &Arc<CudaStream>,
        call: &Call,
        work: KernelWork,
        pieces: &[Piece],
    ) -> Result<()> {
        let Some(kernel_resources) = comm.kernel_resources.get() else { return Err(not_made()) };
        let Some(made) = kernel_resources.made.get() else { return Err(not_made()) };
        if stream.is_capturing() {
            graphs::capture_kernel(comm, stream, calls(call, work, pieces))?;
        } else {
            comm.note(stream);
            kernel_resources.order(stream).map_err(|error| comm.poison(error))?;
            match work {
                KernelWork::Messages if !is_collective(call) => {
                    legs(call, pieces).for_each(|leg| comm.recorder.leg(&leg));
                }
                _ => collectives(call, work, pieces)
                    .for_each(|(call, code)| comm.recorder.collective(&call, code)),
            }
        }
        let launch = Launch::of(made, call.dtype, work, pieces);
        // A launch blocks for the device once the driver's queue is full.
        let launched = comm.inside(|| {
            let Launch { function, dtype, blocks, arguments, norm } = &launch;
            // SAFETY: the caller's promise; launches are ordered by `order`, or by their graph.
            unsafe { kernels::launch(stream, (*function, *dtype), *blocks, arguments, *norm) }
        });
        launched.map_err(|error| comm.poison(error))
    }
}

/// Fails if the communicator cannot have kernels.
fn can(comm: &Comm) -> Result<()> {
    comm.nccl.api.ncclGetPeerDevicePointer().map_err(lacking(WHAT))?;
    comm.nccl.api.ncclTeamLsa().map_err(lacking(WHAT))?;
    let size = comm.size as usize;
    if size > kernels::RANKS {
        let needs = format!("{} ranks at most", kernels::RANKS);
        return Err(missing(&needs, format!("the communicator has {size}")));
    }
    let driver = crate::cuda::version().unwrap_or(0);
    if driver < kernels::DRIVER {
        let found = format!("this one is of CUDA {}.{}", driver / 1000, driver % 1000 / 10);
        return Err(missing("a driver of CUDA 12.4 or later", found));
    }
    let generation = comm.gpu.generation();
    if generation < 7 {
        let found = format!("this one is of generation {generation}");
        return Err(missing("a GPU of compute capability 7.0 or later", found));
    }
    let world = Team { rank: comm.shared.rank, size, first: 0, stride: 1, zero: Rank::at(0) };
    let near = CudaBackend::lsa_team(comm, world).size;
    match near == size {
        true => Ok(()),
        false => Err(missing(
            "GPUs that all reach each other's memory",
            format!("rank {} reaches {near} of {size}", comm.shared.rank),
        )),
    }
}

const WHAT: &str = "kernels of this library";

#[cold]
fn missing(needs: &str, found: String) -> Error {
    Unsupported::error(WHAT, needs, found)
}

#[cold]
fn not_made() -> Error {
    missing("`comm.kernels()`, which makes what they take", "it was not called".to_owned())
}

/// The code under which a kernel's collective is recorded, so that the comparison detects a rank
/// that uses no kernel or another one.
fn code(work: KernelWork) -> u8 {
    let way = match work {
        KernelWork::AllReduce(_, KernelWay::OneShot) => 0,
        KernelWork::AllReduce(_, KernelWay::OneShotInBlocks) => 1,
        KernelWork::AllReduce(_, KernelWay::TwoShot) => 2,
        KernelWork::AllReduceRmsNorm { .. } => 3,
        KernelWork::Messages => 4,
    };
    numbered(way)
}

fn is_collective(call: &Call) -> bool {
    matches!(call.operation, Operation::Collective(_))
}

/// The legs of an exchange.
fn legs(call: &Call, pieces: &[Piece]) -> impl Iterator<Item = Leg> {
    // An exchange has few pieces.
    let of = pieces.len() as u8;
    pieces.iter().zip(0..).map(move |(piece, place)| {
        let one = |operation, peer: u16| {
            let peer = (peer != NOBODY).then(|| Rank::at(peer.into()));
            Call { operation, count: piece.count, peer, ..*call }
        };
        let send = one(Operation::SendTo, piece.to);
        Leg { place, of, send, recv: one(Operation::RecvFrom, piece.from) }
    })
}

/// The calls that a launch counts as.
fn calls(call: &Call, work: KernelWork, pieces: &[Piece]) -> Vec<What> {
    match work {
        KernelWork::Messages if !is_collective(call) => legs(call, pieces).map(What::Leg).collect(),
        _ => collectives(call, work, pieces)
            .map(|(call, code)| What::Call(call, Refusal::Collective, code))
            .collect(),
    }
}

/// The collectives that a launch counts as, with their codes: an all_reduce for each piece, since
/// the ranks compare the length of each.
fn collectives(
    call: &Call,
    work: KernelWork,
    pieces: &[Piece],
) -> impl Iterator<Item = (Call, u8)> {
    let each = match work {
        KernelWork::AllReduce(..) => pieces,
        KernelWork::AllReduceRmsNorm { .. } | KernelWork::Messages => &[],
    };
    let one = each.is_empty().then_some((*call, code(work)));
    let places = each.iter().enumerate();
    one.into_iter().chain(places.map(move |(place, piece)| {
        let call = Call { count: piece.count, ..*call };
        (call, if place == 0 { code(work) } else { numbered(FURTHER) })
    }))
}

/// The number of a further piece of a launch, after those of `code`.
const FURTHER: u8 = 5;

const fn numbered(way: u8) -> u8 {
    (super::compare::KERNELS + way) << 2
}

/// A launch as the kernel takes it.
struct Launch {
    function: Function,
    dtype: DType,
    blocks: u32,
    arguments: Arguments,
    norm: Norm,
}

impl Launch {
    fn of(made: &Made, dtype: DType, work: KernelWork, pieces: &[Piece]) -> Self {
        let mut arguments = made.arguments;
        let size = dtype.size();
        let function = match work {
            KernelWork::AllReduce(_, KernelWay::OneShot) => Function::OneShot,
            KernelWork::AllReduce(_, KernelWay::OneShotInBlocks) => Function::Push,
            KernelWork::AllReduce(_, KernelWay::TwoShot) => Function::TwoShot,
            KernelWork::AllReduceRmsNorm { .. } if is_much(dtype, pieces) => Function::PushRmsNorm,
            KernelWork::AllReduceRmsNorm { .. } => Function::RmsNorm,
            KernelWork::Messages => Function::Exchange,
        };
        // A group is 32 lines. A line has 8 bytes, or 16 without flags. In two shots, groups count
        // the lines of one rank's part.
        let (line, parts) = match function {
            Function::Push | Function::PushRmsNorm => (16, 1),
            Function::TwoShot => (8, made.arguments.ranks as usize),
            _ => (8, 1),
        };
        let mut groups = 0;
        let places = arguments.ops.iter_mut().zip(&mut arguments.starts);
        for ((op, start), piece) in places.zip(pieces) {
            let bytes = piece.count * size;
            let (source, target) =
                (piece.source.expose_provenance() as u64, piece.target.expose_provenance() as u64);
            let (to, from) = (piece.to, piece.from);
            *op = Op { source, target, bytes: bytes as u32, to, from };
            *start = groups;
            groups += bytes.div_ceil(line * 32 * parts) as u32;
        }
        arguments.count = pieces.len() as u32;
        arguments.groups = groups;
        let most = match function {
            Function::Push | Function::PushRmsNorm => kernels::PUSHES,
            // More blocks only compete with each other.
            Function::OneShot | Function::TwoShot if groups * 32 <= FEW => 16,
            _ => kernels::BLOCKS,
        };
        let most = made.blocks.min(most as u32);
        let mut norm = Norm::default();
        let mut blocks = (groups * 32).div_ceil(kernels::THREADS as u32).clamp(1, most);
        match work {
            KernelWork::AllReduce(reduction, _) => {
                (arguments.reduction, arguments.divisor) = reduced(reduction, arguments.ranks);
            }
            KernelWork::AllReduceRmsNorm { weight, width, epsilon } => {
                let rows = pieces.first().map_or(0, |piece| piece.count / width.max(1)) as u32;
                let lines = (width * size).div_ceil(line) as u32;
                let parts = of_a_row(rows, lines, most);
                blocks = parts * rows.clamp(1, most / parts);
                let weight = weight.expose_provenance() as u64;
                norm = Norm { weight, width: width as u32, rows, parts, epsilon };
            }
            KernelWork::Messages => {}
        }
        let dtype = match work {
            KernelWork::Messages => kernels::moves(dtype),
            _ => dtype,
        };
        Self { function, dtype, blocks, arguments, norm }
    }
}

/// How many blocks share a row: enough for one line per thread, if that many are available.
fn of_a_row(rows: u32, lines: u32, most: u32) -> u32 {
    lines.div_ceil(kernels::THREADS as u32).clamp(1, (most / rows.max(1)).max(1))
}

/// Whether the rows are long enough to travel without flags.
fn is_much(dtype: DType, rows: &[Piece]) -> bool {
    rows.iter().map(|piece| piece.count * dtype.size()).sum::<usize>() > MUCH
}

/// 256 KiB.
const MUCH: usize = 256 << 10;

/// This many lines, 256 KiB, are as fast with half of the blocks.
const FEW: u32 = 32 * 1024;

/// A reduction's number, and the divisor of its result.
fn reduced(reduction: ReductionName, ranks: u32) -> (u32, u32) {
    match reduction {
        ReductionName::Multiply => (1, 1),
        ReductionName::Least => (2, 1),
        ReductionName::Greatest => (3, 1),
        ReductionName::Mean => (0, ranks),
        // Those that NCCL lacks take no kernel.
        _ => (0, 1),
    }
}
