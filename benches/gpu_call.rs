//! What a typed call costs the host beside NCCL's own, on one GPU:
//! `cargo bench -p benches --bench gpu_call`.
//!
//! One rank, in place: NCCL has nothing to enqueue, so what is left is the call. The direct side
//! calls the same function of the same library through `nccl-sys`, as C does, with a communicator
//! of its own on the same GPU and stream. Both sides in turn, the best of several rounds.
//!
//! `cargo run -p xtask -- cost` counts the typed side's instructions, against the doubles: it runs
//! `gpu_call typed N` under callgrind.

use std::ffi::c_void;
use std::hint::black_box;
use std::sync::mpsc::channel;
use std::time::Instant;

use nccl_sys::{
    Api, NCCL_COMM_NULL, cudaStream_t, ncclComm_t, ncclDataType_t, ncclRedOp_t, ncclResult_t,
    ncclUniqueId,
};
use typed_nccl::{Buffer, Communicator, Cuda, Error, Seat, Sum, library};

const COUNT: usize = 256;
const CALLS: u32 = 100_000;
const ROUNDS: usize = 30;

// SAFETY: nothing else in the program has this name.
#[unsafe(no_mangle)]
#[inline(never)]
fn typed_in_place(comm: &Communicator<Cuda>, buffer: &mut Buffer<f32, Cuda>) -> Result<(), Error> {
    comm.all_reduce_in_place(buffer, Sum)
}

/// What C does.
struct Direct {
    all_reduce: nccl_sys::ncclAllReduce,
    buffer: *mut c_void,
    comm: ncclComm_t,
    stream: cudaStream_t,
}

// SAFETY: addresses and handles, which are bound to no thread.
unsafe impl Send for Direct {}

impl Direct {
    #[inline(never)]
    fn call(&self) -> Result<(), ncclResult_t> {
        let (dtype, op) = (ncclDataType_t::ncclFloat32, ncclRedOp_t::ncclSum);
        // SAFETY: the buffer has `COUNT` elements, and lives as long as the bench; communicator
        // and stream are alive.
        let result = unsafe {
            (self.all_reduce)(self.buffer, self.buffer, COUNT, dtype, op, self.comm, self.stream)
        };
        if result == ncclResult_t::ncclSuccess { Ok(()) } else { Err(result) }
    }

    /// A communicator of one rank on the current GPU.
    fn connect(buffer: *mut f32, stream: *mut c_void) -> Option<Self> {
        // SAFETY: what this machine calls NCCL is NCCL.
        let api = unsafe { Api::load() }.ok()?;
        let (make, init) = (api.ncclGetUniqueId().ok()?, api.ncclCommInitRank().ok()?);
        let (mut id, mut comm) = (ncclUniqueId::zeroed(), NCCL_COMM_NULL);
        // SAFETY: `id` is a place for an id.
        let made = unsafe { make(&raw mut id) };
        // SAFETY: `comm` is a place for a handle; the id is new.
        let joined = unsafe { init(&raw mut comm, 1, id, 0) };
        let well = made == ncclResult_t::ncclSuccess && joined == ncclResult_t::ncclSuccess;
        let all_reduce = api.ncclAllReduce().ok()?;
        well.then_some(Self { all_reduce, buffer: buffer.cast(), comm, stream })
    }
}

fn main() -> Result<(), Error> {
    match Cuda::count() {
        Ok(0) => {
            println!("SKIPPED: no GPU");
            return Ok(());
        }
        Ok(_) => {}
        Err(error) => {
            println!("SKIPPED: {error}");
            return Ok(());
        }
    }
    let comm = Seat::local(1).remove(0).init(Cuda::local()?)?;
    let (mut mine, mut theirs) = (comm.device().zeros(COUNT)?, comm.device().zeros(COUNT)?);
    let (sender, receiver) = channel();
    comm.stream().launch(&mut theirs, move |mut theirs, stream| {
        let _ = sender.send(Direct::connect(theirs.as_mut_ptr(), stream.as_ptr()));
    })?;
    let Ok(Some(direct)) = receiver.recv() else {
        println!("SKIPPED: NCCL made no communicator");
        return Ok(());
    };
    typed_in_place(&comm, &mut mine)?;
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, side, calls] = &arguments[..]
        && side == "typed"
    {
        for _ in 0..calls.parse().unwrap_or(1) {
            typed_in_place(black_box(&comm), black_box(&mut mine))?;
        }
        comm.sync(comm.stream())?;
        return comm.finish();
    }
    let (mut ours, mut raw) = (f64::INFINITY, f64::INFINITY);
    let (calls, rounds) =
        if arguments.iter().any(|a| a == "--bench") { (CALLS, ROUNDS) } else { (1000, 1) };
    for _ in 0..rounds {
        let start = Instant::now();
        for _ in 0..calls {
            typed_in_place(black_box(&comm), black_box(&mut mine))?;
        }
        ours = ours.min(start.elapsed().as_nanos() as f64 / f64::from(calls));
        let start = Instant::now();
        for _ in 0..calls {
            if let Err(result) = black_box(&direct).call() {
                println!("ncclAllReduce gave {result:?}");
                return Ok(());
            }
        }
        raw = raw.min(start.elapsed().as_nanos() as f64 / f64::from(calls));
    }
    println!("NCCL {}, one rank, {COUNT} f32 in place", library::version()?);
    println!("typed  all_reduce {ours:8.1} ns a call");
    println!("direct all_reduce {raw:8.1} ns a call");
    println!("typed / direct    {:8.3}", ours / raw);
    comm.sync(comm.stream())?;
    comm.finish()
}
